"""What jobs that work on the record have in common: a lease, a feed of new entries, and troubles that last.

Recorder, notifier and the writer of spans are such jobs. A lease makes one process of all that share a record the one
that works.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from uuid import uuid4

from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError, SQLAlchemyError

from holdfast.blueprint.durations import say_duration
from holdfast.server.record.database import DatabaseTime, begin_write
from holdfast.server.record.entries import Recorded
from holdfast.server.record.store import RecordStore
from holdfast.server.record.tables import LEASES

LEASE_SECONDS = 15.0
"""The time that a lease is good for: so long nobody works after its holder was killed."""
FEED_PAGE = 200
LOG_EVERY = 600.0
"""Seconds after which a trouble that lasts is logged again."""
MOST_REASONS = 3
"""Reasons that are each logged at once: some hold a number that is another one each time."""
LONGEST_REASON = 300


@dataclass
class Lease:
    """A lease of one name; `hold` it again well within its seconds.

    Two holders at the same time, after one was stopped for longer than the lease, do no harm to the record: an entry is
    recorded once. The time is the database's: by those of the processes, one that is ahead took what the others held.
    """

    store: RecordStore
    name: str
    seconds: float = LEASE_SECONDS
    holder: str = field(default_factory=lambda: uuid4().hex)

    def hold(self) -> bool:
        """Take or renew the lease; return whether it is ours. Blocks; see `RecordStore`."""
        ours = or_(LEASES.c.holder == self.holder, LEASES.c.until < DatabaseTime())
        values = {"holder": self.holder, "until": DatabaseTime() + self.seconds}
        try:
            with begin_write(self.store.engine) as connection:
                changed = connection.execute(update(LEASES).where(LEASES.c.name == self.name, ours).values(**values))
                if changed.rowcount:
                    return True
                taken = connection.execute(update(LEASES).where(LEASES.c.name == self.name).values(name=self.name))
                if taken.rowcount:
                    return False
                connection.execute(insert(LEASES).values(name=self.name, **values))
        except IntegrityError:  # another process was first with a new name
            return False
        return True

    def is_held(self) -> bool | None:
        """Return whether any process holds it; None if it was given up, or never taken. Blocks; see `RecordStore`."""
        query = select(LEASES.c.until >= DatabaseTime()).where(LEASES.c.name == self.name)
        with self.store.engine.connect() as connection:
            held = connection.execute(query).scalar_one_or_none()
        return None if held is None else bool(held)

    def release(self) -> None:
        """Give the lease up, so that another process need not wait for its end."""
        with begin_write(self.store.engine) as connection:
            connection.execute(delete(LEASES).where(LEASES.c.name == self.name, LEASES.c.holder == self.holder))


@asynccontextmanager
async def renewing(lease: Lease) -> AsyncIterator[None]:
    """Renew a lease by the clock, however long its holder works at a time; at the end give it up."""
    ends = asyncio.Event()
    renewal = asyncio.create_task(_renew(lease, ends))
    try:
        yield
    finally:
        ends.set()
        await renewal
        with suppress(SQLAlchemyError):  # then the lease ends by itself
            await asyncio.to_thread(lease.release)


async def _renew(lease: Lease, ends: asyncio.Event) -> None:
    while not ends.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(ends.wait(), lease.seconds / 3)
            return
        with suppress(SQLAlchemyError):  # the holder meets it, too, and tells
            await asyncio.to_thread(lease.hold)


@dataclass(frozen=True)
class Feed:
    """The entries that a reader has not read yet.

    A reader who must do something with each entry writes what it makes of a page and the new place in one transaction,
    by `set_mark(connection, feed.mark, …)`; one for whom twice is no harm calls `advance` after it.

    Args:
        store: The record.
        reader: The name of the reader.
        types: The types of entries to read; empty for all.
    """

    store: RecordStore
    reader: str
    types: Sequence[str] = ()

    @property
    def mark(self) -> str:
        """Return the name of the mark that holds the place: the number of the last entry that was read."""
        return f"feed:{self.reader}"

    async def place(self) -> int:
        """Return the number of the last entry that was read; 0 at first."""
        return int(await asyncio.to_thread(self.store.mark, self.mark) or 0)

    async def page(self) -> list[Recorded]:
        """Return the next entries, the same again until the place has moved; empty if there are none."""
        return await asyncio.to_thread(self._page, await self.place())

    def _page(self, after: int) -> list[Recorded]:
        return list(self.store.entries(after=after, types=self.types, limit=FEED_PAGE))

    async def advance(self, entry: Recorded) -> None:
        """Move the place behind an entry."""
        await asyncio.to_thread(self.store.set_mark, self.mark, str(entry.id))


@dataclass
class LastingTrouble:
    """A thing that fails and is tried again every second or so.

    Args:
        log: The log of the job.
        what: What is tried, such as `planning notices`.
    """

    log: logging.Logger
    what: str
    _reasons: set[str] = field(default_factory=set, init=False)
    """Those that were logged since it worked; empty while it works."""
    _since: float = field(default=0.0, init=False)
    """On the monotonic clock."""
    _logged: float = field(default=0.0, init=False)

    def note(self, reason: str) -> None:
        """Log a failure, unless the same one was logged lately."""
        now, is_known = time.monotonic(), reason in self._reasons or len(self._reasons) >= MOST_REASONS
        if not self._reasons:
            self._since = now
            self.log.warning("%s fails, and is tried again: %s", self.what, reason)
        elif not is_known or now - self._logged >= LOG_EVERY:
            self.log.warning("%s has failed for %s: %s", self.what, self._length(now), reason)
        else:
            return
        self._reasons.add(reason)
        self._logged = now

    def end(self) -> None:
        """Log that it works again, if it did not."""
        if self._reasons:
            self.log.warning("%s works again, after %s", self.what, self._length(time.monotonic()))
            self._reasons.clear()

    def _length(self, now: float) -> str:
        return say_duration(max(1, round(now - self._since)))

    @contextmanager
    def note_failure(self, *kinds: type[Exception]) -> Iterator[None]:
        """Note one of these errors that ends the block, which goes on behind it; without one the trouble is over."""
        try:
            yield
        except kinds as error:
            self.note(describe_reason(error))
        else:
            self.end()


def describe_reason(error: Exception) -> str:
    """Return the reason of an error in one line; of a database's nothing that was to be written."""
    name = type(error).__name__
    match error:
        case OperationalError() | InterfaceError():  # the others may repeat values: a key that there is twice
            text = " ".join(str(error.orig).split())
        case DBAPIError():
            return f"{name} ({type(error.orig).__name__})"
        case SQLAlchemyError():
            return name
        case _:
            text = " ".join(str(error).split())
    return f"{name}: {text}"[:LONGEST_REASON] if text else name

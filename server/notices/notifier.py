"""The notifier: tells people what is new in the record. `serve` and the embedded set run one; one of them leads.

It reads the record by a feed of its own for each channel, so that a channel that is added later hears of every question
that is still open. What it plans and its new place are written in one transaction; what it sends is marked after it was
sent: a notice is delivered at least once, under the same id each time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError

from holdfast.server.notices.backlog import make_feed
from holdfast.server.notices.channels import AddressBook, Channel, Channels
from holdfast.server.notices.outbox import TRIED_FOR, Outbox
from holdfast.server.notices.planner import ASKING, KINDS, PlannedNotice, plan_notices
from holdfast.server.notices.questions import is_open, read_question_states
from holdfast.server.notices.sender import ChannelSender, Letterhead, Links
from holdfast.server.record.database import begin_write
from holdfast.server.record.entries import ASKED, ENDED, STUCK, Recorded
from holdfast.server.record.jobs import Feed, LastingTrouble, Lease
from holdfast.server.record.store import RecordStore, set_mark

log = logging.getLogger(__name__)

PACE_SECONDS = 1.0
PRUNE_SECONDS = 3600.0


class Notifier:
    """Tells of the runs of one namespace.

    Args:
        store: The record.
        namespace: The namespace of the runs.
        channels: The channels to tell by.
        book: Returns the people as they are known now.
        links: Makes links.
        home: The address of the page with everything that waits.
    """

    def __init__(
        self,
        store: RecordStore,
        namespace: str,
        channels: Channels,
        book: Callable[[], AddressBook],
        links: Links,
        home: str = "",
    ) -> None:
        self.store, self.namespace, self.channels = store, namespace, channels
        self.outbox = Outbox(store, namespace)
        letterhead = Letterhead(links, home)
        self.senders = {
            name: ChannelSender(self.outbox, channel, letterhead) for name, channel in channels.by_name.items()
        }
        self.lease = Lease(store, f"notifier:{namespace}")
        self._book = book
        self._planning = LastingTrouble(log, "planning notices")
        self._sending = LastingTrouble(log, "reading or writing the notices to send")
        self._draining: dict[str, asyncio.Task[None]] = {}
        self._ours_until = self._prune_at = 0.0
        """On the monotonic clock: the end of the lease, and the time to forget what was done long ago."""

    async def run(self) -> None:
        """Tell until cancelled. What fails is logged and tried again; a slow channel holds up no other."""
        try:
            while True:
                is_behind = False
                with self._planning.note_failure(SQLAlchemyError):
                    is_behind = await self._step()
                await asyncio.sleep(0 if is_behind else PACE_SECONDS)
        finally:
            await self._end()

    async def _end(self) -> None:
        for task in self._draining.values():
            task.cancel()
        await asyncio.gather(*self._draining.values(), return_exceptions=True)
        with suppress(SQLAlchemyError):
            await asyncio.gather(*(sender.close() for sender in self.senders.values()))
            await asyncio.to_thread(self.lease.release)

    async def _step(self) -> bool:
        """Plan a page of what is new for each channel, and have all of them deliver; return whether there is more.

        Page by page, so that the lease is kept and notices leave while many are still to be planned.
        """
        if not await self._renew():
            return False
        counts = [await self._gather_page(channel) for channel in self.channels.by_name.values()]
        for name, sender in self.senders.items():
            if name not in self._draining or self._draining[name].done():
                self._draining[name] = asyncio.create_task(self._drain_safely(sender))
        return any(counts)

    def _is_leader(self) -> bool:
        """Return whether the lease is ours now."""
        return time.monotonic() < self._ours_until

    async def _renew(self) -> bool:
        """Take the lease, or renew it in time; return whether it is ours."""
        now = time.monotonic()
        if now < self._ours_until - self.lease.seconds * 2 / 3:
            return True
        if not await asyncio.to_thread(self.lease.hold):
            self._ours_until = 0.0
            return False
        if (
            not self._is_leader()
        ):  # whoever was here before may have left pauses, and somebody may have mended a channel
            for sender in self.senders.values():
                sender.health.has_recovered = True
        # Counted from before the database was asked, so that it ends here before it ends for others.
        self._ours_until = now + self.lease.seconds
        if now >= self._prune_at:
            await asyncio.to_thread(self.outbox.prune)
            self._prune_at = now + PRUNE_SECONDS
        return True

    async def round(self) -> int:
        """Plan what is new and deliver what is due, once; return the number of notices that were delivered."""
        await self.gather()
        return sum(await asyncio.gather(*(sender.drain() for sender in self.senders.values())))

    async def gather(self) -> None:
        """Plan the notices of everything that is new in the record, for every channel."""
        for channel in self.channels.by_name.values():
            while await self._gather_page(channel):
                pass

    async def _gather_page(self, channel: Channel) -> int:
        """Plan the notices of the next entries for a channel; return the number of entries."""
        feed = make_feed(self.store, self.namespace, channel.name)
        if entries := await feed.page():
            await asyncio.to_thread(self._plan, channel, feed, entries)
        return len(entries)

    def _plan(self, channel: Channel, feed: Feed, entries: Sequence[Recorded]) -> None:
        """Write the notices of a page and the place behind it, in one transaction."""
        book, now, before = self._book(), datetime.now(UTC), self._find_last_before(feed)
        planned = [
            (entry, self._plan_entry(entry, channel, book, now, is_earlier=entry.id <= before)) for entry in entries
        ]
        with begin_write(self.store.engine) as connection:
            for entry, notices in planned:
                self.outbox.put(connection, entry, notices)
            set_mark(connection, feed.mark, str(entries[-1].id))

    def _find_last_before(self, feed: Feed) -> int:
        """Return the number of the last entry that there was when the channel began."""
        mark = f"{feed.mark}:begin"
        if (value := self.store.mark(mark)) is None:
            self.store.set_mark(mark, value := str(self.store.last()))
        return int(value)

    def _plan_entry(
        self, entry: Recorded, channel: Channel, book: AddressBook, now: datetime, *, is_earlier: bool
    ) -> list[PlannedNotice]:
        if entry.namespace != self.namespace or entry.content is None:
            return []
        is_old = now - entry.at > TRIED_FOR
        if entry.type in (ENDED, STUCK):
            return [] if is_old else list(plan_notices(entry, channel, self.channels, book, now))
        is_past = is_old or (is_earlier and KINDS[entry.type] in ASKING)
        if is_past and not self._is_asked_still(entry):
            return []
        then, current = read_question_states(self.store, entry)
        # A question from before there was a notifier is told of to those who are asked now.
        question = current if is_past else then
        content = {**entry.content, "question": question}
        if is_past:
            content["data"] = {**entry.data, "assignees": None}
        return list(plan_notices(replace(entry, content=content), channel, self.channels, book, now))

    def _is_asked_still(self, entry: Recorded) -> bool:
        asks = entry.type == ASKED and entry.question is not None
        return asks and is_open(self.store, entry.first_run, entry.workflow, entry.question or "")

    async def _drain_safely(self, sender: ChannelSender) -> None:
        with self._sending.note_failure(SQLAlchemyError):
            await sender.drain(self._is_leader)

"""The sender of one channel: empties its part of the outbox as fast as the channel takes it. The notifier runs them.

A channel that takes nothing rests, and is then tried with a single notice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.server.notices.channels import Channel
from holdfast.server.notices.notice import Contact, Delivery, Notice
from holdfast.server.notices.outbox import Attempt, Outbox, OutboxNotice
from holdfast.server.notices.questions import is_open
from holdfast.server.notices.transports import DeliveryFailed
from holdfast.server.record.jobs import LastingTrouble

log = logging.getLogger(__name__)

FAILURES = 5
"""Failures in a row after which a channel rests: fewer may be the fault of single notices."""
FIRST_REST, LONGEST_REST = 5.0, 60.0
"""Seconds of rests; each is twice the one before. A receiver that comes back hears of it within the longest one."""
LONGEST_ASKED = 3600.0
"""Seconds that a receiver may ask to wait (`Retry-After`)."""
OPEN_KINDS = ("asked", "reminded", "escalated", "unreachable")
"""Kinds that nobody needs to read once the question is closed."""

LOOK_SECONDS = 1.0
"""The pause after which a sender looks for what is due, beside deliveries that take longer."""

Links = Callable[[Notice, Contact | None], str]
"""Makes the link of a notice, as it is sent: for one person, or for whoever opens it."""
Batch = Sequence[OutboxNotice]
"""Notices that are sent in one message: nearly always one."""


@dataclass
class Health:
    """The state of a channel, from its last deliveries. A new process knows nothing, and begins anew.

    Args:
        max_concurrency: Deliveries at the same time while all is well.
    """

    max_concurrency: int
    rests_until: float = 0.0
    """On the monotonic clock."""
    is_gone: bool = False
    """True if the receiver wants nothing more at this address; the next process may have another one."""
    has_recovered: bool = False
    """True if what was refused may go now: after the first delivery that follows a rest, until it is set back."""
    _failures: int = 0
    _rests: int = 0

    @property
    def is_failing(self) -> bool:
        """Return whether the channel has rested, and nothing has gone out since."""
        return self._rests > 0

    def free(self, sending: int) -> int:
        """Return how many deliveries may be started now, beside those that are being sent."""
        if self.is_gone or time.monotonic() < self.rests_until:
            return 0
        return max(0, (1 if self.is_failing else self.max_concurrency) - sending)

    def note_success(self) -> None:
        """Note a delivery."""
        self.has_recovered = self.has_recovered or self.is_failing
        self._failures = self._rests = 0
        self.rests_until = 0.0

    def note_failure(self, error: DeliveryFailed) -> None:
        """Note a try that did not succeed, and rest if it was one too many, or the receiver asks for it."""
        # By the Standard Webhooks, 410 is for the address: whoever sends to it should stop. One delivery that was under
        # way beside it may still succeed.
        if error.is_gone:
            self.is_gone = True
            return
        self._failures += 1
        now = time.monotonic()
        if error.retry_after:
            self._rest(now + min(error.retry_after, LONGEST_ASKED))
        elif self._failures >= FAILURES and now >= self.rests_until:
            self._rest(now + min(FIRST_REST * 2**self._rests, LONGEST_REST))

    def _rest(self, until: float) -> None:
        self.rests_until = max(self.rests_until, until)
        self._rests += 1


@dataclass(frozen=True)
class Letterhead:
    """The addresses that messages hold.

    Args:
        links: Makes links.
        home: The address of the page with everything that waits.
    """

    links: Links
    home: str = ""


class ChannelSender:
    """Delivers what waits for one channel.

    What is being sent, and what was sent and could not be marked yet, outlasts a failure of the database: it is marked
    before anything else is taken, so that it is not sent twice.

    Args:
        outbox: The outbox.
        channel: The channel.
        letterhead: The addresses that messages hold.
    """

    def __init__(self, outbox: Outbox, channel: Channel, letterhead: Letterhead) -> None:
        self.outbox, self.channel, self.letterhead = outbox, channel, letterhead
        self.health = Health(channel.max_concurrency)
        self._trouble = LastingTrouble(log, f"sending notices by {channel.name}")
        self._sending: dict[asyncio.Task[None], Batch] = {}
        self._finished: list[Attempt] = []

    async def drain(self, may_take: Callable[[], bool] = lambda: True) -> int:
        """Deliver until nothing is due, the channel rests, or nothing more may be taken; return how many were.

        A delivery that ends makes room for the next one at once, so that a slow one holds up no other.
        """
        delivered = 0
        while True:
            free = self.health.free(len(self._sending)) if may_take() else 0
            for batch in await asyncio.to_thread(self._mark_and_take, free):
                self._sending[asyncio.create_task(self._send(batch))] = batch
            if not self._sending:
                return delivered
            done, _ = await asyncio.wait(self._sending, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            delivered += sum(map(self._finish, done))

    async def close(self) -> None:
        """Break off what is being sent, and mark what has been."""
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        await self.channel.transport.close()
        await asyncio.to_thread(self._mark)

    async def _send(self, batch: Batch) -> None:
        deliveries, transport = [self._make_delivery(posted) for posted in batch], self.channel.transport
        await (
            transport.send(deliveries[0])
            if len(batch) == 1
            else transport.send_digest(deliveries, self.letterhead.home)
        )

    def _make_delivery(self, posted: OutboxNotice) -> Delivery:
        link = self.letterhead.links(posted.notice, posted.contact)
        return Delivery(posted.id, posted.notice, link, posted.contact)

    def _finish(self, task: asyncio.Task[None]) -> int:
        """Note how a try went; return the number of notices that it delivered."""
        batch, error = self._sending.pop(task), task.exception()
        if error is None:
            self.health.note_success()
            self._trouble.end()
            self._finished.append(Attempt(batch))
            return len(batch)
        failure = error if isinstance(error, DeliveryFailed) else DeliveryFailed(f"an error: {type(error).__name__}")
        was_gone = self.health.is_gone
        self.health.note_failure(failure)
        if not (failure.is_gone and was_gone):
            self._log(batch[0], failure, error)
        self._finished.append(Attempt(batch, failure))
        return 0

    def _log(self, posted: OutboxNotice, failure: DeliveryFailed, error: BaseException) -> None:
        """Log a try that did not succeed; of a channel that rests once for all notices. No link and no address."""
        is_foreseen = failure is error
        if failure.is_gone:
            stops = "the receiver wants no more notices; nothing is sent to it until serve is started again"
            log.error("sending notices by %s stops: %s: %s", self.channel.name, failure, stops)
            return
        if self.health.is_failing and is_foreseen:
            self._trouble.note(str(failure))
            return
        text, channel = "notice %s could not be sent by %s: %s", self.channel.name
        log.warning(text, posted.id, channel, failure, exc_info=None if is_foreseen else error)

    def _mark_and_take(self, free: int) -> list[Batch]:
        """Mark what was tried, and take what fills the free places. Blocks."""
        if self.health.has_recovered:
            self._mark()
            self.outbox.hasten(self.channel.name)
            self.health.has_recovered = False
        if not free:
            self._mark()
        while free and (taken := self._take(free)):
            if batches := self._drop_needless(taken):
                return batches
        return []

    def _mark(self) -> None:
        self.outbox.mark(self._finished)
        self._finished = []

    def _take(self, free: int) -> Sequence[Batch]:
        taken = self.outbox.take(
            self.channel.name,
            free,
            digests=self.channel.transport.for_people,
            is_probe=self.health.is_failing,
            tried=self._finished,
        )
        self._finished = []
        return taken

    def _drop_needless(self, batches: Sequence[Batch]) -> list[Batch]:
        """Return the batches with those notices that must be sent; drop the others."""
        needless = {
            posted.id: reason for batch in batches for posted in batch if (reason := self._find_reason_to_drop(posted))
        }
        self.outbox.drop(needless)
        needed = [[posted for posted in batch if posted.id not in needless] for batch in batches]
        return [batch for batch in needed if batch]

    def _find_reason_to_drop(self, posted: OutboxNotice) -> str | None:
        """Return why a notice need not be sent; None if it must. Programs hear of all, people of what is still open."""
        notice = posted.notice
        if posted.is_overdue:
            return "its time is over"
        is_read = self.channel.transport.for_people
        if not is_read or notice.kind not in OPEN_KINDS or notice.question_id is None:
            return None
        still_open = is_open(self.outbox.store, posted.first_run, posted.workflow, notice.question_id)
        return None if still_open else "the question was closed before"

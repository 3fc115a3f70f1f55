"""Deliver an event of another system to the runs that wait for it. The API and the webhooks use it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from holdfast.client.runs import Runs
from holdfast.client.tree import UnknownRun
from holdfast.protocol.answers import Refusal
from holdfast.protocol.incoming import EventReceipt, SystemEvent

MOST_REMEMBERED = 10_000
"""Ids of events whose runs are remembered."""


@dataclass
class EventDelivery:
    """The delivery of events that name no run, with the runs that each went to: a repeated one goes there again."""

    _runs: OrderedDict[str, tuple[str, list[str]]] = field(default_factory=OrderedDict)
    """By the event's id: the digest of the event, and the runs."""

    async def deliver(self, runs: Runs, event: SystemEvent) -> list[EventReceipt]:
        """Send an event to every run with a step that waits for it; return their receipts.

        Raises:
            Refusal: `unknown_question` if no run waits for it; `key_conflict` if another event came under its id.
            NoWorker: No worker answers.
        """
        digest, before = self._runs.get(event.id, (event.digest, []))
        if digest != event.digest:
            raise Refusal("key_conflict", f"another event came under the id {event.id!r}; use a new id")
        waiting = before or await runs.waiting_for(event.name, event.key)
        receipts = [receipt for run in waiting if (receipt := await self._sent(runs, run, event)) is not None]
        if not receipts:
            reason = f"no run waits for the event {event.name!r} with the key {event.key!r}"
            raise Refusal("unknown_question", f"{reason}; name the run that is to keep it, or send it again later")
        self._runs[event.id] = (digest, [receipt.run for receipt in receipts])
        if len(self._runs) > MOST_REMEMBERED:
            self._runs.popitem(last=False)
        return receipts

    async def _sent(self, runs: Runs, run: str, event: SystemEvent) -> EventReceipt | None:
        """Send the event to one run; return None if it has ended, or waits for another one of more than are listed."""
        try:
            return await runs.send_event(run, event.name, event.key, event.payload, id=event.id)
        except UnknownRun:
            return None
        except Refusal as refusal:
            if refusal.code in ("unknown_question", "run_closed"):
                return None
            raise

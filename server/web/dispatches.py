"""What is being sent to runs: answers behind the page that waits for them, events to all runs that wait for one.

Without a worker an update takes a minute to be given up. Nobody looks at a blank page for so long: the sending goes on
behind the page, and its outcome is kept for the next look.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from holdfast.client.failures import EXPECTED
from holdfast.client.runs import Runs
from holdfast.client.stopping import at_once
from holdfast.client.tree import UnknownRun
from holdfast.protocol.answers import Refusal
from holdfast.protocol.incoming import EventReceipt, RefusedEvent, SystemEvent
from holdfast.server.web.gate import Identity

SOON_SECONDS = 0.7
"""Seconds after which a page that says "on its way" is prepared."""
PATIENCE_SECONDS = 2.5
"""Seconds after which that page is shown."""
MOST_AT_ONCE = 8
"""Answers of programs that are under way at once."""
LONGEST_STAY = 3.0
"""Seconds after which one that is still under way makes place for the next."""
MOST_KEPT = 1_000
MOST_REMEMBERED = 10_000
"""Ids of events whose runs are remembered."""


class Dispatches:
    """The last thing that each person has sent to each question."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, asyncio.Task[bool]] = OrderedDict()
        self._places = asyncio.Semaphore(MOST_AT_ONCE)

    @asynccontextmanager
    async def take_place(self) -> AsyncIterator[None]:
        """Let so many answers of programs into the block as a worker takes at once; the others wait in their order.

        One that lasts for long, as without a worker, makes place for the next.
        """
        await self._places.acquire()
        leave = ExitStack()
        leave.callback(self._places.release)
        late = asyncio.get_running_loop().call_later(LONGEST_STAY, leave.close)
        try:
            yield
        finally:
            late.cancel()
            leave.close()

    def begin(self, place: str, sending: Coroutine[Any, Any, bool]) -> asyncio.Task[bool]:
        """Send, whether or not the page that asks for it waits to the end; return the task.

        Args:
            place: The question and the person.
            sending: The sending, which returns whether a worker has received what was sent.
        """
        task = self._last[place] = asyncio.ensure_future(sending)
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # nobody may ever ask for it
        self._last.move_to_end(place)
        ended = [name for name, other in self._last.items() if other.done()]
        for name in ended[: max(len(self._last) - MOST_KEPT, 0)]:
            del self._last[name]
        return task

    def is_under_way(self, place: str) -> bool:
        """Return whether something that was sent there has not arrived yet."""
        task = self._last.get(place)
        return task is not None and not task.done()

    def forget(self, place: str) -> None:
        """Drop what was sent there last: whoever sent it has been told what came of it."""
        self._last.pop(place, None)

    def failure(self, place: str) -> BaseException | None:
        """Return why what was sent there last did not arrive; None if it did, or is on its way."""
        task = self._last.get(place)
        return None if task is None or not task.done() or task.cancelled() else task.exception()


def dispatch_place(run: str, question: str, identity: Identity) -> str:
    """Return the place of what a person sends to a question."""
    return f"{run}/{question} {identity.user}"


async def has_ended(task: asyncio.Task[bool], seconds: float) -> bool:
    """Wait so long for a task to end, and return whether it has; it goes on in any case."""
    done, _ = await asyncio.wait({task}, timeout=seconds)
    return bool(done)


@dataclass
class EventDelivery:
    """The delivery of events that name no run, with the runs that each went to: a repeated one goes there again."""

    _runs: OrderedDict[str, tuple[str, list[str]]] = field(default_factory=OrderedDict)
    """By the event's id: the digest of the event, and the runs."""

    async def deliver(self, runs: Runs, event: SystemEvent) -> list[EventReceipt | RefusedEvent]:
        """Send an event to every run with a step that waits for it; return what each of them says.

        A run that does not take it keeps no other from it.

        Raises:
            Refusal: `unknown_question` if no run waits for it; `key_conflict` if another event came under its id; that
                of the first run if all refuse it; `busy` if one of them takes it later, when it is sent again.
            NoWorker: No worker answers for one of them; sent again, it goes to all of them again.
        """
        digest, before = self._runs.get(event.id, (event.digest, []))
        if digest != event.digest:
            raise Refusal("key_conflict", f"another event came under the id {event.id!r}; use a new id")
        waiting = before or await runs.external_events.find_runs(event.name, event.key)
        outcomes = [outcome for outcome in await at_once(partial(self._send, runs, event), waiting) if outcome]
        if not outcomes:
            reason = f"no run waits for the event {event.name!r} with the key {event.key!r}"
            raise Refusal("unknown_question", f"{reason}; name the run that is to keep it, or send it again later")
        if any(isinstance(outcome.reply, EventReceipt) for outcome in outcomes):
            self._runs[event.id] = (digest, [outcome.run for outcome in outcomes])
        if len(self._runs) > MOST_REMEMBERED:
            self._runs.popitem(last=False)
        return _read_replies(event, outcomes)

    async def _send(self, runs: Runs, event: SystemEvent, run: str) -> _EventReply | None:
        """Send the event to one run; return None if it has ended, or waits for it no more."""
        send = runs.external_events.send
        try:
            return _EventReply(run, await send(run, event.name, event.key, event.payload, id=event.id, keep=False))
        except UnknownRun:
            return None
        except Refusal as refusal:
            return None if refusal.code in ("unknown_question", "run_closed") else _EventReply(run, refusal)
        except EXPECTED as error:
            return _EventReply(run, error)


@dataclass(frozen=True)
class _EventReply:
    """What came of an event that was sent to a run."""

    run: str
    reply: EventReceipt | Exception


def _read_replies(event: SystemEvent, outcomes: Sequence[_EventReply]) -> list[EventReceipt | RefusedEvent]:
    """Return what each run says of an event. Raises what passes by itself, else the first refusal if all refuse it."""
    errors = [outcome.reply for outcome in outcomes if isinstance(outcome.reply, Exception)]
    passing = [error for error in errors if not isinstance(error, Refusal) or error.code == "busy"]
    if passing or len(errors) == len(outcomes):
        raise (passing or errors)[0]
    return [_describe(event, outcome) for outcome in outcomes]


def _describe(event: SystemEvent, outcome: _EventReply) -> EventReceipt | RefusedEvent:
    match outcome.reply:
        case EventReceipt():
            return outcome.reply
        case Refusal(code=code, message=message):
            return RefusedEvent(event=event.id, run=outcome.run, code=code, message=message)
        case error:
            raise error

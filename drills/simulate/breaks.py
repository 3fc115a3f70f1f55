"""Breaks planted on purpose: mistakes of the product that a simulator must find, or its silence says nothing.

A break is a patch of the product's code in this process alone, while seeds run: the run that is not disturbed has it,
too. `python -m drills.simulate --breaks` runs each until it is found.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from itertools import product
from typing import Any, NamedTuple
from unittest.mock import patch

from temporalio import workflow

from holdfast.client.past_runs import PastReader
from holdfast.protocol.answers import Refusal
from holdfast.workflows import activation, approvals, interpreter, items, run, tools
from holdfast.workflows.activation import OneJobInstance
from holdfast.workflows.calls import Activities
from holdfast.workflows.children import Child, Children
from holdfast.workflows.door import Receipts
from holdfast.workflows.handlers.answers import Answers
from holdfast.workflows.handlers.events import Events
from holdfast.workflows.handlers.host import Host
from holdfast.workflows.handlers.questions import Questions
from holdfast.workflows.handlers.steering import Steering
from holdfast.workflows.handlers.view import View
from holdfast.workflows.steps import block, parallel
from holdfast.workflows.undo_log import UndoLog

Make = Callable[[Any], Any]
"""Gets what is sound, and returns what is put in its place."""


class Break(NamedTuple):
    """A mistake, by what it does."""

    name: str
    owners: Sequence[object]
    """Classes or modules."""
    attributes: str
    """Of each of them; several with a space between."""
    make: Make


@contextmanager
def plant(break_: Break) -> Iterator[None]:
    """Have the product make the mistake."""
    with ExitStack() as stack:
        for owner, attribute in product(break_.owners, break_.attributes.split()):
            if (sound := vars(owner).get(attribute)) is not None:
                stack.enter_context(patch.object(owner, attribute, break_.make(sound)))
        yield


async def _do_nothing(*arguments: object, **named: object) -> None:
    pass


def _keep_open(close: Any) -> Any:
    def broken(self: Any, question: Any, reply: Any, *rest: Any, **named: Any) -> Any:
        entry = self._open[question.id]
        closed = close(self, question, reply, *rest, **named)
        if reply.status == "answered":
            self._open[question.id] = entry
        return closed

    return broken


def _find_next(require: Any) -> Any:
    def broken(self: Any, named: str) -> Any:
        try:
            return require(self, named)
        except Refusal:
            if not self._open:
                raise
            return next(iter(self._open.values()))

    return broken


def _remind_after_answer(_: Any) -> Any:
    async def broken(self: Any, entry: Any, default: object) -> Any:
        while not entry.reply.done() and (next_ := entry.times.next) is not None:
            if (remaining := (next_ - workflow.now()).total_seconds()) > 0:
                await workflow.wait([entry.reply], timeout=remaining)
            if not entry.reply.done() or entry.times.deadline is None:
                self._handle_due(entry, max(next_, workflow.now()), default)
        return await entry.reply

    return broken


def _allow_denied(ask: Any) -> Any:
    async def broken(*arguments: Any) -> Any:
        try:
            return await ask(*arguments)
        except approvals.Declined:
            return {"granted": True}

    return broken


def _retry_unasked(_: Any) -> Any:
    async def broken(*arguments: Any, **named: Any) -> Any:
        return {"outcome": "retry"}

    return broken


def _shuffle(run_together: Any) -> Any:
    source = random.Random(7)

    async def broken(works: Any) -> Any:
        works = list(works)
        order = sorted(range(len(works)), key=lambda _: source.random())
        done = dict(zip(order, await run_together([works[index] for index in order]), strict=True))
        return [done[index] for index in range(len(works))]

    return broken


def _count_anew(advance: Any) -> Any:
    def broken(self: Any, **changes: Any) -> None:
        advance(self, **changes)
        if "previous_run" in changes and hasattr(self.state, "iteration"):
            advance(self, iteration=0)

    return broken


def _replace_state(**changes: Any) -> Make:
    def make(next_state: Any) -> Any:
        return property(lambda self: {**next_state.fget(self), **changes})

    return make


def _skip_in_replay(write: Any) -> Any:
    def broken(*arguments: Any) -> None:
        if not workflow.unsafe.is_replaying():
            write(*arguments)

    return broken


def _keep_from_children(tell_pause: Any) -> Any:
    async def broken(self: Any) -> None:
        if self._host.paused:
            await tell_pause(self)

    return broken


def _handle_cancel(sound: Any) -> Any:
    """Both: calls and children raise a cancellation as itself, so that the check alone finds none."""
    return (*sound, asyncio.CancelledError) if isinstance(sound, tuple) else lambda error: False


def _forget_cancel(_: Any) -> Any:
    async def broken(self: Any, begun: Any) -> Any:
        handle = await self._start()
        self._started = True
        await begun()
        return await handle

    return broken


def _forget_pause(has_started: Any) -> Any:
    async def broken(self: Any, child: Any, address: Any, event: Any, hint_ids: Any) -> None:
        child._paused = self._host.paused
        await has_started(self, child, address, event, hint_ids)

    return broken


def _await_directly(_: Any) -> Any:
    async def broken(work: Any) -> Any:
        return await work

    return broken


def _draw_id(_: Any) -> Any:
    source = random.Random(7)
    return lambda self, activity, place: f"{source.getrandbits(64):x}"


def _return(value: Any) -> Make:
    """Return what makes a function that always returns this."""
    return lambda _: lambda *arguments, **named: value


def _answer_at_once(instance: Any, act: Any) -> Any:
    return instance._inner.activate(act)


def _take_as_given(instance: Any, act: Any) -> Any:
    instance._local -= {job.resolve_activity.seq for job in act.jobs if job.resolve_activity.is_local}
    return [instance._begin_task(act)]


def _call_at_once(run: Any) -> Any:
    async def broken(self: Any, *arguments: Any, **named: Any) -> Any:
        self._local = AsyncExitStack()
        return await run(self, *arguments, **named)

    return broken


def _ignore_child(_: Any) -> Any:
    async def broken(self: Any, child: Any, of_run: Any) -> Any:
        return of_run

    return broken


async def _wait_directly(tasks: Sequence[Any]) -> None:
    await tasks[0]


BREAKS: tuple[Break, ...] = (
    Break("an answer leaves its question open", [Questions], "_close", _keep_open),
    Break("a validator lets everything in", [Questions, Answers], "check _check_people", _return(None)),
    Break("an answer that comes late goes to another question", [Questions], "require", _find_next),
    Break("the key of an answer is forgotten", [Receipts], "find", _return([])),
    Break("a reminder is sent after the answer", [Questions], "_wait_for_reply", _remind_after_answer),
    Break("a no is taken for a yes", [approvals], "_ask_approval", _allow_denied),
    Break("a grant for the run is forgotten", [Host], "permit", _return(None)),
    Break("a lost call is made again, and nobody asked", [tools], "_ask_outcome", _retry_unasked),
    Break("an early event is forgotten", [Events], "_keep_event", _return(None)),
    Break("a cancel does not reach the children", [Child], "_cancel", lambda _: _do_nothing),
    Break("a cancel misses a child that is about to start", [Child], "_work", _forget_cancel),
    Break("a cancel is handled as a failure", [interpreter], "HANDLED is_cancelled", _handle_cancel),
    Break("a cancel stops what is done in any case", [block], "clean_up", _await_directly),
    Break("a pause misses a child that is about to start", [Children], "_has_started", _forget_pause),
    Break("a pause is lost at continue-as-new", [Steering], "next_state", _replace_state(paused=False)),
    Break("what comes with continue-as-new is lost", [run], "await_rest", lambda _: _do_nothing),
    Break("a resume does not reach the children", [Children], "tell_pause", _keep_from_children),
    Break("iterations are counted anew at continue-as-new", [run.RunWorkflow], "advance", _count_anew),
    Break("events are numbered anew at continue-as-new", [Host], "next_state", _replace_state(next_offset=0)),
    Break("what is done is not undone", [UndoLog], "take", _return([])),
    Break("the branches that have lost go on", [parallel], "_supersede", lambda _: _do_nothing),
    Break("what runs at once starts in any order", [parallel, items], "run_together", _shuffle),
    Break("the ids of calls are drawn by lot", [Activities], "_next_id", _draw_id),
    Break("search attributes are not written again in replay", [View], "_write_attributes", _skip_in_replay),
    Break("all jobs of a task are applied at once", [activation], "_split", lambda _: lambda jobs: [jobs]),
    Break("what a query has brought is kept", [OneJobInstance], "_evict", _return(None)),
    Break("a query is answered within a local call", [OneJobInstance], "_answer", lambda _: _answer_at_once),
    Break("jobs are applied within a local call", [OneJobInstance], "_take_turns", lambda _: _take_as_given),
    Break("a retry takes what nobody had heard of for handled", [PastReader], "_find_break_of_child", _ignore_child),
    Break("changed values are lost in a fork behind", [PastReader], "_is_before", _return(False)),
    Break("a cancel changes an end that waits for its handlers", [run], "outlast", lambda _: _wait_directly),
    Break("local calls are made at once", [Activities], "_run", _call_at_once),
)

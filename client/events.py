"""The events of a run and its children as one stream. `Runs` follows runs with it, and finds earlier answers.

Each workflow keeps its own events, over its chain of continue-as-new; this merges them in an order that is the same
for every reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.address import parts
from holdfast.protocol.events import (
    ChildStarted,
    Event,
    LoopIteration,
    LoopStarted,
    MapStarted,
    PlanStarted,
    StepCompleted,
    StepFailed,
)
from holdfast.protocol.runs import EVENTS, WorkflowView

NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass
class _Source:
    """A workflow of the run: when its parent recorded its start, and the next offset to read."""

    workflow: str
    born: datetime = NEVER
    next: int = 0


@dataclass(frozen=True, order=True)
class _Placed:
    """An event with its sort key: time (never before its workflow's recorded start), workflow, offset."""

    at: datetime
    workflow: str
    offset: int
    event: Event = field(compare=False)


async def chain(tree: Tree, workflow: str, start: int = 0, last_iterations: int | None = None) -> list[Event]:
    """Return a workflow's events over its continue-as-new chain, oldest first.

    Args:
        tree: The run's workflows.
        workflow: The workflow's id.
        start: The first offset.
        last_iterations: Stop going back in the chain once so many iterations of the loop are covered.

    Raises:
        UnknownRun: There is no such workflow.
        NoWorker: No worker answers.
    """
    spans: list[list[Event]] = []
    run: str | None = None
    seen = 0
    while True:
        view = await tree.view(workflow, run)
        span = await _span(tree, view, max(start, view.first_offset))
        spans.append(span)
        seen += sum(isinstance(event.data, LoopIteration) for event in span)
        done = view.first_offset <= start or (last_iterations is not None and seen >= last_iterations)
        if done or view.previous_run is None:
            return [event for events in reversed(spans) for event in events]
        run = view.previous_run


async def below(tree: Tree, workflow: str, last_iterations: int | None = None) -> list[Event]:
    """Return a workflow's events, with those of each child after the event that records its start."""
    try:
        own = await chain(tree, workflow, last_iterations=last_iterations)
    except UnknownRun:  # its retention has ended
        return []
    events: list[Event] = []
    for event in own:
        events.append(event)
        if isinstance(event.data, ChildStarted):
            events += await below(tree, event.data.workflow, last_iterations)
    return events


def last_at_work(run: str, events: Sequence[Event]) -> str:
    """Return the innermost loop or map that was at work with the run's own context when the run was ended.

    If several were at work at the same time it is the one around all of them, or the run itself.
    """
    at_work: dict[str, str] = {}
    for event in events:
        match event.data:
            case LoopStarted(workflow=child) | MapStarted(workflow=child) if not _is_foreign(event):
                at_work[event.address.partition(";page:")[0]] = child
            case StepCompleted() | StepFailed():
                at_work = {at: child for at, child in at_work.items() if not _is_inside(at, event.address)}
    innermost = run
    for address in sorted(at_work, key=len):
        if all(_is_inside(address, other) or _is_inside(other, address) for other in at_work):
            innermost = at_work[address]
    return innermost


def plan_at_work(events: Sequence[Event]) -> list[str]:
    """Return the workflows that may know what the plan gave that was at work when the run was ended.

    The likeliest stands first. Empty where none was at work, or several at once.
    """
    plans: dict[str, list[str]] = {}
    for event in events:
        match event.data:
            case PlanStarted(workflow=child):
                plans[event.address] = [child]
            case LoopStarted(workflow=child):
                if around := [plan for plan in plans if _is_inside(event.address, plan)]:
                    plans[around[-1]].insert(0, child)
            case StepCompleted() | StepFailed():
                plans.pop(event.address, None)
    return next(iter(plans.values())) if len(plans) == 1 else []


def _is_foreign(event: Event) -> bool:
    """Return whether the event is from a step that has a context of its own."""
    return any(kind in ("import", "agent", "plan") for kind, _, _ in parts(event.address))


def _is_inside(inner: str, outer: str) -> bool:
    """Return whether an address is `outer` or inside it: an iteration or an item of it (":"), or a step in it (";")."""
    return inner == outer or inner.startswith((f"{outer}:", f"{outer};"))


async def _span(tree: Tree, view: WorkflowView, offset: int) -> list[Event]:
    """Return the events of one run of a chain from an offset on, page by page."""
    events: list[Event] = []
    while offset < view.next_offset:
        page = await tree.query(view.workflow, EVENTS, offset, list[Event], view.temporal_run)
        if not page:
            break
        events += page
        offset = page[-1].offset + 1
    return events


class Stream:
    """A reader of a run's events, round by round.

    An event is held back until a whole round was read after it, so that no earlier one can follow. So the order, and
    the event that an offset stands for, are the same for every reader at any time.
    """

    def __init__(self, tree: Tree, run: str) -> None:
        self._tree = tree
        self._sources = {run: _Source(run)}
        self._held: list[_Placed] = []
        self._sure = NEVER
        self._next_offset = 0

    async def round(self, *, closed: bool = False) -> list[Event]:
        """Read every workflow once and return the events that are due, numbered over the whole run; all if `closed`."""
        latest = self._sure
        fresh = list(self._sources.values())
        while fresh:
            read = [event for events in await asyncio.gather(*map(self._read, fresh)) for event in events]
            self._held += read
            latest = max([latest, *(placed.at for placed in read)])
            fresh = self._new_sources(read)
        ready = sorted(placed for placed in self._held if closed or placed.at <= self._sure)
        self._held = [placed for placed in self._held if not (closed or placed.at <= self._sure)]
        self._sure = latest
        return [self._numbered(placed.event) for placed in ready]

    async def _read(self, source: _Source) -> list[_Placed]:
        try:
            events = await chain(self._tree, source.workflow, source.next)
        except UnknownRun:
            return []
        if events:
            source.next = events[-1].offset + 1
        return [_Placed(max(event.time, source.born), source.workflow, event.offset, event) for event in events]

    def _new_sources(self, events: list[_Placed]) -> list[_Source]:
        """Add and return the workflows whose start is among these events."""
        started = [(placed.event.data, placed.at) for placed in events]
        born = [_Source(data.workflow, at) for data, at in started if isinstance(data, ChildStarted)]
        fresh = [source for source in born if source.workflow not in self._sources]
        self._sources |= {source.workflow: source for source in fresh}
        return fresh

    def _numbered(self, event: Event) -> Event:
        self._next_offset += 1
        return event.model_copy(update={"offset": self._next_offset - 1})


async def all_events(tree: Tree, run: str) -> list[Event]:
    """Return every event of a run so far, in order, with offsets over the whole run."""
    return await Stream(tree, run).round(closed=True)


async def follow(tree: Tree, run: str, after: int, closed_after: AsyncIterator[bool]) -> AsyncIterator[Event]:
    """Yield the events with offsets above `after` as they come.

    Args:
        tree: The run's workflows.
        run: The run's id.
        after: The offset of the last event that is not wanted; -1 for all.
        closed_after: Yields once a round, at the pace of reading: whether the run has closed.
    """
    stream = Stream(tree, run)
    async for closed in closed_after:
        for event in await stream.round(closed=closed):
            if event.offset > after:
                yield event
        if closed:
            return

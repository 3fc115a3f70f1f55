"""The events of a run and of its loops as one stream: nothing lost over continue-as-new, the same order every time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from client.tree import Tree, UnknownRun
from protocol.runs import BORN, EVENTS, Event, WorkflowView

NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass
class _Source:
    """One workflow of the run, and how far it has been read. `born` is when its parent saw it start."""

    workflow: str
    born: datetime = NEVER
    next: int = 0


@dataclass(frozen=True, order=True)
class _Placed:
    """An event in the run's order: by time (never before its workflow was seen to start), workflow, offset."""

    at: datetime
    workflow: str
    offset: int
    event: Event = field(compare=False)


async def chain(tree: Tree, workflow: str, start: int = 0, last_iterations: int | None = None) -> list[Event]:
    """A workflow's events over its chain of runs: from an offset on, or as far back as holds the last iterations."""
    spans: list[list[Event]] = []
    run: str | None = None
    seen = 0
    while True:
        view = await tree.view(workflow, run)
        span = await _span(tree, view, max(start, view.first_offset))
        spans.append(span)
        seen += sum(event.type == "loop.iteration" for event in span)
        done = view.first_offset <= start or (last_iterations is not None and seen >= last_iterations)
        if done or view.previous_run is None:
            return [event for events in reversed(spans) for event in events]
        run = view.previous_run


async def below(tree: Tree, workflow: str, last_iterations: int | None = None) -> list[Event]:
    """A workflow's events, with those of each child behind the event that tells of its start."""
    try:
        own = await chain(tree, workflow, last_iterations=last_iterations)
    except UnknownRun:  # its retention has ended
        return []
    events: list[Event] = []
    for event in own:
        events.append(event)
        if event.type in BORN:
            events += await below(tree, event.data["workflow"], last_iterations)
    return events


async def _span(tree: Tree, view: WorkflowView, offset: int) -> list[Event]:
    """What one run of a chain holds from an offset on, page by page."""
    events: list[Event] = []
    while offset < view.next_offset:
        page = await tree.query(view.workflow, EVENTS, offset, list[Event], view.temporal_run)
        if not page:
            break
        events += page
        offset = page[-1].offset + 1
    return events


class Stream:
    """Reads a run's events round by round.

    An event is given out when a whole round was read after it, so that nothing earlier can come any more: the order is
    the same for whoever follows and whenever, and an offset means the same event to all.
    """

    def __init__(self, tree: Tree, run: str) -> None:
        self._tree = tree
        self._sources = {run: _Source(run)}
        self._held: list[_Placed] = []
        self._sure = NEVER
        self.given = 0

    async def round(self, *, closed: bool = False) -> list[Event]:
        """The next events of the run, with offsets of the run; all that is left once the run has closed."""
        latest = self._sure
        fresh = list(self._sources.values())
        while fresh:
            found = [event for events in await asyncio.gather(*map(self._read, fresh)) for event in events]
            self._held += found
            latest = max([latest, *(placed.at for placed in found)])
            fresh = self._born(found)
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

    def _born(self, found: list[_Placed]) -> list[_Source]:
        """The workflows that these events tell of for the first time."""
        started = [placed for placed in found if placed.event.type in BORN]
        born = [_Source(placed.event.data["workflow"], placed.at) for placed in started]
        fresh = [source for source in born if source.workflow not in self._sources]
        self._sources |= {source.workflow: source for source in fresh}
        return fresh

    def _numbered(self, event: Event) -> Event:
        self.given += 1
        return event.model_copy(update={"offset": self.given - 1})

    @property
    def all_given(self) -> bool:
        return not self._held


async def all_events(tree: Tree, run: str) -> list[Event]:
    """Every event of a run so far, in the run's order."""
    return await Stream(tree, run).round(closed=True)


async def follow(tree: Tree, run: str, after: int, closed_after: AsyncIterator[bool]) -> AsyncIterator[Event]:
    """Events with offsets above `after`, as they come. `closed_after` sets the pace, and tells the run's end."""
    stream = Stream(tree, run)
    async for closed in closed_after:
        for event in await stream.round(closed=closed):
            if event.offset > after:
                yield event
        if closed:
            return

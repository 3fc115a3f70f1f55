"""The events of a run and its children as one stream. `Runs` follows runs with it, and finds earlier answers.

Each workflow keeps its own events, over its chain of continue-as-new; this merges them in an order that is the same
for every reader.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from temporalio.client import WorkflowExecutionDescription

from holdfast.client.archive import ArchivedEvents
from holdfast.client.tree import CLOSED, Tree, UnknownRun
from holdfast.protocol.address import is_inside, parts
from holdfast.protocol.events import (
    ChildStarted,
    Event,
    ItemStarted,
    LoopIteration,
    LoopStarted,
    MapStarted,
    PlanStarted,
    StepCompleted,
    StepFailed,
)
from holdfast.protocol.names import EVENTS
from holdfast.protocol.values import make_digest
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.errors import BadInput
from holdfast.runtime.workers import NoWorker

NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass
class _EventFeed:
    """A workflow of the run: its place in the order, and the next offset to read."""

    workflow: str
    earliest: datetime = NEVER
    """No event of it stands before this time: its parent recorded its start then, or a cursor is behind it."""
    is_announced: bool = True
    """False until the event by which its parent recorded its start was returned."""
    next: int = 0
    returned: int = 0
    """The offset after the last event that was returned."""
    is_begun: bool = False
    """True once the archive has been asked for its events."""
    has_ended: bool = False
    is_drained: bool = False
    """True if it has ended and every event of it was read."""


@dataclass(frozen=True, order=True)
class _Placed:
    """An event with its sort key: time (never before its workflow's recorded start), workflow, offset."""

    at: datetime
    workflow: str
    offset: int
    event: Event = field(compare=False)


@dataclass(frozen=True)
class Reading:
    """The events of a workflow from an offset on, as far back as they are retained, with the view of its latest run."""

    view: WorkflowView
    events: list[Event]
    runs: Mapping[int, str] = field(default_factory=dict)
    """Temporal's ids of the runs of the chain that were read, by their first offsets."""

    def find_run(self, event: Event) -> str | None:
        """Return Temporal's id of the run that an event is of."""
        firsts = [first for first in self.runs if first <= event.offset]
        return self.runs[max(firsts)] if firsts else None


async def read_chain(
    tree: Tree, workflow: str, run: str, start: int, described: WorkflowExecutionDescription | None = None
) -> Reading:
    """Return a workflow's events from `start` on, up to one run of its continue-as-new chain; see `_back_from`.

    Args:
        tree: The run's workflows.
        workflow: The workflow's id.
        run: Temporal's id of the run to begin with, the latest of the chain.
        start: The first offset.
        described: The server's description of that run, where it is at hand.

    Raises:
        UnknownRun: That run is forgotten.
        NoWorker: No worker answers.
    """
    view = await tree.view(workflow, run, described=described)
    return await _back_from(tree, view, start, described=described)


async def chain(
    tree: Tree, workflow: str, last_iterations: int | None = None, view: WorkflowView | None = None
) -> list[Event]:
    """Return a workflow's events over its continue-as-new chain, oldest first.

    Args:
        tree: The run's workflows.
        workflow: The workflow's id.
        last_iterations: Stop going back in the chain once so many iterations of the loop are covered.
        view: The view of the workflow, where it has just been queried: events up to then are enough.

    Raises:
        UnknownRun: There is no such workflow.
        NoWorker: No worker answers.
    """
    if view is not None and view.status not in CLOSED and view.first_offset == 0:
        return (await _back_from(tree, view, 0, last_iterations)).events  # all in its present history
    if tree.archive is not None and not tree.archive.is_open:
        whole = await _read_whole(tree, workflow, last_iterations, view)
        if whole is not None:
            return whole
    archived = await _read_archived(tree, workflow, 0, last_iterations)
    if archived.closed:
        return archived.events
    try:
        view = view or await tree.view(workflow)
        return archived.events + (await _back_from(tree, view, archived.next_offset, last_iterations)).events
    except UnknownRun:
        if archived.events:  # Temporal has forgotten the rest
            return archived.events
        raise


async def _read_whole(
    tree: Tree, workflow: str, last_iterations: int | None, view: WorkflowView | None
) -> list[Event] | None:
    """Return what `chain` does, from Temporal alone; None if it has forgotten some of it, or no worker answers."""
    with suppress(UnknownRun, NoWorker):
        reading = await _back_from(tree, view or await tree.view(workflow), 0, last_iterations)
        found = sum(isinstance(event.data, LoopIteration) for event in reading.events)
        if min(reading.runs) == 0 or (last_iterations is not None and found >= last_iterations):
            return reading.events
    return None


async def _read_archived(tree: Tree, workflow: str, start: int, last_iterations: int | None = None) -> ArchivedEvents:
    """Return the events of a workflow that the archive has; none where there is no archive."""
    if tree.archive is None:
        return ArchivedEvents(next_offset=start)
    return await tree.archive.events(workflow, start, last_iterations)


async def _back_from(
    tree: Tree,
    latest: WorkflowView,
    start: int,
    last_iterations: int | None = None,
    described: WorkflowExecutionDescription | None = None,
) -> Reading:
    """Return the events of a chain from an offset on, read back from the run whose view and description this is.

    Runs of the chain that Temporal has forgotten are left out: the first offset shows it.
    """
    view, spans, runs, iterations = latest, list[list[Event]](), dict[int, str](), 0
    while True:
        span = await _span(tree, view, max(start, view.first_offset), described if view is latest else None)
        spans.append(span)
        runs[view.first_offset] = view.temporal_run
        iterations += sum(isinstance(event.data, LoopIteration) for event in span)
        is_enough = view.first_offset <= start or (last_iterations is not None and iterations >= last_iterations)
        if is_enough or view.previous_run is None:
            break
        # A run that continued as new is closed, and its retention may end while the chain goes on.
        try:
            view = await tree.view(view.workflow, view.previous_run)
        except UnknownRun:
            break
    return Reading(latest, [event for events in reversed(spans) for event in events], runs)


async def below(
    tree: Tree,
    workflow: str,
    last_iterations: int | None = None,
    view: WorkflowView | None = None,
    paged: PagedMap | None = None,
) -> list[Event]:
    """Return a workflow's events, with those of each child after the event that records its start; see `chain`.

    With `last_iterations`, a map that runs in pages is read from its last page back, until so many of its items were
    met. Of the pages before only those that still run are read, so whatever was not read is over. `paged` is the map
    that the workflow runs.
    """
    try:
        own = await chain(tree, workflow, last_iterations=last_iterations, view=view)
    except UnknownRun:  # its retention has ended
        return []
    inner: dict[int, list[Event]] = {}
    wanted, running = None if paged is None else paged.wanted, await _list_running(tree, workflow, paged)
    for place, event in reversed(list(enumerate(own))):
        if not isinstance(event.data, ChildStarted):
            continue
        is_page = paged is not None and event.address == paged.address
        if is_page and wanted == 0 and event.data.workflow not in running:
            continue
        most = wanted if is_page else last_iterations
        map_ = PagedMap(event.address, most) if isinstance(event.data, MapStarted) else None
        inner[place] = await below(tree, event.data.workflow, last_iterations, paged=map_)
        if is_page and wanted is not None:
            wanted = max(wanted - _count_items(inner[place], event.address), 0)
    return [event for place, first in enumerate(own) for event in (first, *inner.get(place, ()))]


@dataclass(frozen=True)
class PagedMap:
    """A map that a workflow of its own runs, or a page of it: its pages stand at the address of the map."""

    address: str
    wanted: int | None
    """How many of its items are to be read; None: all."""


async def _list_running(tree: Tree, workflow: str, paged: PagedMap | None) -> list[str]:
    """Return the pages of a map that run, where not all of them are read."""
    if paged is None or paged.wanted is None:
        return []
    try:
        return (await tree.view(workflow)).children
    except UnknownRun:  # it has ended
        return []


def _count_items(events: Sequence[Event], map_: str) -> int:
    return sum(isinstance(event.data, ItemStarted) and event.address.rpartition(":")[0] == map_ for event in events)


async def iterations(tree: Tree, workflow: str, first: int, before: int) -> list[Event]:
    """Return the events of some iterations of a loop, with those of the children that they started.

    Args:
        tree: The run's workflows.
        workflow: The loop's workflow.
        first: The first iteration, from 1.
        before: The iteration to end before.

    Raises:
        UnknownRun: There is no such workflow.
        NoWorker: No worker answers.
    """
    own = None if tree.archive is None else await tree.archive.iterations(workflow, first, before)
    if own is None:
        later = await last_iteration(tree, workflow) - first + 1
        own = _between(await chain(tree, workflow, last_iterations=max(later, 1)), first, before)
    events: list[Event] = []
    for event in own:
        events.append(event)
        if isinstance(event.data, ChildStarted):
            events += await below(tree, event.data.workflow)
    return events


async def last_iteration(tree: Tree, workflow: str) -> int:
    """Return the number of the last iteration of a loop that its workflow has begun; 0 if there is none."""
    events = await chain(tree, workflow, last_iterations=1)
    return max((event.data.iteration for event in events if isinstance(event.data, LoopIteration)), default=0)


def _between(events: Sequence[Event], first: int, before: int) -> list[Event]:
    """Return the events of some iterations among those of a loop's workflow."""
    kept, number = [], 0
    for event in events:
        if isinstance(event.data, LoopIteration):
            number = event.data.iteration
        if first <= number < before:
            kept.append(event)
    return kept


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
                at_work = {at: child for at, child in at_work.items() if not is_inside(at, event.address)}
    innermost = run
    for address in sorted(at_work, key=len):
        if all(is_inside(address, other) or is_inside(other, address) for other in at_work):
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
                if around := [plan for plan in plans if is_inside(event.address, plan)]:
                    plans[around[-1]].insert(0, child)
            case StepCompleted() | StepFailed():
                plans.pop(event.address, None)
    return next(iter(plans.values())) if len(plans) == 1 else []


def _is_foreign(event: Event) -> bool:
    """Return whether the event is from a step that has a context of its own."""
    return any(kind in ("import", "agent", "plan") for kind, _, _ in parts(event.address))


async def _span(
    tree: Tree, view: WorkflowView, offset: int, described: WorkflowExecutionDescription | None
) -> list[Event]:
    """Return the events of one run of a chain from an offset on, page by page."""
    events: list[Event] = []
    while offset < view.next_offset:
        page = await tree.query(view.workflow, EVENTS, offset, list[Event], view.temporal_run, described=described)
        if not page:
            break
        events += page
        offset = page[-1].offset + 1
    return events


@dataclass(frozen=True)
class Cursor:
    """A position in the events of a run: a reader that goes on from it reads no event again."""

    run: str
    count: int = 0
    """Number of events before it."""
    at: datetime = NEVER
    """The time of the last event before it: those behind it are not sorted before it."""
    offsets: Mapping[str, int] = field(default_factory=dict)
    """The next offset of each workflow that may have more events, always that of the run; {} before the first event."""

    def __str__(self) -> str:
        """Return it as an opaque word."""
        offsets = {workflow.removeprefix(self.run): offset for workflow, offset in self.offsets.items()}
        text = json.dumps([_mark(self.run), self.count, self.at.isoformat(), offsets], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def read(cls, run: str, word: str) -> Cursor:
        """Return the cursor for an opaque word. Raises `BadInput` for one that is not of this run."""
        try:
            padded = word + "=" * (-len(word) % 4)
            mark, count, time, offsets = json.loads(base64.b64decode(padded, "-_", validate=True))
            at = datetime.fromisoformat(time)
            is_one = (
                mark == _mark(run)
                and _is_offset(count)
                and at.tzinfo is not None
                and all(name[:1] in ("", "/") and _is_offset(offset) for name, offset in offsets.items())
            )
        except (ValueError, TypeError, AttributeError, RecursionError):
            is_one = False
        if not is_one:
            raise BadInput(f"{word[:80]!r} is not a cursor of the events of {run}; use one that came with an event")
        return cls(run, count, at, {run + name: offset for name, offset in offsets.items()})


def _mark(run: str) -> str:
    """Return what tells the cursors of a run from those of others."""
    return make_digest(run)[:6]


def _is_offset(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**53


class Stream:
    """A reader of a run's events, round by round.

    An event is held back until a whole round was read after it, so that no earlier one can follow. So the order, and
    the event that an offset stands for, are the same for every reader at any time.
    """

    def __init__(self, tree: Tree, run: str, after: Cursor | None = None) -> None:
        self._tree, self._run = tree, run
        offsets = after.offsets if after is not None and after.offsets else {run: 0}
        self._at = after.at if after is not None else NEVER
        self._sources = {
            name: _EventFeed(name, self._at, next=offset, returned=offset) for name, offset in offsets.items()
        }
        self._held: list[_Placed] = []
        self._sure = NEVER
        self._next_offset = after.count if after is not None else 0

    async def round(self, *, closed: bool = False) -> list[Event]:
        """Read every workflow once and return the events that are due, numbered over the whole run; all if `closed`."""
        return [event for event, _ in await self.placed_round(closed=closed)]

    async def placed_round(self, *, closed: bool = False) -> list[tuple[Event, Cursor]]:
        """Return the events of a round, each with the cursor behind it; see `round`."""
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
        return [(self._number(placed), self.cursor) for placed in ready]

    @property
    def cursor(self) -> Cursor:
        """The position behind the last event that was returned."""
        announced = [source for source in self._sources.values() if source.is_announced]
        live = [
            source
            for source in announced
            if source.workflow == self._run or not source.is_drained or source.returned < source.next
        ]
        return Cursor(self._run, self._next_offset, self._at, {source.workflow: source.returned for source in live})

    async def _read(self, source: _EventFeed) -> list[_Placed]:
        if source.is_drained:
            return []
        events = await self._read_archive(source) + await self._read_live(source)
        if events:
            source.next = events[-1].offset + 1
        return [_Placed(max(event.time, source.earliest), source.workflow, event.offset, event) for event in events]

    async def _read_archive(self, source: _EventFeed) -> list[Event]:
        """Return the events that the archive has, at the first look."""
        if source.is_begun:
            return []
        source.is_begun = True
        archived = await _read_archived(self._tree, source.workflow, source.next)
        source.is_drained, source.next = archived.closed, archived.next_offset
        return archived.events

    async def _read_live(self, source: _EventFeed) -> list[Event]:
        if source.is_drained:
            return []
        try:
            view = await self._tree.view(source.workflow)
            events = (await _back_from(self._tree, view, source.next)).events
        except UnknownRun:
            return []
        # It may say so before its last events: a second look that finds nothing new is sure.
        source.is_drained, source.has_ended = source.has_ended and not events, view.status in CLOSED
        return events

    def _new_sources(self, events: list[_Placed]) -> list[_EventFeed]:
        """Add and return the workflows whose start is among these events."""
        started = [(placed.event.data, placed.at) for placed in events]
        born = [
            _EventFeed(data.workflow, at, is_announced=False) for data, at in started if isinstance(data, ChildStarted)
        ]
        fresh = [source for source in born if source.workflow not in self._sources]
        self._sources |= {source.workflow: source for source in fresh}
        return fresh

    def _number(self, placed: _Placed) -> Event:
        self._sources[placed.workflow].returned = placed.offset + 1
        if isinstance(placed.event.data, ChildStarted):
            self._sources[placed.event.data.workflow].is_announced = True
        self._next_offset += 1
        self._at = placed.at
        return placed.event.model_copy(update={"offset": self._next_offset - 1})


async def all_events(tree: Tree, run: str) -> list[Event]:
    """Return every event of a run so far, in order, with offsets over the whole run."""
    return await Stream(tree, run).round(closed=True)


async def follow(
    tree: Tree, run: str, after: Cursor | None, closed_after: AsyncIterator[bool]
) -> AsyncIterator[tuple[Event, Cursor]]:
    """Yield the events behind a cursor as they come, each with the cursor behind it.

    Args:
        tree: The run's workflows.
        run: The run's id.
        after: The place to go on from; None: from the first event.
        closed_after: Yields once a round, at the pace of reading: whether the run has closed.
    """
    stream = Stream(tree, run, after)
    async for closed in closed_after:
        for event, cursor in await stream.placed_round(closed=closed):
            yield event, cursor
        if closed:
            return

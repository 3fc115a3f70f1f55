"""Runs that go on from an ended one: forked at a step, an iteration, an item or a branch, or retried.

What the ended run did is read by the product's own reader, from histories as a client fetches them. Nothing that had
ended before the place, or before the failure, may be called or asked again, and the end must be the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, NamedTuple

from temporalio.exceptions import ApplicationError

from drills.simulate.blueprints import FINE, MARK
from drills.simulate.choices import Choices
from drills.simulate.core import Core, Violation
from drills.simulate.sdk import decode_failure, run_async
from drills.simulate.server import Run, Server
from drills.simulate.world import FINALLY, RUN, pack, unpack
from holdfast.blueprint.kinds import AnyStep, Blueprint, Map, MapBlock, Parallel, Plan
from holdfast.client.past_runs import Break, PastReader
from holdfast.client.places import PLACES, check_place, describe_place, find_goal, list_steps
from holdfast.client.retries import check_break
from holdfast.protocol.address import Address
from holdfast.protocol.children import Failure as RunFailure
from holdfast.protocol.events import Event, QuestionMet
from holdfast.protocol.past import PAST, Fork, Past, PastWaits
from holdfast.protocol.runs import HistoryLimits
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.errors import BadInput

CHANGED = 0.4
"""The share of forks that change values."""
CHANGES: tuple[dict[str, Any], ...] = (
    {"changes": {MARK: "coffee"}},
    {"input": ["coffee"]},
    {"changes": {MARK: "coffee"}, "input": ["milk"]},
)


class _Tree:
    """The simulated server as `PastReader` sees it: histories, and the answers of their workflows to `past`."""

    def __init__(self, server: Server, ends: Mapping[str, Core]) -> None:
        self._runs, self._ends = server.runs, ends
        self.client = SimpleNamespace(data_converter=DATA_CONVERTER, get_workflow_handle=self._find)

    def _find(self, workflow: str, run_id: str | None = None) -> Any:
        found = [run for run in self._runs if run.id == workflow and run_id in (None, run.run_id)][-1]

        async def fetch_history() -> Any:
            return SimpleNamespace(events=found.recording.events)

        return SimpleNamespace(fetch_history=fetch_history)

    async def query(self, workflow: str, name: str, offset: int, type_: type, run_id: str) -> PastWaits:
        waits: PastWaits = unpack(self._ends[run_id].query(PAST, pack(offset)), PastWaits)
        return waits


class _Changed(NamedTuple):
    """A fork that has changed values."""

    fork: Fork
    order: Sequence[str]
    """What the run that it goes on from came to before."""


@dataclass(frozen=True)
class Going:
    """A fork or a retry: what its workflows meet, and what they may not do again."""

    name: str
    """What people read of it."""
    past: Past
    limits: HistoryLimits
    """Those of the run that it goes on from: whether a map has workflows of its own depends on them."""
    calls: frozenset[str]
    """The calls of activities that had ended before its place, as `Recording` names them."""
    answers: Counter[str]
    """How many questions were answered before it, by their addresses; none where others were asked later."""
    repeated: Counter[str] = field(default_factory=Counter)
    """How often something may be done again, by its address: in `finally` of blocks that go on in a retry, at their
    end."""
    undone: frozenset[str] = frozenset()
    """Addresses of the steps that were undone."""
    completed: frozenset[str] = frozenset()
    """Addresses of the blocks, and other steps, that were complete: those in a child that is met as a whole have no
    event in the new run."""
    changed: _Changed | None = None
    """Where values were changed, by it or by a run that it goes on from."""
    turn: int = 1
    """How many runs it goes on from, one after the other."""
    made: Mapping[str, Set[str]] = field(default_factory=dict)
    """The calls of those runs, by the ids of their histories."""

    def check(self, server: Server, events: Sequence[Event]) -> None:
        """Raise `Violation` if it has done again what was done before its place."""
        for run in server.runs:
            if again := self.calls & run.recording.scheduled.keys():
                raise Violation(f"{self.name} has called {sorted(again)} again in {run.id}")
        for run in server.runs:
            for name, request in run.recording.requests.items():
                made_in = request.get("made_in") or ""
                if (made_in or request.get("begun")) and name not in self.made.get(made_in, ()):
                    raise Violation(f"{self.name} says that {name} was made in {made_in!r}, which did not make it")
        met = Counter(event.address for event in events if event.type == "question.met")
        asked = {event.address for event in events if event.type == "question.asked"}
        if asked := {address for address in asked if met[address] < self.answers[address]}:
            raise Violation(f"{self.name} has asked again at {sorted(asked)}")


class EndedRun(NamedTuple):
    """A run from which another one goes on."""

    server: Server
    ends: Mapping[str, Core]
    """Its workflows as they have ended, by the ids of their histories."""
    events: Sequence[Event]
    """Of all its workflows."""
    blueprint: Blueprint
    limits: HistoryLimits
    going: Going | None
    """What it goes on from itself."""

    @property
    def changed(self) -> _Changed | None:
        """Where values were changed in it."""
        return None if self.going is None else self.going.changed

    @property
    def turn(self) -> int:
        """How many runs one that goes on from it has before it."""
        return 1 if self.going is None else self.going.turn + 1

    def list_made(self) -> dict[str, Set[str]]:
        """Return the calls of it, and of those that it goes on from, by the ids of their histories."""
        own: dict[str, Set[str]] = {run.run_id: run.recording.scheduled.keys() for run in self.server.runs}
        return own if self.going is None else {**self.going.made, **own}

    def make_reader(self) -> PastReader:
        """Return the product's own reader, over what a server has of the run; what is asked again must be the same."""
        tree = _Tree(self.server, self.ends)
        return PastReader(tree, RUN, self.events, self.blueprint, is_changed=True)  # type: ignore[arg-type]


def choose_fork(run: EndedRun, choices: Choices, *, may_change: bool) -> Going | None:
    """Return a fork of a run that is complete, at a place that `choices` choose; None if the product refuses it."""
    if any(event.type == "step.undone" for event in run.events):
        return None
    places = [place for place in _list_places(run.events) if _is_allowed(place, run.events)]
    if not places:
        return None
    place = describe_place(run.blueprint, places[choices.below(len(places))])
    changes = (
        CHANGES[choices.below(len(CHANGES))] if may_change and run.changed is None and choices.chance(CHANGED) else {}
    )
    try:
        return fork_at(run, Fork(**place.model_dump(), **changes))
    except BadInput:  # a deadline has ended the run before it came to the place where it begins itself
        return None


def fork_at(run: EndedRun, fork: Fork) -> Going:
    """Return the fork of a run at a place to which it came.

    Raises `Violation` if it does not keep what it should of earlier changes, and `BadInput` if the product refuses it.
    """
    # Its last task began before.
    ended = datetime.fromtimestamp(run.server.now / 1e9, UTC) + timedelta(microseconds=1)
    past = run_async(run.make_reader().read(Break(ended), place=fork))
    kept = run.changed if run.changed is not None and _is_kept(run.changed, fork) else None
    if [each.address for each in past.changed] != ([] if kept is None else [kept.fork.address]):
        raise Violation(f"the fork at {fork.address} keeps {past.changed}, not {kept and kept.fork}")
    arrived = min(event.time for event in run.events if event.address == fork.address)
    calls, answers = _list_calls(run.server, arrived), _count_answers(run.events, arrived)
    changed = _Changed(fork, [event.address for event in run.events]) if fork.changes or fork.input else kept
    name = f"the fork at {fork.address} with {fork.changes}{fork.input}"
    return Going(name, past, run.limits, calls, answers, changed=changed, turn=run.turn, made=run.list_made())


def _is_kept(changed: _Changed, place: Fork) -> bool:
    """Return whether what was changed at a place stays so in a fork: its place is there, behind it, or beside it."""
    if place.is_beside(changed.fork.address) or place.address not in changed.order:
        return True
    return changed.order.index(changed.fork.address) <= changed.order.index(place.address)


def choose_retry(run: EndedRun, *, is_mended: bool) -> Going | None:
    """Return the retry of a run that has failed or was cancelled; None if the product refuses it.

    `is_mended` says whether another blueprint takes the place of its own.
    """
    server, events = run.server, run.events
    root = server.current[RUN]
    failure = _read_failure(root)
    ended = datetime.fromtimestamp((root.cancelled_at or server.now) / 1e9, UTC)
    reader = run.make_reader()
    try:
        broken = run_async(reader.find_break(failure, ended))
        check_break(RUN, events, broken, failure, changed=is_mended)
        at = find_goal(events, broken.address, broken.at) if is_mended else None
        past = run_async(reader.read(broken, place=None if at is None else describe_place(run.blueprint, at)))
    except BadInput:
        return None
    last_steps = _list_last_steps(server, broken.at)
    calls = {
        name
        for each in server.runs
        for name in each.recording.completed
        if name.split()[0] not in broken.calls and each.recording.requests[name].get("address") not in last_steps
    }
    answers = _count_answers(events, min(broken.asked_from.values(), default=datetime.max.replace(tzinfo=UTC)))
    for address in last_steps:
        del answers[address]
    undone, completed = list_undone(events), list_completed(server, events)
    repeated = Counter(last_steps)
    if run.going is not None:
        undone, completed = undone | run.going.undone, completed | run.going.completed
        repeated += run.going.repeated
    return Going(
        "the retry",
        past,
        run.limits,
        frozenset(calls),
        answers,
        repeated,
        undone,
        completed,
        run.changed,
        run.turn,
        run.list_made(),
    )


def may_be_handled(address: str, blueprint: Blueprint) -> bool:
    """Return whether a step around a call goes on after failures.

    If the run was cancelled later, that the call had failed may be a part of what it did, and so of its retry.
    """
    return any(_goes_on(step) for step in list_steps(blueprint, Address(address)))


def _goes_on(step: AnyStep) -> bool:
    """Return whether a step may go on after a failure, its own or one inside."""
    match step:
        case Plan() | Parallel(on_branch_failure="ignore") | Map(map=MapBlock(on_item_error="continue" | "ask")):
            return True
    return step.on_error != "fail"


def list_undone(events: Sequence[Event]) -> frozenset[str]:
    """Return the addresses of the steps that are undone, or were told as not undone."""
    return frozenset(event.address for event in events if event.type == "step.undone")


def list_completed(server: Server, events: Sequence[Event]) -> frozenset[str]:
    """Return the addresses of the steps that are complete, and of the blocks whose steps are.

    Once the last steps of a block have been told that all is fine, their failure or a cancel undoes nothing.
    """
    steps = {event.address for event in events if event.type == "step.completed"}
    return frozenset(steps | {end.block for end in _list_ends(server) if end.is_fine})


def _list_last_steps(server: Server, broken_at: datetime) -> frozenset[str]:
    """Return the addresses of what blocks did last as they were ended by what had broken off the run."""
    at = _count_nanoseconds(broken_at)
    return frozenset(f"{end.block}{end.step}" for end in _list_ends(server) if not end.is_fine and end.begun >= at)


class _End(NamedTuple):
    """A call of the last steps of a block."""

    block: str
    """Its address."""
    step: str
    """The rest of the address of the call."""
    is_fine: bool
    """Whether it was told that the steps of the block have completed."""
    begun: int
    """Nanoseconds."""


def _list_ends(server: Server) -> Iterator[_End]:
    for run in server.runs:
        for name, request in run.recording.requests.items():
            block, last, step = request.get("address", "").rpartition(FINALLY)
            if last:
                yield _End(block, f"{last}{step}", request["input"] == FINE, run.recording.scheduled[name])


def _read_failure(root: Run) -> RunFailure | None:
    """Return the failure of a run; None if it was cancelled."""
    if root.closed == "cancelled":
        return None
    error = decode_failure(root.result)  # type: ignore[arg-type]
    assert isinstance(error, ApplicationError)
    return RunFailure.read(error.details, error.type)


def _list_places(events: Sequence[Event]) -> list[Address]:
    return sorted({Address(event.address) for event in events if isinstance(event.data, PLACES)})


def _is_allowed(place: Address, events: Sequence[Event]) -> bool:
    try:
        check_place(place, events)
    except BadInput:
        return False
    return True


def _count_nanoseconds(time: datetime) -> int:
    return (time - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) * 1_000  # exact


def _list_calls(server: Server, arrived: datetime) -> frozenset[str]:
    before = _count_nanoseconds(arrived)
    return frozenset(name for run in server.runs for name, at in run.recording.ended.items() if at < before)


def _count_answers(events: Sequence[Event], arrived: datetime) -> Counter[str]:
    asked = [event for event in events if event.type == "question.asked"]
    later = {event.address for event in asked if event.time >= arrived}
    answered = [event for event in events if _is_answered(event) and event.time < arrived]
    return Counter(str(event.address) for event in answered if event.address not in later)


def _is_answered(event: Event) -> bool:
    """Return whether a question was answered, in the run or in the one that it goes on from."""
    is_met = isinstance(event.data, QuestionMet) and event.data.status == "answered"
    return is_met or event.type == "question.answered"

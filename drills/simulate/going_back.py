"""Runs that go on from an ended one: forked at a step, an iteration, an item or a branch, or retried.

What the ended run did is read by the product's own reader, from histories as a client fetches them. Nothing that had
ended before the place, or before the failure, may be called or asked again, and the end must be the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, NamedTuple

from temporalio.exceptions import ApplicationError

from drills.simulate.blueprints import FINE
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
from holdfast.protocol.events import Event
from holdfast.protocol.past import PAST, Fork, Past, PastWaits
from holdfast.protocol.runs import Failure as RunFailure
from holdfast.protocol.runs import HistoryLimits
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.errors import BadInput


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
    last_steps: frozenset[str] = frozenset()
    """Addresses in `finally` of blocks that go on in a retry: what is done there is done again at their end."""
    undone: frozenset[str] = frozenset()
    """Addresses of the steps that were undone."""
    completed: frozenset[str] = frozenset()
    """Addresses of the blocks, and other steps, that were complete: those in a child that is met as a whole have no
    event in the new run."""

    def check(self, server: Server, events: Sequence[Event]) -> None:
        """Raise `Violation` if it has done again what was done before its place."""
        for run in server.runs:
            if again := self.calls & run.recording.scheduled.keys():
                raise Violation(f"{self.name} has called {sorted(again)} again in {run.id}")
        met = Counter(event.address for event in events if event.type == "question.met")
        asked = {event.address for event in events if event.type == "question.asked"}
        if asked := {address for address in asked if met[address] < self.answers[address]}:
            raise Violation(f"{self.name} has asked again at {sorted(asked)}")


def choose_fork(
    server: Server,
    ends: Mapping[str, Core],
    events: Sequence[Event],
    blueprint: Blueprint,
    limits: HistoryLimits,
    choices: Choices,
) -> Going | None:
    """Return a fork of a run that is complete; None if nothing of it can be forked.

    Args:
        server: With the run.
        ends: Its workflows as they have ended, by the ids of their histories.
        events: Of all its workflows.
        blueprint: Its blueprint.
        limits: Those of its histories.
        choices: Choose the place.
    """
    if any(event.type == "step.undone" for event in events):
        return None
    places = [place for place in _list_places(events) if _is_allowed(place, events)]
    if not places:
        return None
    at = places[choices.below(len(places))]
    fork = Fork(**describe_place(blueprint, at).model_dump())
    reader = PastReader(_Tree(server, ends), RUN, events, blueprint)  # type: ignore[arg-type]
    ended = datetime.fromtimestamp(server.now / 1e9, UTC) + timedelta(microseconds=1)  # its last task began before
    past = run_async(reader.read(Break(ended), place=fork))
    arrived = min(event.time for event in events if event.address == at)
    return Going(f"the fork at {at}", past, limits, _list_calls(server, arrived), _count_answers(events, arrived))


def choose_retry(
    server: Server,
    ends: Mapping[str, Core],
    events: Sequence[Event],
    blueprint: Blueprint,
    limits: HistoryLimits,
    *,
    is_mended: bool,
) -> Going | None:
    """Return the retry of a run that has failed or was cancelled; None if the product refuses it.

    Args:
        server: With the run.
        ends: Its workflows as they have ended, by the ids of their histories.
        events: Of all its workflows.
        blueprint: Its blueprint.
        limits: Those of its histories.
        is_mended: Whether another blueprint takes the place of its own.
    """
    root = server.current[RUN]
    failure = _read_failure(root)
    ended = datetime.fromtimestamp((root.cancelled_at or server.now) / 1e9, UTC)
    reader = PastReader(_Tree(server, ends), RUN, events, blueprint)  # type: ignore[arg-type]
    try:
        broken = run_async(reader.find_break(failure, ended))
        check_break(RUN, events, broken, failure, changed=is_mended)
        at = find_goal(events, broken.address, broken.at) if is_mended else None
        past = run_async(reader.read(broken, place=None if at is None else describe_place(blueprint, at)))
    except BadInput:
        return None
    last_steps = _list_last_steps(server, broken.at)
    calls = {
        name
        for run in server.runs
        for name in run.recording.completed
        if name.split()[0] not in broken.calls and run.recording.requests[name].get("address") not in last_steps
    }
    answers = _count_answers(events, min(broken.asked_from.values(), default=datetime.max.replace(tzinfo=UTC)))
    for address in last_steps:
        del answers[address]
    return Going(
        "the retry",
        past,
        limits,
        frozenset(calls),
        answers,
        last_steps,
        list_undone(events),
        list_completed(server, events),
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
    answered = [event for event in events if event.type == "question.answered" and event.time < arrived]
    return Counter(str(event.address) for event in answered if event.address not in later)

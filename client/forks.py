"""Begin a run from the middle of another one: at a step, an iteration, an item or a branch that it had come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from typing_extensions import TypedDict

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import misfit
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.kinds.needs import has_needs
from holdfast.blueprint.kinds.walk import lists_within, steps_within
from holdfast.client.answering import Answering
from holdfast.client.events import below
from holdfast.client.history import read_input, started_with
from holdfast.client.past_runs import Break, PastReader
from holdfast.client.retries import (
    Successor,
    check_not_undone,
    describe_past,
    digest_change,
    read_end,
    read_run_failure,
)
from holdfast.client.starting import new_run_id
from holdfast.client.tree import Tree
from holdfast.protocol.address import Address, name_at, parts
from holdfast.protocol.context import BadWrite, applied, with_value
from holdfast.protocol.events import BranchStarted, Event, ItemStarted, LoopIteration, StepSkipped, StepStarted
from holdfast.protocol.past import Fork, PastLink
from holdfast.protocol.runs import Definition
from holdfast.runtime.errors import Ambiguous, BadInput

OPAQUE = ("agent", "plan", "clarify", "tool", "turn", "level")
"""Types of segments inside which no fork begins: of these the whole is gone through again, or met."""


class ForkedJSON(TypedDict):
    """A run that begins in the middle of another one, as `fork --json` has it."""

    run: str
    past: str
    at: str


@dataclass(frozen=True)
class Forked:
    """A run that begins in the middle of another one."""

    run: str
    past: str
    """The other run."""
    at: Address
    """Where it begins."""

    def to_json(self) -> ForkedJSON:
        """Return the JSON object of `fork --json`."""
        return {"run": self.run, "past": self.past, "at": self.at}


@dataclass(frozen=True)
class ForkRequest:
    """What is asked for.

    Args:
        at: The place: an address, its end, or the name of a step that stands once in the run.
        changes: What is written there, by path: into the context, or into the run's `input`.
        blueprint: A changed blueprint; up to the place it must do the same.
        run: The id of the new run; None: a random one.
    """

    at: str
    changes: Mapping[str, JSON]
    blueprint: Blueprint | None = None
    run: str | None = None


class RunFork:
    """The fork of one run, to be started by `start`."""

    def __init__(self, tree: Tree, answering: Answering, run: str, request: ForkRequest, by: str | None) -> None:
        self._tree, self._answering, self._run, self._request, self._by = tree, answering, run, request, by

    @property
    def _client(self) -> Client:
        return self._tree.client

    async def start(self) -> Forked:
        """Start the new run; see `Runs.fork`."""
        _check_paths(self._request.changes)
        described = await describe_past(self._tree, self._run)
        definition: Definition = await started_with(self._client, described)
        events = await below(self._tree, self._run)
        at = find_place(events, self._request.at)
        check_place(definition.blueprint, at)
        fork = Fork(
            address=at,
            lines=list_lines(definition.blueprint, at),
            changes={path: value for path, value in self._request.changes.items() if not _is_of_input(path)},
            input=await self._change_input(self._request.blueprint or definition.blueprint, at),
        )
        place = next(number for number, event in enumerate(events) if event.address == at)
        check_not_undone(self._run, events, place, fork)
        reader = PastReader(self._tree, self._run, events)
        past = await reader.read(await self._find_break(reader, described), fork=fork)
        changed = self._request.blueprint
        new = self._request.run or new_run_id(changed or definition.blueprint)
        link = PastLink(run=self._run, by=self._by, digest=digest_change(changed), at=at)
        await Successor(self._client, self._answering, described).start(new, past, link, changed)
        return Forked(new, self._run, at)

    async def _change_input(self, blueprint: Blueprint, at: Address) -> list[JSON]:
        """Return the run's input as it is from the place on, in a list; [] where it stays. Raises `BadInput`."""
        changes = {path: value for path, value in self._request.changes.items() if _is_of_input(path)}
        if not changes:
            return []
        if any(kind == "step" for kind, _, _ in parts(at)[:-1]):
            raise BadInput(f"{at} stands in an import, which does not read the run's input: change the context there")
        names: JSONObject = {"input": (await read_input(self._client, self._run)).input}
        try:
            for path, value in changes.items():
                names = applied(names, "set", path, value)
        except BadWrite as error:
            raise BadInput(str(error)) from None
        if blueprint.inputs is not None and (wrong := misfit(blueprint.inputs, names["input"])):
            raise BadInput(f"the changed input does not fit: {wrong}")
        return [names["input"]]

    async def _find_break(self, reader: PastReader, described: WorkflowExecutionDescription) -> Break:
        """Return where the run broke off; for one that goes on, or is complete, its end so far."""
        if described.status in (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED):
            return Break(described.close_time or datetime.now(UTC))
        return await reader.find_break(
            await read_run_failure(self._client, self._run), await read_end(self._client, described)
        )


def _check_paths(changes: Mapping[str, JSON]) -> None:
    """Raise `BadInput` for a path that leads nowhere."""
    try:
        for path, value in changes.items():
            with_value({}, path, value)
    except BadWrite as error:
        raise BadInput(str(error)) from None


def _is_of_input(path: str) -> bool:
    """Return whether a path to change is of the run's input, and not of the context."""
    return path.partition(".")[0].partition("[")[0] == "input"


def find_place(events: Sequence[Event], at: str) -> Address:
    """Return the address that somebody names: whole, by its end, or by the name of a step.

    Raises `BadInput` for a place that the run did not come to, and `Ambiguous` for one that stands several times in it.
    """
    kinds = (StepStarted, StepSkipped, LoopIteration, ItemStarted, BranchStarted)
    places = list(dict.fromkeys(event.address for event in events if isinstance(event.data, kinds)))
    if at in places:
        return Address(at)
    named = [place for place in places if place.endswith(f";{at}") or name_at(place) == at]
    named = [place for place in named if parts(place)[-1][2] is None] or named
    if not named:
        hint = did_you_mean(at, [*places, *map(name_at, places)]) or "`holdfast show RUN --json` has the addresses"
        raise BadInput(f"the run did not come to {at!r}; {hint}")
    if len(named) > 1:
        raise Ambiguous(f"{at!r} stands several times in the run: {', '.join(named[:5])}")
    return Address(named[0])


def check_place(blueprint: Blueprint, at: Address) -> None:
    """Raise `BadInput` for a place that no run can begin at."""
    inside = [f"{kind} {name}" for kind, name, _ in parts(at)[:-1] if kind in OPAQUE]
    if inside:
        raise BadInput(f"a run cannot begin inside the {inside[0]}: begin at that step, or at one behind it")
    names = {name for _, name, _ in parts(at)}
    for steps in lists_within(blueprint.steps):
        if has_needs(steps) and any(step.name in names for step in steps):
            message = "stands in a list whose steps say what they need: such steps run beside each other"
            raise BadInput(f"{at} {message}, and have no place before or behind")


def list_lines(blueprint: Blueprint, at: Address) -> list[Address]:
    """Return the addresses of the maps around a place whose items run one after the other."""
    lines = {step.name: step.takes_turns for step in steps_within(blueprint.steps)}
    segments = at.split(";")
    found = []
    for depth, (kind, name, _) in enumerate(parts(at)):
        if kind == "map" and lines.get(name, False):
            whole = ":".join(segments[depth].split(":")[:2])
            found.append(Address(";".join([*segments[:depth], whole])))
    return found

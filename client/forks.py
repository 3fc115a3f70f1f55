"""Begin a run from the middle of another one: at a step, an iteration, an item or a branch that it had come to."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from typing_extensions import TypedDict

from holdfast.blueprint.defaults import complete_input
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Blueprint
from holdfast.client.answering import Answering
from holdfast.client.context_paths import check_context_paths
from holdfast.client.events import below
from holdfast.client.history import read_input, started_with
from holdfast.client.outcomes import await_outcome, has_ended, outcome_so_far, read_state
from holdfast.client.past_runs import Break, PastReader
from holdfast.client.places import check_place, describe_place, find_place
from holdfast.client.retries import (
    Successor,
    adapt,
    check_not_undone,
    describe_past,
    digest_change,
    read_end,
    read_run_failure,
)
from holdfast.client.starting import new_run_id
from holdfast.client.tree import Tree
from holdfast.protocol.address import Address, parts
from holdfast.protocol.context import BadWrite, apply_operation, with_value
from holdfast.protocol.past import Fork
from holdfast.protocol.past_link import PastLink
from holdfast.protocol.runs import Definition
from holdfast.runtime.errors import BadInput
from holdfast.runtime.workers import NoWorker


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
        changed = adapt(self._request.blueprint, definition.blueprint)
        events = await below(self._tree, self._run)
        at = find_place(events, self._request.at)
        check_place(at, events)
        written = {path: value for path, value in self._request.changes.items() if not _is_of_input(path)}
        await self._check_context_paths(written, changed or definition.blueprint, at)
        reader = PastReader(self._tree, self._run, events, definition.blueprint, is_changed=changed is not None)
        fork = Fork(
            **describe_place(definition.blueprint, at).model_dump(),
            changes=written,
        )
        changed_input = await self._change_input(changed or definition.blueprint, at, await reader.read_input(fork))
        fork = fork.model_copy(update={"input": changed_input})
        place = next(number for number, event in enumerate(events) if event.address == at)
        check_not_undone(self._run, events, place, fork)
        past = await reader.read(await self._find_break(reader, described), place=fork)
        new = self._request.run or new_run_id(changed or definition.blueprint)
        link = PastLink(run=self._run, by=self._by, digest=digest_change(changed), at=at)
        await Successor(self._client, self._answering, described).start(new, past, link, changed)
        return Forked(new, self._run, at)

    async def _check_context_paths(self, changes: Mapping[str, JSON], blueprint: Blueprint, at: Address) -> None:
        """Raise `BadInput` for a path of the context that neither the run nor its blueprint knows."""
        if not changes or any(kind == "import" for kind, _, _ in parts(at)):  # which has a context of its own
            return
        context = blueprint.context
        with suppress(NoWorker):
            outcome = (
                await await_outcome(self._tree, self._run)
                if await has_ended(self._tree, self._run)
                else await outcome_so_far(self._tree, await read_state(self._tree, self._answering, self._run))
            )
            context = {**context, **(outcome.context or {})}
        check_context_paths(changes, blueprint, context)

    async def _change_input(self, blueprint: Blueprint, at: Address, before: list[JSON]) -> list[JSON]:
        """Return the run's input as it is from the place on, in a list; [] where it stays. Raises `BadInput`.

        `before` is the input that a fork before has given it, in a list.
        """
        changes = {path: value for path, value in self._request.changes.items() if _is_of_input(path)}
        if not changes:
            return []
        if any(kind == "import" for kind, _, _ in parts(at)[:-1]):
            raise BadInput(f"{at} stands in an import, which does not read the run's input: change the context there")
        begun_with = (await read_input(self._client, self._run)).input
        own, _ = complete_input(blueprint.inputs, [begun_with, *before][-1])
        names: JSONObject = {"input": own}
        try:
            for path, value in changes.items():
                names = apply_operation(names, "set", path, value)
        except BadWrite as error:
            raise BadInput(str(error)) from None
        changed, wrong = complete_input(blueprint.inputs, names["input"])
        if wrong:
            raise BadInput(f"the changed input does not fit: {wrong}")
        return [changed]

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

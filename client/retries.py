"""Go on with a run that has failed: a new run meets what it did, and calls from where it broke off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowFailureError
from typing_extensions import TypedDict

from holdfast.blueprint.kinds import Blueprint
from holdfast.client.answering import Answering
from holdfast.client.events import below
from holdfast.client.history import read_input, started_with
from holdfast.client.past_runs import Break, PastReader
from holdfast.client.permissions import read_access
from holdfast.client.places import describe_place, find_goal
from holdfast.client.starting import check_start, choose_limits, start_pipeline
from holdfast.client.successors import find_retry
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.access import AccessPolicy
from holdfast.protocol.children import Failure
from holdfast.protocol.events import Event, StepFailed, StepStarted, StepUndone
from holdfast.protocol.names import PIPELINE_WORKFLOW
from holdfast.protocol.past import Past, ResumePoint
from holdfast.protocol.past_link import PastLink
from holdfast.protocol.runs import HistoryLimits
from holdfast.protocol.values import make_digest
from holdfast.runtime.errors import BadInput, RunExists
from holdfast.runtime.run_failures import read_failure

ENDED = (
    WorkflowExecutionStatus.FAILED,
    WorkflowExecutionStatus.CANCELED,
    WorkflowExecutionStatus.TERMINATED,
    WorkflowExecutionStatus.TIMED_OUT,
)
"""The statuses of a run that a retry goes on from."""


class RetriedJSON(TypedDict):
    """A run that goes on from another one, as `retry --json` has it."""

    run: str
    past: str
    at: str | None
    new: bool


@dataclass(frozen=True)
class Retried:
    """A run that goes on from another one."""

    run: str
    past: str
    """The run that it goes on from."""
    at: str = ""
    """The address of what had failed; empty where the other run was ended from outside."""
    is_new: bool = True
    """False if the run had been retried before: this is the run of then."""

    def to_json(self) -> RetriedJSON:
        """Return the JSON object of `retry --json`."""
        return {"run": self.run, "past": self.past, "at": self.at or None, "new": self.is_new}


@dataclass(frozen=True)
class Successor:
    """Starts a run that goes on from another one."""

    client: Client
    answering: Answering
    described: WorkflowExecutionDescription
    """The other run."""

    async def start(self, new: str, past: Past, link: PastLink, changed: Blueprint | None) -> None:
        """Start it with the input, the starter and the access of the other run. Raises `BadInput` or `RunExists`.

        Args:
            new: Its id.
            past: What the other run did.
            link: What it says of the other run.
            changed: The blueprint in place of the old one, if there is another.
        """
        definition = await started_with(self.client, self.described)
        blueprint = changed or definition.blueprint
        state = await read_input(self.client, self.described.id)
        check_start(blueprint, state.input, new, self.answering.limits.input)
        policy = AccessPolicy.read(blueprint)
        own = {"run": new, "blueprint": blueprint, "access": policy, "guarded": bool(self.answering.keys)}
        own["history_limits"] = choose_limits(self.client, definition.history_limits)
        own["past"] = past.model_copy(update={"by": link.by})
        access = (await read_access(self.described)).model_copy(update={"blueprint": blueprint.name, "written": policy})
        begun = state.model_copy(update={"paused": False, "kept": []})
        queue = self.described.task_queue
        await start_pipeline(self.client, queue, definition.model_copy(update=own), begun, access, link)


async def describe_past(tree: Tree, run: str) -> WorkflowExecutionDescription:
    """Return the description of a run that another may go on from. Raises `BadInput` and `UnknownRun`."""
    try:
        described = await tree.describe(run)
    except UnknownRun:
        if tree.archive is not None and await tree.archive.end(run) is not None:
            message = f"Temporal has forgotten {run}; the record has its story, but not its results"
            raise BadInput(f"{message}: it can only be started anew") from None
        raise
    if described.workflow_type != PIPELINE_WORKFLOW:
        raise BadInput(f"{run} is a workflow of its author's own: only from runs of a blueprint another can go on")
    return described


async def read_run_failure(client: Client, run: str) -> Failure | None:
    """Return the failure of a run that has ended; None if it was ended from outside, or is complete."""
    try:
        await client.get_workflow_handle(run).result()
    except WorkflowFailureError as error:
        status, failure = read_failure(error)
        return failure if status == "failed" else None
    return None


class RunRetry:
    """The retry of one run, to be started by `start`."""

    def __init__(self, tree: Tree, answering: Answering, run: str, blueprint: Blueprint | None, by: str | None) -> None:
        self._tree, self._answering, self._run, self._changed, self._by = tree, answering, run, blueprint, by

    @property
    def _client(self) -> Client:
        return self._tree.client

    async def start(self) -> Retried:
        """Start the new run, or find the one that was started before; see `Runs.retry`."""
        described = await self._describe()
        new, before = await find_retry(self._tree, self._run)
        if before is not None:
            return self._find_same(new, before)
        events = await below(self._tree, self._run)
        definition = await started_with(self._client, described)
        reader = PastReader(self._tree, self._run, events, definition.blueprint, is_changed=self._changed is not None)
        broken = await self._find_break(reader, described, events, definition.history_limits)
        past = await reader.read(broken, place=self._find_place(definition.blueprint, events, broken))
        link = PastLink(run=self._run, by=self._by, digest=digest_change(self._changed))
        successor = Successor(self._client, self._answering, described)
        try:
            await successor.start(new, past, link, adapt(self._changed, definition.blueprint))
        except RunExists:  # somebody else was quicker
            new, before = await find_retry(self._tree, self._run)
            if before is None:
                raise
            return self._find_same(new, before)
        return Retried(new, self._run, broken.address)

    def _find_place(self, blueprint: Blueprint, events: Sequence[Event], broken: Break) -> ResumePoint | None:
        """Return up to where another blueprint must do the same; None without one, and if that is not known."""
        at = None if self._changed is None else find_goal(events, broken.address, broken.at)
        return None if at is None else describe_place(blueprint, at)

    def _find_same(self, new: str, before: PastLink) -> Retried:
        if before.digest != digest_change(self._changed):
            message = f"{self._run} was retried as {new}, with another blueprint: go on with that one"
            raise BadInput(message)
        return Retried(new, self._run, is_new=False)

    async def _describe(self) -> WorkflowExecutionDescription:
        """Return the description of a run that has ended before its output. Raises `BadInput` and `UnknownRun`."""
        described = await describe_past(self._tree, self._run)
        if described.status not in ENDED:
            word = "is complete" if described.status == WorkflowExecutionStatus.COMPLETED else "has not ended"
            raise BadInput(f"{self._run} {word}: only a run that has failed, or was ended, can be retried")
        return described

    async def _find_break(
        self,
        reader: PastReader,
        described: WorkflowExecutionDescription,
        events: Sequence[Event],
        limits: HistoryLimits,
    ) -> Break:
        """Return where the run broke off. Raises `BadInput` if it would only fail there again."""
        failure = await read_run_failure(self._client, self._run)
        broken = await reader.find_break(failure, await read_end(self._client, described))
        may_send_more = choose_limits(self._client, limits) != limits  # since the run began, values are stored outside
        is_mended = failure is not None and failure.type == "too_large" and may_send_more
        check_break(self._run, events, broken, failure, changed=self._changed is not None or is_mended)
        return broken


def check_break(run: str, events: Sequence[Event], broken: Break, failure: Failure | None, *, changed: bool) -> None:
    """Raise `BadInput` if no other run can go on from a run that broke off there.

    Args:
        run: The run.
        events: Its events, in order.
        broken: Where it broke off.
        failure: Its failure; None for a run that was ended from outside.
        changed: Whether another blueprint takes the place of the old one, or larger values can be sent.
    """
    check_not_undone(run, events, _find_failed_step(events, broken))
    if failure is not None and not broken.repeats and not changed:
        message = f"{run} failed on what it already had ({failure.type}: {failure.message})"
        way_on = "Mend the blueprint, and retry with it: --blueprint FILE"
        if failure.type == "too_large":
            way_on += "; or store large values outside ([payloads] external), and retry"
        raise BadInput(f"{message}; a retry would fail the same way. {way_on}")


def _find_failed_step(events: Sequence[Event], broken: Break) -> int:
    """Return the index of the event by which a run broke off: the failure of its step, or else what came later."""
    at = [n for n, event in enumerate(events) if isinstance(event.data, StepFailed) and event.address == broken.address]
    later = (number for number, event in enumerate(events) if event.time >= broken.at)
    return at[-1] if at else next(later, len(events))


def check_not_undone(run: str, events: Sequence[Event], place: int, fork: ResumePoint | None = None) -> None:
    """Raise `BadInput` if a step that another run would meet as done was undone later, which it would not meet.

    Args:
        run: The run.
        events: Its events, in order.
        place: The index of the first event that is not met.
        fork: The place of a fork, in whose other branches and items everything is met.
    """
    begun = {event.address for event in events[:place] if isinstance(event.data, StepStarted)}
    for event in events[place:]:
        if not isinstance(event.data, StepUndone):
            continue
        if event.address in begun or (fork is not None and fork.is_beside(event.address)):
            message = f"{run} has undone later what it did at {event.address}: another run would take it for done"
            way_out = "start it anew" if fork is None else "begin before it, or behind the end of its block"
            raise BadInput(f"{message}; {way_out}")


def adapt(changed: Blueprint | None, own: Blueprint) -> Blueprint | None:
    """Return a changed blueprint under the name of the run's own, which stands in every address, and with its access.

    What the new run meets was written for those who might see the other one.
    """
    return None if changed is None else changed.model_copy(update={"name": own.name, "access": own.access})


def digest_change(blueprint: Blueprint | None) -> str:
    """Return the digest of the blueprint that took the place of the old one; empty where none did."""
    return "" if blueprint is None else make_digest(blueprint.model_dump(mode="json", exclude_defaults=True))


async def read_end(client: Client, described: WorkflowExecutionDescription) -> datetime:
    """Return when the end of a run was requested, or when it ended."""
    async for event in client.get_workflow_handle(described.id, run_id=described.run_id).fetch_history_events():
        if event.HasField("workflow_execution_cancel_requested_event_attributes"):
            return event.event_time.ToDatetime(UTC)
    return described.close_time or datetime.now(UTC)

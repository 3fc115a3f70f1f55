"""The state and the outcome of a run, and its context so far. `Runs` and its facets use them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from temporalio.client import (
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.service import RPCError

from holdfast.blueprint.json_values import JSONObject
from holdfast.client.answering import Answering
from holdfast.client.states import STATUSES, Outcome, RunState, as_ended, read_status
from holdfast.client.tree import CLOSED, Tree, UnknownRun
from holdfast.protocol.address import parts
from holdfast.protocol.names import CONTEXT, PIPELINE_WORKFLOW, PLAN_OUTPUT
from holdfast.protocol.past_link import PAST_MEMO, PastLink
from holdfast.protocol.views import RunResult
from holdfast.runtime.errors import SILENT_STATUSES
from holdfast.runtime.workers import NoWorker

if TYPE_CHECKING:
    from holdfast.client.archive import ArchivedEnd

Result = TypeVar("Result")


async def read_state(tree: Tree, answering: Answering, run: str) -> RunState:
    """Return the status and the views of a run, and remember its questions; see `Runs.state`."""
    described = await describe_retained(tree, run)
    past = None if described is None else await _read_past(described)
    if (end := await read_archived_end(tree, run, described)) is not None:
        return RunState(run, end.status, end.blueprint, [] if end.view is None else [end.view], past)
    if described is None:
        raise UnknownRun(run)
    views = await tree.views(run, described)
    closed = STATUSES.get(described.status) if described.status else None
    if closed is not None:
        views = [as_ended(view, closed) for view in views]
    cancelled = closed is None and is_cancel_requested(described)
    state = RunState(run, closed or read_status(views), views[0].blueprint, views, past, cancelled)
    answering.memory.keep(state.questions)
    return state


def is_cancel_requested(described: WorkflowExecutionDescription) -> bool:
    """Return whether a workflow was asked to end, by what the server says of it."""
    return described.raw_description.workflow_extended_info.cancel_requested


async def _read_past(described: WorkflowExecutionDescription) -> str | None:
    link: PastLink | None = await described.memo_value(PAST_MEMO, None, type_hint=PastLink)
    return None if link is None else link.run


async def describe_retained(tree: Tree, run: str) -> WorkflowExecutionDescription | None:
    """Return the server's description of a run; None if Temporal does not have it, or no longer."""
    try:
        return await tree.describe(run)
    except UnknownRun:
        return None


async def archived_end(tree: Tree, run: str) -> ArchivedEnd | None:
    """Return the end of a run from the archive; None if it is at work, is not there, or Temporal has more of it."""
    return None if tree.archive is None else await read_archived_end(tree, run, await describe_retained(tree, run))


async def read_archived_end(tree: Tree, run: str, described: WorkflowExecutionDescription | None) -> ArchivedEnd | None:
    """See `archived_end`; `described` is what the server says of the run. A run that is at work opens no archive."""
    if tree.archive is None or (described is not None and described.status not in STATUSES):
        return None
    end = await tree.archive.end(run)
    return None if end is None or (end.view is None and described is not None) else end


async def has_ended(tree: Tree, run: str) -> bool:
    """Return whether a run has ended. Raises `UnknownRun`."""
    described = await describe_retained(tree, run)
    if described is None and await read_archived_end(tree, run, None) is None:
        raise UnknownRun(run)
    return described is None or described.status in STATUSES


async def final_outcome(tree: Tree, described: WorkflowExecutionDescription) -> Outcome:
    """Wait for the end of the run that is described, and return its outcome; a later one of its id is another run."""
    run = described.id
    if described.workflow_type != PIPELINE_WORKFLOW:
        return await _of_another(tree, run, described.run_id)
    try:
        handle = tree.client.get_workflow_handle(run, run_id=described.run_id, result_type=RunResult)
        result = await _wait_for_result(tree, handle)
    except WorkflowFailureError as error:
        return await _of_failure(tree, run, error)
    return Outcome(run, "completed", result.output, result.context)


async def _wait_for_result(tree: Tree, handle: WorkflowHandle[Any, Result]) -> Result:
    """Wait for the end of a run through each connection that is lost meanwhile, as long as the server then answers.

    The SDK tries a call again only in its first ten seconds, and this one takes as long as the run.
    """
    while True:
        try:
            return await handle.result()
        except RPCError as error:
            if error.status not in SILENT_STATUSES:
                raise
            await tree.describe(handle.id)  # it raises if the server is away


async def _of_another(tree: Tree, run: str, temporal_run: str) -> Outcome:
    """Return the outcome of an author's own workflow."""
    handle: WorkflowHandle[Any, Any] = tree.client.get_workflow_handle(run, run_id=temporal_run)
    try:
        return Outcome(run, "completed", await _wait_for_result(tree, handle))
    except WorkflowFailureError as error:
        from holdfast.runtime.run_failures import read_failure  # noqa: PLC0415  it loads the language

        status, failure = read_failure(error)
        return Outcome(run, status, failure.output, failure.context, failure)


async def _of_failure(tree: Tree, run: str, error: WorkflowFailureError) -> Outcome:
    from holdfast.runtime.run_failures import read_failure  # noqa: PLC0415  it loads the language

    status, failure = read_failure(error)
    context = await _last_context(tree, run) if failure.context is None else failure.context
    output = await _left_output(tree, run) if status == "cancelled" else failure.output
    return Outcome(run, status, output, context, failure)


async def _last_context(tree: Tree, run: str) -> JSONObject | None:
    """Query the context of a run that was ended from outside; None if it cannot be had."""
    from holdfast.client.events import below, last_at_work  # noqa: PLC0415  it loads all events

    # The failure of a workflow that was terminated or timed out is written by the server: it has no context.
    try:
        return await _context(tree, last_at_work(run, await below(tree, run, 1)))
    except (NoWorker, UnknownRun):
        return None


async def _left_output(tree: Tree, run: str) -> JSONObject | None:
    """Return what the plan gave that was at work when the run was cancelled."""
    from holdfast.client.events import below, plan_at_work  # noqa: PLC0415  it loads all events

    try:
        for workflow in plan_at_work(await below(tree, run, 1)):
            output = await tree.query(workflow, PLAN_OUTPUT, None, object)
            if isinstance(output, dict):
                return output
    except (NoWorker, UnknownRun):
        return None
    return None


async def await_outcome(tree: Tree, run: str) -> Outcome:
    """Wait for the end of a run, or find it in the archive, and return its outcome. Raises `UnknownRun`."""
    described = await describe_retained(tree, run)
    is_complete = described is not None and described.status is WorkflowExecutionStatus.COMPLETED
    if described is not None and is_complete and tree.archive is not None and not tree.archive.is_open:
        return await final_outcome(tree, described)  # its result is in its history: no worker is asked
    if (end := await read_archived_end(tree, run, described)) is not None:
        return Outcome(end.run, end.status, end.output, end.context, end.error)
    if described is None:
        raise UnknownRun(run)
    return await final_outcome(tree, described)


async def outcome_so_far(tree: Tree, state: RunState) -> Outcome:
    """Return the outcome of a run, before its end without an output; with its context, wherever that is."""
    outcome = Outcome(state.run, state.status) if state.status not in CLOSED else await await_outcome(tree, state.run)
    if outcome.context is not None:
        return outcome
    # Of a run that is only in the archive there may be no view left to ask.
    return replace(outcome, context=await current_context(tree, state) if state.views else {})


async def current_context(tree: Tree, state: RunState) -> JSONObject:
    """Return the context of a run; if it waits in a loop, that of the iteration with the first open question."""
    address = next((question.address for question in state.questions), "")
    holders = [view for view in state.views if f"{address};".startswith(_context_prefix(view.address))]
    return await _context(tree, max(holders, key=lambda view: len(view.address), default=state.views[0]).workflow)


async def _context(tree: Tree, workflow: str) -> JSONObject:
    context: JSONObject = await tree.query(workflow, CONTEXT, None, dict[str, Any])
    return context


def _context_prefix(address: str) -> str:
    """Return the prefix of the addresses that share the context of a workflow, or one that no address has."""
    # Only loops and runs hold a context; the workflow of an agent or a plan has none of its own.
    kind = parts(address)[-1][0]
    return f"{address}:" if kind == "loop" else f"{address};" if kind == "pipeline" else "\0"

"""The `workflow` kind: start a workflow of somebody's own as a child, or send one a signal."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio import workflow
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    TerminatedError,
    TimeoutError,
    WorkflowAlreadyStartedError,
)

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import OwnWorkflow
from holdfast.protocol.answers import Refusal
from holdfast.protocol.events import WorkflowSignalled, WorkflowStarted
from holdfast.workflows.door import read_value
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame, OwnStart

LONGEST_ID = 1000
"""Bytes. The server takes no more, and the workflow task would fail for ever."""


async def run_workflow(step: OwnWorkflow, frame: Frame) -> JSON:
    value = frame.read_input(step)
    seen = frame.after(value)
    block = step.workflow
    id_ = None if block.id is None else _id(step, seen)
    args = [seen.render(template) for template in block.args] if block.args is not None else [seen.render(block.input)]
    if block.signal is not None and id_ is not None:
        await _send(block.signal, id_, args, frame)
        return value
    name = block.name or ""
    start = OwnStart(
        name,
        args,
        id_,
        frame.address,
        block.task_queue,
        step.timeout,
        step.retry,
        frame.summary(f"{step.name}: {name}"),
    )
    return await _await_result(start, frame)


def _id(step: OwnWorkflow, frame: Frame) -> str:
    id_ = write_text(frame.render(step.workflow.id))
    if not id_.strip() or len(id_.encode()) > LONGEST_ID:
        reason = f"has {len(id_.encode())} bytes; at most {LONGEST_ID:,}" if id_.strip() else "is empty"
        raise failure("bad_workflow_id", f"the id of the workflow of {step.name} {reason}", frame.address)
    return id_


async def _send(signal: str, id_: str, args: Sequence[JSON], frame: Frame) -> None:
    try:
        if not frame.host.was_done(frame.address):
            await workflow.get_external_workflow_handle(id_).signal(signal, args=args)
    except ApplicationError as error:
        message = f"the signal {signal} was not delivered: no workflow with the id {id_!r} is running ({error.message})"
        raise failure("workflow_not_found", message, frame.address) from None
    frame.host.mark_done(frame.address)
    frame.note(WorkflowSignalled(workflow=id_, signal=signal))


async def _await_result(start: OwnStart, frame: Frame) -> JSON:
    """Start the workflow, wait for its end and return its result, which is measured like that of a tool."""
    try:
        raw = await frame.host.run_own(start, lambda id_: frame.note(WorkflowStarted(workflow=id_, name=start.name)))
        return read_value(raw, frame.host.identity.size_limits.result)
    except WorkflowAlreadyStartedError as error:
        message = f"a workflow with the id {error.workflow_id!r} is already running; give each its own id"
        raise failure("workflow_already_started", message, frame.address) from None
    except ChildWorkflowError as error:
        raise _make_failure(error, frame) from error
    except Refusal as refusal:
        message = f"the result of the workflow {start.name} cannot be used: {refusal.message}"
        raise failure("bad_result", message, frame.address) from None


def _make_failure(error: ChildWorkflowError, frame: Frame) -> ApplicationError:
    """Return the failure of the step. The error's type is kept; its details are not ours to read.

    A workflow that somebody else cancelled has failed here: only a cancellation of the run ends the run.
    """
    cause: BaseException = error
    while isinstance(cause, FailureError) and cause.cause is not None:
        cause = cause.cause
    place = f"the workflow {error.workflow_type} ({error.workflow_id})"
    match cause:
        case ApplicationError():
            return failure(cause.type or "workflow_failed", f"{place} failed: {cause.message}", frame.address)
        case CancelledError():
            return failure("workflow_cancelled", f"{place} was cancelled", frame.address)
        case TerminatedError():
            return failure("workflow_terminated", f"{place} was terminated", frame.address)
        case TimeoutError():
            return failure("timeout", f"{place} timed out", frame.address)
    return failure("workflow_failed", f"{place} failed: {cause}", frame.address)

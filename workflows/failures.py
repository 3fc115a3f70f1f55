"""Failures of a run: typed, with the step's address; found again in whatever Temporal wrapped around them."""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    TimeoutError,
)

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.fields import ERROR_FIELDS
from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.address import Address
from holdfast.protocol.children import Failure
from holdfast.protocol.tracebacks import find_raise, keep_called

HANDLED = (ApplicationError, ActivityError, ChildWorkflowError, ExpressionError)
"""Exceptions of a failing step; any other is a bug, and Temporal retries the workflow task."""


LONGEST_TRACEBACK = 2_000
"""Characters of a traceback that an event keeps, the last ones: a page of events ends at 12 KiB."""


class StepFailure(ApplicationError):
    """A failure with the context where it happened.

    Neither is a detail of the error: each `raise … from` would write it into the history once more. Only the failure of
    a whole workflow carries them.
    """

    def __init__(self, failure: Failure, reached: JSONObject | None) -> None:
        super().__init__(failure.message, type=failure.type, non_retryable=True)
        self.typed, self.reached = failure, reached


class AgentFailure(StepFailure):
    """The failure of an agent that works in the workflow of its run."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure, None)


class ToolErrorFailure(ApplicationError):
    """An error of a tool after which the author wants no further call: it ends the agent, or the step."""

    def __init__(self, cause: Failure) -> None:
        super().__init__(cause.message, cause, type=cause.type, non_retryable=True)


class Skip(Exception):
    """Ends the step at work as skipped; no failure."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def describe_failure(cause: Failure) -> JSONObject:
    """Return a failure as `steps.NAME.error` and `error` have it: its fields are checked when a blueprint is loaded."""
    return {key: getattr(cause, key) for key in ERROR_FIELDS}


def make_child_error(message: str, id_: str, cause: BaseException) -> ChildWorkflowError:
    """Return the error of a child, as Temporal gives it."""
    error = ChildWorkflowError(
        message,
        namespace=workflow.info().namespace,
        workflow_id=id_,
        run_id="",
        workflow_type="",
        initiated_event_id=0,
        started_event_id=0,
        retry_state=None,
    )
    error.__cause__ = cause
    return error


def read_traceback(error: BaseException) -> str | None:
    """Return the end of the traceback in the code that an activity called; None for an error that is of none."""
    return keep_called(_read_trace(error))[-LONGEST_TRACEBACK:] or None


def _read_trace(error: BaseException) -> str:
    """Return the traceback of what an activity or an author's child workflow called; "" if it has none."""
    trace, cause = "", None
    if isinstance(error, ActivityError | ChildWorkflowError | AgentFailure | ToolErrorFailure):
        cause = error.cause
    while isinstance(cause, FailureError):
        # The innermost is that of the tool; those around it are of our own code, which gave the failure its type.
        trace = (cause.failure.stack_trace if cause.failure is not None else "") or trace
        cause = cause.cause
    return trace


def find_context(error: BaseException | None, address: Address) -> JSONObject | None:
    """Return the context where a step failed, in this workflow or in a loop or map below it."""
    match error:
        case None:
            return None
        case StepFailure():
            return error.reached
        case _:
            return find_failure(error, address).reached


def failure(type_: str, message: str, address: Address, **more: Any) -> ApplicationError:
    """Return a failure of the run at an address; nothing retries it."""
    return make_error(Failure(type=type_, message=message, address=address, **more))


def make_error(cause: Failure) -> ApplicationError:
    return ApplicationError(cause.message, cause, type=cause.type, non_retryable=True)


def drop_child_details(error: BaseException) -> BaseException:
    """Return an error without the details of the children that failed below it.

    The failure of the workflow says the same. With both, a context of 600 kB in a loop of a loop made a failure of more
    than the 2 MiB that a server takes, and the run hung.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ChildWorkflowError) and cause.failure is not None:
            cause.failure.cause.application_failure_info.ClearField("details")
        cause = cause.__cause__
    return error


def find_failure(error: BaseException, address: Address) -> Failure:
    """Return the innermost typed failure of an error, else one made of its own type and message.

    It names where the author's code raised it.
    """
    found = _find_typed(error, address)
    if found.raised_at is not None or (place := find_raise(_read_trace(error))) is None:
        return found
    return found.model_copy(update={"raised_at": place})


def _find_typed(error: BaseException, address: Address) -> Failure:
    match error:
        case ExpressionError():
            return Failure(type="expression_error", message=str(error), address=address)
        case StepFailure():
            return error.typed
        case ApplicationError() if typed := Failure.read(error.details, error.type):
            return typed
        case ApplicationError():
            return Failure(type=error.type or "failed", message=error.message, address=address)
        case CancelledError(details=[Failure() as typed, *_]):
            return typed
        case TimeoutError():
            return Failure(type="timeout", message=f"timed out ({error.message})", address=address)
        case FailureError() if error.cause is not None:
            return _find_typed(error.cause, address)
        case _:
            return Failure(type="failed", message=str(error), address=address)

"""Why a run did not complete: the failure in what Temporal raises. It loads the language, which a failure may hold."""

from __future__ import annotations

from typing import Literal

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    TerminatedError,
    TimeoutError,
)

from holdfast.protocol.children import Failure
from holdfast.protocol.tracebacks import find_raise


def read_failure(error: WorkflowFailureError) -> tuple[Literal["cancelled", "failed"], Failure]:
    """Return the status of a run that did not complete, `cancelled` or `failed`, and its failure."""
    cause: BaseException | None = error.cause
    if isinstance(cause, CancelledError):
        return "cancelled", Failure(type="cancelled", message="the run was cancelled")
    return "failed", _read_typed(cause) or _read_untyped(cause)


def _read_typed(cause: BaseException | None) -> Failure | None:
    while isinstance(cause, ApplicationError | ActivityError | ChildWorkflowError):
        if isinstance(cause, ApplicationError) and (failure := Failure.read(cause.details, cause.type)):
            return failure
        cause = cause.cause
    return None


def _read_untyped(cause: BaseException | None) -> Failure:
    match cause:
        case ApplicationError():
            trace = "" if cause.failure is None else cause.failure.stack_trace
            return Failure(type=cause.type or "failed", message=cause.message, raised_at=find_raise(trace))
        case TerminatedError():
            return Failure(type="terminated", message=f"the run was terminated: {cause}")
        case TimeoutError():
            return Failure(type="timeout", message=f"the run timed out: {cause}")
        case _:
            return Failure(type="failed", message=str(cause))

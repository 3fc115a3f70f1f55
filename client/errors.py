"""What can go wrong between a client and a run, each with its way out."""

from __future__ import annotations

from typing import Any

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    TerminatedError,
    TimeoutError,
)

from protocol.runs import Failure


class RunExists(ValueError):
    """A run of this id was started before."""

    def __init__(self, run: str) -> None:
        super().__init__(f"run {run!r} exists; choose another --id, or go on with it: holdfast attach {run}")


class BadInput(ValueError):
    """The input does not fit what the blueprint wants."""


class Ambiguous(LookupError):
    """A prefix that several things begin with."""


class NothingSent(RuntimeError):
    """No worker answers, and the answer could not be left for it either."""


def failure_from(error: WorkflowFailureError) -> tuple[str, Failure]:
    """The run's status, and why it ended: the typed failure where there is one."""
    cause: BaseException | None = error.cause
    if isinstance(cause, CancelledError):
        return "cancelled", Failure(type="cancelled", message="the run was cancelled")
    return "failed", _typed(cause) or _untyped(cause)


def _typed(cause: BaseException | None) -> Failure | None:
    while isinstance(cause, ApplicationError | ActivityError | ChildWorkflowError):
        if isinstance(cause, ApplicationError) and (found := _details(cause)):
            return found
        cause = cause.cause
    return None


def _details(error: ApplicationError) -> Failure | None:
    first: Any = error.details[0] if error.details else None
    known = isinstance(first, dict) and {"type", "message"} <= first.keys() <= Failure.model_fields.keys()
    return Failure.model_validate(first) if known else None


def _untyped(cause: BaseException | None) -> Failure:
    match cause:
        case ApplicationError():
            return Failure(type=cause.type or "failed", message=cause.message)
        case TerminatedError():
            return Failure(type="terminated", message=f"the run was terminated: {cause}")
        case TimeoutError():
            return Failure(type="timeout", message=f"the run timed out: {cause}")
        case _:
            return Failure(type="failed", message=str(cause))

"""Errors that the client raises for a run, each with its way out, and the reading of a run's failure."""

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

from holdfast.protocol.runs import Failure
from holdfast.protocol.tracebacks import find_raise


class ServerUnreachable(Exception):
    """The server or its worker cannot be reached; the message names address or place, reason and way out."""


class RunExists(ValueError):
    """A run id that is taken."""

    def __init__(self, run: str) -> None:
        super().__init__(f"run {run!r} already exists; choose another --id, or continue it with: holdfast attach {run}")


class BadInput(ValueError):
    """Input that cannot be used: it does not fit the blueprint, or there is nothing that it applies to."""


class BadCursor(BadInput):
    """A place in a list that the list does not have: of other filters, of another person, or cut off."""

    def __init__(self) -> None:
        super().__init__(
            "not a cursor of this list: use the one of the previous page, with the same filters, or leave it out"
        )


class Ambiguous(LookupError):
    """A name or prefix that several things match."""


class RecordError(Exception):
    """The record cannot be used; the message says where it is and what to do."""


class NoRecord(RecordError):
    """No record runs here."""


class NothingSent(RuntimeError):
    """An answer or command that was not sent: no worker answers, and it cannot go as a signal."""


def failure_from(error: WorkflowFailureError) -> tuple[Literal["cancelled", "failed"], Failure]:
    """Return the status of a run that did not complete, `cancelled` or `failed`, and its failure."""
    cause: BaseException | None = error.cause
    if isinstance(cause, CancelledError):
        return "cancelled", Failure(type="cancelled", message="the run was cancelled")
    return "failed", _typed(cause) or _untyped(cause)


def _typed(cause: BaseException | None) -> Failure | None:
    while isinstance(cause, ApplicationError | ActivityError | ChildWorkflowError):
        if isinstance(cause, ApplicationError) and (failure := Failure.read(cause.details, cause.type)):
            return failure
        cause = cause.cause
    return None


def _untyped(cause: BaseException | None) -> Failure:
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

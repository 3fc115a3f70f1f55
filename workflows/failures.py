"""Failures of a run: typed, with the step's address, and read back from whatever Temporal wrapped around them."""

from __future__ import annotations

from typing import Any

from temporalio.exceptions import ActivityError, ApplicationError, ChildWorkflowError, FailureError, TimeoutError

from blueprint.expressions import ExpressionError
from protocol.address import Address
from protocol.runs import Failure

HANDLED = (ApplicationError, ActivityError, ChildWorkflowError, ExpressionError)
"""What a failing step may raise; anything else is a bug, and the workflow task is tried again."""


def failure(type_: str, message: str, address: Address, **more: Any) -> ApplicationError:
    """A failure of the run at an address; nothing retries it."""
    return raised(Failure(type=type_, message=message, address=address, **more))


def raised(what: Failure) -> ApplicationError:
    return ApplicationError(what.message, what, type=what.type, non_retryable=True)


def failure_of(error: BaseException, address: Address) -> Failure:
    """What failed: the innermost typed failure, else what the error itself tells."""
    match error:
        case ExpressionError():
            return Failure(type="expression_error", message=str(error), address=address)
        case ApplicationError() if found := _typed(error):
            return found
        case ApplicationError():
            return Failure(type=error.type or "failed", message=error.message, address=address)
        case TimeoutError():
            return Failure(type="timeout", message=f"no end in time ({error.message})", address=address)
        case FailureError() if error.cause is not None:
            return failure_of(error.cause, address)
        case _:
            return Failure(type="failed", message=str(error), address=address)


def _typed(error: ApplicationError) -> Failure | None:
    """Our own details: a `Failure`, or its JSON where the error crossed a workflow's border."""
    match error.details:
        case [Failure() as what, *_]:
            return what
        case [{"type": str(), "message": str(), **_rest} as json, *_]:
            return Failure.model_validate(json)
        case _:
            return None

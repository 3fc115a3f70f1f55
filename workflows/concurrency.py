"""Tasks that run at once, and cancellation, for all workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    FailureError,
    is_cancelled_exception,
)

from holdfast.protocol.tool_errors import OUTCOME_UNKNOWN
from holdfast.workflows.rest import is_evicted

Result = TypeVar("Result")
_CLEANING_UP: ContextVar[bool] = ContextVar("cleaning_up", default=False)
"""Whether the task at work does what is done after a cancellation."""


class CancelledWithResult(asyncio.CancelledError):
    """A cancellation of whatever waited for a child, with the result that the child gave all the same."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


class CancelledWithFailure(asyncio.CancelledError):
    """A cancellation of whatever waited for a child that had failed by itself; its failure says what it did."""

    def __init__(self, error: ChildWorkflowError) -> None:
        super().__init__()
        self.error = error


class CancelledInCall(asyncio.CancelledError):
    """A cancellation in the middle of a call, with the result that the call gave all the same.

    Without one the call may have acted or not.
    """

    def __init__(self, result: object = None) -> None:
        super().__init__()
        self.result = result


def is_cancelled(error: BaseException) -> bool:
    """Return whether the error is a cancellation, however deep; cancellation is never handled as a failure."""
    if isinstance(error, asyncio.CancelledError):
        return True
    return isinstance(error, FailureError) and is_cancelled_exception(error)


def is_outcome_unknown(error: BaseException) -> bool:
    """Return whether the error is that of a call of which nobody knows whether it took effect."""
    cause = error.cause if isinstance(error, ActivityError) else None
    return isinstance(cause, ApplicationError) and cause.type == OUTCOME_UNKNOWN


async def run_together(works: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Return the results in the order of the works; the first failure cancels the others, and is raised as itself.

    A bare `TaskGroup` raises `ExceptionGroup`, which is no Temporal failure: the run would hang.
    """
    tasks = [asyncio.create_task(work) for work in works]
    if not tasks:
        return []
    try:
        await workflow.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    except asyncio.CancelledError:
        await end(tasks)
        raise
    failed = next((task for task in tasks if task.done() and not task.cancelled() and task.exception()), None)
    if failed is not None:
        await end(tasks)
        raise failed.exception() or AssertionError("a failed task has an exception")
    return [task.result() for task in tasks]


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks that are not done, and wait for their end."""
    pending = [task for task in tasks if not task.done()]
    for task in pending:
        task.cancel()
    await outlast(pending)


async def outlast(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Wait until all of these are done, even if the waiting itself is cancelled again."""
    while pending := [task for task in tasks if not task.done()]:
        try:
            await workflow.wait(pending)
        except asyncio.CancelledError:
            if is_evicted():
                raise
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieved, or asyncio would report it as never retrieved


async def await_end(task: asyncio.Task[Result]) -> Result:
    """Return a task's result; if the wait is cancelled, cancel the task and wait for its end.

    A result that comes all the same does not undo the cancellation, as it would if the task were awaited directly. It
    raises `CancelledInCall`, unless the task has failed by itself, and it is known that it did.
    """
    try:
        await workflow.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await outlast([task])
        error = None if task.cancelled() else task.exception()
        if error is not None and not is_cancelled(error) and not is_outcome_unknown(error):
            raise
        raise CancelledInCall(None if task.cancelled() or error is not None else task.result()) from None
    return task.result()


async def clean_up(work: Coroutine[Any, Any, Result]) -> Result:
    """Do what is done at an end in any case, also after a cancellation; one that comes meanwhile does not stop it.

    Raises what the work raises; and `asyncio.CancelledError` at its end if the waiting was cancelled.
    """
    token = _CLEANING_UP.set(True)
    try:
        task = asyncio.create_task(work)
    finally:
        _CLEANING_UP.reset(token)
    await outlast([task])
    result = task.result()
    raise_if_cancelled()
    return result


def raise_if_cancelled() -> None:
    """Raise `asyncio.CancelledError` if this task was cancelled while it waited for an end that nothing stops."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def is_cleaning_up() -> bool:
    """Return whether what is at work is done in any case."""
    return _CLEANING_UP.get()


def was_cancelled() -> bool:
    """Return whether this workflow was asked to end, but for what is done in any case."""
    return workflow.cancellation_reason() is not None and not is_cleaning_up()


async def end_if_cancelled() -> None:
    """Raise `asyncio.CancelledError` if this workflow was asked to end.

    The request itself is delivered once, to whatever is awaited then. It may still be on its way in this activation
    (a workflow that never waits for anything would continue as new and lose it), or may have come at the moment at
    which what was awaited had its result.
    """
    if was_cancelled():
        await asyncio.sleep(0)  # let a request on its way arrive first, not in the middle of the cleaning up
        raise asyncio.CancelledError


async def deliver(request: Awaitable[None]) -> bool:
    """Await a request to a workflow by id, and return whether it arrived; a workflow that is not found has ended."""
    try:
        await request
    except ApplicationError:
        workflow.logger.debug("a workflow had ended before a request reached it")
        return False
    return True

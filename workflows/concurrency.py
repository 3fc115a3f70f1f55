"""Tasks that run at once, and cancellation, for all workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception

Result = TypeVar("Result")


class CancelledWithResult(asyncio.CancelledError):
    """A cancellation of whatever waited for a child, with the result that the child gave all the same."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


def is_cancelled(error: BaseException) -> bool:
    """Return whether the error is a cancellation, however deep; cancellation is never handled as a failure."""
    if isinstance(error, asyncio.CancelledError):
        return True
    return isinstance(error, FailureError) and is_cancelled_exception(error)


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
        with suppress(asyncio.CancelledError):
            await workflow.wait(pending)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieved, or asyncio would report it as never retrieved


async def await_end(task: asyncio.Task[Result]) -> Result:
    """Return a task's result; if the wait is cancelled, cancel the task and wait for its end.

    A result that comes all the same does not undo the cancellation, as it would if the task were awaited directly.
    """
    try:
        await workflow.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await outlast([task])
        raise
    return task.result()


def was_cancelled() -> bool:
    """Return whether this workflow was asked to end."""
    return workflow.cancellation_reason() is not None


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

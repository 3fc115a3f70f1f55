"""Several things at once, and telling a cancellation from a failure, wherever an exception may come from."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

Result = TypeVar("Result")


def is_cancelled(error: BaseException) -> bool:
    """Whether the error is a cancellation, however deep; cancellation is never handled as a failure."""
    if isinstance(error, asyncio.CancelledError):
        return True
    return isinstance(error, FailureError) and is_cancelled_exception(error)


async def together(works: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """The results in the order of the works. The first failure cancels the others, and is raised as itself."""
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
    """Cancel what is left, and let it come to its end."""
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await workflow.wait(left)

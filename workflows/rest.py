"""Wait until a workflow is at rest: after the job that it works on, or after all that came with its task.

What depends on the whole task waits for it: an end of the workflow, a deadline, which an answer of the same task comes
before, and what is decided by the time or the length of the history, as a query may bring jobs before their task.

The runner (`activation`) says when. Under another one, as a team may have for workflows of its own, nothing waits; our
own classes refuse it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from temporalio import workflow

REST = "holdfast_await_rest"
"""The runner's function that takes a future to set, and whether after the whole task."""

CHANGE = "holdfast_await_change"
"""The runner's function that takes a future to set, and a function that says whether what a workflow shows has changed.
"""

EVICTED = "holdfast_is_evicted"
"""The runner's function that says whether the workflow is being removed from the cache."""


def check_runner() -> None:
    """Fail the workflow task where one of our own classes runs under another runner than ours.

    Its history would depend on how the SDK groups the jobs of a task, and might not replay.
    """
    if REST not in workflow.extern_functions():
        raise RuntimeError(
            "Holdfast's workflows need its runner: use holdfast.Plugin, or give the worker "
            "unsandboxed_workflow_runner=OWN_RUNNER of holdfast.workflows"
        )


async def await_rest(*, whole_task: bool) -> None:
    """Wait until nothing more happens by the job at hand, or with `whole_task` by any that came with it.

    Not for a condition: after a refused update the SDK looks at none.
    """
    announce = workflow.extern_functions().get(REST)
    if announce is not None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        announce(future, whole_task)
        await future


async def await_change(has_changed: Callable[[], bool]) -> None:
    """Wait until something has changed and nothing more happens by the job at hand.

    It takes 2 kB less for each workflow than to wait for a condition, and is asked once a job.
    """
    announce = workflow.extern_functions().get(CHANGE)
    if announce is None:
        await workflow.wait_condition(has_changed)
        return
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    announce(future, has_changed)
    await future


def is_evicted() -> bool:
    """Return whether the workflow is being removed from the cache: what it waits for will not come, and all must end.

    The SDK tries again and again, with an error in the worker's log, while one task of the workflow still waits.
    """
    check = workflow.extern_functions().get(EVICTED)
    return check is not None and check()


async def outlast_task() -> None:
    """Wait until all that came with the task is applied, for an end that is decided: a cancel does not undo it."""
    while True:
        try:
            await await_rest(whole_task=True)
        except asyncio.CancelledError:  # at an eviction, too; then nothing waits a second time
            continue
        return

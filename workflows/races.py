"""A race of branches: it ends once enough have completed with a result; the others are cancelled. For `parallel` steps.

Jobs come one at a time (`activation`), so who comes first follows from the order of events, live and in replay. Of
branches that one job completes, the one that is declared first comes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from temporalio import workflow

from holdfast.protocol.events import BranchSuperseded
from holdfast.workflows.concurrency import end, raise_if_cancelled
from holdfast.workflows.failures import HANDLED
from holdfast.workflows.frame import Frame
from holdfast.workflows.rest import await_rest

Result = TypeVar("Result")


async def run_race(
    frame: Frame,
    works: Mapping[str, Coroutine[Any, Any, Result]],
    counts: Callable[[Result], bool],
    is_over: Callable[[Mapping[str, Result]], bool],
) -> tuple[dict[str, Result], dict[str, Result]]:
    """Return the results of the winners, the first one first, and those of the branches that ended without.

    The first failure of a branch cancels the others, and is raised as itself.

    Args:
        frame: The frame of the step whose branches they are.
        works: The branches by name, in declared order.
        counts: Whether the branch that gave a result is a winner.
        is_over: Whether the winners so far are enough.
    """
    tasks = {name: asyncio.create_task(work) for name, work in works.items()}
    winners: dict[str, Result] = {}
    others: dict[str, Result] = {}
    try:
        while running := {name: task for name, task in tasks.items() if name not in winners and name not in others}:
            await workflow.wait(running.values(), return_when=asyncio.FIRST_COMPLETED)
            await await_rest(whole_task=False)  # a job may complete several
            ended = [name for name, task in running.items() if task.done()]
            for name in frame.host.earlier.sort_branches(frame.address, ended):
                result = tasks[name].result()
                (winners if counts(result) else others)[name] = result
                if name in winners and is_over(winners):
                    await _supersede({name: task for name, task in tasks.items() if not task.done()}, frame)
                    return winners, others
    except (asyncio.CancelledError, *HANDLED):
        await end(tasks.values())
        raise
    return winners, others


async def _supersede(losers: Mapping[str, asyncio.Task[Result]], frame: Frame) -> None:
    """Cancel the branches that have lost, and wait for their end."""
    frames = {name: frame.at("branch", name) for name in losers}
    with frame.host.superseding.supersede([each.address for each in frames.values()]):
        await end(losers.values())
    for name, each in frames.items():
        each.note(BranchSuperseded(branch=name))
    raise_if_cancelled()  # meanwhile: `end` waits on

"""What starts once something else has ended, several at once.

They are the steps of a list with `needs`, the units of a plan, and the items of a plan's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, Protocol

from temporalio import workflow

from holdfast.blueprint.expressions.fields import DEPENDENCY_FAILED, DEPENDENCY_SKIPPED
from holdfast.workflows.concurrency import end
from holdfast.workflows.failures import HANDLED


class Dependents(Protocol):
    """A list of which each part starts once what it needs has ended."""

    async def prepare(self) -> None:
        """Do what is to be done while no part is under way."""

    def start(self, running: dict[str, asyncio.Task[Any]]) -> Iterator[tuple[str, Coroutine[Any, Any, Any]]]:
        """Skip what cannot run, and yield name and work of each part that starts now, in written order.

        Args:
            running: The parts that are under way, with those that were yielded.
        """

    async def collect(self, running: dict[str, asyncio.Task[Any]]) -> None:
        """Take those out that have ended, and what they gave. Raises what they raise."""


async def run_dependents(dependents: Dependents) -> None:
    """Run a list until nothing of it can start any more; a failure is raised once all that is under way has ended."""
    running: dict[str, asyncio.Task[Any]] = {}
    try:
        while True:
            if not running:
                await dependents.prepare()
            for name, work in dependents.start(running):
                running[name] = asyncio.create_task(work)
            if not running:
                return
            await workflow.wait(running.values(), return_when=asyncio.FIRST_COMPLETED)
            await dependents.collect(running)
    except (asyncio.CancelledError, *HANDLED):
        await end(running.values())
        raise


def find_skip_reason(statuses: Iterable[str]) -> str | None:
    """Return why something does not run, by how what it needs has ended; None: it runs.

    One that failed is enough to skip it, and one that completed to run it.

    >>> find_skip_reason([]), find_skip_reason(["skipped", "completed"])
    (None, None)
    >>> find_skip_reason(["skipped"]), find_skip_reason(["completed", "failed"])
    ('dependency_skipped', 'dependency_failed')
    """
    different = set(statuses)
    if different & {"failed", "cancelled"}:
        return DEPENDENCY_FAILED
    return DEPENDENCY_SKIPPED if different == {"skipped"} else None

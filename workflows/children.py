"""Child workflows of a run, for `BaseWorkflow`: started, signalled and cancelled by workflow id.

A cancellation that the SDK sends to a child is addressed to the first run of its chain, and is lost once the child has
continued as new: Temporal records it as delivered, and the child never hears of it. By id alone it arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from holdfast.workflows.concurrency import outlast

Handle = workflow.ChildWorkflowHandle[Any, Any]


class Child:
    """A child workflow, from its start to its end."""

    def __init__(self, id_: str, start: Callable[[], Awaitable[Handle]]) -> None:
        self.id = id_
        self._start = start
        self._started = False
        self._cancel_requested = False

    async def result(self, begun: Callable[[], Awaitable[None]]) -> Any:
        """Start the child and return its result; `begun` is awaited once it has started.

        A cancellation is passed on, and the child's end is waited for all the same.
        """
        work = asyncio.create_task(self._work(begun))
        try:
            await workflow.wait([work])
        except asyncio.CancelledError:
            self._cancel_requested = True
            requests = [asyncio.create_task(self._cancel())] if self._started else []
            await outlast([work, *requests])
            raise
        return work.result()

    async def signal(self, name: str) -> None:
        """Send a signal without arguments; one to a child that has just ended is dropped."""
        await _send_if_running(workflow.get_external_workflow_handle(self.id).signal(name))

    async def _work(self, begun: Callable[[], Awaitable[None]]) -> Any:
        handle = await self._start()
        self._started = True
        if self._cancel_requested:  # during the start, when there was nothing to cancel yet
            await self._cancel()
        await begun()
        return await handle

    async def _cancel(self) -> None:
        await _send_if_running(workflow.get_external_workflow_handle(self.id).cancel())


async def _send_if_running(request: Awaitable[None]) -> None:
    """Await a request to a workflow by id; if the workflow is not found, it has ended."""
    try:
        await request
    except ApplicationError:
        workflow.logger.debug("a child had ended before a request reached it")

"""Asking the workflows of a run, by query, which costs no history, and changing one, by update."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import (
    Client,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from protocol.answers import REFUSALS, Refusal
from protocol.questions import Question
from protocol.runs import VIEW, WorkflowView

Result = TypeVar("Result")

QUERY_LIMIT = timedelta(seconds=3)
ASKED_AGAIN = {RPCStatusCode.UNAVAILABLE: 3, RPCStatusCode.DEADLINE_EXCEEDED: 1}
"""How often a query is asked again: the server drops those that wait for a workflow task that is lost."""
PAUSE_SECONDS = 0.1
UPDATE_LIMIT = timedelta(seconds=10)
UPDATE_ATTEMPTS = 5
_PASSING = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.UNAVAILABLE)
_UNREACHED = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED, RPCStatusCode.FAILED_PRECONDITION)


class NoWorker(RuntimeError):
    """No worker answers for the task queue, so nothing can be asked of a run."""

    def __init__(self, task_queue: str) -> None:
        super().__init__(
            f"no worker answers on task queue {task_queue!r}; start one with `holdfast worker`. The run waits for it."
        )


class Unanswered(NoWorker):
    """A worker is there, but cannot answer for this workflow: its workflow task fails."""

    def __init__(self, workflow: str, reason: str) -> None:
        RuntimeError.__init__(self, f"{workflow} cannot be asked: {reason}; see its workflow task in Temporal's UI")


class UnknownRun(LookupError):
    """No run of that name, or none that still runs; `tried`: something may have reached it before it ended."""

    def __init__(self, run: str, hint: str = "`holdfast runs` lists them", *, tried: bool = False) -> None:
        super().__init__(f"no run {run!r}; {hint}")
        self.tried = tried


class Tree:
    """Asks the workflows of runs, and says plainly if nobody is there to answer."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self.client, self.task_queue = client, task_queue

    async def worker_polls(self, workflow: str) -> bool:
        """Whether the server knows of a worker on the workflow's task queue. Raises `UnknownRun`."""
        try:
            queue = (await self.client.get_workflow_handle(workflow).describe()).task_queue
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise UnknownRun(workflow) from None
            raise
        request = DescribeTaskQueueRequest(
            namespace=self.client.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        return bool((await self.client.workflow_service.describe_task_queue(request)).pollers)

    async def query(
        self, workflow: str, name: str, argument: Any, type_: type[Result], run: str | None = None
    ) -> Result:
        """One query, asked again if the server drops it or a worker loses it. Raises `NoWorker` or `UnknownRun`."""
        left = dict(ASKED_AGAIN)
        while True:
            try:
                return await self._query(workflow, name, argument, type_, run)
            except RPCError as error:
                if left.get(error.status, 0) == 0:
                    if error.status in _UNREACHED:
                        raise NoWorker(self.task_queue) from None
                    raise
                left[error.status] -= 1
                await asyncio.sleep(PAUSE_SECONDS)

    async def _query(self, workflow: str, name: str, argument: Any, type_: type[Result], run: str | None) -> Result:
        handle = self.client.get_workflow_handle(workflow, run_id=run)
        try:
            result: Result = await handle.query(name, argument, result_type=type_, rpc_timeout=QUERY_LIMIT)
            return result
        except WorkflowQueryFailedError as error:
            raise Unanswered(workflow, str(error)) from None
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise UnknownRun(workflow) from None
            raise

    async def update(self, workflow: str, name: str, argument: Any, type_: type[Result], *, id: str) -> Result:
        """One update, sent again under the same id as long as it may not have arrived.

        Raises `Refusal`, `NoWorker`, or `UnknownRun` if the workflow has ended.
        """
        handle = self.client.get_workflow_handle(workflow)
        failed: WorkflowUpdateFailedError | RPCError | None = None
        for attempt in range(UPDATE_ATTEMPTS):
            try:
                result: Result = await handle.execute_update(
                    name, argument, id=id, result_type=type_, rpc_timeout=UPDATE_LIMIT
                )
                return result
            except WorkflowUpdateFailedError as error:
                if (refusal := _refusal(error)) is not None:
                    raise refusal from None
                failed = error  # the server gave the update up, as its workflow task was lost: it may be sent again
            except WorkflowUpdateRPCTimeoutOrCancelledError:
                continue  # it may have been applied: the same id gets the same result
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    raise UnknownRun(workflow, tried=attempt > 0) from None
                if error.status not in _PASSING:
                    raise
                failed = error if error.status == RPCStatusCode.UNAVAILABLE else failed
        raise failed or NoWorker(self.task_queue)

    async def view(self, workflow: str, run: str | None = None) -> WorkflowView:
        """One workflow's view, with all of its open questions."""
        view = await self.query(workflow, VIEW, 0, WorkflowView, run)
        questions = list(view.questions)
        more = view.more_questions
        while more > 0:
            page = await self.query(workflow, VIEW, len(questions), WorkflowView, view.temporal_run)
            questions += page.questions
            more = page.more_questions if page.questions else 0
        return view.model_copy(update={"questions": questions, "more_questions": 0})

    async def views(self, run: str) -> list[WorkflowView]:
        """The run's own view first, then those of every workflow under way below it."""
        own = await self.view(run)
        below = await asyncio.gather(*(self._below(child) for child in own.children))
        return [own, *(view for views in below for view in views)]

    async def _below(self, child: str) -> list[WorkflowView]:
        try:
            return await self.views(child)
        except UnknownRun:  # ended, and its retention too, since its parent was asked
            return []


def _refusal(error: WorkflowUpdateFailedError) -> Refusal | None:
    """What the workflow said, if it was the workflow that refused."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type in REFUSALS:
        return Refusal(cause.type, cause.message)
    return None


def questions_of(views: Sequence[WorkflowView]) -> list[Question]:
    """The open questions of all of them, by address."""
    found = [question for view in views if view.status not in CLOSED for question in view.questions]
    return sorted(found, key=lambda question: (question.address, question.id))


CLOSED = ("completed", "failed", "cancelled")


def rests(views: Sequence[WorkflowView]) -> bool:
    """Whether nothing of the run can move but by an answer."""
    return all(not _moves(view) for view in views)


def _moves(view: WorkflowView) -> bool:
    return view.moving or view.status in CLOSED or not (view.questions or view.children)

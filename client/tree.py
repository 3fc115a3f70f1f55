"""Query and update the workflows of a run, with retries. `Runs`, `Answering` and the event readers stand on it.

Queries add nothing to a workflow's history; updates do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import TypeVar

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.workers import NoWorker, TaskFailing, Unanswered, last_poll, why_silent
from holdfast.protocol.answers import REFUSALS, Refusal
from holdfast.protocol.questions import Question
from holdfast.protocol.runs import VIEW, WorkflowView

Result = TypeVar("Result")

QUERY_LIMIT = timedelta(seconds=3)
ASKED_AGAIN = {RPCStatusCode.UNAVAILABLE: 3, RPCStatusCode.DEADLINE_EXCEEDED: 1}
"""How often a query is retried: the server drops queries that wait for a workflow task that is lost."""
PAUSE_SECONDS = 0.1
UPDATE_LIMIT = timedelta(seconds=10)
UPDATE_ATTEMPTS = 5
_PASSING = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.UNAVAILABLE)
_UNREACHED = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED, RPCStatusCode.FAILED_PRECONDITION)


class UnknownRun(LookupError):
    """No run of that id, or none that still runs. `tried`: an earlier attempt may have reached it before it ended."""

    def __init__(self, run: str, hint: str = "`holdfast runs` lists them", *, tried: bool = False) -> None:
        super().__init__(f"no run {run!r}; {hint}")
        self.tried = tried


class Tree:
    """Access to the workflows of a run and its children; errors say whether a worker is missing."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self.client, self.task_queue = client, task_queue

    async def worker_polls(self, workflow: str) -> bool:
        """Return whether a worker has polled the workflow's task queue lately. Raises `UnknownRun`."""
        return await last_poll(self.client, (await self.describe(workflow)).task_queue) is not None

    async def describe(self, workflow: str) -> WorkflowExecutionDescription:
        """Return the server's description of a workflow, which needs no worker. Raises `UnknownRun`."""
        try:
            return await self.client.get_workflow_handle(workflow).describe()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise UnknownRun(workflow) from None
            raise

    async def silence(self, workflow: str) -> NoWorker:
        """Return the error for a workflow that does not answer: no worker, a busy one, or a failing task."""
        try:
            described = await self.describe(workflow)
        except UnknownRun:
            return NoWorker(self.task_queue)
        return await why_silent(self.client, workflow, described)

    async def query(
        self, workflow: str, name: str, argument: object, type_: type[Result], run: str | None = None
    ) -> Result:
        """Query a workflow, again if the server drops the query or a worker loses it.

        Args:
            workflow: The workflow's id.
            name: The query.
            argument: Its argument.
            type_: The type that the result is parsed as.
            run: Temporal's run id; by default the current run of the workflow.

        Raises:
            NoWorker: No worker answered in time.
            UnknownRun: There is no such workflow.
        """
        retries = dict(ASKED_AGAIN)
        while True:
            try:
                return await self._query(workflow, name, argument, type_, run)
            except RPCError as error:
                if retries.get(error.status, 0) == 0:
                    if error.status in _UNREACHED:
                        raise await self.silence(workflow) from None
                    raise
                retries[error.status] -= 1
                await asyncio.sleep(PAUSE_SECONDS)

    async def _query(self, workflow: str, name: str, argument: object, type_: type[Result], run: str | None) -> Result:
        handle = self.client.get_workflow_handle(workflow, run_id=run)
        try:
            result: Result = await handle.query(name, argument, result_type=type_, rpc_timeout=QUERY_LIMIT)
            return result
        except WorkflowQueryFailedError as error:
            silence = await self.silence(workflow)
            raise (silence if isinstance(silence, TaskFailing) else Unanswered(workflow, str(error))) from None
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise UnknownRun(workflow) from None
            raise

    async def update(self, workflow: str, name: str, argument: object, type_: type[Result], *, id: str) -> Result:
        """Send an update and return its result; retry under the same id while it may not have arrived.

        Args:
            workflow: The workflow's id.
            name: The update.
            argument: Its argument.
            type_: The type that the result is parsed as.
            id: The update id: Temporal applies an update once per id, so that a retry is safe.

        Raises:
            Refusal: The workflow refused it.
            NoWorker: No worker answered in time; it may still be applied.
            UnknownRun: The workflow has ended; `tried` tells whether an attempt may have reached it before.
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
                if (refusal := refusal_in(error)) is not None:
                    raise refusal from None
                failed = error  # the server gave up the update, as its workflow task was lost: sending again is safe
            except WorkflowUpdateRPCTimeoutOrCancelledError:
                continue  # perhaps it was applied: the same id gets the same result
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    raise UnknownRun(workflow, tried=attempt > 0) from None
                if error.status not in _PASSING:
                    raise
                failed = error if error.status == RPCStatusCode.UNAVAILABLE else failed
        raise failed or await self.silence(workflow)

    async def view(self, workflow: str, run: str | None = None) -> WorkflowView:
        """Return the view of one workflow, with every page of its open questions. Raises as `query` does."""
        view = await self.query(workflow, VIEW, 0, WorkflowView, run)
        questions = list(view.questions)
        more = view.more_questions
        while more > 0:
            page = await self.query(workflow, VIEW, len(questions), WorkflowView, view.temporal_run)
            questions += page.questions
            more = page.more_questions if page.questions else 0
        return view.model_copy(update={"questions": questions, "more_questions": 0})

    async def views(self, run: str) -> list[WorkflowView]:
        """Return the views of a run and of its children under way, the run's own first. Raises as `query` does."""
        own = await self.view(run)
        below = await asyncio.gather(*(self._below(child) for child in own.children))
        return [own, *(view for views in below for view in views)]

    async def _below(self, child: str) -> list[WorkflowView]:
        try:
            return await self.views(child)
        except UnknownRun:  # it has ended since its parent was queried, and is retained no longer
            return []


def refusal_in(error: WorkflowUpdateFailedError) -> Refusal | None:
    """Return the refusal that the workflow raised; None if the update failed otherwise."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type in REFUSALS:
        return Refusal(cause.type, cause.message)
    return None


def questions_of(views: Sequence[WorkflowView]) -> list[Question]:
    """Return the open questions of these workflows, sorted by address."""
    questions = [question for view in views if view.status not in CLOSED for question in view.questions]
    return sorted(questions, key=lambda question: (question.address, question.id))


CLOSED = ("completed", "failed", "cancelled")


def rests(views: Sequence[WorkflowView]) -> bool:
    """Return whether only an answer can make the run go on."""
    return all(not _moves(view) for view in views)


def _moves(view: WorkflowView) -> bool:
    return view.moving or view.status in CLOSED or not (view.questions or view.children)

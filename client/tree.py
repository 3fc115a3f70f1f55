"""Query and update the workflows of a run, with retries. `Runs`, its facets and the event readers stand on it.

Queries add nothing to a workflow's history; updates do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import QueryRejectCondition
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.query_cache import QueryCache, QueryKey
from holdfast.client.query_turns import take_turn
from holdfast.protocol.address import in_order, read_run
from holdfast.protocol.answers import REFUSALS, Refusal
from holdfast.protocol.names import VIEW
from holdfast.protocol.questions import Question
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.converters import read_query_failure_text
from holdfast.runtime.errors import ServerUnreachable, is_missing
from holdfast.runtime.workers import (
    NoWorker,
    TaskFailing,
    Unanswered,
    Unconfirmed,
    WorkflowNotReadable,
    explain_silence,
    find_last_poll,
)

if TYPE_CHECKING:
    from holdfast.client.archive import Archive

Result = TypeVar("Result")
CLOSED = ("completed", "failed", "cancelled")
"""The statuses of a run, a workflow or a step that has ended."""

# Without a worker the server fails a query only after 29 s. A busy worker may exceed this limit, too: see `workers.py`.
QUERY_LIMIT = timedelta(seconds=3)
ASKED_AGAIN = {RPCStatusCode.UNAVAILABLE: 3, RPCStatusCode.RESOURCE_EXHAUSTED: 3, RPCStatusCode.DEADLINE_EXCEEDED: 1}
"""How often a query is retried: the server drops queries that wait for a workflow task that is lost, and refuses more
than ten at a time to one workflow."""
PAUSE_SECONDS = 0.1
STEP_BACK = 10
"""Questions by which a page begins earlier than it did, where some were skipped."""
UPDATE_LIMIT = timedelta(seconds=10)
TRY_LIMIT = timedelta(seconds=3)
"""Of an update that is sent once, while somebody waits."""
UPDATE_ATTEMPTS = 5
NOT_OPEN = QueryRejectCondition.NOT_OPEN
_PASSING = (
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.FAILED_PRECONDITION,  # its task has failed or lost its worker three times: perhaps not once more
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.UNAVAILABLE,
)
_UNREACHED = (
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.FAILED_PRECONDITION,
    RPCStatusCode.RESOURCE_EXHAUSTED,
)


class UnknownRun(LookupError):
    """No run of that id, or none that still runs."""

    def __init__(self, run: str) -> None:
        super().__init__(f"no run {run!r}; `holdfast runs` lists them")
        self.run = run


class Tree:
    """Access to the workflows of a run and its children; errors say whether a worker is missing.

    Args:
        client: A connected client.
        task_queue: The queue that the workers poll.
        archive: Where runs are read from that Temporal has deleted.
        cache: The results of queries, where several share them.
    """

    def __init__(
        self, client: Client, task_queue: str, archive: Archive | None = None, cache: QueryCache | None = None
    ) -> None:
        self.client, self.task_queue, self.archive, self.cache = client, task_queue, archive, cache

    async def worker_polls(self, workflow: str) -> bool:
        """Return whether a worker has polled the workflow's task queue lately. Raises `UnknownRun`."""
        return await find_last_poll(self.client, (await self.describe(workflow)).task_queue) is not None

    async def describe(self, workflow: str, run: str | None = None) -> WorkflowExecutionDescription:
        """Return the server's description of a workflow, which needs no worker. Raises `UnknownRun`."""
        try:
            return await self.client.get_workflow_handle(workflow, run_id=run).describe()
        except RPCError as error:
            if is_missing(error) or error.status == RPCStatusCode.INVALID_ARGUMENT:  # no id can be so long
                raise UnknownRun(workflow) from None
            raise

    async def silence(self, workflow: str) -> NoWorker:
        """Return the error for a workflow that does not answer: no worker, a busy one, or a failing task."""
        try:
            described = await self.describe(workflow)
        except UnknownRun:
            return NoWorker(self.task_queue)
        silence = await explain_silence(self.client, workflow, described)
        if described.close_time is not None and not isinstance(silence, Unanswered):
            silence.tell_ended(read_run(workflow))
        return silence

    async def query(
        self,
        workflow: str,
        name: str,
        argument: object,
        type_: type[Result],
        run: str | None = None,
        *,
        unless_ended: bool = False,
        described: WorkflowExecutionDescription | None = None,
    ) -> Result:
        """Query a workflow, again if the server drops the query or a worker loses it.

        Args:
            workflow: The workflow's id.
            name: The query.
            argument: Its argument.
            type_: The type that the result is parsed as.
            run: Temporal's run id; by default the current run of the workflow.
            unless_ended: Ask no workflow that has ended.
            described: The server's description of the workflow, where it is at hand: it is not asked for again.

        Raises:
            NoWorker: No worker answered in time.
            UnknownRun: There is no such workflow, or it has ended.
        """
        once = partial(self._query, workflow, name, argument, type_, run, NOT_OPEN if unless_ended else None)
        ask = partial(self._ask_again, workflow, once)
        if self.cache is None:
            return await ask()
        described = described or await self.describe(workflow, run)
        if unless_ended and described.status != WorkflowExecutionStatus.RUNNING:
            raise UnknownRun(workflow)
        key = QueryKey.of(workflow, run, name, argument, type_)
        result: Result = await self.cache.ask(key, described, ask, unless_ended=unless_ended)
        return result

    async def _ask_again(self, workflow: str, once: Callable[[], Awaitable[Result]]) -> Result:
        retries = dict(ASKED_AGAIN)
        while True:
            try:
                return await once()
            except RPCError as error:
                if retries.get(error.status, 0) == 0:
                    if error.status in _UNREACHED:
                        raise await self.silence(workflow) from None
                    raise
                retries[error.status] -= 1
                await asyncio.sleep(PAUSE_SECONDS)

    async def _query(
        self,
        workflow: str,
        name: str,
        argument: object,
        type_: type[Result],
        run: str | None,
        reject: QueryRejectCondition | None,
    ) -> Result:
        handle = self.client.get_workflow_handle(workflow, run_id=run)
        try:
            async with take_turn(self.client, workflow):
                result: Result = await handle.query(
                    name, argument, result_type=type_, reject_condition=reject, rpc_timeout=QUERY_LIMIT
                )
            return result
        except WorkflowQueryRejectedError as rejected:
            if (
                run is None and rejected.status == WorkflowExecutionStatus.CONTINUED_AS_NEW
            ):  # since its id was looked up
                return await self._query(workflow, name, argument, type_, run, reject)
            raise UnknownRun(workflow) from None
        except WorkflowQueryFailedError as error:
            silence = await self.silence(workflow)
            if isinstance(silence, TaskFailing):
                raise silence from None
            reason = await read_query_failure_text(self.client.data_converter, error)
            raise Unanswered(workflow, reason) from None
        except ServerUnreachable as error:  # of what it has answered: the server itself fails as below
            raise WorkflowNotReadable(workflow, str(error)) from None
        except RPCError as error:
            if is_missing(error):
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
            UnknownRun: The workflow has ended; it may have applied the update before.
        """
        handle = self.client.get_workflow_handle(workflow)
        failed: WorkflowUpdateFailedError | None = None
        for _ in range(UPDATE_ATTEMPTS):
            try:
                result: Result = await handle.execute_update(
                    name, argument, id=id, result_type=type_, rpc_timeout=UPDATE_LIMIT
                )
                return result
            except WorkflowUpdateFailedError as error:
                if (refusal := refusal_in(error)) is not None:
                    raise refusal from None
                failed = error  # the server gave up the update, as its workflow task was lost: sending again is safe
            except ServerUnreachable:  # of what it has returned
                raise Unconfirmed(read_run(workflow), workflow) from None
            except WorkflowUpdateRPCTimeoutOrCancelledError:
                raise_if_cancelled()
                continue  # perhaps it was applied: the same id gets the same result
            except RPCError as error:
                if is_missing(error):
                    raise UnknownRun(workflow) from None
                if error.status not in _PASSING:
                    raise
                await asyncio.sleep(PAUSE_SECONDS)  # some are refused at once
        # A server that cannot be reached fails this call, too; one that only drops updates has a worker that is busy.
        raise failed or await self.silence(workflow)

    async def try_update(
        self, workflow: str, name: str, argument: object, type_: type[Result], *, id: str
    ) -> Result | None:
        """Send an update once, as `update` does; None if it was refused, or could not be sent.

        Raises `Unconfirmed` if no worker has confirmed it soon: it may still be applied.
        """
        handle = self.client.get_workflow_handle(workflow)
        try:
            result: Result = await handle.execute_update(
                name, argument, id=id, result_type=type_, rpc_timeout=TRY_LIMIT
            )
            return result
        except (WorkflowUpdateRPCTimeoutOrCancelledError, ServerUnreachable):
            raise_if_cancelled()
            raise Unconfirmed(read_run(workflow), workflow) from None
        except (WorkflowUpdateFailedError, RPCError):
            return None

    async def view(
        self,
        workflow: str,
        run: str | None = None,
        *,
        unless_ended: bool = False,
        described: WorkflowExecutionDescription | None = None,
    ) -> WorkflowView:
        """Return the view of one workflow, with every page of its open questions. Args and errors as of `query`.

        Who looks for questions that can be answered asks `unless_ended`: one that was terminated shows them for ever.
        """
        view = await self.query(workflow, VIEW, 0, WorkflowView, run, unless_ended=unless_ended, described=described)
        every = await self._every_question(view)
        questions = [question for question in every if question.asked.for_people]
        events = [question for question in every if not question.asked.for_people]
        return view.model_copy(update={"questions": questions, "events": events, "more_questions": 0})

    async def _every_question(self, view: WorkflowView) -> list[Question]:
        """Return the open questions and events on the first page of a view and on those behind it.

        Questions that are answered meanwhile move the others up. So a page begins with the last question of the page
        before; where that is not so, some were skipped, and it goes back until it meets one that it knows.
        """
        listed = _sort_page(view)
        questions = {question.id: question for question in listed}
        start, page = 0, view
        while page.more_questions > 0:
            overlap = min(1, len(listed) - 1)
            start += len(listed) - overlap
            # Of the same Temporal run: one that has continued as new meanwhile pages another list.
            page = await self.query(view.workflow, VIEW, start, WorkflowView, view.temporal_run)
            listed = _sort_page(page)
            while overlap and start > 0 and not (listed and listed[0].id in questions):
                start = max(0, start - STEP_BACK)
                page = await self.query(view.workflow, VIEW, start, WorkflowView, view.temporal_run)
                listed = _sort_page(page)
            questions |= {question.id: question for question in listed}
        return list(questions.values())

    async def views(self, run: str, described: WorkflowExecutionDescription | None = None) -> list[WorkflowView]:
        """Return the views of a run and of its children under way, the run's own first. Raises as `query` does."""
        own = await self.view(run, described=described)
        below = await asyncio.gather(*(self._below(child) for child in own.children))
        return [own, *(view for views in below for view in views)]

    async def _below(self, child: str) -> list[WorkflowView]:
        try:
            return await self.views(child)
        except UnknownRun:  # it has ended since its parent was queried, and is retained no longer
            return []


def raise_if_cancelled() -> None:
    """Raise `CancelledError` if this task is being cancelled: the SDK makes an update's time-out of it, too."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _sort_page(view: WorkflowView) -> list[Question]:
    """Return the questions and the events of a page, in the order in which their workflow pages them."""
    return sorted([*view.questions, *view.events], key=lambda question: question.address)


def refusal_in(error: WorkflowUpdateFailedError) -> Refusal | None:
    """Return the refusal that the workflow raised; None if the update failed otherwise."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type in REFUSALS:
        question, *problems = cause.details or ("",)
        return Refusal(cause.type, cause.message, [(str(path), str(why)) for path, why in problems], str(question))
    return None


def collect_questions(views: Sequence[WorkflowView]) -> list[Question]:
    """Return the open questions of these workflows, sorted by address."""
    questions = [question for view in views if view.status not in CLOSED for question in view.questions]
    return sorted(questions, key=lambda question: (in_order(question.address), question.id))


def collect_events(views: Sequence[WorkflowView]) -> list[Question]:
    """Return the events that these workflows wait for, sorted by address."""
    events = [event for view in views if view.status not in CLOSED for event in view.events]
    return sorted(events, key=lambda event: (in_order(event.address), event.id))


def rests(views: Sequence[WorkflowView]) -> bool:
    """Return whether only a person can make the run go on, by an answer or by resuming it."""
    return all(not _moves(view) for view in views)


def _moves(view: WorkflowView) -> bool:
    is_at_rest = view.questions or view.events or view.children or view.status == "paused"
    return view.moving or view.status in CLOSED or not is_at_rest

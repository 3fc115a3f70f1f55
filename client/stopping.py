"""Cancel, terminate, pause and resume a whole run: every workflow of its tree. `Runs` and the CLI use it.

The tree is read from the server (pending children, and visibility), not from the workflows: a workflow whose workflow
task fails answers no query, and there may be no worker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from temporalio.api.enums.v1 import PendingActivityState, PendingWorkflowTaskState
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import (
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.service import RPCError

from holdfast.blueprint.amounts import say_count
from holdfast.client.history import ending_reason
from holdfast.client.obstacles import EVENTS_READ, read_summaries
from holdfast.client.tree import CLOSED, UPDATE_LIMIT, Tree, UnknownRun, raise_if_cancelled, refusal_in
from holdfast.protocol.names import CLEANING_MEMO
from holdfast.runtime.errors import is_missing
from holdfast.runtime.namespace import match_workflows
from holdfast.runtime.workers import NoWorker, read_failed_task, read_last_events

Item = TypeVar("Item")
Result = TypeVar("Result")
Argument = Callable[[str], Mapping[str, Any]]

POLL_SECONDS = 0.2
GRACE_SECONDS = 2.0
"""The time that the workflows of a run have to pass a cancel request on; then each is sent another."""
AT_ONCE = 20
"""Requests under way at the same time."""
_WAITS_FOR_A_WORKER = PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED
_AT_WORK = (
    PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
    PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED,
)


@dataclass(frozen=True)
class LeftWorkflow:
    """A workflow that a command has not reached, or that has not ended, with the reason."""

    workflow: str
    reason: str
    in_flight: tuple[str, ...] = ()
    """Its activities that are under way; it is unknown whether they have taken effect."""


class RunWorkflows:
    """The workflows of one run that have not ended.

    Args:
        tree: Access to the workflows.
        run: The id of the run.
        by: The person who ends it. Temporal keeps the name with the request: its cancel has no validator and no token.
    """

    def __init__(self, tree: Tree, run: str, by: str | None = None) -> None:
        self.client, self.tree, self.run, self.by = tree.client, tree, run, by

    async def find_running(self) -> list[WorkflowExecutionDescription]:
        """Describe every running workflow of the run, each before its children."""
        descriptions: dict[str, WorkflowExecutionDescription | None] = {}
        ids = [self.run, *[id_ async for id_ in self._iterate_listed()]]
        while ids := [id_ for id_ in dict.fromkeys(ids) if id_ not in descriptions]:
            batch = await at_once(self._describe_running, ids)
            descriptions.update(zip(ids, batch, strict=True))
            parents = [workflow for workflow in batch if workflow]
            ids = [child.workflow_id for parent in parents for child in parent.raw_description.pending_children]
        running = {id_: workflow for id_, workflow in descriptions.items() if workflow is not None}
        return sorted(running.values(), key=lambda workflow: (_depth(workflow, running), workflow.id))

    async def _iterate_listed(self) -> AsyncIterator[str]:
        """Yield the ids that visibility lists, which lags behind."""
        below = f"({match_workflows(self.run)}) AND ExecutionStatus = 'Running'"
        async for execution in self.client.list_workflows(below):
            yield execution.id

    async def _describe_running(self, id_: str) -> WorkflowExecutionDescription | None:
        """Describe a workflow; return None if it is not running."""
        try:
            workflow = await self.client.get_workflow_handle(id_).describe()
        except RPCError as error:
            if is_missing(error):
                return None
            raise
        return workflow if workflow.status == WorkflowExecutionStatus.RUNNING else None

    # Ending

    async def cancel(self, seconds: float) -> tuple[list[LeftWorkflow], list[LeftWorkflow]]:
        """Cancel the run and wait up to `seconds` for the end of its tree.

        Returns:
            The workflows that have not ended; and those that had activities under way when they were cancelled, which
            may have taken effect all the same.
        """
        # The workflows pass the request on to their children. Each is sent one directly, too: nothing starts that was
        # answered a moment ago, and a parent whose workflow task fails does not keep its children from being cancelled.
        # (A request that the server forwards to a child that has continued as new is lost: it names the first run.)
        before = await self.find_running()  # the first look after the request may find that all has ended
        await self._cancel(self.run)
        end, requested = time.monotonic() + seconds, time.monotonic() - GRACE_SECONDS
        at_work = {workflow.id: workflow for workflow in before if _at_work(workflow)}
        while await self._is_running():
            if time.monotonic() - requested >= GRACE_SECONDS:
                requested = time.monotonic()
                running = await self._cancel_all()
                at_work = {workflow.id: workflow for workflow in running if _at_work(workflow)} | at_work
            if time.monotonic() >= end:
                remaining = await self.find_running()  # such as one that undoes what it did
                return await self.reasons(remaining), await self._list_interrupted(at_work.values(), remaining)
            await asyncio.sleep(min(POLL_SECONDS, max(end - time.monotonic(), 0)))
        return [], await self._list_interrupted(at_work.values(), [])

    async def _list_interrupted(
        self, at_work: Iterable[WorkflowExecutionDescription], remaining: Iterable[WorkflowExecutionDescription]
    ) -> list[LeftWorkflow]:
        """Return the workflows whose activities were cut off; of `remaining` not those that are still under way."""
        pending = {(workflow.id, activity.activity_id) for workflow in remaining for activity in _at_work(workflow)}
        interrupted = await at_once(partial(self._describe_interrupted, pending), list(at_work))
        return [workflow for workflow in interrupted if workflow.in_flight]

    async def _describe_interrupted(
        self, pending: Collection[tuple[str, str]], workflow: WorkflowExecutionDescription
    ) -> LeftWorkflow:
        """Return what became of the activities that were under way when a workflow was cancelled.

        Args:
            pending: Workflows and activities that are still under way.
            workflow: The workflow as it was then.
        """
        events = await read_last_events(self.client, workflow.id, workflow.run_id, EVENTS_READ)
        names = await read_summaries(self.client, events)
        completed, in_flight, texts = _list_completed(events), [], []
        later = _begun_after_cancel(events)
        for activity in _at_work(workflow):
            # What the cancel itself has begun, such as an undo, is not meant.
            if activity.activity_id in later or (workflow.id, activity.activity_id) in pending:
                continue
            name = _name_activity(activity, names)
            in_flight.append(name)
            texts.append(f"{name} ({'completed' if activity.activity_id in completed else 'outcome unknown'})")
        return LeftWorkflow(workflow.id, f"at work when it was cancelled: {', '.join(texts)}", tuple(in_flight))

    async def terminate(self, seconds: float) -> tuple[list[LeftWorkflow], list[LeftWorkflow]]:
        """Terminate the workflows of the run, its own first, so that it starts no others; give up after `seconds`.

        Returns:
            The workflows that have not ended, and those that had activities under way, which may take effect all the
            same.
        """
        remaining = await self.find_running()
        interrupted = [_mark_terminated(workflow) for workflow in await self.reasons(remaining) if workflow.in_flight]
        end = time.monotonic() + seconds
        while remaining:
            for workflow in remaining:
                await self._terminate(workflow.id)
            remaining = await self.find_running()
            if time.monotonic() >= end:
                break
            await asyncio.sleep(POLL_SECONDS if remaining else 0)
        return await self.reasons(remaining), interrupted

    async def _is_running(self) -> bool:
        """Return whether the run's own workflow, which ends last, or anything below it is running."""
        return await self._describe_running(self.run) is not None or bool(await self.find_running())

    async def _cancel_all(self) -> list[WorkflowExecutionDescription]:
        """Cancel every workflow, parents before children: else a parent would take its child's end for a failure.

        Returns:
            The workflows as they were before.
        """
        running = await self.find_running()
        by_id = {workflow.id: workflow for workflow in running}
        for depth in range(len(running)):
            at_depth = [workflow for workflow in running if _depth(workflow, by_id) == depth]
            cleaning = await at_once(_is_cleaning_up, at_depth)
            ids = [workflow.id for workflow, is_left in zip(at_depth, cleaning, strict=True) if not is_left]
            await at_once(self._cancel, ids)
        return running

    async def _cancel(self, id_: str) -> None:
        await _unless_ended(
            self.client.get_workflow_handle(id_).cancel(reason=ending_reason("holdfast cancel", self.by))
        )

    async def _terminate(self, id_: str) -> None:
        await _unless_ended(
            self.client.get_workflow_handle(id_).terminate(reason=ending_reason("cancel --force", self.by))
        )

    # Pausing

    async def steer(self, name: str, argument: Argument, *, paused: bool, seconds: float) -> list[LeftWorkflow]:
        """Send `pause` or `resume` to every workflow of the run by update, until each has taken it.

        Args:
            name: The update.
            argument: Makes the argument for the workflow of an id: a token is valid for one workflow only.
            paused: The state that the workflows are to reach.
            seconds: The time after which it gives up.

        Returns:
            The workflows that have not taken it, each with the reason.

        Raises:
            Refusal: A workflow refused it.
        """
        end = time.monotonic() + seconds
        lagging = self._make_sender(name, argument, paused)
        await at_once(lagging, (await self.find_running())[:1])  # the run's own workflow, which passes it on
        while True:
            remaining = [reason for reason in await at_once(lagging, await self.find_running()) if reason]
            if not remaining or time.monotonic() >= end:
                return remaining
            await asyncio.sleep(POLL_SECONDS)

    def _make_sender(
        self, name: str, argument: Argument, paused: bool
    ) -> Callable[[WorkflowExecutionDescription], Awaitable[LeftWorkflow | None]]:
        async def send(workflow: WorkflowExecutionDescription) -> LeftWorkflow | None:
            """Send the command to a workflow unless it has taken it; return None if it had, else the reason."""
            try:
                view = await self.tree.view(workflow.id)
                if view.status in CLOSED or (view.status == "paused") == paused:
                    return None
                handle = self.client.get_workflow_handle(workflow.id)
                await handle.execute_update(name, argument(workflow.id), rpc_timeout=UPDATE_LIMIT)
            except UnknownRun:
                return None
            except WorkflowUpdateFailedError as error:
                if (refusal := refusal_in(error)) is not None:
                    raise refusal from None
                return (await self.reasons([workflow]))[0]
            except (NoWorker, RPCError, WorkflowUpdateRPCTimeoutOrCancelledError):
                raise_if_cancelled()
                return (await self.reasons([workflow]))[0]
            return LeftWorkflow(workflow.id, "has not received it yet")  # the next round looks again

        return send

    async def signal(self, name: str, only: Collection[str] | None = None) -> list[LeftWorkflow]:
        """Send a command, to these workflows or all, which each takes with its next worker; return why none has yet."""
        workflows = [workflow for workflow in await self.find_running() if only is None or workflow.id in only]
        for workflow in workflows:
            await _unless_ended(self.client.get_workflow_handle(workflow.id).signal(name))
        return await self.reasons(workflows)

    # Reasons

    async def reasons(self, running: Iterable[WorkflowExecutionDescription]) -> list[LeftWorkflow]:
        """Return for each workflow why it has not ended, and its activities that are under way."""
        return await at_once(self._reason, list(running))

    async def _reason(self, workflow: WorkflowExecutionDescription) -> LeftWorkflow:
        events = await read_last_events(self.client, workflow.id, workflow.run_id, EVENTS_READ)
        description = workflow.raw_description
        names = await read_summaries(self.client, events)
        pending = _at_work(workflow)
        in_flight = tuple(_name_activity(activity, names) for activity in pending)
        if description.pending_workflow_task.attempt > 1:
            failed = await read_failed_task(self.client, events)
            message = "see it in Temporal's UI" if failed is None else failed.message
            return LeftWorkflow(workflow.id, f"its workflow task fails: {message}", in_flight)
        if description.pending_workflow_task.state == _WAITS_FOR_A_WORKER:
            return LeftWorkflow(workflow.id, f"waits for a worker on task queue {workflow.task_queue!r}", in_flight)
        if in_flight:
            return LeftWorkflow(workflow.id, f"at work: {', '.join(in_flight)} (outcome unknown)", in_flight)
        children = len(description.pending_children)
        return LeftWorkflow(
            workflow.id, f"waits for {say_count(children, 'child workflow')}" if children else "is running"
        )


def _at_work(workflow: WorkflowExecutionDescription) -> list[PendingActivityInfo]:
    """Return the activities of a workflow that were under way when it was described."""
    return [activity for activity in workflow.raw_description.pending_activities if activity.state in _AT_WORK]


def _name_activity(activity: PendingActivityInfo, summaries: Mapping[str, str]) -> str:
    return summaries.get(activity.activity_id, activity.activity_type.name)


def _list_completed(events: Iterable[HistoryEvent]) -> set[str]:
    """Return the ids of the activities that have completed."""
    ids: dict[int, str] = {}
    completed: set[int] = set()
    for event in events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            ids[event.event_id] = event.activity_task_scheduled_event_attributes.activity_id
        if event.HasField("activity_task_completed_event_attributes"):
            completed.add(event.activity_task_completed_event_attributes.scheduled_event_id)
    return {id_ for number, id_ in ids.items() if number in completed}


def _begun_after_cancel(events: Iterable[HistoryEvent]) -> set[str]:
    """Return the ids of the activities that were begun once a cancel was asked for."""
    is_cancelled, ids = False, set()
    for event in sorted(events, key=lambda event: event.event_id):
        is_cancelled |= event.HasField("workflow_execution_cancel_requested_event_attributes")
        if is_cancelled and event.HasField("activity_task_scheduled_event_attributes"):
            ids.add(event.activity_task_scheduled_event_attributes.activity_id)
    return ids


async def _is_cleaning_up(workflow: WorkflowExecutionDescription) -> bool:
    """Return whether a workflow does what is done at an end in any case, and is not to be cancelled."""
    return CLEANING_MEMO in await workflow.memo()


def _mark_terminated(workflow: LeftWorkflow) -> LeftWorkflow:
    names = ", ".join(workflow.in_flight)
    return replace(workflow, reason=f"at work when it was terminated: {names} (outcome unknown)")


def _depth(workflow: WorkflowExecutionDescription, by_id: Mapping[str, WorkflowExecutionDescription]) -> int:
    """Return how many ancestors of a workflow are among these."""
    depth = 0
    while workflow.parent_id is not None and workflow.parent_id in by_id:
        workflow, depth = by_id[workflow.parent_id], depth + 1
    return depth


async def _unless_ended(request: Awaitable[None]) -> None:
    """Await a request to a workflow; ignore that it is not found, since then it has ended."""
    try:
        await request
    except RPCError as error:
        if not is_missing(error):
            raise


async def at_once(work: Callable[[Item], Awaitable[Result]], items: list[Item]) -> list[Result]:
    """Await `work` for each item, 20 at a time, and return the results in the order of the items."""
    free = asyncio.Semaphore(AT_ONCE)

    async def run(item: Item) -> Result:
        async with free:
            return await work(item)

    return list(await asyncio.gather(*map(run, items)))

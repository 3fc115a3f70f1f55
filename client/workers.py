"""Find out whether a task queue has workers, and why a workflow does not answer: none, a busy one, a failing task.

A worker makes its version the current one here, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TaskQueueType, WorkerVersioningMode
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeTaskQueueResponse,
    GetWorkflowExecutionHistoryReverseRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.converters import failure_text
from holdfast.client.embedded import ServerUnreachable
from holdfast.protocol.runs import HOLD_MARK

ALIVE_SECONDS = 10.0
"""A worker that polled so recently is alive: an idle one would have answered, and a busy one polls again."""
GONE_SECONDS = 90.0
"""An idle worker polls once a minute; the server remembers a killed one for five minutes."""
RECENT_EVENTS = 20
VERSION_LOOKS, VERSION_PAUSE = 60, 0.5
"""Number of attempts to make a version current that the server does not know yet, and seconds between them."""


class NoWorker(RuntimeError):
    """A task queue on which no worker answers."""

    def __init__(self, task_queue: str) -> None:
        super().__init__(
            f"no worker answers on task queue {task_queue!r}; start one with `holdfast worker` (that of the local "
            "server: with any other command, such as `holdfast runs`). The run waits for it."
        )


class NoCurrentVersion(NoWorker):
    """Workers that poll under a deployment version while no version is current: the server gives them no work."""

    def __init__(self, task_queue: str, deployment: str, build: str) -> None:
        command = f"temporal worker deployment set-current-version --deployment-name {deployment} --build-id {build}"
        RuntimeError.__init__(
            self,
            f"the worker on task queue {task_queue!r} is of version {deployment}/{build}, and none is current, "
            f"so it gets no work; run: {command} (or start it with `holdfast worker --make-current`). "
            "The run waits for it.",
        )


class Busy(NoWorker):
    """A worker that has polled but does not answer: it is busy, or was killed."""

    def __init__(self, task_queue: str, seconds: float) -> None:
        self.is_alive = seconds <= ALIVE_SECONDS
        state = "is busy" if self.is_alive else "is busy, or was killed"
        RuntimeError.__init__(
            self, f"the worker on task queue {task_queue!r} {state} (it polled {seconds:.0f} s ago). Try again."
        )


class Unanswered(NoWorker):
    """A workflow that a worker cannot answer for."""

    def __init__(self, workflow: str, reason: str) -> None:
        RuntimeError.__init__(self, f"{workflow} cannot be asked: {reason}; see its workflow task in Temporal's UI")


class OnHold(NoWorker):
    """The workers of the task queue call nothing, so nothing is started."""

    def __init__(self, task_queue: str) -> None:
        RuntimeError.__init__(
            self,
            f"the worker on task queue {task_queue!r} is on hold ([worker] hold, HOLDFAST_HOLD): nothing was started. "
            "Try again once it has been started without it.",
        )


class TaskFailing(Unanswered):
    """A workflow whose workflow task fails again and again."""

    def __init__(self, workflow: str, attempt: int, message: str) -> None:
        RuntimeError.__init__(
            self,
            f"{workflow} makes no progress: its workflow task fails (attempt {attempt}): {message}. It is tried again "
            "until the cause is mended; the worker's log has the traceback",
        )


async def pollers(client: Client, task_queue: str) -> DescribeTaskQueueResponse:
    """Return what the server knows of a task queue's workflow pollers and their versions."""
    return await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        ),
        retry=True,
    )


async def last_poll(client: Client, task_queue: str) -> float | None:
    """Return how many seconds ago a worker polled; None if the server knows of none."""
    return _seconds_since((await pollers(client, task_queue)).pollers)


async def check_hold(client: Client, task_queue: str) -> None:
    """Raise `OnHold` if the worker that polled last is on hold.

    The server remembers those that have gone for minutes, so only the last one counts; of no worker nothing is known.
    """
    polling = (await pollers(client, task_queue)).pollers
    last = max(polling, key=lambda poller: poller.last_access_time.ToDatetime(UTC), default=None)
    if last is not None and last.identity.endswith(HOLD_MARK):
        raise OnHold(task_queue)


async def why_silent(client: Client, workflow: str, described: WorkflowExecutionDescription) -> NoWorker:
    """Return the error that explains why a workflow does not answer."""
    queue = described.task_queue
    reply = await pollers(client, queue)
    if (reason := why_no_work(queue, reply)) is not None:
        return reason
    attempt = described.raw_description.pending_workflow_task.attempt
    if attempt > 1 and (message := await _task_failure(client, workflow, described.run_id)):
        return TaskFailing(workflow, attempt, message)
    return Busy(queue, _seconds_since(reply.pollers) or 0.0)


def why_no_work(task_queue: str, reply: DescribeTaskQueueResponse) -> NoWorker | None:
    """Return the error that explains why nobody takes work from a queue; None if somebody may."""
    seconds = _seconds_since(reply.pollers)
    if seconds is None or seconds > GONE_SECONDS:
        return NoWorker(task_queue)
    version = _not_current(reply)
    return None if version is None else NoCurrentVersion(task_queue, *version)


def current_version(reply: DescribeTaskQueueResponse) -> str:
    """Return the build of the version that is current for a queue; "" if none is."""
    return reply.versioning_info.current_deployment_version.build_id


def _seconds_since(polling: Sequence[PollerInfo]) -> float | None:
    last = max((poller.last_access_time.ToDatetime(UTC) for poller in polling), default=None)
    return None if last is None else max(0.0, (datetime.now(UTC) - last).total_seconds())


def _not_current(reply: DescribeTaskQueueResponse) -> tuple[str, str] | None:
    """Return deployment and build of the workers, if all are versioned and no version is current."""
    versions = [poller.deployment_options for poller in reply.pollers]
    versioned = WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED
    if any(version.worker_versioning_mode != versioned for version in versions):
        return None
    if current_version(reply):
        return None
    return versions[-1].deployment_name, versions[-1].build_id


async def _task_failure(client: Client, workflow: str, run_id: str | None) -> str | None:
    """Return the message of the last failed workflow task; only the first attempt of each is in the history."""
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=workflow, run_id=run_id or ""),
        maximum_page_size=RECENT_EVENTS,
    )
    reply = await client.workflow_service.get_workflow_execution_history_reverse(request, retry=True)
    for event in reply.history.events:
        if event.HasField("workflow_task_failed_event_attributes"):
            return await failure_text(client.data_converter, event.workflow_task_failed_event_attributes.failure)
        if event.HasField("workflow_task_completed_event_attributes"):
            return None
    return None


async def make_current(client: Client, deployment: str, build: str) -> None:
    """Make a version the current one: new runs, and those that auto-upgrade, then go to it.

    Raises `ServerUnreachable` if the server does not learn of the version in time.
    """
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace, deployment_name=deployment, build_id=build, ignore_missing_task_queues=True
    )
    for attempt in range(1, VERSION_LOOKS + 1):
        try:
            await client.workflow_service.set_worker_deployment_current_version(request, retry=True)
        except RPCError as error:
            # The server learns of a version by its first poll, which may take a moment.
            if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION):
                raise
            if attempt == VERSION_LOOKS:
                raise ServerUnreachable(f"{deployment}/{build} was not made current: {error.message}") from error
            await asyncio.sleep(VERSION_PAUSE)
        else:
            return

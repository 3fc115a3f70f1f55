"""Find out whether a task queue has workers, and why a workflow does not answer: none, a busy one, a failing task.

A worker makes its version the current one here, too.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from weakref import WeakKeyDictionary

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.deployment.v1 import WorkerDeploymentVersion
from temporalio.api.enums.v1 import TaskQueueType, VersioningBehavior, WorkerVersioningMode
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeTaskQueueResponse,
    GetWorkflowExecutionHistoryReverseRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from holdfast.protocol.address import read_run
from holdfast.protocol.names import HOLD_MARK
from holdfast.runtime.converters import read_failure_text
from holdfast.runtime.errors import SILENT_STATUSES
from holdfast.runtime.namespace import match_workflows

log = logging.getLogger("holdfast.worker")

ALIVE_SECONDS = 10.0
"""A worker that polled so recently is alive: an idle one would have answered, and a busy one polls again."""
GONE_SECONDS = 90.0
"""An idle worker polls once a minute; the server remembers a killed one for five minutes."""
POLL_SECONDS = 1.0
"""How long it is known whether a worker polls a task queue."""
RECENT_EVENTS = 20
NOT_FOLLOWED = "TMPRL1100"
"""The code of the SDK's message for a history that the code does not follow."""
VERSION_PAUSE, VERSION_PATIENCE = 0.5, 10.0
"""Seconds between attempts to make a version current, and until it is told that none has worked yet."""
NOT_YET_CURRENT = {
    *SILENT_STATUSES,
    RPCStatusCode.ABORTED,
    RPCStatusCode.INTERNAL,
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.UNKNOWN,
    RPCStatusCode.NOT_FOUND,
    RPCStatusCode.FAILED_PRECONDITION,
}
"""Statuses of what may work later: the last two until the server has learned of a version by its first poll."""


class Version(NamedTuple):
    """A worker deployment version; both are empty for workers without versions."""

    deployment: str
    build: str

    def __str__(self) -> str:
        return f"version {self.deployment}/{self.build}" if self.build else "no version"

    def advise_start(self) -> str:
        """Return the advice to start a worker where this version is current; without one any worker will do."""
        return f"start one of {self}, which is current" if self.build else "start one with `holdfast worker`"


NO_VERSION = Version("", "")


class Pin(NamedTuple):
    """What binds a workflow to the workers of one version."""

    version: Version
    workflow: str

    def advise(self) -> str:
        """Return the two ways on, for people."""
        query = shlex.quote(match_workflows(read_run(self.workflow)))
        move = f"temporal workflow update-options --query {query} --versioning-override-behavior auto_upgrade --yes"
        return f"start a worker of {self.version}, or let the current one go on with the run: {move}"


class NoWorker(RuntimeError):
    """A task queue on which no worker answers, as who waits for its run is told."""

    def __init__(self, task_queue: str, wanted: Version = NO_VERSION) -> None:
        """`wanted` is the version that is current, if one is."""
        local = " (that of the local server: with any other command, such as `holdfast runs`)"
        way = wanted.advise_start() + ("" if wanted.build else local)
        self._explain(f"no worker answers on task queue {task_queue!r}; {way}")

    def _explain(self, reason: str) -> None:
        self.reason = reason
        """Why no worker answers and what to do about it, where no run is meant."""
        RuntimeError.__init__(self, f"{reason}. The run waits for it.")

    def tell_ended(self, run: str) -> None:
        """Say in place of "the run waits" what can be known of a run that has ended."""
        told = f"{run} has ended; only a worker tells its steps, and how it ended is told without: "
        RuntimeError.__init__(self, f"{self.reason}. {told}holdfast result {shlex.quote(run)}")


class NoCurrentVersion(NoWorker):
    """Workers that poll under a deployment version while no version is current: the server gives them no work."""

    def __init__(self, task_queue: str, deployment: str, build: str) -> None:
        self._explain(
            f"the worker on task queue {task_queue!r} is of version {deployment}/{build}, and none is current, "
            f"so it gets no work; {advise_current(Version(deployment, build))}"
        )


class OtherVersion(NoWorker):
    """Workers that poll under other deployment versions than the one that the server gives the work to."""

    def __init__(self, task_queue: str, running: Sequence[Version], wanted: Version, pin: Pin | None = None) -> None:
        builds = ", ".join(str(version) for version in running)
        state = f"{wanted} is current" if pin is None else f"the run is pinned to {wanted}"
        way = f"start a worker of {wanted}" if pin is None else pin.advise()
        if pin is None and running[-1].build:
            way += f", or {advise_current(running[-1])}"
        elif pin is None:
            way += ", or start it with HOLDFAST_DEPLOYMENT, HOLDFAST_BUILD_ID and `holdfast worker --make-current`"
        self._explain(
            f"the worker on task queue {task_queue!r} is of {builds}, but {state}, and no worker of that "
            f"version polls; {way}"
        )


class Busy(NoWorker):
    """A worker that has polled but does not answer: it is busy, or has stopped since.

    The server tells when a worker polled last. One that waits for work polls once a minute, so what has stopped cannot
    be told from it for as long.
    """

    def __init__(
        self, task_queue: str, seconds: float, wanted: Version, idle: Version | None = None, pin: Pin | None = None
    ) -> None:
        """Describe it.

        Args:
            task_queue: The name of its queue.
            seconds: When a worker that would get the work polled last.
            wanted: Its version.
            idle: A version of which a worker polls, too, and gets no work as it is not current.
            pin: What binds the workflow to its version; None: any worker of the current one gets the work.
        """
        self.is_alive = seconds <= ALIVE_SECONDS
        whose = "the worker" if pin is None else f"the run is pinned to {pin.version}, whose worker"
        way = wanted.advise_start() if pin is None else pin.advise()
        if pin is None and idle is not None:
            way += f", or give its work to the worker of {idle}: {advise_current(idle)}"
        self._explain(
            f"{whose} on task queue {task_queue!r} does not answer: it polled {seconds:.0f} s ago, and is busy or "
            f"has stopped since. Try again; if it has stopped, {way}"
        )


class Unanswered(NoWorker):
    """A workflow that a worker cannot answer for."""

    def __init__(self, workflow: str, reason: str) -> None:
        RuntimeError.__init__(
            self, f"{workflow} cannot be asked; its worker says: {reason}; see its workflow task in Temporal's UI"
        )


class WorkflowNotReadable(Unanswered):
    """A workflow whose answer holds what cannot be read here: for want of a key, a codec or the payload store."""

    def __init__(self, workflow: str, reason: str) -> None:
        RuntimeError.__init__(self, f"{workflow} cannot be read here: {reason}")


class Unconfirmed(NoWorker):
    """An answer that was sent by update and that no worker has confirmed: the server may still deliver it."""

    def __init__(self, run: str, workflow: str) -> None:
        RuntimeError.__init__(
            self,
            f"the answer was sent to {workflow}, but no worker has confirmed it: it may still count. Once a worker is "
            f"there, look whether it does before you answer otherwise: holdfast history {shlex.quote(run)}",
        )


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

    def __init__(self, workflow: str, attempt: int, failed: FailedTask) -> None:
        RuntimeError.__init__(
            self,
            f"{workflow} makes no progress: its workflow task fails {failed.since} (attempt {attempt}): "
            f"{failed.message.rstrip('.')}. {failed.advise(workflow)}",
        )


class FailedTask(NamedTuple):
    """The last workflow task of a history that failed in another way than the one before."""

    message: str
    at: datetime

    @property
    def since(self) -> str:
        """Return since when, for people."""
        return f"since {self.at:%Y-%m-%d %H:%M} UTC"

    def advise(self, workflow: str) -> str:
        """Return the way out: of a history that this build does not follow there is none by waiting."""
        run = shlex.quote(read_run(workflow))
        if NOT_FOLLOWED not in self.message:
            return "It is retried until the cause is fixed; the worker's log says more"
        return (
            "The workers' code has changed so that it does not follow this history: go back to the build that wrote it "
            f"(`holdfast replay {run}` tells whether a build follows it), or end the run: holdfast cancel {run} --force"
        )


def advise_current(version: Version) -> str:
    """Return the advice to make a version current."""
    command = f"temporal worker deployment set-current-version --deployment-name {version.deployment}"
    return f"run: {command} --build-id {version.build} (or start it with `holdfast worker --make-current`)"


async def describe_queue(client: Client, task_queue: str) -> DescribeTaskQueueResponse:
    """Return what the server knows of a task queue's workflow pollers and their versions."""
    return await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        ),
        retry=True,
    )


def list_fresh_pollers(reply: DescribeTaskQueueResponse) -> list[PollerInfo]:
    """Return the pollers that have polled lately: the server remembers for minutes those that have gone."""
    return [poller for poller in reply.pollers if (_count_seconds_since([poller]) or 0.0) <= GONE_SECONDS]


async def find_last_poll(client: Client, task_queue: str) -> float | None:
    """Return how many seconds ago a worker polled; None if the server knows of none."""
    return _count_seconds_since((await describe_queue(client, task_queue)).pollers)


_polls: WeakKeyDictionary[Client, dict[str, tuple[float, bool]]] = WeakKeyDictionary()
"""By task queue, when it was looked at, and whether a worker polled it."""


async def is_polled(client: Client, task_queue: str, *, certain: bool = False) -> bool:
    """Return whether a worker polls a task queue, as far as the server knows; it is asked once a second.

    Args:
        client: The connection.
        task_queue: The name of the queue.
        certain: Ask again if there was none a moment ago: it may have been started since.
    """
    looks = _polls.setdefault(client, {})
    at, was_polled = looks.get(task_queue, (float("-inf"), False))
    if time.monotonic() - at > POLL_SECONDS or (certain and not was_polled):
        was_polled = await find_last_poll(client, task_queue) is not None
        looks[task_queue] = time.monotonic(), was_polled
    return was_polled


async def check_hold(client: Client, task_queue: str) -> None:
    """Raise `OnHold` if the worker that polled last is on hold.

    The server remembers those that have gone for minutes, so only the last one counts; of no worker nothing is known.
    """
    polling = (await describe_queue(client, task_queue)).pollers
    last = max(polling, key=lambda poller: poller.last_access_time.ToDatetime(UTC), default=None)
    if last is not None and last.identity.endswith(HOLD_MARK):
        raise OnHold(task_queue)


async def explain_silence(client: Client, workflow: str, described: WorkflowExecutionDescription) -> NoWorker:
    """Return the error that explains why a workflow does not answer."""
    queue = described.task_queue
    reply = await describe_queue(client, queue)
    pin = _find_pin(described)
    if (reason := explain_no_work(queue, reply, pin)) is not None:
        return reason
    attempt = described.raw_description.pending_workflow_task.attempt
    events = await read_last_events(client, workflow, described.run_id, RECENT_EVENTS) if attempt > 1 else []
    if (failed := await read_failed_task(client, events)) is not None:
        return TaskFailing(workflow, attempt, failed)
    fresh = list_fresh_pollers(reply)
    wanted = _make_current_version(reply) if pin is None else pin.version
    serving = [poller for poller in fresh if _read_version(poller) == wanted]
    return Busy(queue, _count_seconds_since(serving or fresh) or 0.0, wanted, find_idle_version(reply), pin)


def explain_no_work(task_queue: str, reply: DescribeTaskQueueResponse, pin: Pin | None = None) -> NoWorker | None:
    """Return the error that explains why nobody takes work from a queue; None if somebody may.

    Args:
        task_queue: The name of the queue.
        reply: What the server knows of it.
        pin: The version whose workers alone get the work; None: those of the current version, or the ramping one.
    """
    running, routing = list_polling_versions(reply), reply.versioning_info
    wanted = _make_current_version(reply) if pin is None else pin.version
    if not running:
        return NoWorker(task_queue, NO_VERSION if pin else wanted)
    is_ramping = pin is None and routing.ramping_version_percentage > 0
    if wanted in running or (is_ramping and _make_version(routing.ramping_deployment_version) in running):
        return None
    if wanted.build:
        return OtherVersion(task_queue, running, wanted, pin)
    return NoCurrentVersion(task_queue, *running[-1])


def find_current_version(reply: DescribeTaskQueueResponse) -> str:
    """Return the build of the version that is current for a queue; "" if none is."""
    return reply.versioning_info.current_deployment_version.build_id


def find_idle_version(reply: DescribeTaskQueueResponse) -> Version | None:
    """Return the newest version of which a worker polls and that is not the current one; None if there is no such.

    Where none is current, workers without a version get the work.
    """
    current = _make_current_version(reply)
    idle = [version for version in list_polling_versions(reply) if version.build and version != current]
    return idle[-1] if idle else None


def list_polling_versions(reply: DescribeTaskQueueResponse) -> list[Version]:
    """Return the versions of which workers have polled lately, each once."""
    return list(dict.fromkeys(map(_read_version, list_fresh_pollers(reply))))


def _make_current_version(reply: DescribeTaskQueueResponse) -> Version:
    return _make_version(reply.versioning_info.current_deployment_version)


def _count_seconds_since(polling: Sequence[PollerInfo]) -> float | None:
    last = max((poller.last_access_time.ToDatetime(UTC) for poller in polling), default=None)
    return None if last is None else max(0.0, (datetime.now(UTC) - last).total_seconds())


def _read_version(poller: PollerInfo) -> Version:
    options = poller.deployment_options
    if options.worker_versioning_mode != WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED:
        return NO_VERSION
    return Version(options.deployment_name, options.build_id)


def _make_version(version: WorkerDeploymentVersion) -> Version:
    return Version(version.deployment_name, version.build_id)


def _find_pin(described: WorkflowExecutionDescription) -> Pin | None:
    """Return what binds a workflow to one version; None if it moves to the current one."""
    info = described.raw_description.workflow_execution_info.versioning_info
    if info.HasField("versioning_override"):
        override = info.versioning_override
        return Pin(_make_version(override.pinned.version), described.id) if override.HasField("pinned") else None
    is_pinned = info.behavior == VersioningBehavior.VERSIONING_BEHAVIOR_PINNED
    return Pin(_make_version(info.deployment_version), described.id) if is_pinned else None


async def read_last_events(client: Client, workflow: str, run_id: str | None, most: int) -> Sequence[HistoryEvent]:
    """Return the last events of a workflow's history, the newest first, which needs no worker."""
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=workflow, run_id=run_id or ""),
        maximum_page_size=most,
    )
    reply = await client.workflow_service.get_workflow_execution_history_reverse(request, retry=True)
    return reply.history.events


async def read_failed_task(client: Client, events: Iterable[HistoryEvent]) -> FailedTask | None:
    """Return the workflow task that fails, of events that come newest first; None if the last one has not failed.

    Only its first attempt is in the history.
    """
    for event in events:
        if event.HasField("workflow_task_failed_event_attributes"):
            failure = event.workflow_task_failed_event_attributes.failure
            message = await read_failure_text(client.data_converter, failure) or "see it in Temporal's UI"
            return FailedTask(message, event.event_time.ToDatetime(UTC))
        if event.HasField("workflow_task_timed_out_event_attributes"):
            message = "it timed out, as its worker was lost in it, or is too slow"
            return FailedTask(message, event.event_time.ToDatetime(UTC))
        if event.HasField("workflow_task_completed_event_attributes"):
            return None
    return None


async def make_current(client: Client, deployment: str, build: str) -> None:
    """Make a version the current one: new runs, and those that auto-upgrade, then go to it.

    It is tried until it works, as the version may be current already where only the reply was lost: a worker that gave
    up then would leave its runs without any. Raises `RPCError` for what will not work later, such as a lack of rights.
    """
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace, deployment_name=deployment, build_id=build, ignore_missing_task_queues=True
    )
    began, told = time.monotonic(), ""
    while True:
        try:
            await client.workflow_service.set_worker_deployment_current_version(request, retry=True)
        except RPCError as error:
            if error.status not in NOT_YET_CURRENT:
                raise
            if time.monotonic() - began > VERSION_PATIENCE and error.message != told:
                told = error.message
                log.warning("%s/%s is not known to be current yet: %s. Trying again.", deployment, build, told)
            await asyncio.sleep(VERSION_PAUSE)
        else:
            return

"""The clock of a workflow under test, which its worker moves: Temporal's server moves none that waits for a child.

A signal says until when. It stands in the history, so that the workflow has the same time whenever it is replayed. A
child, and the history that follows, begin with the clock of the workflow that starts them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import WorkflowCommand
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails

from holdfast.workflows.activation import InnerInstance
from holdfast.workflows.runner import OwnRunner

_SIGNAL = "holdfast_test_clock:"
_HEADER = "holdfast-test-clock"
_NANOSECONDS = 1_000_000_000


def name_signal(moment: datetime) -> str:
    """Return the name of the signal that moves the clock of a workflow forward, to just after a moment.

    The times of timers are fractions of a second, and not exact.
    """
    return f"{_SIGNAL}{(moment.astimezone(UTC) + timedelta(milliseconds=1)).isoformat()}"


class ClockInstance(InnerInstance):
    """An instance of the SDK whose clock signals move forward."""

    def __init__(self, inner: WorkflowInstance) -> None:
        super().__init__(inner)
        self._ahead = 0
        """Nanoseconds by which the workflow's clock is ahead of its server's."""

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """See base class."""
        for job in act.jobs:
            if _HEADER in job.initialize_workflow.headers:
                self._ahead = int(job.initialize_workflow.headers[_HEADER].data)
        moved, now = WorkflowActivation(), act.timestamp.ToNanoseconds()
        moved.CopyFrom(act)
        del moved.jobs[:]
        for job in act.jobs:
            moment = _read_moment(job)
            if moment is None:
                moved.jobs.append(job)
                continue
            self._ahead = max(self._ahead, moment - now)
            moved.jobs.extend(self._list_due(now + self._ahead))
        moved.timestamp.FromNanoseconds(now + self._ahead)
        done = self._inner.activate(moved)
        for command in done.successful.commands:
            self._hand_on(command)
        return done

    def _hand_on(self, command: WorkflowCommand) -> None:
        """Have what the command starts begin with this clock."""
        for kind in ("start_child_workflow_execution", "continue_as_new_workflow_execution"):
            if command.HasField(kind):
                header = getattr(command, kind).headers[_HEADER]
                header.metadata["encoding"], header.data = b"json/plain", str(self._ahead).encode()
        child = command.start_child_workflow_execution
        if child.HasField("retry_policy"):  # the server waits between its attempts, by a clock that nobody moves
            child.retry_policy.initial_interval.FromMilliseconds(1)
            child.retry_policy.maximum_interval.FromMilliseconds(1)

    def _list_due(self, now: int) -> list[WorkflowActivationJob]:
        """Return what fires the timers that are over by now; the server would fire them in time."""
        timers: dict[int, Any] = self._inner.__dict__["_pending_timers"]
        due = sorted(seq for seq, timer in timers.items() if round(timer.when() * _NANOSECONDS) <= now)
        jobs = []
        for seq in due or [0]:  # no timer has the number 0: the workflow runs all the same
            job = WorkflowActivationJob()
            job.fire_timer.seq = seq
            jobs.append(job)
        return jobs


def _read_moment(job: WorkflowActivationJob) -> int | None:
    """Return the nanoseconds of the moment that a signal names; None for any other job."""
    name = job.signal_workflow.signal_name
    if not name.startswith(_SIGNAL):
        return None
    return round(datetime.fromisoformat(name.removeprefix(_SIGNAL)).timestamp() * 1_000_000) * 1000


class ClockRunner(OwnRunner):
    """The runner of our workflow classes in tests."""

    def create_inner(self, details: WorkflowInstanceDetails) -> WorkflowInstance:
        """See base class."""
        return ClockInstance(super().create_inner(details))


CLOCK_RUNNER = ClockRunner()

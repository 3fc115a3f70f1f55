"""What the SDK's core does between the history of a workflow and its instance: jobs, commands, replay, the match.

Core gives the events of one task as one activation: signals first, then results, updates last. It takes back what a
workflow starts and cancels in one task, ends a cancelled call at once unless its end is waited for, and on replay
merges a task that was lost with the next one. A local activity ends inside its task: its result stands in a marker,
and comes on replay as soon as the workflow asks for it, or last among the jobs of the task where it has asked before.
It refuses a replay whose commands are not those of the history; so does `match_commands`, which also compares ids
that core does not look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from temporalio.bridge.proto.activity_result import ActivityResolution
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands.workflow_commands_pb2 import (
    ActivityCancellationType,
    ScheduleLocalActivity,
    WorkflowCommand,
)
from temporalio.exceptions import ApplicationError, CancelledError

from drills.simulate.sdk import encode_failure, make_instance

Identity = tuple[object, ...]
_RANKS = {"initialize_workflow": 0, "notify_has_patch": 0, "signal_workflow": 1, "do_update": 3}
ENDS = {
    "complete_workflow_execution",
    "fail_workflow_execution",
    "cancel_workflow_execution",
    "continue_as_new_workflow_execution",
}
_STARTS = {"cancel_timer": "start_timer", "request_cancel_activity": "schedule_activity"}
"""What each of these takes back, where that has not been sent yet."""


class Violation(Exception):
    """A promise that was broken."""


@dataclass
class Event:
    """One event of a history: a job for the workflow, a step of a task, or what a command has left."""

    kind: str
    time: int
    """Nanoseconds."""
    job: WorkflowActivationJob | None = None
    commands: list[Identity] = field(default_factory=list)
    """Of a task that was completed."""
    updates: list[WorkflowActivationJob] = field(default_factory=list)
    """Those that a completed task has accepted."""
    markers: dict[int, ActivityResolution] = field(default_factory=dict)
    """Of a completed task: the results of local activities, by number, in the order in which they came."""
    flags: set[int] = field(default_factory=set)
    """The internal flags of a completed task."""


class Sent(NamedTuple):
    """What a completed task sends."""

    commands: list[WorkflowCommand]
    markers: dict[int, ActivityResolution]
    flags: set[int]


class Core:
    """One workflow in the cache of a worker: its instance, and what core knows of it.

    Args:
        history: Its events; read as far as they are applied.
        run_id: Temporal's id of the history.
    """

    def __init__(self, history: Sequence[Event], run_id: str) -> None:
        self.run_id, self.applied = run_id, 0
        self.evicting = False
        """Whether our runner has asked for its removal."""
        self.taken_back: set[int] = set()
        """Activities that ended for the workflow before the server says so, by number."""
        self.local: dict[int, ScheduleLocalActivity] = {}
        """The local activities under way, by number."""
        self.started: dict[int, ScheduleLocalActivity] = {}
        """All local activities, by number."""
        self._unsent: list[WorkflowCommand] = []
        self._markers: dict[int, ActivityResolution] = {}
        """Results of local activities that the next completed task sends."""
        self._marked: dict[int, ActivityResolution] = {}
        """On replay: results that stand in the task at hand, of which the workflow has not asked yet."""
        self._early: list[WorkflowActivationJob] = []
        """Results that were sent with a task, and that the workflow gets with the next."""
        self._used: set[int] = set()
        self._flags: set[int] = set()
        """Internal flags: of the task at hand, and those of the tasks before."""
        self._modes: dict[int, int] = {}
        self._over: set[tuple[str, int]] = set()
        """What has ended by an event: to cancel it then does nothing."""
        self.time, self.length = 0, 0
        start = history[0].job
        assert start is not None
        began = datetime.fromtimestamp(history[0].time / 1e9, UTC)
        self._instance = make_instance(start.initialize_workflow, run_id, began, self._note_eviction)

    def _note_eviction(self, run_id: str) -> None:
        self.evicting = True

    # Activations

    def apply(self, jobs: Sequence[WorkflowActivationJob], time: int, length: int, *, replaying: bool = False) -> None:
        """Apply the jobs of one activation, and what they lead to in the same task.

        Args:
            jobs: In the order of their events.
            time: Of the task, in nanoseconds.
            length: Events of the history that the worker has.
            replaying: Whether it is a replay.
        """
        jobs = [job for job in (*jobs, *self._early) if not self._is_taken_back(job)]
        self._early = []
        self.time, self.length = time, length
        self._check_unsent(jobs)
        while jobs:
            self._over.update(_list_ends(jobs))
            completion = self._instance.activate(self._make_activation(jobs, time, length, replaying=replaying))
            if completion.HasField("failed"):
                raise Violation(f"a task failed: {completion.failed.failure.message}")
            self._used.update(completion.successful.used_internal_flags)
            jobs = self._take(completion.successful.commands)
            time += 1  # a result of a local activity moves the clock of its task
            self.time = time if jobs else self.time

    def _check_unsent(self, jobs: Sequence[WorkflowActivationJob]) -> None:
        """Raise `Violation` for the end of something whose cancel was not sent: core then fails the task."""
        ended = set(_list_ends(jobs))
        for command in self._unsent:
            kind = name_kind(command)
            if kind in _STARTS and (kind, getattr(command, kind).seq) in ended:
                raise Violation(f"a task failed: {kind} was not sent, and what it cancels has ended")

    def end_local(self, seq: int, result: ActivityResolution) -> None:
        """Give the workflow the result of a local activity, in the task that is under way."""
        self._markers[seq] = result
        del self.local[seq]
        self.apply([_make_local_job(seq, result)], self.time + 1, self.length)

    def end_local_early(self, seq: int, result: ActivityResolution) -> None:
        """Send the result of a local activity with the task under way; the workflow gets it with the next one.

        So it is where it comes while a query is answered that came with the task.
        """
        self._markers[seq] = result
        del self.local[seq]
        self._early.append(_make_local_job(seq, result))

    def query(self, name: str, argument: Any) -> Any:
        """Return the payload that answers a query, in an activation of its own."""
        [command] = self._ask(name, argument, "legacy_query")
        if command.respond_to_query.HasField("failed"):
            raise Violation(f"the query {name} failed: {command.respond_to_query.failed.message}")
        return command.respond_to_query.succeeded.response

    def query_in_task(self, name: str) -> bool:
        """Ask a query that came with a task; return whether it is answered before the task goes on."""
        return bool(self._ask(name, None, "query"))

    def _ask(self, name: str, argument: Any, id_: str) -> Sequence[WorkflowCommand]:
        job = WorkflowActivationJob()
        job.query_workflow.query_id, job.query_workflow.query_type = id_, name
        if argument is not None:
            job.query_workflow.arguments.append(argument)
        return self._instance.activate(self._make_activation([job], self.time, 0, replaying=False)).successful.commands

    def replay(self, history: Sequence[Event]) -> None:
        """Apply all tasks of the history that were completed, and compare their commands."""
        jobs: list[WorkflowActivationJob] = []
        for index, event in enumerate(history):
            if event.job is not None:
                jobs.append(event.job)
            following = history[index + 1] if index + 1 < len(history) else None
            if event.kind == "started" and following is not None and following.kind == "completed":
                known = {seq: result for seq, result in following.markers.items() if seq in self.local}
                self._marked = {seq: result for seq, result in following.markers.items() if seq not in known}
                for seq in known:
                    del self.local[seq]
                results = [_make_local_job(seq, result) for seq, result in known.items()]
                self.apply([*order([*jobs, *following.updates]), *results], event.time, index + 1, replaying=True)
                match_commands(following.commands, [identify(command) for command in self.take().commands])
                if self._marked:
                    raise Violation(f"does not replay: nothing asked for the local activities {list(self._marked)}")
                self._flags |= following.flags
                jobs, self.applied = [], index + 1

    def take(self) -> Sent:
        """Return what the next completed task sends, an end last; nothing is left."""
        commands, self._unsent = self._unsent, []
        markers, self._markers = self._markers, {}
        used, self._used = self._used, set()
        self._flags |= used
        ends = [command for command in commands if name_kind(command) in ENDS]
        kept = [*(command for command in commands if name_kind(command) not in ENDS), *ends[:1]]
        return Sent(kept, markers, used)

    def discard(self) -> None:
        """Evict the instance: what waits in it ends inside its loop. Raises `Violation` if something does not."""
        job = WorkflowActivationJob()
        job.remove_from_cache.SetInParent()
        try:
            self._instance.activate(self._make_activation([job], self.time, 0, replaying=False))
        except RuntimeError as error:
            raise Violation(f"cannot be evicted: {str(error).partition('.')[0]}") from error

    def _make_activation(
        self, jobs: Sequence[WorkflowActivationJob], time: int, length: int, *, replaying: bool
    ) -> WorkflowActivation:
        activation = WorkflowActivation(run_id=self.run_id, jobs=jobs, history_length=length, is_replaying=replaying)
        activation.timestamp.FromNanoseconds(time)
        activation.available_internal_flags.extend(sorted(self._flags))
        return activation

    def _is_taken_back(self, job: WorkflowActivationJob) -> bool:
        return job.HasField("resolve_activity") and job.resolve_activity.seq in self.taken_back

    # Commands

    def _take(self, commands: Sequence[WorkflowCommand]) -> list[WorkflowActivationJob]:
        """Keep the commands until the task is completed; return the jobs that they lead to at once."""
        jobs: list[WorkflowActivationJob] = []
        for command in commands:
            kind = name_kind(command)
            if kind == "respond_to_query":
                continue
            if kind == "schedule_local_activity":
                call = self.started[command.schedule_local_activity.seq] = command.schedule_local_activity
                if (result := self._marked.pop(call.seq, None)) is not None:
                    jobs.append(_make_local_job(call.seq, result))
                else:
                    self.local[call.seq] = call
                continue
            if kind == "request_cancel_local_activity":
                jobs += self._cancel_local(command.request_cancel_local_activity.seq)
                continue
            if kind in _STARTS and (kind, getattr(command, kind).seq) in self._over:
                continue
            if kind in _STARTS and self._withdraw(_STARTS[kind], getattr(command, kind).seq):
                if kind == "request_cancel_activity":
                    jobs.append(self._end_call(command.request_cancel_activity.seq))
                continue
            if kind == "cancel_signal_workflow":
                if self._withdraw("signal_external_workflow_execution", command.cancel_signal_workflow.seq):
                    job = WorkflowActivationJob()
                    job.resolve_signal_external_workflow.seq = command.cancel_signal_workflow.seq
                    job.resolve_signal_external_workflow.failure.CopyFrom(encode_failure(CancelledError("cancelled")))
                    jobs.append(job)
                continue
            if kind == "cancel_child_workflow_execution":
                seq = command.cancel_child_workflow_execution.child_workflow_seq
                if self._withdraw("start_child_workflow_execution", seq):
                    job = WorkflowActivationJob()
                    job.resolve_child_workflow_execution_start.seq = seq
                    failure = encode_failure(CancelledError("cancelled"))
                    job.resolve_child_workflow_execution_start.cancelled.failure.CopyFrom(failure)
                    jobs.append(job)
                    continue
            if kind == "schedule_activity":
                self._modes[command.schedule_activity.seq] = command.schedule_activity.cancellation_type
            self._unsent.append(command)
            if kind == "request_cancel_activity":
                seq = command.request_cancel_activity.seq
                if self._modes[seq] != ActivityCancellationType.WAIT_CANCELLATION_COMPLETED:
                    jobs.append(self._end_call(seq))
        return jobs

    def _cancel_local(self, seq: int) -> list[WorkflowActivationJob]:
        """End a local activity that is cancelled; one that has ended stays as it is."""
        if self.local.pop(seq, None) is None:
            return []
        result = ActivityResolution()
        result.cancelled.failure.CopyFrom(encode_failure(CancelledError("cancelled"), activity=True))
        self._markers[seq] = result
        return [_make_local_job(seq, result)]

    def _withdraw(self, kind: str, seq: int) -> bool:
        """Take a command back that was not sent yet; return whether there was one."""
        for index, command in enumerate(self._unsent):
            if name_kind(command) == kind and getattr(command, kind).seq == seq:
                del self._unsent[index]
                return True
        return False

    def _end_call(self, seq: int) -> WorkflowActivationJob:
        self.taken_back.add(seq)
        job = WorkflowActivationJob()
        job.resolve_activity.seq = seq
        failure = encode_failure(CancelledError("cancelled"), activity=True)
        job.resolve_activity.result.cancelled.failure.CopyFrom(failure)
        return job


def _make_local_job(seq: int, result: ActivityResolution) -> WorkflowActivationJob:
    job = WorkflowActivationJob()
    job.resolve_activity.seq, job.resolve_activity.is_local = seq, True
    job.resolve_activity.result.CopyFrom(result)
    return job


def _list_ends(jobs: Sequence[WorkflowActivationJob]) -> list[tuple[str, int]]:
    ended = [("request_cancel_activity", job.resolve_activity.seq) for job in jobs if job.HasField("resolve_activity")]
    return ended + [("cancel_timer", job.fire_timer.seq) for job in jobs if job.HasField("fire_timer")]


def order(jobs: Sequence[WorkflowActivationJob]) -> list[WorkflowActivationJob]:
    """Return the jobs of a task as core puts them: the start, signals, results, updates."""
    return sorted(jobs, key=lambda job: _RANKS.get(name_kind(job), 2))


def identify(command: WorkflowCommand) -> Identity:
    """Return what a command and the event that it has left are compared by."""
    kind = name_kind(command)
    match kind:
        case "schedule_activity":
            call = command.schedule_activity
            return (kind, call.activity_id, call.activity_type)
        case "start_timer" | "cancel_timer" | "request_cancel_activity":
            return (kind, getattr(command, kind).seq)
        case "start_child_workflow_execution":
            start = command.start_child_workflow_execution
            return (kind, start.workflow_id, start.workflow_type)
        case "signal_external_workflow_execution":
            signal = command.signal_external_workflow_execution
            return (kind, signal.workflow_execution.workflow_id, signal.signal_name)
        case "request_cancel_external_workflow_execution":
            request = command.request_cancel_external_workflow_execution
            return (kind, request.workflow_execution.workflow_id)
        case "upsert_workflow_search_attributes":
            fields = command.upsert_workflow_search_attributes.search_attributes.indexed_fields
            return (kind, *sorted(fields))
        case "update_response":
            response = command.update_response
            return (kind, response.protocol_instance_id, str(response.WhichOneof("response")))
        case "set_patch_marker":
            return (kind, command.set_patch_marker.patch_id)
    return (kind,)


def match_commands(recorded: Sequence[Identity], made: Sequence[Identity]) -> None:
    """Raise `Violation` if a replay has led to other commands than those that stand in the history."""
    for index in range(max(len(recorded), len(made))):
        one = recorded[index] if index < len(recorded) else None
        other = made[index] if index < len(made) else None
        if one != other:
            raise Violation(f"does not replay: command {index + 1} of a task was {one}, and is {other}")


def name_kind(message: Any) -> str:
    """Return the name of what a job or a command is."""
    return str(message.WhichOneof("variant"))


def make_application_failure(type_: str, message: str) -> Any:
    """Return the failure by which a server says that a request could not be delivered."""
    return encode_failure(ApplicationError(message, type=type_))

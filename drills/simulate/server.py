"""The simulated server: histories, tasks, timers, activities, children, signals, updates. It decides nothing.

What may happen next is a list of `Move`s; whoever drives the server picks one. Each is what one process of a cluster or
a worker does: start a task and give it to the worker, complete it, lose it, deliver a signal, fire a timer. Between the
start and the completion of a task all that comes is kept aside, as a server does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.activity_result import ActivityResolution
from temporalio.bridge.proto.child_workflow import ParentClosePolicy, StartChildWorkflowExecutionFailedCause
from temporalio.bridge.proto.workflow_activation import InitializeWorkflow, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands.workflow_commands_pb2 import (
    ScheduleActivity,
    ScheduleLocalActivity,
    WorkflowCommand,
)
from temporalio.exceptions import CancelledError

from drills.simulate.core import (
    ENDS,
    Core,
    Event,
    identify,
    make_application_failure,
    name_kind,
    order,
)
from drills.simulate.recording import Recording
from drills.simulate.sdk import encode_failure, is_ours, pack_attributes, pack_memo
from holdfast.protocol.names import VIEW

MILLISECOND = 1_000_000
ALREADY_EXISTS = StartChildWorkflowExecutionFailedCause.Value(
    "START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_WORKFLOW_ALREADY_EXISTS"
)
BEGAN = 1_767_225_600_000_000_000
"""Where the clock begins, in nanoseconds: 2026-01-01."""


class Move(NamedTuple):
    """Something that may happen next."""

    what: str
    """The name of its kind."""
    where: str
    make: Callable[[], object]


@dataclass
class Update:
    """An update on its way; `told` is called once with what the client hears.

    `told` gets `completed` with a payload, `rejected` or `failed` with a failure, or `aborted` with nothing where the
    workflow ended before.
    """

    id: str
    name: str
    argument: Payload
    told: Callable[[str, Any], None]


@dataclass
class Call:
    """An activity that was scheduled and has not ended."""

    run: Run
    command: ScheduleActivity
    attempt: int = 1
    failures: int = 0
    cancel_requested: bool = False
    attempts: int | None = None
    """How often it may fail, once the world has read that of its request."""


@dataclass
class Run:
    """One history of a workflow."""

    id: str
    run_id: str
    start: InitializeWorkflow
    recording: Recording
    """What a client would fetch of it."""
    parent: tuple[Run, int] | None = None
    """The history that started it, and by which number; of a continued one: the same."""
    close_policy: int = ParentClosePolicy.PARENT_CLOSE_POLICY_TERMINATE
    first_run: str = ""
    events: list[Event] = field(default_factory=list)
    aside: list[WorkflowActivationJob | None] = field(default_factory=list)
    """What came while a task was under way; None for an event that is no job."""
    task: str | None = None
    """`scheduled`, `started` or `elsewhere`: started by a worker that never comes back."""
    of_update: bool = False
    """Whether the scheduled task stands in no history yet: an update alone has made it."""
    core: Core | None = None
    updates: list[Update] = field(default_factory=list)
    """Those that wait for a task."""
    given: list[Update] = field(default_factory=list)
    """Those of the task under way."""
    accepted: dict[str, Update] = field(default_factory=dict)
    timers: dict[int, int] = field(default_factory=dict)
    calls: dict[int, Call] = field(default_factory=dict)
    attributes: dict[str, Payload] = field(default_factory=dict)
    memo: dict[str, Payload] = field(default_factory=dict)
    cancelled_at: int | None = None
    """When its cancellation was requested."""
    closed: str | None = None
    result: Payload | Failure | None = None
    news: bool = False
    """Whether its search attributes have changed since a client looked."""

    @property
    def is_first(self) -> bool:
        return self.run_id == self.first_run

    @property
    def answers_queries(self) -> bool:
        """Whether a server takes queries: its first task is done, and none is under way."""
        return self.task != "started" and any(event.kind == "completed" for event in self.events)


class World(Protocol):
    """What the server hands work to."""

    def note_closed(self, run: Run) -> None:
        """Look at a history that has just ended."""

    def run_local(self, call: ScheduleLocalActivity, *, failing: bool = False) -> ActivityResolution:
        """Run a local activity."""


class Server:
    """The server, and the cache of one worker; `world` is what it hands work to."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now = BEGAN
        self.turn = 0
        """How many runs the run goes on from: no two of them have histories of the same id."""
        self.runs: list[Run] = []
        self.current: dict[str, Run] = {}
        """The latest history of each workflow, by id."""
        self.operations: list[Move] = []
        """What the server itself does by and by."""
        self.foreign: list[Run] = []
        """Workflows that are not ours, and run."""

    # Histories

    def start(
        self, id_: str, start: InitializeWorkflow, parent: tuple[Run, int] | None = None, before: Run | None = None
    ) -> Run:
        """Begin a history, of a new workflow or after another one."""
        self.now += MILLISECOND
        run_id = f"{id_}#{self.turn}-{sum(run.id == id_ for run in self.runs) + 1}"
        start.workflow_id, start.first_execution_run_id = id_, run_id if before is None else before.first_run
        start.start_time.FromNanoseconds(self.now)
        start.randomness_seed = len(self.runs) + 1
        if before is not None:
            start.continued_from_execution_run_id = before.run_id
        if parent is not None:
            start.parent_workflow_info.workflow_id, start.parent_workflow_info.run_id = parent[0].id, parent[0].run_id
        recording = Recording(start, run_id, self.now)
        run = Run(id_, run_id, start, recording, parent, first_run=start.first_execution_run_id)
        run.attributes.update(start.search_attributes.indexed_fields)
        run.memo.update(start.memo.fields)
        self.runs.append(run)
        self.current[id_] = run
        if not is_ours(start.workflow_type):
            self.foreign.append(run)
            return run
        job = WorkflowActivationJob()
        job.initialize_workflow.CopyFrom(start)
        self._add(run, job)
        return run

    def find_open(self, id_: str) -> Run | None:
        """Return the open history of a workflow."""
        run = self.current.get(id_)
        return None if run is None or run.closed else run

    def _add(self, run: Run, job: WorkflowActivationJob | None) -> None:
        """Add an event to a history, or keep it aside while a task is under way; see that there is a task."""
        if run.closed:
            return
        if run.task in ("started", "elsewhere"):
            run.aside.append(job)
            return
        self.now += MILLISECOND // 100
        run.events.append(Event("job" if job is not None else "event", self.now, job))
        if run.task is None or run.of_update:
            self._schedule(run)

    def _schedule(self, run: Run) -> None:
        run.events.append(Event("scheduled", self.now))
        run.task, run.of_update = "scheduled", False

    # Requests of clients

    def signal(self, id_: str, name: str, argument: Payload | None) -> Run | None:
        """Deliver a signal; return the history that got it, if the workflow is open."""
        run = self.find_open(id_)
        if run is None or not is_ours(run.start.workflow_type):
            return run
        job = WorkflowActivationJob()
        job.signal_workflow.signal_name, job.signal_workflow.originating_event_id = name, len(run.events) + 1
        if argument is not None:
            job.signal_workflow.input.append(argument)
        self._add(run, job)
        return run

    def update(self, id_: str, update: Update) -> None:
        """Take an update; the client is told by and by."""
        run = self.find_open(id_)
        if run is None:
            update.told("aborted", None)
            return
        run.updates.append(update)
        if run.task is None:
            run.task, run.of_update = "scheduled", True

    def cancel(self, id_: str, reason: str = "a person") -> bool:
        """Request the cancellation of a workflow; return whether it is open."""
        run = self.find_open(id_)
        if run is not None and run.cancelled_at is None:
            self._cancel(run, reason)
        return run is not None

    def _cancel(self, run: Run, reason: str = "a parent") -> None:
        self.now += MILLISECOND // 100  # what was there before is older
        run.cancelled_at = self.now
        if not is_ours(run.start.workflow_type):
            self._close(run, "cancelled", encode_failure(CancelledError("cancelled")))
            return
        job = WorkflowActivationJob()
        job.cancel_workflow.reason = reason
        self._add(run, job)

    def query(self, run: Run, name: str, argument: Payload | None = None) -> Payload:
        """Return the answer to a query. Events that the worker was not given yet come with it.

        So does a task that another worker has started, and never completes.
        """
        core = self._load(run)
        new = run.events[core.applied :]
        if new and not run.closed:
            started = [event for event in new if event.kind == "started"]
            jobs = order([event.job for event in new if event.job is not None])
            # Of a task that another worker has started the clock is known, of events alone it is not.
            core.apply(jobs, started[-1].time if started else core.time, len(run.events))
            core.applied = len(run.events)
            self._end_all_local(core)
        payload: Payload = core.query(name, argument)
        self._evict_if_asked(run)
        return payload

    # Tasks

    def list_moves(self, run: Run) -> list[Move]:
        """Return what may happen to a history next; the plain one first."""
        if run.closed:
            return []
        if run.task == "started" and run.core is not None and run.core.local:
            several = len(run.core.local) > 1
            return [
                Move("end local", run.id, lambda: self._end_local(run)),
                *([Move("end last local", run.id, lambda: self._end_local(run, last=True))] if several else []),
                Move("fail local", run.id, lambda: self._end_local(run, failing=True)),
                Move("query in task", run.id, lambda: self._query_in_task(run)),
                Move("heartbeat", run.id, lambda: self._go_on(run)),
                Move("lose", run.id, lambda: self._time_out(run)),
            ]
        if run.task == "started":
            return [
                Move("complete", run.id, lambda: self.complete(run)),
                Move("lose", run.id, lambda: self._time_out(run)),
            ]
        if run.task == "elsewhere":
            return [Move("time out", run.id, lambda: self._time_out(run))]
        if run.task != "scheduled":
            return []
        moves = [
            Move("task", run.id, lambda: self._take_task(run)),
            Move("begin", run.id, lambda: self.begin(run)),
        ]
        if not run.of_update:
            moves.append(Move("elsewhere", run.id, lambda: self._begin_elsewhere(run)))
        return moves

    def _mark_started(self, run: Run) -> None:
        self.now += MILLISECOND
        if run.of_update:
            run.events.append(Event("scheduled", self.now))
        run.events.append(Event("started", self.now))

    def _begin_elsewhere(self, run: Run) -> None:
        self._mark_started(run)
        run.task = "elsewhere"

    def begin(self, run: Run) -> None:
        """Start the task of a history, and have the worker work on it."""
        core = self._load(run)
        if core.evicting:
            self.evict(run)
            core = self._load(run)
        self._mark_started(run)
        run.task = "started"
        jobs = [event.job for event in run.events[core.applied :] if event.job is not None]
        run.given, run.updates = run.updates, []
        jobs += [_make_update_job(update) for update in run.given]
        core.apply(order(jobs), self.now, len(run.events))
        core.applied = len(run.events)

    def _end_local(self, run: Run, *, last: bool = False, failing: bool = False) -> None:
        """End the first local activity that is under way, or the last: they may end in any order."""
        assert run.core is not None
        seq, call = list(run.core.local.items())[-1 if last else 0]
        run.core.end_local(seq, self.world.run_local(call, failing=failing))

    def _end_all_local(self, core: Core) -> None:
        while core.local:
            seq, call = next(iter(core.local.items()))
            core.end_local(seq, self.world.run_local(call))

    def _query_in_task(self, run: Run) -> None:
        """Ask a query that came with a task, while a local activity is under way.

        If it is answered at once, the task is completed, with the result of the activity if that comes meanwhile.
        """
        assert run.core is not None
        if not run.core.query_in_task(VIEW):
            return
        seq, call = next(iter(run.core.local.items()))
        run.core.end_local_early(seq, self.world.run_local(call))
        self._go_on(run)

    def _go_on(self, run: Run) -> None:
        """Complete a task in which a local activity is under way, and start the next at once."""
        self.complete(run, goes_on=True)
        if run.task == "scheduled":
            self.begin(run)

    def _load(self, run: Run) -> Core:
        """Return the workflow in the worker's cache; what was evicted is replayed."""
        if run.core is None:
            run.core = Core(run.events, run.run_id)
            run.core.replay(run.events)
        return run.core

    def evict(self, run: Run) -> None:
        """Remove a workflow from the worker's cache."""
        if run.core is not None:
            run.core.discard()
            run.core = None

    def _evict_if_asked(self, run: Run) -> None:
        if run.core is not None and run.core.evicting and run.task != "started":
            self.evict(run)

    def _time_out(self, run: Run) -> None:
        """End a task of which the worker says nothing; a worker that was late removes the workflow from its cache."""
        if run.task == "started":
            self.evict(run)
        run.updates, run.given = [*run.given, *run.updates], []
        self.now += MILLISECOND
        run.events.append(Event("timed out", self.now))
        run.task, run.of_update = None, False
        self._flush(run)
        if run.task is None:
            self._schedule(run)

    def _flush(self, run: Run) -> None:
        """Add what was kept aside."""
        aside, run.aside = run.aside, []
        for job in aside:
            self._add(run, job)

    def complete(self, run: Run, *, goes_on: bool = False) -> None:
        """Complete the task under way with what the workflow has commanded; with `goes_on` another follows at once."""
        core = run.core
        assert core is not None
        commands, markers, flags = core.take()
        refused = _list_refusals(run, commands)
        kept = [command for command in commands if command not in refused]
        if kept and name_kind(kept[-1]) in ENDS and run.aside:
            self._fail(run)  # a workflow cannot end while something is there that it has not heard
            return
        given = {update.id: update for update in run.given}
        run.given = []
        self._tell_refusals(given, refused)
        if run.of_update and not (kept or markers or goes_on or run.aside):
            del run.events[-2:]  # a task of which no event stands in the history
            core.applied = len(run.events)
            run.task, run.of_update = None, False
        else:
            accepted = [
                _make_update_job(given[command.update_response.protocol_instance_id], validate=False)
                for command in kept
                if command.HasField("update_response") and command.update_response.HasField("accepted")
            ]
            identities = [identify(command) for command in kept]
            run.events.append(Event("completed", self.now, None, identities, accepted, markers, flags))
            run.task, run.of_update = None, False
            for seq, result in markers.items():
                run.recording.add_local(core.started[seq], result, self.now)
                run.events.append(Event("command", self.now))
            for command in kept:
                run.events.append(Event("command", self.now))
                self._execute(run, command, given)
            core.applied = len(run.events)
            if not run.closed:
                self._flush(run)
            if goes_on and not run.closed and run.task is None:
                self._schedule(run)
        if not run.closed:
            if run.updates and run.task is None:
                run.task, run.of_update = "scheduled", True
            self._evict_if_asked(run)

    def _tell_refusals(self, given: dict[str, Update], refused: list[WorkflowCommand]) -> None:
        for command in refused:
            update = given.pop(command.update_response.protocol_instance_id)
            update.told("rejected", command.update_response.rejected)

    def _fail(self, run: Run) -> None:
        self.evict(run)
        run.updates, run.given = [*run.given, *run.updates], []
        run.events.append(Event("failed", self.now))
        run.task, run.of_update = None, False
        self._flush(run)

    # Commands

    def _execute(self, run: Run, command: WorkflowCommand, given: Mapping[str, Update]) -> None:
        run.recording.take_command(command, self.now)
        match name_kind(command):
            case "schedule_activity":
                run.calls[command.schedule_activity.seq] = Call(run, command.schedule_activity)
            case "request_cancel_activity":
                if (call := run.calls.get(command.request_cancel_activity.seq)) is not None:
                    call.cancel_requested = True
            case "start_timer":
                length = command.start_timer.start_to_fire_timeout.ToNanoseconds()
                run.timers[command.start_timer.seq] = self.now + length
            case "cancel_timer":
                self._cancel_timer(run, command.cancel_timer.seq)
            case "start_child_workflow_execution":
                self._later("start child", run, lambda: self._start_child(run, command))
            case "cancel_child_workflow_execution":
                self._cancel_first(run, command.cancel_child_workflow_execution.child_workflow_seq)
            case "signal_external_workflow_execution":
                self._later("deliver", run, lambda: self._deliver(run, command))
            case "request_cancel_external_workflow_execution":
                self._later("cancel", run, lambda: self._deliver_cancel(run, command))
            case "upsert_workflow_search_attributes":
                fields = command.upsert_workflow_search_attributes.search_attributes.indexed_fields
                run.attributes.update(fields)
                run.news = True
            case "modify_workflow_properties":
                run.memo.update(command.modify_workflow_properties.upserted_memo.fields)
            case "update_response":
                self._tell(run, command, given)
            case "set_patch_marker":
                pass
            case kind if kind in ENDS:
                self._end(run, command)
            case kind:
                raise NotImplementedError(f"the simulated server does not know the command {kind}")

    def _later(self, what: str, run: Run, make: Callable[[], object]) -> None:
        self.operations.append(Move(what, run.id, make))

    def _cancel_timer(self, run: Run, seq: int) -> None:
        run.timers.pop(seq, None)
        run.aside = [job for job in run.aside if job is None or not _fires(job, seq)]

    def _tell(self, run: Run, command: WorkflowCommand, given: Mapping[str, Update]) -> None:
        response = command.update_response
        id_ = response.protocol_instance_id
        if response.HasField("accepted"):
            run.accepted[id_] = given[id_]
        elif response.HasField("completed"):
            run.accepted.pop(id_).told("completed", response.completed)
        else:  # a handler that failed after it had accepted
            run.accepted.pop(id_).told("failed", response.rejected)

    def _start_child(self, run: Run, command: WorkflowCommand) -> None:
        start = command.start_child_workflow_execution
        job = WorkflowActivationJob()
        job.resolve_child_workflow_execution_start.seq = start.seq
        resolved = job.resolve_child_workflow_execution_start
        if run.closed:
            return
        if self.find_open(start.workflow_id) is not None:
            resolved.failed.workflow_id, resolved.failed.workflow_type = start.workflow_id, start.workflow_type
            resolved.failed.cause = ALREADY_EXISTS
        else:
            begin = InitializeWorkflow(workflow_type=start.workflow_type, arguments=start.input)
            begin.search_attributes.CopyFrom(start.search_attributes)
            begin.memo.CopyFrom(pack_memo(dict(start.memo)))
            child = self.start(start.workflow_id, begin, (run, start.seq))
            child.close_policy = start.parent_close_policy
            resolved.succeeded.run_id = child.run_id
        self._add(run, job)

    def _cancel_first(self, run: Run, seq: int) -> None:
        """Cancel the first history of a child, as the server does; a child that goes on in another does not hear it."""
        for child in self.runs:
            is_its = child.parent is not None and child.parent[0] is run and child.parent[1] == seq
            if is_its and child.is_first and not child.closed and child.cancelled_at is None:
                self._cancel(child)

    def _deliver(self, run: Run, command: WorkflowCommand) -> None:
        signal = command.signal_external_workflow_execution
        target = signal.child_workflow_id or signal.workflow_execution.workflow_id
        reached = self.signal(target, signal.signal_name, signal.args[0] if signal.args else None)
        job = WorkflowActivationJob()
        job.resolve_signal_external_workflow.seq = signal.seq
        if reached is None:
            failure = make_application_failure("SignalExternal", "the workflow was not found")
            job.resolve_signal_external_workflow.failure.CopyFrom(failure)
        self._add(run, job)

    def _deliver_cancel(self, run: Run, command: WorkflowCommand) -> None:
        request = command.request_cancel_external_workflow_execution
        job = WorkflowActivationJob()
        job.resolve_request_cancel_external_workflow.seq = request.seq
        if not self.cancel(request.workflow_execution.workflow_id, f"by a workflow with reason: {request.reason}"):
            failure = make_application_failure("CancelExternal", "the workflow was not found")
            job.resolve_request_cancel_external_workflow.failure.CopyFrom(failure)
        self._add(run, job)

    # Ends

    def _end(self, run: Run, command: WorkflowCommand) -> None:
        kind = name_kind(command)
        if kind == "continue_as_new_workflow_execution":
            following = command.continue_as_new_workflow_execution
            self._close(run, "continued", None)
            begin = InitializeWorkflow(workflow_type=run.start.workflow_type, arguments=following.arguments)
            begin.search_attributes.CopyFrom(pack_attributes(run.attributes))
            begin.memo.CopyFrom(pack_memo({**run.memo, **following.memo}))
            next_ = self.start(run.id, begin, run.parent, run)
            next_.close_policy = run.close_policy
        elif kind == "complete_workflow_execution":
            self._close(run, "completed", command.complete_workflow_execution.result)
        elif kind == "fail_workflow_execution":
            run.recording.fail(command.fail_workflow_execution.failure, self.now)
            self._close(run, "failed", command.fail_workflow_execution.failure)
        else:
            self._close(run, "cancelled", encode_failure(CancelledError("cancelled")))

    def finish_foreign(self, run: Run, result: Payload) -> None:
        """Have a workflow end that is not ours."""
        self._close(run, "completed", result)

    def _close(self, run: Run, how: str, result: Payload | Failure | None) -> None:
        run.closed, run.result, run.task = how, result, None
        if run in self.foreign:
            self.foreign.remove(run)
        self.world.note_closed(run)
        for update in [*run.updates, *run.given, *run.accepted.values()]:
            update.told("aborted", None)
        run.updates, run.given, run.accepted = [], [], {}
        run.timers.clear()
        run.calls.clear()
        if how == "continued":
            return
        if run.parent is not None:
            self._later("tell parent", run, lambda: self._tell_parent(run))
        for child in self.runs:
            chain = child.parent is not None and child.parent[0].id == run.id
            if chain and not child.closed:
                self._end_orphan(child)

    def _end_orphan(self, child: Run) -> None:
        if child.close_policy == ParentClosePolicy.PARENT_CLOSE_POLICY_REQUEST_CANCEL:
            self._later("cancel orphan", child, lambda: self.cancel(child.id))
        elif child.close_policy != ParentClosePolicy.PARENT_CLOSE_POLICY_ABANDON:
            self._later("terminate", child, lambda: self._terminate(child))

    def _terminate(self, child: Run) -> None:
        if not child.closed:
            self._close(child, "terminated", None)

    def _take_task(self, run: Run) -> None:
        self.begin(run)
        assert run.core is not None
        self._end_all_local(run.core)
        self.complete(run)

    def _tell_parent(self, child: Run) -> None:
        assert child.parent is not None
        parent, seq = child.parent
        parent = self.current[parent.id]
        job = WorkflowActivationJob()
        resolved = job.resolve_child_workflow_execution
        resolved.seq = seq
        if child.closed == "completed":
            assert isinstance(child.result, Payload)
            resolved.result.completed.result.CopyFrom(child.result)
        else:
            failure = Failure(message="Child Workflow execution failed")
            info = failure.child_workflow_execution_failure_info
            info.workflow_execution.workflow_id, info.workflow_type.name = child.id, child.start.workflow_type
            if isinstance(child.result, Failure):
                failure.cause.CopyFrom(child.result)
            else:
                failure.cause.terminated_failure_info.SetInParent()
            (resolved.result.cancelled if child.closed == "cancelled" else resolved.result.failed).failure.CopyFrom(
                failure
            )
        self.now += MILLISECOND // 100
        parent.recording.end_child(seq, resolved.result, self.now)
        self._add(parent, job)

    # Activities and timers

    def resolve(self, call: Call, result: ActivityResolution) -> None:
        """End an activity; a result that comes twice, or after the end of its workflow, is dropped."""
        run, seq = call.run, call.command.seq
        if run.closed or run.calls.pop(seq, None) is None:
            return
        self.now += MILLISECOND // 100  # what was there before is older
        run.recording.end_call(seq, result, self.now)
        job = WorkflowActivationJob()
        job.resolve_activity.seq = seq
        job.resolve_activity.result.CopyFrom(result)
        self._add(run, job)

    def list_timers(self) -> list[tuple[int, Run, int]]:
        """Return the timers that run: when each fires, of which history, its number; the nearest first."""
        timers = [(at, run, seq) for run in self.runs if not run.closed for seq, at in run.timers.items()]
        return sorted(timers, key=lambda timer: timer[0])

    def fire(self, at: int, run: Run, seq: int) -> None:
        """Let the time pass until a timer fires."""
        self.now = max(self.now, at)
        del run.timers[seq]
        job = WorkflowActivationJob()
        job.fire_timer.seq = seq
        self._add(run, job)


def _make_update_job(update: Update, *, validate: bool = True) -> WorkflowActivationJob:
    job = WorkflowActivationJob()
    job.do_update.id = job.do_update.protocol_instance_id = update.id
    job.do_update.name, job.do_update.run_validator = update.name, validate
    job.do_update.input.append(update.argument)
    return job


def _list_refusals(run: Run, commands: Sequence[WorkflowCommand]) -> list[WorkflowCommand]:
    """Return the refusals of validators, of which nothing stands in the history; a handler may fail later, too."""
    responses = [command.update_response for command in commands if command.HasField("update_response")]
    accepted = {response.protocol_instance_id for response in responses if response.HasField("accepted")}
    return [
        command
        for command in commands
        if command.update_response.HasField("rejected")
        and command.update_response.protocol_instance_id not in accepted | run.accepted.keys()
    ]


def _fires(job: WorkflowActivationJob, seq: int) -> bool:
    return job.HasField("fire_timer") and job.fire_timer.seq == seq

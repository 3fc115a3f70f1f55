"""One history as clients fetch it from a server: the events by which a run goes on from an earlier one."""

from __future__ import annotations

import json
from typing import Any

from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.bridge.proto.activity_result import ActivityResolution
from temporalio.bridge.proto.child_workflow import ChildWorkflowResult
from temporalio.bridge.proto.workflow_activation import InitializeWorkflow
from temporalio.bridge.proto.workflow_commands.workflow_commands_pb2 import (
    ScheduleLocalActivity,
    WorkflowCommand,
)

from holdfast.protocol.event_delivery import DELIVER_EVENT
from holdfast.protocol.past import digest_request


class Recording:
    """The events of one history; only those that `client.past_runs` reads.

    Args:
        start: How it was started.
        run_id: Temporal's id of it.
        now: Nanoseconds, as in all methods.
    """

    def __init__(self, start: InitializeWorkflow, run_id: str, now: int) -> None:
        self.events: list[HistoryEvent] = []
        self.scheduled: dict[str, int] = {}
        """When each call of an activity was scheduled, by its name: its id and what is asked, as ids may come again
        in the next history."""
        self.ended: dict[str, int] = {}
        """When each has ended."""
        self.completed: set[str] = set()
        """Those that gave a result."""
        self.requests: dict[str, dict[str, Any]] = {}
        """What each asks for."""
        self._calls: dict[int, HistoryEvent] = {}
        self._names: dict[int, str] = {}
        self._children: dict[int, int] = {}
        started = self._add(now).workflow_execution_started_event_attributes
        started.workflow_type.name = start.workflow_type
        started.input.payloads.extend(start.arguments)
        started.original_execution_run_id = run_id
        started.continued_execution_run_id = start.continued_from_execution_run_id

    def take_command(self, command: WorkflowCommand, now: int) -> None:
        """Record what a command has left."""
        match command.WhichOneof("variant"):
            case "schedule_activity":
                call = command.schedule_activity
                event = self._calls[call.seq] = self._add(now)
                scheduled = event.activity_task_scheduled_event_attributes
                scheduled.activity_id, scheduled.activity_type.name = call.activity_id, call.activity_type
                scheduled.input.payloads.extend(call.arguments)
                request = json.loads(call.arguments[0].data)
                name = f"{call.activity_id} {digest_request(call.activity_type, request)}"
                self._names[call.seq], self.requests[name] = name, request
                self.scheduled[name] = now
            case "request_cancel_activity":
                number = self._calls[command.request_cancel_activity.seq].event_id
                requested = self._add(now).activity_task_cancel_requested_event_attributes
                requested.scheduled_event_id = number
            case "start_child_workflow_execution":
                start = command.start_child_workflow_execution
                event = self._add(now)
                self._children[start.seq] = event.event_id
                initiated = event.start_child_workflow_execution_initiated_event_attributes
                initiated.workflow_id, initiated.workflow_type.name = start.workflow_id, start.workflow_type
                initiated.input.payloads.extend(start.input)
                for key, value in start.memo.items():
                    initiated.memo.fields[key].CopyFrom(value)
            case "request_cancel_external_workflow_execution":
                asked = self._add(now).request_cancel_external_workflow_execution_initiated_event_attributes
                target = command.request_cancel_external_workflow_execution.workflow_execution
                asked.workflow_execution.workflow_id = target.workflow_id

    def end_call(self, seq: int, result: ActivityResolution, now: int) -> None:
        """Record the end of an activity."""
        scheduled = self._calls[seq]
        name = self._names[seq]
        # A run that goes on from this one sends on what comes to itself.
        is_of_step = scheduled.activity_task_scheduled_event_attributes.activity_type.name != DELIVER_EVENT
        if is_of_step:
            self.ended[name] = now
        event = self._add(now)
        ended: Any
        if result.HasField("completed"):
            if is_of_step:
                self.completed.add(name)
            ended = event.activity_task_completed_event_attributes
            ended.result.payloads.append(result.completed.result)
        elif result.HasField("failed"):
            ended = event.activity_task_failed_event_attributes
            ended.failure.CopyFrom(result.failed.failure.cause)
        else:
            ended = event.activity_task_canceled_event_attributes
            ended.started_event_id = scheduled.event_id
        ended.scheduled_event_id = scheduled.event_id

    def add_local(self, call: ScheduleLocalActivity, result: ActivityResolution, now: int) -> None:
        """Record the marker of a local activity, as core writes it."""
        event = self._add(now)
        marker = event.marker_recorded_event_attributes
        marker.marker_name = "core_local_activity"
        data = {"seq": call.seq, "attempt": 1, "activity_id": call.activity_id, "activity_type": call.activity_type}
        marker.details["data"].payloads.add(metadata={"encoding": b"json/plain"}, data=json.dumps(data).encode())
        if result.HasField("completed"):
            marker.details["result"].payloads.append(result.completed.result)
        else:
            is_failed = result.HasField("failed")
            marker.failure.CopyFrom(result.failed.failure.cause if is_failed else result.cancelled.failure)
        id_ = call.activity_id.partition(" ")[0]
        self.scheduled[id_] = self.ended[id_] = now

    def end_child(self, seq: int, result: ChildWorkflowResult, now: int) -> None:
        """Record the end of a child; of one that was cancelled or terminated nothing is read."""
        event = self._add(now)
        ended: Any
        if result.HasField("completed"):
            ended = event.child_workflow_execution_completed_event_attributes
            ended.result.payloads.append(result.completed.result)
        elif result.HasField("failed") and not result.failed.failure.cause.HasField("terminated_failure_info"):
            ended = event.child_workflow_execution_failed_event_attributes
            ended.failure.CopyFrom(result.failed.failure.cause)
        else:
            return
        ended.initiated_event_id = self._children[seq]

    def fail(self, failure: Failure, now: int) -> None:
        """Record that the workflow has failed."""
        self._add(now).workflow_execution_failed_event_attributes.failure.CopyFrom(failure)

    def _add(self, now: int) -> HistoryEvent:
        event = HistoryEvent(event_id=len(self.events) + 1)
        event.event_time.FromNanoseconds(now)
        self.events.append(event)
        return event

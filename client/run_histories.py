"""Temporal's histories of a run as calls and children, read once each. `past_runs` and `case_recorder` use them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure as ProtoFailure
from temporalio.api.history.v1 import HistoryEvent, MarkerRecordedEventAttributes
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, FailureError
from temporalio.service import RPCError

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.client.tree import Tree
from holdfast.protocol.agents import CALL_MODEL
from holdfast.protocol.names import DRIVEN_PLAN_WORKFLOW, OWN_MEMO, PLACE_MEMO
from holdfast.protocol.past import PAST, Past, PastFailure, PastWaits, read_local_id
from holdfast.runtime.errors import BadInput, is_missing

LOCAL_MARKER = "core_local_activity"
"""The name of the markers in which core records local activities."""


@dataclass
class Call:
    """An activity in a history; of a local one there is no request, but the address is known."""

    id: str
    activity: str
    request: Payload | None
    at: datetime
    status: str = "begun"
    """`completed`, `failed`, `begun`, or `unsent` for one that was cancelled before a worker had it."""
    ended: datetime | None = None
    cancelled: datetime | None = None
    result: Payload | None = None
    failure: ProtoFailure | None = None
    address: str = ""
    made_in: str = ""
    """Temporal's id of the history."""
    answered: Sequence[str] = ()
    """Of a local one: see `PastCall.answered`."""


@dataclass
class ChildRun:
    """A child workflow in a history."""

    workflow: str
    address: str
    place: str
    """The address of its step: that of a page of a map, too."""
    is_own: bool
    type: str
    """The name of its workflow class."""
    arguments: Sequence[Payload]
    at: datetime
    status: str = "open"
    """`completed` or `failed`; else it had no end of its own."""
    ended: datetime | None = None
    cancelled: datetime | None = None
    result: Payload | None = None
    failure: ProtoFailure | None = None


@dataclass
class WorkflowHistory:
    """A history of a workflow of a run, as far as it matters here."""

    workflow: str
    type: str
    """The name of its workflow class."""
    run_id: str
    begun: datetime
    state: JSONObject | None
    """The state that it began with, where that was not fresh."""
    past: Past | None
    """What it met itself, in a run that went on from another one."""
    input: JSON = None
    """The run's input in its definition."""
    before: str | None = None
    """Temporal's id of the history before it, where it has continued as new."""
    closed: datetime | None = None
    failure: ProtoFailure | None = None
    """What it had failed with."""
    calls: dict[str, Call] = field(default_factory=dict)
    children: list[ChildRun] = field(default_factory=list)
    commands: set[str] = field(default_factory=set)
    later: Sequence[WorkflowHistory] = ()
    """Those after it whose calls and children stand here, too; see `Histories.read`."""

    @property
    def iterations(self) -> int:
        """Return how many iterations of a loop were complete when it began."""
        return 0 if self.state is None else int(self.state.get("iteration", 0))


class Histories:
    """The histories of one run, each read once. Raises `BadInput` for one that Temporal has forgotten."""

    def __init__(self, tree: Tree, run: str) -> None:
        self._tree, self._client, self._run = tree, tree.client, run
        self._read: dict[str, WorkflowHistory] = {}
        self._earlier: dict[str, WorkflowHistory] = {}
        """By Temporal's ids, those before a continue-as-new."""
        self._waits: dict[str, PastWaits] = {}

    async def read(self, workflow: str, iteration: int | None = None, begun_in: str | None = None) -> WorkflowHistory:
        """Return the last history of a workflow.

        Args:
            workflow: Its id.
            iteration: Of a loop: the history in which this iteration began instead.
            begun_in: Temporal's id of a history: all from this one on as one instead.
        """
        if begun_in is not None:
            chain = await self.read_chain(workflow)
            first = [history.run_id for history in chain].index(begun_in)
            return _join(chain[first:])
        if workflow not in self._read:
            self._read[workflow] = await self._fetch(workflow)
        history = self._read[workflow]
        while iteration is not None and history.before is not None and history.iterations >= iteration:
            history = await self._fetch(workflow, history.before)
        return history

    async def read_chain(self, workflow: str) -> list[WorkflowHistory]:
        """Return every history of a workflow, the oldest first."""
        chain = [await self.read(workflow)]
        while (before := chain[0].before) is not None:
            if before not in self._earlier:
                self._earlier[before] = await self._fetch(workflow, before)
            chain.insert(0, self._earlier[before])
        return chain

    async def walk(self, workflow: str | None = None) -> AsyncIterator[WorkflowHistory]:
        """Yield every history of a workflow, the oldest first, and then of those below it."""
        chain = await self.read_chain(workflow or self._run)
        for history in chain:
            yield history
        below = dict.fromkeys(child.workflow for history in chain for child in history.children if not child.is_own)
        for child in below:
            async for history in self.walk(child):
                yield history

    async def read_waits(self, history: WorkflowHistory) -> PastWaits:
        """Return how the questions of a history ended, and what it has done without a call."""
        own = await self._read_own_waits(history)
        return _join_waits([own, *[await self._read_own_waits(later) for later in history.later]])

    async def _read_own_waits(self, history: WorkflowHistory) -> PastWaits:
        workflow, run = history.workflow, history.run_id
        if run not in self._waits:
            page = await self._tree.query(workflow, PAST, 0, PastWaits, run)
            waits = page
            while page.more:
                page = await self._tree.query(workflow, PAST, len(waits.replies), PastWaits, run)
                waits = waits.model_copy(update={"replies": [*waits.replies, *page.replies]})
            self._waits[run] = waits.model_copy(update={"more": 0})
        return self._waits[run]

    async def decode(self, payload: Payload | None) -> Any:
        """Return the value of a payload; None where there is none."""
        if payload is None:
            return None
        return (await self._client.data_converter.decode([payload]))[0]

    async def read_failure(self, failure: ProtoFailure | None) -> PastFailure:
        """Return the failure of a call, or what a child had failed with."""
        copied = ProtoFailure()
        copied.CopyFrom(failure or ProtoFailure())  # decoding changes it
        error = await self._client.data_converter.decode_failure(copied)
        details: list[JSON] = []
        type_, message = "failed", str(error)
        if isinstance(error, ApplicationError):
            type_, details = error.type or "failed", list(error.details)
        if isinstance(error, FailureError):
            message = error.message
        return PastFailure(type=type_, message=message, details=details)

    async def _fetch(self, workflow: str, run_id: str | None = None) -> WorkflowHistory:
        try:
            fetched = await self._client.get_workflow_handle(workflow, run_id=run_id).fetch_history()
        except RPCError as error:
            if not is_missing(error):
                raise
            message = f"Temporal has forgotten {workflow}, a part of {self._run}: there is nothing to go on from"
            raise BadInput(message) from None
        first = fetched.events[0].workflow_execution_started_event_attributes
        values = await self._client.data_converter.decode(list(first.input.payloads))
        met = values[0].get("past")
        past = None if met is None else Past.model_validate(met)
        is_fresh = not first.continued_execution_run_id and (past is None or past.state is None)
        before = first.continued_execution_run_id or None
        state = None if is_fresh else values[1]
        history = WorkflowHistory(
            workflow,
            first.workflow_type.name,
            first.original_execution_run_id,
            fetched.events[0].event_time.ToDatetime(UTC),
            state,
            past,
            values[0].get("input"),
            before,
        )
        await _HistoryReader(self._client, history).take(fetched.events)
        return history


def _join(chain: Sequence[WorkflowHistory]) -> WorkflowHistory:
    """Return histories of a workflow, one after the other, as the first of them.

    The ids of calls begin anew in each, at the same addresses: what was called once more, as the next one did not have
    it any more, stands once. What the agent of a plan said later was said of other results.
    """
    first, *later = chain
    if not later:
        return first
    calls = dict(first.calls)
    for history in later:
        for call in history.calls.values():
            if call.activity != CALL_MODEL or first.type != DRIVEN_PLAN_WORKFLOW:
                calls.setdefault(call.id, call)
    return replace(
        first,
        closed=later[-1].closed,
        failure=later[-1].failure,
        calls=calls,
        children=[child for history in chain for child in history.children],
        commands={command for history in chain for command in history.commands},
        later=later,
    )


def _join_waits(chain: Sequence[PastWaits]) -> PastWaits:
    """Return what the histories of a workflow waited for as one."""
    return PastWaits(
        replies=[reply for waits in chain for reply in waits.replies],
        done=[address for waits in chain for address in waits.done],
        broken_blocks=[block for waits in chain for block in waits.broken_blocks],
        met=[id_ for waits in chain for id_ in waits.met],
    )


def _list_causes(failure: ProtoFailure) -> list[ProtoFailure]:
    """Return a failure and what it was caused by."""
    return [failure, *(_list_causes(failure.cause) if failure.HasField("cause") else [])]


class _HistoryReader:
    """Takes the events of a history."""

    def __init__(self, client: Client, history: WorkflowHistory) -> None:
        self._client, self._history = client, history
        self._calls: dict[int, Call] = {}
        self._children: dict[int, ChildRun] = {}

    async def take(self, events: Sequence[HistoryEvent]) -> None:
        for event in events:
            at = event.event_time.ToDatetime(UTC)
            if event.HasField("start_child_workflow_execution_initiated_event_attributes"):
                await self._begin_child(event, at)
            else:
                self._take_call(event, at)
                self._take_child(event, at)
                self._take_command(event)
        self._history.closed = events[-1].event_time.ToDatetime(UTC)
        if events[-1].HasField("workflow_execution_failed_event_attributes"):
            self._history.failure = events[-1].workflow_execution_failed_event_attributes.failure

    def _take_call(self, event: HistoryEvent, at: datetime) -> None:
        match event.WhichOneof("attributes"):
            case "activity_task_scheduled_event_attributes":
                scheduled = event.activity_task_scheduled_event_attributes
                request = scheduled.input.payloads[0] if scheduled.input.payloads else None
                call = Call(scheduled.activity_id, scheduled.activity_type.name, request, at)
                call.made_in = self._history.run_id
                self._calls[event.event_id] = self._history.calls[call.id] = call
            case "activity_task_completed_event_attributes":
                completed = event.activity_task_completed_event_attributes
                payloads = completed.result.payloads
                self._end_call(completed.scheduled_event_id, "completed", at, result=payloads[0] if payloads else None)
            case "activity_task_failed_event_attributes":
                failed = event.activity_task_failed_event_attributes
                self._end_call(failed.scheduled_event_id, "failed", at, failure=failed.failure)
            case "activity_task_canceled_event_attributes":
                ended = event.activity_task_canceled_event_attributes
                self._end_call(ended.scheduled_event_id, "begun" if ended.started_event_id else "unsent", at)
            case "activity_task_cancel_requested_event_attributes":
                asked = event.activity_task_cancel_requested_event_attributes
                self._calls[asked.scheduled_event_id].cancelled = at
            case "marker_recorded_event_attributes":
                self._take_local(event.marker_recorded_event_attributes, at)

    def _take_local(self, marker: MarkerRecordedEventAttributes, at: datetime) -> None:
        """Take a local activity, which has ended when it is recorded; one that was cancelled may be made again."""
        if marker.marker_name != LOCAL_MARKER:
            return
        data = json.loads(marker.details["data"].payloads[0].data)
        id_, address, answered = read_local_id(data["activity_id"])
        call = Call(id_, data["activity_type"], None, at, "completed", at, address=address, answered=answered)
        if marker.HasField("failure"):
            is_cancelled = any(cause.HasField("canceled_failure_info") for cause in _list_causes(marker.failure))
            call.status, call.failure = ("unsent" if is_cancelled else "failed"), marker.failure
            call.cancelled = at if is_cancelled else None
        elif marker.details["result"].payloads:
            call.result = marker.details["result"].payloads[0]
        self._history.calls[call.id] = call

    def _end_call(self, number: int, status: str, at: datetime, **end: Any) -> None:
        call = self._calls[number]
        call.status, call.ended = status, at
        call.result, call.failure = end.get("result"), end.get("failure")

    async def _begin_child(self, event: HistoryEvent, at: datetime) -> None:
        initiated = event.start_child_workflow_execution_initiated_event_attributes
        decode = self._client.data_converter.decode
        if is_own := OWN_MEMO in initiated.memo.fields:
            place = address = (await decode([initiated.memo.fields[PLACE_MEMO]]))[0]
        else:
            definition = (await decode(list(initiated.input.payloads[:1])))[0]
            place = definition["address"]
            address = definition.get("pages") or place
        arguments = list(initiated.input.payloads)
        child = ChildRun(initiated.workflow_id, address, place, is_own, initiated.workflow_type.name, arguments, at)
        self._children[event.event_id] = child
        self._history.children.append(child)

    def _take_child(self, event: HistoryEvent, at: datetime) -> None:
        match event.WhichOneof("attributes"):
            case "child_workflow_execution_completed_event_attributes":
                completed = event.child_workflow_execution_completed_event_attributes
                child = self._children[completed.initiated_event_id]
                child.status, child.ended = "completed", at
                child.result = completed.result.payloads[0] if completed.result.payloads else None
            case "child_workflow_execution_failed_event_attributes":
                failed = event.child_workflow_execution_failed_event_attributes
                child = self._children[failed.initiated_event_id]
                child.status, child.ended, child.failure = "failed", at, failed.failure
            case "request_cancel_external_workflow_execution_initiated_event_attributes":
                id_ = event.request_cancel_external_workflow_execution_initiated_event_attributes.workflow_execution
                for child in self._history.children:
                    if child.workflow == id_.workflow_id:
                        child.cancelled = child.cancelled or at

    def _take_command(self, event: HistoryEvent) -> None:
        update = event.workflow_execution_update_accepted_event_attributes.accepted_request.input.name
        signal = event.workflow_execution_signaled_event_attributes.signal_name
        self._history.commands |= {name for name in (update, signal) if name}

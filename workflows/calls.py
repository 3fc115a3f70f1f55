"""Calls of activities, for all workflows: their names, timeouts, retries and summaries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, FailureError
from temporalio.workflow import ActivityCancellationType

from holdfast.blueprint.kinds.references import MCP
from holdfast.blueprint.parts import Retry
from holdfast.protocol.activity_request import NOT_LOCAL, ActivityRequest, FileRequest
from holdfast.protocol.address import Address
from holdfast.protocol.agent_objects import DESCRIBE_AGENT, AgentDescription, ObjectReference
from holdfast.protocol.agents import (
    CACHE_GET,
    CACHE_PUT,
    CALL_MODEL,
    CALL_TOOL,
    DESCRIBE_TOOLS,
    FIND_TOOL,
    MAY_BE_LOCAL,
    CacheEntry,
    CacheHit,
    CacheLookup,
    Completed,
    FindTool,
    FoundTool,
    Interrupted,
    ModelReply,
    ModelRequest,
    ToolOutcome,
    ToolRequest,
    ToolSpec,
    ToolsRequest,
)
from holdfast.protocol.attachments import READ_FILE, AttachmentContent
from holdfast.protocol.elicitations import ELICITATION_SECONDS
from holdfast.protocol.event_delivery import DELIVER_EVENT, DeliveryRequest, DeliveryResult, DeliveryStatus
from holdfast.protocol.lookup import LOOK_UP, LookedUp, LookUp
from holdfast.protocol.past import PastCall, write_local_id
from holdfast.protocol.runs import LossPolicy, write_summary
from holdfast.protocol.usage import Usage
from holdfast.protocol.values import make_digest
from holdfast.workflows.concurrency import CancelledInCall, await_end, is_cancelled
from holdfast.workflows.earlier_run import EarlierRun, make_activity_error
from holdfast.workflows.identity import RunIdentity
from holdfast.workflows.sizes import check_size

MARGIN_SECONDS = 60.0
"""An activity keeps its own time limit. Temporal's is later by this, so that it only ever ends what was lost."""
LOCAL_SECONDS = 5.0
"""The longest time of a local call: it holds up its workflow task, which has ten seconds."""
MOST_LOCAL = 100
"""Local calls after which an ordinary one is made, so that their task ends: its message to the server holds all their
results, and may have 4 MB."""
_ECHO = "echo"
"""The model that says what it is told, unless a deployment has another one of this name."""


class Activities:
    """The activities of one workflow. None starts while its run is paused, or once it was asked to end.

    What is short and may run twice is a local activity: it is made in the workflow's own task, at least once, and costs
    one event. If it fails, or takes too long, an ordinary one follows, with a worker's beats and the author's pauses.
    Local ones are made one after another: on replay core gives the results of several in the order of their starts.
    """

    def __init__(
        self,
        identity: RunIdentity,
        earlier: EarlierRun,
        ready: Callable[[], Awaitable[None]],
        count: Callable[[Usage], None],
    ) -> None:
        """`ready` is awaited before each start; `count` is given what a model spent."""
        self._identity, self._earlier, self._ready, self._count = identity, earlier, ready, count
        self._local = asyncio.Lock()
        self._calls: dict[tuple[str, str], int] = {}
        self._local_calls = 0
        """Those since an ordinary call has ended."""
        self.under_way = 0
        self.parked = 0
        """Those of them that do nothing but wait for people."""

    @property
    def moving(self) -> bool:
        return self.under_way > self.parked

    async def call_model(
        self,
        request: ModelRequest,
        place: Address,
        *,
        summary: str,
        timeout: float | None = None,
        retry: Retry | None = None,
    ) -> ModelReply:
        """Send one request to a model; retried, as a repeated request has no effect outside."""
        placed = request.with_policy(timeout, retry).model_copy(update={"address": place})
        is_local = request.model == _ECHO and request.use is None
        call = _ActivityCall(CALL_MODEL, placed, ModelReply, summary, is_local=is_local)
        reply: ModelReply = await self._run_counted(call, place)
        return reply

    async def call_tool(
        self, request: ToolRequest, *, summary: str, timeout: float | None = None, retry: Retry | None = None
    ) -> ToolOutcome:
        """Call a tool once. If its worker was lost, the activity itself refuses to call one that is not idempotent."""
        # A running tool may have effects until it ends, so a cancelled call is not over before the activity is.
        ends = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
        placed, patience = request.with_policy(timeout, retry), 0.0
        if request.tool.startswith(MCP):
            # A server may ask people while it is called, which the activity leaves out of its time.
            placed, patience = placed.model_copy(update={"run": self._identity.run}), ELICITATION_SECONDS
        is_local = request.tool in self._identity.local_tools and request.idempotent is not False
        call = _ActivityCall(CALL_TOOL, placed, ToolOutcome, summary, ends, patience, is_local)
        outcome: ToolOutcome = await self._run_counted(call, request.address)
        return outcome

    async def read_file(self, path: str, place: Address, *, summary: str) -> str:
        """Return the content of a file of the worker, in base64."""
        call = _ActivityCall(READ_FILE, FileRequest(path=path), AttachmentContent, summary)
        content: AttachmentContent = await self._run(call, place)
        return content.data or ""

    async def look_up(self, key: str, place: Address) -> CacheHit:
        """Return the cache's entry for a key."""
        call = _ActivityCall(CACHE_GET, CacheLookup(key=key), CacheHit, key, is_local=True)
        hit: CacheHit = await self._run(call, place)
        return hit

    async def keep(self, entry: CacheEntry, place: Address) -> None:
        """Put a value into the cache."""
        await self._run(_ActivityCall(CACHE_PUT, entry, None, entry.key, is_local=True), place)

    async def find_tool(self, request: FindTool, place: Address) -> str | None:
        """Return the name of the tool that fits best, if any does."""
        summary = f"find a tool: {request.service or request.instruction}"
        call = _ActivityCall(FIND_TOOL, request, FoundTool, summary, is_local=True)
        tool: FoundTool = await self._run(call, place)
        return tool.name

    async def describe_agent(self, reference: ObjectReference, place: Address) -> AgentDescription:
        """Return what an agent of the team's own code is."""
        call = _ActivityCall(DESCRIBE_AGENT, reference, AgentDescription, reference.reference)
        description: AgentDescription = await self._run(call, place)
        return description

    async def describe_tools(self, tools: Sequence[str], place: Address, *, lenient: bool = False) -> list[ToolSpec]:
        """Return the descriptions of these tools for a model, in their order.

        With `lenient` also while the run is paused: a look-up is no work of the run, and a paused plan may be changed.
        """
        request, summary = ToolsRequest(tools=list(tools), lenient=lenient), ", ".join(tools)
        is_local = not any(tool.startswith(MCP) for tool in tools)
        call = _ActivityCall(DESCRIBE_TOOLS, request, list[ToolSpec], summary, is_local=is_local)
        specs: list[ToolSpec] = await self._run(call, place, at_once=lenient)
        return specs

    async def deliver_event(self, delivery: DeliveryRequest) -> DeliveryStatus:
        """Send an event to a workflow of the run, also while it is paused, and in a run that goes on from another."""
        call = _ActivityCall(DELIVER_EVENT, delivery, DeliveryResult, f"{delivery.event.name} {delivery.event.key}")
        id_ = self._next_id(DELIVER_EVENT, delivery.event.id)
        delivered: DeliveryResult = await call.result(id_, self._identity.loss_policy)
        return delivered.status

    async def _run_counted(self, call: _ActivityCall, place: str) -> Any:
        """Return the result of a call, and count what it has spent; also of one that a cancel met."""
        try:
            result = await self._run(call, place)
        except CancelledInCall as cancelled:
            if isinstance(cancelled.result, ModelReply | Completed | Interrupted):
                self._count(cancelled.result.usage)
            raise
        self._count(result.usage)
        return result

    async def _run(self, call: _ActivityCall, place: str, *, at_once: bool = False) -> Any:
        if call.is_local and (call.activity not in MAY_BE_LOCAL or self._local_calls >= MOST_LOCAL):
            call = call._replace(is_local=False)
        if call.is_local:
            self._local_calls += 1
            try:
                async with self._local:
                    return await self._make(call, place, at_once=at_once)
            except ActivityError as error:
                if _is_final(error):
                    raise
                call = call.follow_local(error)
                if (pause := _find_pause(error)) is not None:
                    await workflow.sleep(pause)
        try:
            return await self._make(call, place, at_once=at_once)
        finally:
            self._local_calls = 0

    async def _make(self, call: _ActivityCall, place: str, *, at_once: bool) -> Any:
        id_ = self._next_id(call.activity, place)
        if not at_once:
            await self._ready()
        if (met := self._earlier.take_call(id_, call.activity, place, is_local=call.is_local)) is not None:
            if met.status not in ("begun", "again"):
                return await self._earlier.meet_call(met, call.activity, call.request, call.result_type, place)
            call = call.make_again(met)
        check_size([call.request], self._identity.history_limits.value, f"the call ({call.summary})", Address(place))
        self.under_way += 1
        try:
            if call.is_local:
                id_ = write_local_id(id_, place, getattr(call.request, "fresh", ()))
            return await call.result(id_, self._identity.loss_policy)
        finally:
            self.under_way -= 1

    def list_met_answers(self, place: Address) -> Sequence[str]:
        """Return the paths whose answers the next call of a tool here was the first to get, in the earlier run.

        Empty if that run has made no such call, or it had no new answers.
        """
        id_ = make_digest(CALL_TOOL, place, self._calls.get((CALL_TOOL, place), 0) + 1)
        return self._earlier.list_answers(id_, place)

    def _next_id(self, activity: str, place: str) -> str:
        """Return the id of the next call of an activity at an address.

        With the SDK's own ids, which count calls, a replay that makes two calls in another order is not noticed: each
        gets the other's result.
        """
        count = self._calls[activity, place] = self._calls.get((activity, place), 0) + 1
        return make_digest(activity, place, count)


async def look_up_names(request: LookUp) -> LookedUp:
    """Return the names that the worker does not have."""
    call = _ActivityCall(LOOK_UP, request, LookedUp, "look up names")
    result: LookedUp = await call.result(LOOK_UP, LossPolicy())
    return result


class _ActivityCall(NamedTuple):
    activity: str
    request: ActivityRequest
    result_type: Any
    summary: str
    cancellation: ActivityCancellationType = ActivityCancellationType.TRY_CANCEL
    patience: float = 0.0
    """Seconds that people may have in the middle of it."""
    is_local: bool = False
    """Whether it is made in the workflow's own task."""

    def make_again(self, met: PastCall) -> _ActivityCall:
        """Return the call as one that an earlier run made: a begun one that may not run twice asks a person."""
        if not isinstance(self.request, ToolRequest):
            return self
        update = {"begun": met.status == "begun", "made_in": met.made_in}
        return self._replace(request=self.request.model_copy(update=update))

    def follow_local(self, error: ActivityError) -> _ActivityCall:
        """Return the ordinary call that follows a local one; only a failure of the call itself counts."""
        cause = error.cause
        has_failed = isinstance(cause, ApplicationError) and cause.type != NOT_LOCAL
        request = self.request.model_copy(update={"failures": 1}) if has_failed else self.request
        return self._replace(request=request, is_local=False)

    async def result(self, id_: str, losses: LossPolicy) -> Any:
        """Return the result. Failures are typed, and final: the activity counts them, and says when to try again.

        A local call is made once; the worker fails it if it has no such activity, as one on hold.
        """
        if self.is_local:
            local = workflow.start_local_activity(
                self.activity,
                self.request,
                activity_id=id_,
                result_type=self.result_type,
                summary=write_summary(self.summary),
                schedule_to_close_timeout=timedelta(seconds=LOCAL_SECONDS),
                retry_policy=RetryPolicy(maximum_attempts=1),
                cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
            try:
                return await await_end(local)
            except ActivityError:
                raise
            except FailureError as error:
                # Core wraps failures of ordinary ones; of local ones a timeout, but live only.
                raise make_activity_error(error) from error
        seconds = self.request.timeout + self.patience + MARGIN_SECONDS
        handle: workflow.ActivityHandle[Any] = workflow.start_activity(
            self.activity,
            self.request,
            activity_id=id_,
            result_type=self.result_type,
            summary=write_summary(self.summary),
            start_to_close_timeout=timedelta(seconds=seconds),
            # With its beats a lost worker is noticed, and a cancellation arrives: a cancelled call of 40 s ran to its
            # end without.
            heartbeat_timeout=timedelta(seconds=losses.heartbeat),
            retry_policy=_policy(losses),
            cancellation_type=self.cancellation,
        )
        return await await_end(handle)


def _is_final(error: ActivityError) -> bool:
    """Return whether no ordinary call follows a local one that has failed."""
    return is_cancelled(error) or (isinstance(error.cause, ApplicationError) and error.cause.non_retryable)


def _find_pause(error: ActivityError) -> timedelta | None:
    """Return the author's pause before the call is made again."""
    return error.cause.next_retry_delay if isinstance(error.cause, ApplicationError) else None


def _policy(losses: LossPolicy) -> RetryPolicy:
    """Return the policy for what was lost, which has no last attempt; a failure brings its own pause, or is final."""
    return RetryPolicy(
        initial_interval=timedelta(seconds=losses.backoff),
        backoff_coefficient=losses.factor,
        maximum_interval=timedelta(seconds=losses.longest),
    )

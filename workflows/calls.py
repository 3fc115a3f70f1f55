"""Calls of activities, for all workflows: their names, timeouts, retries and summaries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

from holdfast.blueprint.kinds.references import MCP
from holdfast.blueprint.parts import Retry
from holdfast.protocol.address import Address
from holdfast.protocol.agent_objects import DESCRIBE_AGENT, AgentDescription, ObjectReference
from holdfast.protocol.agents import (
    CacheEntry,
    CacheHit,
    CacheLookup,
    FindTool,
    FoundTool,
    ModelReply,
    ModelRequest,
    ToolOutcome,
    ToolRequest,
    ToolSpec,
    ToolsRequest,
)
from holdfast.protocol.attachments import READ_FILE, AttachmentContent, FileRequest
from holdfast.protocol.calls import ActivityRequest
from holdfast.protocol.elicitations import ELICITATION_SECONDS
from holdfast.protocol.lookup import LOOK_UP, LookedUp, LookUp
from holdfast.protocol.runs import LossPolicy, summary_of
from holdfast.protocol.usage import Usage
from holdfast.protocol.values import digest_of
from holdfast.workflows.concurrency import await_end
from holdfast.workflows.earlier_run import EarlierRun

CALL_MODEL = "call_model"
CALL_TOOL = "call_tool"
DESCRIBE_TOOLS = "describe_tools"
FIND_TOOL = "find_tool"
CACHE_GET = "cache_get"
CACHE_PUT = "cache_put"

MARGIN_SECONDS = 60.0
"""An activity keeps its own time limit. Temporal's is later by this, so that it only ever ends what was lost."""


class Activities:
    """The activities of one workflow. None starts while its run is paused, or once it was asked to end."""

    def __init__(
        self,
        ready: Callable[[], Awaitable[None]],
        count: Callable[[Usage], None],
        losses: LossPolicy,
        earlier: EarlierRun,
    ) -> None:
        """`ready` is awaited before each start; `count` is given what a model has spent."""
        self._ready, self._count, self._losses, self._earlier = ready, count, losses, earlier
        self._calls: dict[tuple[str, str], int] = {}
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
        call = _ActivityCall(CALL_MODEL, placed, ModelReply, summary)
        reply: ModelReply = await self._run(call, place)
        self._count(reply.usage)
        return reply

    async def call_tool(
        self, request: ToolRequest, *, summary: str, timeout: float | None = None, retry: Retry | None = None
    ) -> ToolOutcome:
        """Call a tool once. If its worker was lost, the activity itself refuses to call one that is not idempotent."""
        # A running tool may have effects until it ends, so a cancelled call is not over before the activity is.
        ends = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
        # A server may ask people while it is called, which the activity leaves out of its time.
        patience = ELICITATION_SECONDS if request.tool.startswith(MCP) else 0.0
        call = _ActivityCall(CALL_TOOL, request.with_policy(timeout, retry), ToolOutcome, summary, ends, patience)
        outcome: ToolOutcome = await self._run(call, request.address)
        return outcome

    async def read_file(self, path: str, place: Address, *, summary: str) -> str:
        """Return the content of a file of the worker, in base64."""
        call = _ActivityCall(READ_FILE, FileRequest(path=path), AttachmentContent, summary)
        content: AttachmentContent = await self._run(call, place)
        return content.data or ""

    async def look_up(self, key: str, place: Address) -> CacheHit:
        """Return the cache's entry for a key."""
        hit: CacheHit = await self._run(_ActivityCall(CACHE_GET, CacheLookup(key=key), CacheHit, key), place)
        return hit

    async def keep(self, entry: CacheEntry, place: Address) -> None:
        """Put a value into the cache."""
        await self._run(_ActivityCall(CACHE_PUT, entry, None, entry.key), place)

    async def find_tool(self, request: FindTool, place: Address) -> str | None:
        """Return the name of the tool that fits best, if any does."""
        summary = f"find a tool: {request.service or request.instruction}"
        tool: FoundTool = await self._run(_ActivityCall(FIND_TOOL, request, FoundTool, summary), place)
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
        call = _ActivityCall(DESCRIBE_TOOLS, request, list[ToolSpec], summary)
        specs: list[ToolSpec] = await self._run(call, place, at_once=lenient)
        return specs

    async def _run(self, call: _ActivityCall, place: str, *, at_once: bool = False) -> Any:
        id_ = self._next_id(call.activity, place)
        if not at_once:
            await self._ready()
        if (met := self._earlier.take_call(id_, call.activity, place)) is not None:
            if met.status != "begun":
                return await self._earlier.meet_call(met, call.activity, call.request, call.result_type, place)
            call = call.mark_begun()
        self.under_way += 1
        try:
            return await call.result(id_, self._losses)
        finally:
            self.under_way -= 1

    def _next_id(self, activity: str, place: str) -> str:
        """Return the id of the next call of an activity at an address.

        With the SDK's own ids, which count calls, a replay that makes two calls in another order is not noticed: each
        gets the other's result.
        """
        count = self._calls[activity, place] = self._calls.get((activity, place), 0) + 1
        return digest_of(activity, place, count)


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

    def mark_begun(self) -> _ActivityCall:
        """Return the call as one that an earlier run began: a tool that may not run twice asks a person."""
        if not isinstance(self.request, ToolRequest):
            return self
        return self._replace(request=self.request.model_copy(update={"begun": True}))

    async def result(self, id_: str, losses: LossPolicy) -> Any:
        """Return the result. Failures are typed, and final: the activity counts them, and says when to try again."""
        seconds = self.request.timeout + self.patience + MARGIN_SECONDS
        handle: workflow.ActivityHandle[Any] = workflow.start_activity(
            self.activity,
            self.request,
            activity_id=id_,
            result_type=self.result_type,
            summary=summary_of(self.summary),
            start_to_close_timeout=timedelta(seconds=seconds),
            # With its beats a lost worker is noticed, and a cancellation arrives: a cancelled call of 40 s ran to its
            # end without.
            heartbeat_timeout=timedelta(seconds=losses.heartbeat),
            retry_policy=_policy(losses),
            cancellation_type=self.cancellation,
        )
        return await await_end(handle)


def _policy(losses: LossPolicy) -> RetryPolicy:
    """Return the policy for what was lost, which has no last attempt; a failure brings its own pause, or is final."""
    return RetryPolicy(
        initial_interval=timedelta(seconds=losses.backoff),
        backoff_coefficient=losses.factor,
        maximum_interval=timedelta(seconds=losses.longest),
    )

"""Calls of activities, for all workflows: their names, timeouts, retries and summaries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

from holdfast.blueprint.kinds import Retry
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
from holdfast.protocol.lookup import LOOK_UP, LookedUp, LookUp
from holdfast.protocol.runs import summary_of
from holdfast.workflows.concurrency import to_its_end

CALL_MODEL = "call_model"
CALL_TOOL = "call_tool"
DESCRIBE_TOOLS = "describe_tools"
FIND_TOOL = "find_tool"
CACHE_GET = "cache_get"
CACHE_PUT = "cache_put"

MODEL_RETRY = Retry(attempts=5)
TOOL_RETRY = Retry(attempts=3)
ATTEMPT_SECONDS = 600.0
DESCRIBE_SECONDS = 90.0
CACHE_SECONDS = 30.0
# A cancellation reaches an activity with its next heartbeat: without one, a cancelled call of 40 s ran to its end.
HEARTBEAT = timedelta(seconds=10)


async def call_model(
    request: ModelRequest, *, summary: str, timeout: float | None = None, retry: Retry | None = None
) -> ModelReply:
    """Send one request to a model; retried, as a repeated request has no effect outside."""
    reply: ModelReply = await _call(CALL_MODEL, request, ModelReply, summary, timeout, retry or MODEL_RETRY)
    return reply


async def call_tool(
    request: ToolRequest, *, summary: str, timeout: float | None = None, retry: Retry | None = None
) -> ToolOutcome:
    """Call a tool once. The activity itself refuses a further attempt of a tool that is not idempotent."""
    # A running tool may have effects until it ends, so a cancelled call is not over before the activity is.
    ends = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
    outcome: ToolOutcome = await _call(CALL_TOOL, request, ToolOutcome, summary, timeout, retry or TOOL_RETRY, ends)
    return outcome


async def look_up(request: CacheLookup) -> CacheHit:
    """Return the cache's entry for a key."""
    hit: CacheHit = await _call(CACHE_GET, request, CacheHit, request.key, CACHE_SECONDS, TOOL_RETRY)
    return hit


async def keep(entry: CacheEntry) -> None:
    """Put a value into the cache."""
    await _call(CACHE_PUT, entry, None, entry.key, CACHE_SECONDS, TOOL_RETRY)


async def describe_tools(request: ToolsRequest) -> list[ToolSpec]:
    """Return the descriptions of these tools for a model, in their order."""
    specs: list[ToolSpec] = await _call(
        DESCRIBE_TOOLS, request, list[ToolSpec], ", ".join(request.tools), DESCRIBE_SECONDS, MODEL_RETRY
    )
    return specs


async def find_tool(request: FindTool) -> FoundTool:
    """Return the tool that fits best, if any does."""
    summary = f"find a tool: {request.service or request.instruction}"
    tool: FoundTool = await _call(FIND_TOOL, request, FoundTool, summary, DESCRIBE_SECONDS, MODEL_RETRY)
    return tool


async def look_up_names(request: LookUp) -> LookedUp:
    """Return the names that the worker does not have; tried once, as a person waits for it."""
    once = Retry(attempts=1)
    result: LookedUp = await _call(LOOK_UP, request, LookedUp, "look up names", DESCRIBE_SECONDS, once)
    return result


async def _call(
    activity: str,
    request: Any,
    result_type: Any,
    summary: str,
    timeout: float | None,
    retry: Retry,
    cancellation: ActivityCancellationType = ActivityCancellationType.TRY_CANCEL,
) -> Any:
    handle: workflow.ActivityHandle[Any] = workflow.start_activity(
        activity,
        request,
        result_type=result_type,
        summary=summary_of(summary),
        start_to_close_timeout=timedelta(seconds=timeout or ATTEMPT_SECONDS),
        heartbeat_timeout=HEARTBEAT,
        retry_policy=RetryPolicy(
            maximum_attempts=retry.attempts,
            initial_interval=timedelta(seconds=retry.backoff),
            backoff_coefficient=retry.factor,
            maximum_interval=timedelta(seconds=max(retry.max, retry.backoff)),
        ),
        cancellation_type=cancellation,
    )
    return await to_its_end(handle)

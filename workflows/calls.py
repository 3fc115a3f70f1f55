"""The only door to activities: their names, timeouts, retries and summaries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy

from blueprint.grammar import Retry
from protocol.agents import (
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
from protocol.runs import summary_of

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
HEARTBEAT = timedelta(seconds=10)


async def call_model(
    request: ModelRequest, *, summary: str, timeout: float | None = None, retry: Retry | None = None
) -> ModelReply:
    """One request to a model; retried, as asking again changes nothing in the world."""
    reply: ModelReply = await _call(CALL_MODEL, request, ModelReply, summary, timeout, retry or MODEL_RETRY)
    return reply


async def call_tool(
    request: ToolRequest, *, summary: str, timeout: float | None = None, retry: Retry | None = None
) -> ToolOutcome:
    """One tool call. The activity itself refuses a further attempt of a tool that is not idempotent."""
    outcome: ToolOutcome = await _call(CALL_TOOL, request, ToolOutcome, summary, timeout, retry or TOOL_RETRY)
    return outcome


async def look_up(request: CacheLookup) -> CacheHit:
    """What the cache holds."""
    hit: CacheHit = await _call(CACHE_GET, request, CacheHit, request.key, CACHE_SECONDS, TOOL_RETRY)
    return hit


async def keep(entry: CacheEntry) -> None:
    """Put something into the cache."""
    await _call(CACHE_PUT, entry, None, entry.key, CACHE_SECONDS, TOOL_RETRY)


async def describe_tools(request: ToolsRequest) -> list[ToolSpec]:
    """What a model is told of these tools, in their order."""
    specs: list[ToolSpec] = await _call(
        DESCRIBE_TOOLS, request, list[ToolSpec], ", ".join(request.tools), DESCRIBE_SECONDS, MODEL_RETRY
    )
    return specs


async def find_tool(request: FindTool) -> FoundTool:
    """The tool that fits best, if one does."""
    summary = f"find a tool: {request.service or request.instruction}"
    found: FoundTool = await _call(FIND_TOOL, request, FoundTool, summary, DESCRIBE_SECONDS, MODEL_RETRY)
    return found


async def _call(
    activity: str, request: Any, result_type: Any, summary: str, timeout: float | None, retry: Retry
) -> Any:
    return await workflow.execute_activity(
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
    )

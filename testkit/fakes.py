"""Fakes for a run under test: scripted results of tools, and a cache of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from holdfast.activities import CacheStore, store_at
from holdfast.blueprint.json_values import JSON
from holdfast.protocol.address import run_of
from holdfast.protocol.agents import CacheEntry, CacheHit, Completed, ToolOutcome, ToolRequest
from holdfast.workflows.calls import CALL_TOOL


class Tools:
    """The tool activity of tests: records calls, and replies for tools that have scripted replies."""

    def __init__(self, real: Callable[[ToolRequest], Awaitable[ToolOutcome]]) -> None:
        self._real = real
        self._replies: dict[str, Mapping[str, list[JSON]]] = {}
        self._calls: dict[str, dict[str, list[JSON]]] = {}

    def begin(self, run: str, replies: Mapping[str, list[JSON]]) -> dict[str, list[JSON]]:
        """Register a run before it starts, and return its calls by tool, filled in as they come."""
        self._replies[run] = replies
        return self._calls.setdefault(run, defaultdict(list))

    def end(self, run: str) -> None:
        del self._replies[run], self._calls[run]

    @activity.defn(name=CALL_TOOL)
    async def call_tool(self, request: ToolRequest) -> ToolOutcome:
        run = run_of(activity.info().workflow_id or "")
        calls = self._calls.get(run, {}).setdefault(request.tool, [])
        # A retry, or a resumption after an interrupt, is the same call.
        if not request.interrupted and activity.info().attempt == 1:
            calls.append(request.input if request.args is None else request.args)
        replies = self._replies.get(run, {}).get(request.tool)
        if replies is None:
            return await self._real(request)
        # The last reply answers all further calls.
        return _reply(replies[min(len(calls), len(replies)) - 1], request.tool)


def _reply(reply: object, tool: str) -> Completed:
    match reply:
        case {"error": error}:
            # It is part of the test: nobody wants to see it in the worker's log.
            message = f"{tool}: {error}"
            raise ApplicationError(
                message, type="tool_error", non_retryable=True, category=ApplicationErrorCategory.BENIGN
            )
        case {"output": output}:
            return Completed(result=output)
    return Completed(result=reply)


class OwnCaches:
    """A cache in memory, separate for each run."""

    def __init__(self) -> None:
        self._store: CacheStore = store_at("sqlite::memory:")

    async def get(self, key: str) -> CacheHit:
        return await self._store.get(_own_key(key))

    async def put(self, entry: CacheEntry) -> None:
        await self._store.put(entry.model_copy(update={"key": _own_key(entry.key)}))

    async def close(self) -> None:
        await self._store.close()


def _own_key(key: str) -> str:
    return f"{run_of(activity.info().workflow_id or '')} {key}"

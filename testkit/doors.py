"""What stands between a run under test and the world: written tool results, and a cache of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities import CacheStore, store_at
from protocol.address import run_of
from protocol.agents import CacheEntry, CacheHit, Completed, ToolOutcome, ToolRequest
from workflows.calls import CALL_TOOL


class Tools:
    """Remembers what tools are called with, and answers for those that a test has written replies for."""

    def __init__(self, real: Callable[[ToolRequest], Awaitable[ToolOutcome]]) -> None:
        self._real = real
        self._written: dict[str, Mapping[str, list[Any]]] = {}
        self._calls: dict[str, dict[str, list[Any]]] = {}

    def begin(self, run: str, written: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        """The calls of a run that is about to start, by tool, as they come in."""
        self._written[run] = written
        return self._calls.setdefault(run, defaultdict(list))

    def end(self, run: str) -> None:
        del self._written[run], self._calls[run]

    @activity.defn(name=CALL_TOOL)
    async def call_tool(self, request: ToolRequest) -> ToolOutcome:
        run = run_of(activity.info().workflow_id or "")
        calls = self._calls.get(run, {}).setdefault(request.tool, [])
        if not request.interrupted and activity.info().attempt == 1:
            calls.append(request.input if request.args is None else request.args)
        replies = self._written.get(run, {}).get(request.tool)
        if replies is None:
            return await self._real(request)
        return _reply(replies[min(len(calls), len(replies)) - 1], request.tool)


def _reply(written: Any, tool: str) -> Completed:
    match written:
        case {"error": error}:
            # It is part of the test: nobody wants to see it in the worker's log.
            told = f"{tool}: {error}"
            raise ApplicationError(
                told, type="tool_error", non_retryable=True, category=ApplicationErrorCategory.BENIGN
            )
        case {"output": output}:
            return Completed(result=output)
    return Completed(result=written)


class OwnCaches:
    """A cache in memory in which no run finds what another one kept."""

    def __init__(self) -> None:
        self._store: CacheStore = store_at("sqlite::memory:")

    async def get(self, key: str) -> CacheHit:
        return await self._store.get(_own(key))

    async def put(self, entry: CacheEntry) -> None:
        await self._store.put(entry.model_copy(update={"key": _own(entry.key)}))

    async def close(self) -> None:
        await self._store.close()


def _own(key: str) -> str:
    return f"{run_of(activity.info().workflow_id or '')} {key}"

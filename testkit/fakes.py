"""Fakes for a run under test: scripted results of tools, and a cache of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from holdfast.activities import CacheStore, store_at
from holdfast.blueprint.json_values import JSON
from holdfast.protocol.address import read_run
from holdfast.protocol.agents import CALL_TOOL, CacheEntry, CacheHit, Completed, ToolOutcome, ToolRequest


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
        run = read_run(activity.info().workflow_id or "")
        calls = self._calls.get(run, {}).setdefault(request.tool, [])
        # A retry, or a resumption after an interrupt, is the same call.
        if not request.interrupted and activity.info().attempt == 1:
            calls.append(request.input if request.args is None else request.args)
        replies = self._replies.get(run, {}).get(request.tool)
        if replies is None:
            return await self._real(request)
        return _reply(_choose(replies, calls), request.tool)


def _choose(replies: Sequence[JSON], calls: Sequence[JSON]) -> JSON:
    """Return the reply to the last of the calls: one for its arguments, else one for any; the last answers the rest.

    >>> replies = [{"arguments": {"a": 1}, "output": "one"}, "first", "others"]
    >>> [_choose(replies, [{"a": 2}, {"a": 1}][:n]) for n in (1, 2)], _choose(replies, [{}, {}, {}])
    (['first', {'arguments': {'a': 1}, 'output': 'one'}], 'others')
    """
    own = [reply for reply in replies if _holds_for(reply) == [calls[-1]]]
    if own:
        return own[min(calls.count(calls[-1]), len(own)) - 1]
    special = [arguments for reply in replies for arguments in _holds_for(reply)]
    rest = [reply for reply in replies if not _holds_for(reply)] or list(replies)
    return rest[min(sum(call not in special for call in calls), len(rest)) - 1]


def _holds_for(reply: JSON) -> list[JSON]:
    """Return the arguments that a reply is for, in a list; [] for one that is for any."""
    is_special = isinstance(reply, dict) and "arguments" in reply and reply.keys() & {"output", "error"}
    return [reply["arguments"]] if is_special else []


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
    return f"{read_run(activity.info().workflow_id or '')} {key}"

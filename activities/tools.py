"""One tool call."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.beating import beating
from activities.registry import Tool, find, wrong
from protocol.agents import Completed, ToolOutcome, ToolRequest


class ToolActivities:
    """Calls the tools and functions of the packages that the worker lists."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed = allowed

    @activity.defn(name="call_tool")
    async def call_tool(self, request: ToolRequest) -> ToolOutcome:
        found = find(request.tool, self._allowed)
        idempotent = found.idempotent or request.args is not None  # conditions and mappers have no effect
        if activity.info().attempt > 1 and not idempotent:
            raise wrong("outcome_unknown", f"{found.name} was lost in mid-call; it may have taken effect")
        async with beating():
            result = await _run(found, request, retryable=idempotent)
        try:
            return Completed(result=to_jsonable_python(result))
        except PydanticSerializationError as error:
            raise wrong("tool_output", f"{found.name} gave something that is no JSON: {error}") from None


async def _run(found: Tool, request: ToolRequest, *, retryable: bool) -> Any:
    args, named = (request.args, {}) if request.args is not None else found.arguments(request.input)
    function = found.function if request.args is not None else found.checked()
    try:
        return await _call(function, args, named)
    except ApplicationError:
        raise
    except ValidationError as error:
        raise wrong("tool_input", f"{found.name}: {_first(error)}") from None
    except Exception as error:  # noqa: BLE001 a tool may raise anything: it is told, typed, with its cause
        text = f"{found.name}: {type(error).__name__}: {error}"
        raise ApplicationError(text, type="tool_error", non_retryable=not retryable) from error


async def _call(function: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(inspect.unwrap(function)):
        return await function(*args, **named)
    result = await asyncio.to_thread(function, *args, **named)
    return await result if inspect.isawaitable(result) else result


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"

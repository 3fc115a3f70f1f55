"""One tool call."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json, to_jsonable_python
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.beating import beating
from activities.interrupt import LEAVE, Interrupt, has_leave, interrupted, resuming
from activities.mcp_servers import LOST, UNREACHABLE, McpServers
from activities.registry import Tool, find, nearest_tool, wrong
from activities.secrets import SecretStore, opening, unleaked
from blueprint.jsonschemas import BadSchema, validator
from protocol.agents import Completed, FindTool, FoundTool, ToolOutcome, ToolRequest, ToolSpec, ToolsRequest
from protocol.questions import Input, Permission
from protocol.tool_errors import MAY_HAVE_HAPPENED, NEVER_AGAIN, status_in

MCP = "mcp:"
UNREACHED_PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds between the tries to reach a server."""
_FOREIGN = {
    "pydantic_ai.exceptions.ApprovalRequired": True,
    "pydantic_ai.exceptions.CallDeferred": False,
}
"""Exceptions of libraries that mean an interrupt, by name (the library may not be there); do they ask for leave?"""

SOMETHING = {"type": ["object", "array", "string", "number", "boolean"]}
"""A result that somebody gives must be one: null would be what `resume` gives."""


class ToolActivities:
    """Calls and describes the tools and functions of the packages that the worker lists, and those of MCP servers."""

    def __init__(self, allowed: Sequence[str], servers: McpServers, secrets: Mapping[str, SecretStore]) -> None:
        self._allowed, self._servers, self._secrets = allowed, servers, secrets

    @activity.defn(name="call_tool")
    async def call_tool(self, request: ToolRequest) -> ToolOutcome:
        if request.tool.startswith(MCP):
            return await self._call_mcp(request)
        with opening(self._secrets) as opened:
            return await unleaked(self._call(request), opened, request.tool)

    async def _call(self, request: ToolRequest) -> ToolOutcome:
        found = find(request.tool, self._allowed)
        idempotent = found.idempotent if request.idempotent is None else request.idempotent
        idempotent = idempotent or request.args is not None  # conditions and mappers have no effect
        _refuse_second_attempt(found.name, idempotent)
        try:
            async with beating():
                with resuming(request):
                    result = await _run(found, request, retryable=idempotent)
        except Interrupt as interrupt:
            return interrupted(interrupt, found.name)
        return _completed(result, found.name)

    async def _call_mcp(self, request: ToolRequest) -> Completed:
        _refuse_second_attempt(request.tool, request.idempotent or False)
        server, _, name = request.tool.removeprefix(MCP).partition("/")
        try:
            async with beating():
                return _completed(await self._sent(server, name, request), request.tool)
        except ApplicationError as error:
            if error.type != LOST:
                raise
            unknown = not request.idempotent
            type_ = "outcome_unknown" if unknown else LOST
            raise ApplicationError(error.message, type=type_, non_retryable=unknown) from None

    async def _sent(self, server: str, name: str, request: ToolRequest) -> Any:
        """The server's result. What surely was not sent may be sent again, here: a second attempt of the activity
        could not tell it from what was lost.
        """
        for pause in UNREACHED_PAUSES:
            try:
                return await self._servers.call(server, name, request.input or {})
            except ApplicationError as error:
                if error.type != UNREACHABLE or error.non_retryable or request.idempotent:
                    raise
            await asyncio.sleep(pause)
        try:
            return await self._servers.call(server, name, request.input or {})
        except ApplicationError as error:
            raise (wrong(UNREACHABLE, error.message) if error.type == UNREACHABLE else error) from None

    @activity.defn(name="describe_tools")
    async def describe_tools(self, request: ToolsRequest) -> list[ToolSpec]:
        """What a model must know of the tools: name, description, arguments."""
        specs: list[ToolSpec] = []
        async with beating():
            for name in request.tools:
                specs += await self._described(name)
        return specs

    @activity.defn(name="find_tool")
    async def find_tool(self, wanted: FindTool) -> FoundTool:
        """The tool whose name and description fit best what is wanted."""
        among = [name for name in wanted.among if not name.startswith(MCP)]
        if wanted.among and not among:
            return FoundTool()
        return FoundTool(name=nearest_tool(wanted.service or "", wanted.instruction, among, wanted.missing))

    async def _described(self, name: str) -> list[ToolSpec]:
        if name.startswith(MCP):
            server, _, only = name.removeprefix(MCP).partition("/")
            offered = await self._servers.tools(server)
            wanted = [spec for spec in offered if not only or spec.reference == name]
            if not wanted:
                known = ", ".join(spec.reference for spec in offered) or "none"
                raise wrong("unknown_tool", f"the MCP server {server!r} has no tool {only!r}; it has: {known}")
            for spec in wanted:
                _check_parameters(spec)
            return wanted
        found = find(name, self._allowed)
        spelled = re.sub(r"[^A-Za-z0-9_-]+", "_", found.name.rpartition(":")[2])[:64]
        return [ToolSpec(name=spelled, description=found.description, parameters=found.parameters(), reference=name)]


def _check_parameters(spec: ToolSpec) -> None:
    try:
        validator(spec.parameters)
    except BadSchema as error:
        text = f"{spec.reference}: its arguments have no valid JSON Schema: {error}; leave it out"
        raise wrong("bad_tool", text) from None


def _refuse_second_attempt(name: str, idempotent: bool) -> None:
    if activity.info().attempt > 1 and not idempotent:
        raise wrong("outcome_unknown", f"{name} was lost in mid-call; it may have taken effect")


def _completed(result: Any, name: str) -> Completed:
    try:
        plain = to_jsonable_python(result)
        to_json(plain)  # half a character is found only here
        return Completed(result=plain)
    except ValueError as error:
        raise wrong("tool_output", f"{name} gave something that is no JSON: {error}") from None


async def _run(found: Tool, request: ToolRequest, *, retryable: bool) -> Any:
    args, named = (request.args, {}) if request.args is not None else found.arguments(request.input, request.by_name)
    function = found.function if request.args is not None else found.checked()
    try:
        return await _call(function, args, named)
    except ApplicationError:
        raise
    except BaseExceptionGroup as group:
        raise _meant_by(group, found, request, retryable) from group
    except found.interrupts as error:
        raise Interrupt(str(error)) from error
    except ValidationError as error:
        raise _failure(error, found, request, retryable) from None
    except Exception as error:  # noqa: BLE001 whatever it is, it is told as something else
        cause = error if _can_be_told(error) else None
        raise _interrupt_of(error, found, request) or _failure(error, found, request, retryable) from cause


def _can_be_told(error: BaseException | None) -> bool:
    """Whether it and what it came from are text throughout: half a character could not be written into a history."""
    while error is not None:
        if _told(str(error)) != str(error):
            return False
        error = error.__cause__
    return True


def _told(text: str) -> str:
    return text.encode(errors="replace").decode()


def _meant_by(
    group: BaseExceptionGroup[BaseException], found: Tool, request: ToolRequest, retryable: bool
) -> BaseException:
    """What a group of tasks means: its interrupts; with another failure in it that failure, the first one."""
    leaves = _leaves(group)
    interrupts: list[Interrupt] = []
    for leaf in leaves:
        interrupt = _interrupt_of(leaf, found, request)
        if interrupt is None:
            return _failure(leaf, found, request, retryable)
        if interrupt.ends == "" or all(interrupt.asked != other.asked for other in interrupts):
            interrupts.append(interrupt)  # leave for the call is asked for once
    return Interrupt.all(interrupts)


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for one in group.exceptions:
        found += _leaves(one) if isinstance(one, BaseExceptionGroup) else [one]
    return found


def _interrupt_of(error: BaseException, found: Tool, request: ToolRequest) -> Interrupt | None:
    """The interrupt that it is or means; None if it is a failure."""
    if isinstance(error, Interrupt):
        return error
    if isinstance(error, found.interrupts):
        return Interrupt(str(error))
    leave = _foreign(error)
    return None if leave is None else _of_library(found, request, leave)


def _failure(error: BaseException, found: Tool, request: ToolRequest, retryable: bool) -> ApplicationError:
    if isinstance(error, ApplicationError):
        return error
    if isinstance(error, ValidationError):
        return wrong("tool_input", f"{found.name}: {_first(error)}")
    text = _told(f"{found.name}: {type(error).__name__}: {error}")
    type_ = _type_of(error)
    unsure = request.unsure_is_final and type_ in MAY_HAVE_HAPPENED
    final = not retryable or unsure or type_ in NEVER_AGAIN
    return ApplicationError(text, type=type_, non_retryable=final)


def _type_of(error: BaseException) -> str:
    """What kind of failure it is: the HTTP status that an exception carries or its text tells of, a lost time."""
    if isinstance(error, TimeoutError):
        return "timeout"
    holders = (error, getattr(error, "response", None))  # an exception of any library: nothing else is known of it
    codes = [getattr(one, name, None) for one in holders for name in ("status_code", "status", "code")]
    status = next((code for code in codes if type(code) is int and 400 <= code < 600), None) or status_in(str(error))
    return "tool_error" if status is None else f"http_{status}"


def _foreign(error: BaseException) -> bool | None:
    """Whether a library's exception means an interrupt, and asks for leave; None if it is a failure."""
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    return next((_FOREIGN[name] for name in names if name in _FOREIGN), None)


def _of_library(found: Tool, request: ToolRequest, leave: bool) -> Interrupt:
    """Such an interrupt knows neither place nor question: it gets those of the call."""
    shown = {"tool": found.name, "args": request.input}
    if not leave:
        message = f"{found.name} is done elsewhere: what did it give?"
        done = Interrupt(Input(message=message, form=SOMETHING, info={"message": message, **shown}))
        done.ends = "answered"
        return done
    if has_leave(request):
        text = f"{found.name} asks for leave though it was given; it learns that by resumed().approved"
        raise wrong("bad_interrupt", text)
    asked = Interrupt(Permission(message=f"May {found.name} be called?", info=shown))
    asked.path = LEAVE if "" in request.given or "" in request.states else ""  # what was said and kept there stays
    asked.ends = "denied"
    return asked


async def _call(function: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(inspect.unwrap(function)):
        return await function(*args, **named)
    result = await asyncio.to_thread(function, *args, **named)
    return await result if inspect.isawaitable(result) else result


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"

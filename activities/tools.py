"""The activities that call tools, describe them to models, and find replacements for missing ones."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_jsonable_python
from temporalio import activity
from temporalio.exceptions import ApplicationError

from holdfast.activities.heartbeat import heartbeating
from holdfast.activities.interrupt import APPROVAL, Interrupt, has_approval, interrupted, resuming
from holdfast.activities.mcp_servers import LOST, UNREACHABLE, McpServers
from holdfast.activities.registry import Tool, find, nearest_tool, wrong
from holdfast.activities.secrets import SecretStore, refuse_leaks, secret_scope
from holdfast.activities.sizes import check_result
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema, validator
from holdfast.protocol import guard
from holdfast.protocol.agents import Completed, FindTool, FoundTool, ToolOutcome, ToolRequest, ToolSpec, ToolsRequest
from holdfast.protocol.questions import Input, Permission
from holdfast.protocol.tool_errors import MAY_HAVE_HAPPENED, NEVER_AGAIN, status_in

MCP = "mcp:"
UNREACHED_PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds between the attempts to reach a server."""
_FOREIGN = {
    "pydantic_ai.exceptions.ApprovalRequired": True,
    "pydantic_ai.exceptions.CallDeferred": False,
}
"""Exceptions of libraries that mean an interrupt; True if they request approval. By name, as none need be installed."""

SOMETHING = {"type": ["object", "array", "string", "number", "boolean"]}
"""JSON Schema of a result that a person enters: anything but null, which is the content of a plain resume."""


class ToolActivities:
    """The activities for tools: of the packages that the worker lists, and of MCP servers.

    Args:
        allowed: The packages whose functions may be called by `pkg.mod:function`.
        secrets: Stores by the name in references.
    """

    def __init__(self, allowed: Sequence[str], servers: McpServers, secrets: Mapping[str, SecretStore]) -> None:
        self._allowed, self._servers, self._secrets = allowed, servers, secrets

    @activity.defn(name="call_tool")
    async def call_tool(self, request: ToolRequest) -> ToolOutcome:
        """Return the result of a call, or the questions that it asks people.

        Raises `outcome_unknown` on a second attempt of a tool that is not idempotent: the first may have taken effect.
        """
        if request.tool.startswith(MCP):
            return await self._call_mcp(request)
        with secret_scope(self._secrets) as scope:
            return await refuse_leaks(self._call(request), scope, request.tool)

    async def _call(self, request: ToolRequest) -> ToolOutcome:
        tool = find(request.tool, self._allowed)
        idempotent = tool.idempotent if request.idempotent is None else request.idempotent
        idempotent = idempotent or request.args is not None  # conditions and mappers have no effect
        _refuse_second_attempt(tool.name, idempotent)
        try:
            async with heartbeating():
                with resuming(request):
                    result = await _run(tool, request, retryable=idempotent)
        except Interrupt as interrupt:
            return interrupted(interrupt, tool.name)
        return _completed(result, tool.name)

    async def _call_mcp(self, request: ToolRequest) -> Completed:
        _refuse_second_attempt(request.tool, request.idempotent or False)
        server, _, name = request.tool.removeprefix(MCP).partition("/")
        try:
            async with heartbeating():
                return _completed(await self._send(server, name, request), request.tool)
        except ApplicationError as error:
            if error.type != LOST:
                raise
            unknown = not request.idempotent
            type_ = "outcome_unknown" if unknown else LOST
            raise ApplicationError(error.message, type=type_, non_retryable=unknown) from None

    async def _send(self, server: str, name: str, request: ToolRequest) -> JSON:
        """Return the server's result.

        A call that certainly was not sent is retried here: a second attempt of the activity could not tell it from one
        that was lost.
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
        """Return the tools as a model sees them: name, description, arguments."""
        specs: list[ToolSpec] = []
        async with heartbeating():
            for name in request.tools:
                specs += await (self._described_or_problem(name) if request.lenient else self.described(name))
        return specs

    async def _described_or_problem(self, name: str) -> list[ToolSpec]:
        """Return the tool, or why it cannot be called; nothing if a retry may help, as with a server that is down."""
        try:
            return await self.described(name)
        except ApplicationError as error:
            return [ToolSpec(name=name, reference=name, problem=error.message)] if error.non_retryable else []

    @activity.defn(name="find_tool")
    async def find_tool(self, wanted: FindTool) -> FoundTool:
        """Return the tool that can replace the missing one, if there is one."""
        among = [name for name in wanted.among if not name.startswith(MCP)]
        if wanted.among and not among:
            return FoundTool()
        return FoundTool(name=nearest_tool(wanted.service or "", wanted.instruction, among, wanted.missing))

    def check(self, name: str) -> None:
        """Raise what a call would raise if the worker has no such tool or function."""
        find(name, self._allowed)

    async def described(self, name: str) -> list[ToolSpec]:
        """Return the description of a tool, or of all tools of an MCP server, for a model."""
        if name.startswith(MCP):
            server, _, only = name.removeprefix(MCP).partition("/")
            offered = await self._servers.tools(server)
            wanted = [spec for spec in offered if not only or spec.reference == name]
            if not wanted:
                references = ", ".join(spec.reference for spec in offered) or "none"
                raise wrong("unknown_tool", f"the MCP server {server!r} has no tool {only!r}; it has: {references}")
            for spec in wanted:
                _check_parameters(spec)
            return wanted
        tool = find(name, self._allowed)
        # Providers take only these characters, and at most 64 of them.
        fit_name = re.sub(r"[^A-Za-z0-9_-]+", "_", tool.name.rpartition(":")[2])[:64]
        return [ToolSpec(name=fit_name, description=tool.description, parameters=tool.parameters(), reference=name)]


def _check_parameters(spec: ToolSpec) -> None:
    try:
        validator(spec.parameters)
    except BadSchema as error:
        text = f"{spec.reference}: its arguments have no valid JSON Schema: {error}; leave it out"
        raise wrong("bad_tool", text) from None


def _refuse_second_attempt(name: str, idempotent: bool) -> None:
    if activity.info().attempt > 1 and not idempotent:
        raise wrong("outcome_unknown", f"{name} was lost in mid-call; it may have taken effect")


def _completed(result: object, name: str) -> Completed:
    try:
        plain = to_jsonable_python(result)
    except ValueError as error:
        raise wrong("tool_output", f"{name} gave something that is no JSON: {error}") from None
    check_result(plain, guard.DEPLOYMENT.limits.result, name)
    return Completed(result=plain)


async def _run(tool: Tool, request: ToolRequest, *, retryable: bool) -> JSON:
    """Return the result of the function; its exceptions become an `Interrupt` or a typed failure."""
    args, named = (request.args, {}) if request.args is not None else tool.arguments(request.input, request.by_name)
    function = tool.function if request.args is not None else tool.checked()
    try:
        return await _call(function, args, named)
    except ApplicationError:
        raise
    except BaseExceptionGroup as group:
        raise _from_group(group, tool, request, retryable) from group
    except tool.interrupts as error:
        raise Interrupt(str(error)) from error
    except ValidationError as error:
        raise _failure(error, tool, request, retryable) from None
    except Exception as error:  # noqa: BLE001 a tool may raise anything; it is reported as a typed failure
        cause = error if _is_encodable(error) else None
        raise _interrupt_of(error, tool, request) or _failure(error, tool, request, retryable) from cause


def _is_encodable(error: BaseException | None) -> bool:
    """Return whether the messages of an error and of its causes are valid text.

    Temporal writes causes into the history, and cannot write a lone surrogate there.
    """
    while error is not None:
        if _encodable(str(error)) != str(error):
            return False
        error = error.__cause__
    return True


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _from_group(
    group: BaseExceptionGroup[BaseException], tool: Tool, request: ToolRequest, retryable: bool
) -> BaseException:
    """Return the interrupts of a group of tasks as one; or the first failure, if there is another exception in it."""
    interrupts: list[Interrupt] = []
    for error in _flattened(group):
        interrupt = _interrupt_of(error, tool, request)
        if interrupt is None:
            return _failure(error, tool, request, retryable)
        if interrupt.ends == "" or all(interrupt.asked != other.asked for other in interrupts):
            interrupts.append(interrupt)  # approval of the call is requested once, however many tasks want it
    return Interrupt.all(interrupts)


def _flattened(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    errors: list[BaseException] = []
    for error in group.exceptions:
        errors += _flattened(error) if isinstance(error, BaseExceptionGroup) else [error]
    return errors


def _interrupt_of(error: BaseException, tool: Tool, request: ToolRequest) -> Interrupt | None:
    """Return the interrupt that an error is or stands for; None if it is a failure."""
    if isinstance(error, Interrupt):
        return error
    if isinstance(error, tool.interrupts):
        return Interrupt(str(error))
    approval = _requests_approval(error)
    return None if approval is None else _library_interrupt(tool, request, approval)


def _failure(error: BaseException, tool: Tool, request: ToolRequest, retryable: bool) -> ApplicationError:
    if isinstance(error, ApplicationError):
        return error
    if isinstance(error, ValidationError):
        return wrong("tool_input", f"{tool.name}: {_first(error, tool)}")
    text = _encodable(f"{tool.name}: {type(error).__name__}: {error}")
    type_ = _type_of(error)
    unsure = request.unsure_is_final and type_ in MAY_HAVE_HAPPENED
    final = not retryable or unsure or type_ in NEVER_AGAIN
    return ApplicationError(text, type=type_, non_retryable=final)


def _type_of(error: BaseException) -> str:
    """Return the failure type: `timeout`, or `http_…` by the status in attributes or text, or `tool_error`."""
    if isinstance(error, TimeoutError):
        return "timeout"
    # The usual attributes of HTTP libraries: the exception may be of any of them.
    holders = (error, getattr(error, "response", None))
    codes = [getattr(holder, name, None) for holder in holders for name in ("status_code", "status", "code")]
    status = next((code for code in codes if type(code) is int and 400 <= code < 600), None) or status_in(str(error))
    return "tool_error" if status is None else f"http_{status}"


def _requests_approval(error: BaseException) -> bool | None:
    """Return whether a library's interrupt requests approval; None if the error is a failure."""
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    return next((_FOREIGN[name] for name in names if name in _FOREIGN), None)


def _library_interrupt(tool: Tool, request: ToolRequest, approval: bool) -> Interrupt:
    """Return an interrupt of a library. It brings neither a place nor a question, so it gets those of the call."""
    info = {"tool": tool.name, "args": request.input}
    if not approval:
        message = f"{tool.name} is done elsewhere: what did it give?"
        deferred = Interrupt(Input(message=message, form=SOMETHING, info={"message": message, **info}))
        deferred.ends = "answered"
        return deferred
    if has_approval(request):
        text = f"{tool.name} requests approval although it was granted; the tool should read resumed().approved"
        raise wrong("bad_interrupt", text)
    permission = Interrupt(Permission(message=f"May {tool.name} be called?", info=info))
    # A path of its own where the tool itself has an answer or a state, which must stay.
    permission.path = APPROVAL if "" in request.given or "" in request.states else ""
    permission.ends = "denied"
    return permission


async def _call(function: Callable[..., Any], args: list[JSON], named: JSONObject) -> JSON:
    if inspect.iscoroutinefunction(inspect.unwrap(function)):
        return await function(*args, **named)
    result = await _in_thread(function, *args, **named)
    return await result if inspect.isawaitable(result) else result


async def _in_thread(function: Callable[..., Any], *args: object, **named: Any) -> JSON:
    """Call the function in a thread. As a thread cannot be stopped, a cancelled activity waits for its end.

    It does not wait if the worker shuts down or has lost the activity to another one: nobody would read the result.
    """
    thread = asyncio.ensure_future(asyncio.to_thread(function, *args, **named))
    while not thread.done():
        try:
            await asyncio.wait([thread])
        except asyncio.CancelledError:
            details = activity.cancellation_details()
            if details is None or not details.cancel_requested or activity.is_worker_shutdown():
                raise
    return thread.result()


def _first(error: ValidationError, tool: Tool) -> str:
    """Return the first problem with its path, which begins with the argument's name even if that came by position."""
    first = error.errors(include_url=False, include_input=False)[0]
    path, parameters = list(first["loc"]), tool.parameter_names
    is_call = error.title == tool.function.__name__  # not an error of a validation that the function itself makes
    if is_call and path and isinstance(path[0], int) and path[0] < len(parameters):
        path[0] = parameters[path[0]]
    return f"{'.'.join(map(str, path))}: {first['msg']}"

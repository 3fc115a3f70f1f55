"""The activities that call tools, describe them to models, and find replacements for missing ones."""

from __future__ import annotations

import asyncio
import inspect
import re
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Protocol

from pydantic import ValidationError
from pydantic_core import to_jsonable_python
from temporalio import activity
from temporalio.exceptions import ApplicationError

from holdfast.activities.agents import AgentActivities
from holdfast.activities.attempts import (
    count_failures,
    leave_failing_task,
    limit_time,
    refuse_local,
    run_attempt,
    was_lost,
)
from holdfast.activities.failure_types import classify_error, explain_unused, replace_surrogates
from holdfast.activities.graphs import CheckpointStore, Graphs, MemoryCheckpoints
from holdfast.activities.imports import import_alone
from holdfast.activities.interrupt import (
    APPROVAL,
    BadAnswer,
    Interrupt,
    has_approval,
    make_interrupted,
    raise_swallowed,
    resume_tool,
    translate,
)
from holdfast.activities.mcp_calls import MCP, McpCall
from holdfast.activities.mcp_servers import LOST, NO_CHANNEL, McpServers
from holdfast.activities.owner_gate import admit_request
from holdfast.activities.registry import Tool, find, nearest_tool, wrong
from holdfast.activities.reported_usage import Reported, collect_usage
from holdfast.activities.secrets import SecretStore, refuse_leaks, secret_scope
from holdfast.activities.sizes import check_result
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.jsonschemas import NOT_NULL, BadSchema, misfit, validator
from holdfast.blueprint.questions import Input, Permission
from holdfast.protocol import guard
from holdfast.protocol.agents import (
    CALL_TOOL,
    DESCRIBE_TOOLS,
    FIND_TOOL,
    Completed,
    FindTool,
    FoundTool,
    Interrupted,
    ObjectCall,
    ToolOutcome,
    ToolRequest,
    ToolSpec,
    ToolsRequest,
)
from holdfast.protocol.lookup import ToolForm
from holdfast.protocol.tool_errors import MAY_HAVE_HAPPENED, NEVER_AGAIN, OUTCOME_UNKNOWN, TIMEOUT
from holdfast.protocol.tool_rules import OwnerRule
from holdfast.protocol.usage import Usage

_FOREIGN = {
    "pydantic_ai.exceptions.ApprovalRequired": True,
    "pydantic_ai.exceptions.CallDeferred": False,
}
"""Exceptions of libraries that mean an interrupt; True if they request approval. By name, as none need be installed."""


_MISREAD = (TypeError, ValueError, LookupError, AttributeError)
"""What Python raises where a value is not of the form that is expected."""


class ListsTools(Protocol):
    """Something that lists the tools of MCP servers."""

    async def tools(self, server: str) -> list[ToolSpec]:
        """Return the tools of a server."""


class ToolActivities:
    """The activities for tools: of the packages that the worker lists, and of MCP servers.

    Args:
        allowed: The packages whose functions may be called by `pkg.mod:function`.
        secrets: Stores by the name in references.
        checkpoints: The store of graphs' checkpoints; None: in memory, for as long as the worker lasts.
        agents: The agents of the team's own code; None: those of the packages, with their own models.
    """

    def __init__(
        self,
        allowed: Sequence[str],
        servers: McpServers,
        secrets: Mapping[str, SecretStore],
        checkpoints: CheckpointStore | None = None,
        agents: AgentActivities | None = None,
    ) -> None:
        self._allowed, self._servers, self._secrets = allowed, servers, secrets
        self._graphs = Graphs(checkpoints or MemoryCheckpoints())
        self._agents = agents or AgentActivities(allowed, {})

    @activity.defn(name=CALL_TOOL)
    async def call_tool(self, request: ToolRequest) -> ToolOutcome:
        """Return the result of a call, or the questions that it asks people.

        Raises `outcome_unknown` for a tool that may not run twice, where an earlier call or this one may have taken
        effect: its worker was lost, or its time is over.
        """
        async with count_failures(request):
            await leave_failing_task(request.tool)
            if request.tool.startswith(MCP):
                return await self._call_mcp(request)
            with secret_scope(self._secrets) as scope, collect_usage() as reported:
                outcome = await refuse_leaks(self._call(request), scope, request.tool)
                if not reported:
                    return outcome
                return outcome.model_copy(update={"usage": await asyncio.to_thread(_add_up, reported)})

    async def _call(self, request: ToolRequest) -> ToolOutcome:
        if request.of_agent is not None:
            return await self._call_of_agent(request, request.of_agent)
        # In a thread: it may import the author's module, and heartbeats go on meanwhile.
        tool = await asyncio.to_thread(find, request.tool, self._allowed)
        if not tool.local:
            refuse_local(tool.name)
        idempotent = tool.idempotent if request.idempotent is None else request.idempotent
        idempotent = idempotent or request.args is not None  # conditions and mappers have no effect
        if tool.is_graph:
            self._graphs.check(tool, idempotent=idempotent)
        repeatable = idempotent or tool.is_graph and self._graphs.goes_on(tool)
        _refuse_lost(tool.name, request, repeatable)
        try:
            async with _call_limit(request, tool.name, repeatable=repeatable):
                request = admit_request(tool, request)
                with resume_tool(request):
                    result = await self._run(tool, request, retryable=idempotent)
        except Interrupt as interrupt:
            return make_interrupted(interrupt, tool.name)
        return _complete(result, tool.name)

    async def _run(self, tool: Tool, request: ToolRequest, *, retryable: bool) -> object:
        """Return the result of the function; its exceptions become an `Interrupt` or a typed failure."""
        try:
            result = await (self._graphs.result(tool, request) if tool.is_graph else _call_tool(tool, request))
            raise_swallowed()
        except ApplicationError:
            raise
        except BaseExceptionGroup as group:
            raise _from_group(group, tool, request, retryable) from group
        except tool.exceptions as error:
            raise translate(tool, error) or error from error
        except Exception as error:  # noqa: BLE001 a tool may raise anything; it is reported as a typed failure
            if _are_arguments_wrong(error, tool, request):
                raise self._failure(error, tool, request, retryable) from None
            cause = error if _is_encodable(error) else None
            interrupt = _find_interrupt(error, tool, request)
            if interrupt is None and retryable and not tool.is_graph and isinstance(error, _MISREAD) and request.fresh:
                # It may run twice, so nothing is lost by asking again; a retry would only read the same answer.
                interrupt = BadAnswer.at(dict.fromkeys(request.fresh, explain_unused(error)))
            raise interrupt or self._failure(error, tool, request, retryable) from cause
        if (interrupt := translate(tool, result)) is not None:
            raise interrupt
        return result

    def _failure(self, error: BaseException, tool: Tool, request: ToolRequest, retryable: bool) -> ApplicationError:
        return _failure(error, tool, request, retryable, self._graphs.find_place(error) if tool.is_graph else "")

    async def _call_of_agent(self, request: ToolRequest, call: ObjectCall) -> ToolOutcome:
        """Return the outcome of a tool of an agent object, or of the check of its output."""
        idempotent = request.idempotent or False
        _refuse_lost(request.tool, request, idempotent)
        objects = await self._agents.objects()

        async def call_object() -> Completed:
            return await objects.call(call, approved=request.consent != "" or has_approval(request))

        name = request.tool.rpartition("/")[2]
        try:
            async with _call_limit(request, name, repeatable=idempotent):
                with resume_tool(request):
                    completed: JSON = await self._run(Tool(name, call_object), request, retryable=idempotent)
        except Interrupt as interrupt:
            return make_interrupted(interrupt, name)
        check_result(completed.model_dump(mode="json"), guard.DEPLOYMENT.limits.result, name)
        return Completed.model_validate(completed)

    async def _call_mcp(self, request: ToolRequest) -> ToolOutcome:
        if not isinstance(request.input, dict | None):
            kind = type(request.input).__name__
            message = f"{request.tool} takes an object of its arguments by name, not {kind}; write arguments: {{…}}"
            raise wrong("tool_input", message)
        _refuse_lost(request.tool, request, request.idempotent or False)
        try:
            outcome = await McpCall(self._servers, request).outcome()
        except ApplicationError as error:
            if not request.idempotent or error.type == NO_CHANNEL:
                is_unknown = error.type in (LOST, NO_CHANNEL)
                raise _final(error, OUTCOME_UNKNOWN if is_unknown else error.type) from error.__cause__
            raise (ApplicationError(error.message, type=LOST) if error.type == LOST else error) from error.__cause__
        return outcome if isinstance(outcome, Interrupted) else _complete(outcome, request.tool)

    @activity.defn(name=DESCRIBE_TOOLS)
    async def describe_tools(self, request: ToolsRequest) -> list[ToolSpec]:
        """Return the tools as a model sees them: name, description, arguments."""
        specs: list[ToolSpec] = []
        async with run_attempt(request):
            for name in request.tools:
                specs += await (self._described_or_problem(name) if request.lenient else self.describe(name))
        return specs

    async def _described_or_problem(self, name: str) -> list[ToolSpec]:
        """Return the tool, or why it cannot be called; nothing if a retry may help, as with a server that is down."""
        try:
            return await self.describe(name)
        except ApplicationError as error:
            return [ToolSpec(name=name, reference=name, problem=error.message)] if error.non_retryable else []

    @activity.defn(name=FIND_TOOL)
    async def find_tool(self, wanted: FindTool) -> FoundTool:
        """Return the tool that can replace the missing one, if there is one."""
        async with run_attempt(wanted):
            among = [name for name in wanted.among if not name.startswith(MCP)]
            if wanted.among and not among:
                return FoundTool()
            return FoundTool(name=nearest_tool(wanted.service or "", wanted.instruction, among, wanted.missing))

    def check(self, name: str, *, idempotent: bool = False) -> None:
        """Raise what a call would raise if the worker has no such tool or function, or cannot run it.

        Args:
            idempotent: The blueprint says that it may run twice.
        """
        tool = find(name, self._allowed)
        if tool.is_graph:
            self._graphs.check(tool, idempotent=idempotent or tool.idempotent)
        elif ":" not in tool.name:  # a plain function may be a condition or a mapper, which is called as it is
            _ = tool.validated_function

    async def check_mcp_fixed(self, name: str, given: JSON, servers: ListsTools) -> None:
        """Raise what a tool of a server would refuse in values that the blueprint gives it, as `check_fixed` does."""
        try:
            [spec] = await self.describe(name, servers)
        except ApplicationError:
            return
        about_names = ("required", "additionalProperties")
        schema = {key: value for key, value in spec.parameters.items() if key not in about_names}
        if (text := misfit({**schema, "type": "object"}, given)) is not None:
            raise wrong("tool_input", f"{name} does not take this: {text}")

    def check_fixed(self, name: str, given: JSON, *, by_name: bool) -> None:
        """Raise what a call would raise for values that the blueprint gives it; nothing for a tool that is not here."""
        try:
            misfit = find(name, self._allowed).find_misfit(given, by_name=by_name)
        except ApplicationError:
            return
        if misfit is not None:
            raise wrong("tool_input", f"{name} does not take this: {misfit}")

    def find_rule(self, name: str) -> OwnerRule | None:
        """Return what the owner of a tool demands before a call; None for nothing, and for a tool that is not here."""
        try:
            return find(name, self._allowed).rule
        except ApplicationError:
            return None

    def is_local(self, name: str) -> bool:
        """Return whether a tool is called in the workflow's own task; False for one that is not here."""
        try:
            return find(name, self._allowed).local
        except ApplicationError:
            return False

    def find_form(self, name: str) -> ToolForm | None:
        """Return what a tool takes and gives, by its annotations; None for one that is not here, or a graph."""
        try:
            tool = find(name, self._allowed)
            return None if tool.is_graph else ToolForm(parameters=tool.parameters(), result=tool.result())
        except ApplicationError:
            return None

    async def describe(self, name: str, servers: ListsTools | None = None) -> list[ToolSpec]:
        """Return the description of a tool, or of all tools of an MCP server, for a model.

        Args:
            name: The name of the tool, or `mcp:SERVER`.
            servers: What lists the tools of MCP servers; None: the servers themselves.
        """
        if name.startswith(MCP):
            server, _, only = name.removeprefix(MCP).partition("/")
            offered = await (servers or self._servers).tools(server)
            wanted = [spec for spec in offered if not only or spec.reference == name]
            if not wanted:
                references = ", ".join(spec.reference for spec in offered) or "none"
                raise wrong("unknown_tool", f"the MCP server {server!r} has no tool {only!r}; it has: {references}")
            for spec in wanted:
                _check_parameters(spec)
            return wanted
        tool = await asyncio.to_thread(find, name, self._allowed)
        # Providers take only these characters, and at most 64 of them.
        fit_name = re.sub(r"[^A-Za-z0-9_-]+", "_", tool.name.rpartition(":")[2])[:64]
        return [
            ToolSpec(
                name=fit_name,
                description=tool.description,
                parameters=tool.parameters(),
                reference=name,
                rule=tool.rule,
                idempotent=tool.idempotent,
                reads_only=tool.reads_only,
            )
        ]


def _add_up(reported: Reported) -> Usage:
    """Return what was reported together; what has no cost at the list price of its model."""
    # Imported with the first report: the library with the prices takes a second.
    prices = import_alone("holdfast.activities.providers.conversation")
    total = Usage()
    for model, used in reported:
        cost = prices.find_price(model, used) if used.cost_usd is None else used.cost_usd
        total += used.model_copy(update={"cost_usd": cost})
    return total


def _check_parameters(spec: ToolSpec) -> None:
    try:
        validator(spec.parameters)
    except BadSchema as error:
        text = f"{spec.reference}: its arguments have no valid JSON Schema: {error}; leave it out"
        raise wrong("bad_tool", text) from None


def _refuse_lost(name: str, request: ToolRequest, repeatable: bool) -> None:
    """Raise `outcome_unknown` if the call was begun before, here or by the run that this one goes on from."""
    if repeatable:
        return
    if was_lost(request):
        raise wrong(OUTCOME_UNKNOWN, f"the worker that called {name} was lost, or could not store its result")
    if request.begun:
        raise wrong(
            OUTCOME_UNKNOWN, f"the call of {name} was under way, or of unknown outcome, when the earlier run ended"
        )


@asynccontextmanager
async def _call_limit(request: ToolRequest, name: str, *, repeatable: bool) -> AsyncIterator[None]:
    """Limit the time of a call. One that may not run twice and may have taken effect raises `outcome_unknown`.

    A plan's own table of errors says what follows there, so that its calls raise a plain `timeout`.
    """
    try:
        async with limit_time(request.timeout, partial(_no_result, request, name)):
            yield
    except ApplicationError as error:
        if repeatable:
            raise
        unsure = error.type in MAY_HAVE_HAPPENED and not request.unsure_is_final
        raise _final(error, OUTCOME_UNKNOWN if unsure else error.type) from error.__cause__


def _final(error: ApplicationError, type_: str | None) -> ApplicationError:
    """Return the failure of a call that may not run twice, whatever its tool says of a retry."""
    final = ApplicationError(error.message, *error.details, type=type_, non_retryable=True, category=error.category)
    return final.with_traceback(error.__traceback__)


def _no_result(request: ToolRequest, name: str, seconds: float) -> ApplicationError:
    text = f"{name}: no result within {seconds:g} s"
    return ApplicationError(text, type=TIMEOUT, non_retryable=request.unsure_is_final)


def _complete(result: object, name: str) -> Completed:
    try:
        plain = to_jsonable_python(result)
    except ValueError as error:
        raise wrong("tool_output", f"{name} returned something that is not JSON: {error}") from None
    check_result(plain, guard.DEPLOYMENT.limits.result, name)
    return Completed(result=plain)


def _is_encodable(error: BaseException | None) -> bool:
    """Return whether the messages of an error and of its causes are valid text.

    Temporal writes causes into the history, and cannot write a lone surrogate there.
    """
    while error is not None:
        if replace_surrogates(str(error)) != str(error):
            return False
        error = error.__cause__
    return True


def _from_group(
    group: BaseExceptionGroup[BaseException], tool: Tool, request: ToolRequest, retryable: bool
) -> BaseException:
    """Return the interrupts of a group of tasks as one; or the first failure, if there is another exception in it."""
    interrupts: list[Interrupt] = []
    for error in _flatten(group):
        interrupt = _find_interrupt(error, tool, request)
        if interrupt is None:
            return _failure(error, tool, request, retryable)
        if interrupt.ends == "" or all(interrupt.asked != other.asked for other in interrupts):
            interrupts.append(interrupt)  # approval of the call is requested once, however many tasks want it
    return Interrupt.all(interrupts)


def _flatten(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    errors: list[BaseException] = []
    for error in group.exceptions:
        errors += _flatten(error) if isinstance(error, BaseExceptionGroup) else [error]
    return errors


def _find_interrupt(error: BaseException, tool: Tool, request: ToolRequest) -> Interrupt | None:
    """Return the interrupt that an error is or stands for; None if it is a failure."""
    if isinstance(error, Interrupt):
        return error
    if (interrupt := translate(tool, error)) is not None:
        return interrupt
    approval = _requests_approval(error)
    if approval is None:
        return None
    # Its class is known by name only, so that a library that is not installed need not be.
    return _library_interrupt(tool, request, approval, getattr(error, "metadata", None))


def _failure(
    error: BaseException, tool: Tool, request: ToolRequest, retryable: bool, place: str = ""
) -> ApplicationError:
    if isinstance(error, ApplicationError):
        return error
    if isinstance(error, ValidationError) and _are_arguments_wrong(error, tool, request):
        return wrong("tool_input", f"{tool.name}: {place}{_first(error, tool)}")
    text = replace_surrogates(f"{tool.name}: {place}{type(error).__name__}: {error}")
    type_ = classify_error(error)
    unsure = request.unsure_is_final and type_ in MAY_HAVE_HAPPENED
    final = not retryable or unsure or type_ in NEVER_AGAIN
    return ApplicationError(text, type=type_, non_retryable=final)


def _are_arguments_wrong(error: BaseException, tool: Tool, request: ToolRequest) -> bool:
    """Return whether the arguments do not fit, so that the function's own code has not begun.

    The same error raised by its code, as for a reply that it cannot read, may come after what it has done.
    """
    if not isinstance(error, ValidationError):
        return False
    if tool.is_graph or request.of_agent is not None:  # these check their own arguments, inside of what we call
        return True
    code = getattr(inspect.unwrap(tool.function), "__code__", None)
    return all(frame.f_code is not code for frame, _ in traceback.walk_tb(error.__traceback__))


def _requests_approval(error: BaseException) -> bool | None:
    """Return whether a library's interrupt requests approval; None if the error is a failure."""
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    return next((_FOREIGN[name] for name in names if name in _FOREIGN), None)


def _library_interrupt(tool: Tool, request: ToolRequest, approval: bool, metadata: object = None) -> Interrupt:
    """Return an interrupt of a library. It brings neither a place nor a question, so it gets those of the call."""
    info = {"tool": tool.name, "args": request.input, **({"metadata": metadata} if metadata else {})}
    if not approval:
        message = f"{tool.name} is done elsewhere: what was its result?"
        deferred = Interrupt(Input(message=message, form=NOT_NULL, info={"message": message, **info}))
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


async def _call_tool(tool: Tool, request: ToolRequest) -> object:
    args, named = (request.args, {}) if request.args is not None else tool.arguments(request.input, request.by_name)
    function = tool.function if request.args is not None else tool.validated_function
    return await _call(partial(function, *args, **named), tool.name)


async def _call(call: partial[Any], name: str) -> object:
    with _exit_refused(name):
        if inspect.iscoroutinefunction(inspect.unwrap(call.func)):
            return await call()
        result = await _in_thread(_call_in_thread, call, name)
        if isinstance(result, AsyncGenerator):
            return [item async for item in result]
        return await result if inspect.isawaitable(result) else result


def _call_in_thread(call: partial[object], name: str) -> object:
    """Return the result of a call in a thread; that of a generator as a list, as its body must run there too."""
    with _exit_refused(name):
        result = call()
        return list(result) if isinstance(result, Generator) else result


@contextmanager
def _exit_refused(name: str) -> Iterator[None]:
    """Raise a failure for `sys.exit()` in a tool: left alone, it ends the event loop, and the worker with it."""
    try:
        yield
    except SystemExit as error:
        text = f"{name}: it called sys.exit({error.code!r}); a tool returns a result or raises an exception"
        raise wrong("tool_error", text) from None


async def _in_thread(function: Callable[..., object], *args: object) -> object:
    """Call the function in a thread. As a thread cannot be stopped, a cancelled activity waits for its end.

    It does not wait if the worker shuts down or has lost the activity to another one: nobody would read the result.
    """
    thread = asyncio.ensure_future(asyncio.to_thread(function, *args))
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
    # Not the error of a validation that the function itself makes. A function may be an object without a name.
    is_call = error.title == getattr(tool.function, "__name__", None)
    if is_call and path and isinstance(path[0], int) and path[0] < len(parameters):
        path[0] = parameters[path[0]]
    return f"{'.'.join(map(str, path))}: {first['msg']}"

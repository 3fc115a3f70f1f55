"""The MCP server: tools, questions as resources, elicitation for what needs a person. `holdfast mcp` runs it."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import shlex
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

import mcp_types as types
from anyio import BrokenResourceError, ClosedResourceError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from temporalio.service import RPCError

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.model_problems import describe_problems
from holdfast.client.answering import Sender
from holdfast.client.failures import EXPECTED, in_our_words
from holdfast.client.listing import WaitingFilter
from holdfast.client.open_questions import find_question, must_be_seen
from holdfast.client.question_reader import PATIENCE_SECONDS
from holdfast.client.runs import Runs
from holdfast.client.tree import UnknownRun
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.questions import Question
from holdfast.protocol.size_limits import check_value
from holdfast.runtime.config import Config
from holdfast.runtime.distribution import find_version
from holdfast.runtime.errors import BadCursor, BadInput, RunExists
from holdfast.runtime.workers import NoWorker
from holdfast.server.mcp.elicitation import agrees_to_go_on, content_from, form_for, message_for
from holdfast.server.mcp.tools import (
    PAGE_ROWS,
    TOOLS,
    AnswerTool,
    QuestionsTool,
    ResultTool,
    RunsTool,
    StartTool,
    ToolInput,
    list_questions,
    list_runs,
    show_result,
    start,
    start_schema,
)

RESOURCE = "holdfast://questions/"
"""What stands before the id of a question in the address of its resource."""
LOOK_SECONDS = 3.0
"""Seconds between two looks for questions that are new or gone."""
ANSWERED = "answer"
"""The name of the only elicitation of a call."""
INSTRUCTIONS = (
    "Holdfast runs pipelines that stop for people. Start a run, look at its questions, answer what you know. A "
    "permission, a review, a decision or a stop is put before a person: never claim to have answered one yourself."
)

Context = ServerRequestContext[Any, Any]
ToolScope = Literal["read", "answer", "steer"]
SCOPES: Mapping[type[ToolInput], ToolScope] = {StartTool: "steer", AnswerTool: "answer"}
"""What a tool is for, where it does more than read."""


@dataclass
class AssistantContext:
    """The context of the server's tools.

    Args:
        config: The configuration, whose `[serve] blueprints` may be started.
        runs: The runs of the deployment.
        find_runs: Returns the runs as who makes a request sees them, or raises `MCPError` for who may not.
    """

    config: Config
    runs: Runs
    find_runs: Callable[[Context, ToolScope], Runs]

    def __post_init__(self) -> None:
        # What a person was shown is what their answer is for: nobody else can make the state that says so.
        self._key = secrets.token_bytes(32)
        self._bus = InMemorySubscriptionBus()
        self._sessions: dict[str, ServerSession] = {}
        """Who has listed the questions by the older protocol, the latest of each connection, by its id over HTTP."""

    def server(self) -> Server[Any]:
        """Return the server, ready to be run over a transport."""
        return Server(
            "holdfast",
            title="Holdfast",
            version=find_version() or "",
            instructions=INSTRUCTIONS,
            lifespan=self._lifespan,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_read_resource=self.read_resource,
            on_subscriptions_listen=ListenHandler(self._bus),
        )

    # Tools

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Return the tools; that to start a run has the schemas of the blueprints' inputs."""
        allows = self.find_runs(ctx, "read").access.start_filter
        schemas = {name: model.model_json_schema() for name, model in TOOLS.items()}
        schemas["start"] = await asyncio.to_thread(start_schema, self.config, allows)
        tools = [
            types.Tool(name=name, description=(model.__doc__ or "").strip(), input_schema=schemas[name])
            for name, model in TOOLS.items()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Call a tool. What the caller can repair is told as the tool's result, not as an error of the protocol."""
        model = TOOLS.get(params.name)
        if model is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}; there are: {', '.join(TOOLS)}")
        try:
            check_value(params.arguments or {}, self.runs.answering.limits.input, "the arguments")
            arguments = model.model_validate(params.arguments or {})
            value = await self._call(ctx, params, arguments)
        except ValidationError as error:
            return _make_failure("; ".join(describe_problems(error)))
        except EXPECTED as error:
            return _make_failure(_word_error(error))
        return value if isinstance(value, types.InputRequiredResult) else _result(value)

    async def _call(
        self, ctx: Context, params: types.CallToolRequestParams, arguments: ToolInput
    ) -> JSONObject | types.InputRequiredResult:
        runs = self.find_runs(ctx, SCOPES.get(type(arguments), "read"))
        match arguments:
            case StartTool():
                return await start(runs, self.config, arguments)
            case RunsTool():
                return await list_runs(runs, arguments)
            case QuestionsTool():
                return await list_questions(runs, arguments)
            case ResultTool():
                return await show_result(runs, arguments)
            case AnswerTool():
                return await self._answer(ctx, params, arguments, runs)
        raise AssertionError(arguments)

    # Answers

    async def _answer(
        self, ctx: Context, params: types.CallToolRequestParams, arguments: AnswerTool, runs: Runs
    ) -> JSONObject | types.InputRequiredResult:
        sender = _read_sender(runs)
        open_questions = await runs.access.answerable(arguments.run, [arguments.question])
        question = find_question(open_questions.questions, arguments.question)
        if question is not None and must_be_seen(question) and open_questions.recalled:
            # Seen before, and perhaps closed since: nobody is shown a form that comes too late.
            open_questions = await runs.open_questions(arguments.run, [question.id])
            question = find_question(open_questions.questions, question.id)
        if question is not None and question.asked.hidden:
            way = f"holdfast answer {shlex.quote(arguments.run)} {question.id}, or on its page"
            raise BadInput(
                f"question {question.id} asks for a secret, which no assistant may see; answer it with {way}"
            )
        declines = sender.is_service and arguments.action != "accept"  # which needs nobody's consent
        if question is None or declines or not must_be_seen(question):
            name = arguments.question if question is None else question.id
            answer = Answer(question=name, action=arguments.action, content=arguments.content)
            return await _send(runs, arguments, answer)
        if sender.is_service:
            raise BadInput(f"{sender.user} is a service; question {question.id} ({question.kind}) needs a person")
        elicited = await self._elicit(ctx, params, question)
        if isinstance(elicited, types.InputRequiredResult):
            return elicited
        if elicited.action == "cancel" or not agrees_to_go_on(question, dict(elicited.content or {})):
            return {"receipts": [], "note": "The person did not decide; nothing was sent."}
        content = content_from(question, dict(elicited.content or {})) if elicited.action == "accept" else None
        answer = Answer(question=question.id, action=elicited.action, content=content, digest=question.digest)
        as_person = runs.acting_as(replace(sender, proof="assistant"), runs.permissions)
        return await _send(as_person, arguments, answer)

    async def _elicit(
        self, ctx: Context, params: types.CallToolRequestParams, question: Question
    ) -> types.ElicitResult | types.InputRequiredResult:
        """Return what a person answered through the client, or the request to ask them.

        Raises `BadInput` for a client that cannot ask anybody: an assistant must not approve its own agent.
        """
        capabilities = ctx.session.client_capabilities
        if capabilities is None or capabilities.elicitation is None:
            way = f"holdfast answer {shlex.quote(question.run)} {question.id}"
            raise BadInput(
                f"question {question.id} ({question.kind}) needs a person, whom this client cannot ask: {way}"
            )
        message, form = message_for(question), form_for(question)
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await ctx.session.elicit_form(message, form, ctx.request_id)
        state = self._sign_question(question)
        response = (params.input_responses or {}).get(ANSWERED)
        if isinstance(response, types.ElicitResult) and hmac.compare_digest(params.request_state or "", state):
            return response
        asked = types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=form))
        return types.InputRequiredResult(input_requests={ANSWERED: asked}, request_state=state)

    def _sign_question(self, question: Question) -> str:
        """Return the word that says that this very question was shown; a person who saw another text is asked again."""
        return hmac.new(self._key, f"{question.id} {question.digest}".encode(), sha256).hexdigest()

    # Questions as resources

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Return the open questions that the user may answer, those of fifty workflows a page."""
        self._note_listener(ctx)
        runs = self.find_runs(ctx, "read")
        try:
            wanted = QuestionsTool(after=(params and params.cursor) or None)
            rows = await list_questions(runs, wanted)
        except (ValidationError, BadCursor) as error:
            raise MCPError(types.INVALID_PARAMS, "not a cursor of this list: list it from its beginning") from error
        resources = [
            types.Resource(uri=RESOURCE + row["id"], name=row["id"], title=row["message"][:100], mime_type=JSON_TYPE)
            for row in rows["questions"]
            if "id" in row
        ]
        return types.ListResourcesResult(resources=resources, next_cursor=rows["next"])

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Return an open question as JSON."""
        uri = str(params.uri)
        runs = self.find_runs(ctx, "read")
        if not uri.startswith(RESOURCE):
            raise MCPError(types.INVALID_PARAMS, f"there is no {uri}; questions are {RESOURCE}ID")
        try:
            question = await runs.lists.find_question(uri.removeprefix(RESOURCE))
        except (Refusal, NoWorker) as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        text = json.dumps(question.model_dump(mode="json"), ensure_ascii=False)
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=text, mime_type=JSON_TYPE)])

    # Notices of changes

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncIterator[dict[str, Any]]:
        watching = asyncio.create_task(self._watch())
        try:
            yield {}
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _watch(self) -> None:
        """Tell clients when questions are new or gone."""
        previous: set[str] | None = None
        while True:
            with suppress(RPCError):  # it will answer again, and then tell what has changed
                rows, _ = await self.runs.lists.find_waiting(
                    wanted=WaitingFilter(patience=PATIENCE_SECONDS), size=PAGE_ROWS
                )
                current = {id_ for row in rows for id_ in (row.owner, *row.questions)}
                if previous is not None and current != previous:
                    await self._publish_change()
                previous = current
            await asyncio.sleep(LOOK_SECONDS)

    def _note_listener(self, ctx: Context) -> None:
        """Note that a client of the older protocol hears of changes; it says when it comes, and never when it goes."""
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        id_ = "" if ctx.request is None else ctx.request.headers.get(SESSION_HEADER, "")
        self._sessions.pop(id_, None)
        self._sessions[id_] = ctx.session
        while len(self._sessions) > MOST_HEARING:
            del self._sessions[next(iter(self._sessions))]

    async def _publish_change(self) -> None:
        await self._bus.publish(ResourcesListChanged())
        for session in list(self._sessions.values()):
            with suppress(MCPError, OSError, ClosedResourceError, BrokenResourceError):  # the client has gone
                await session.send_resource_list_changed()


JSON_TYPE = "application/json"
SESSION_HEADER = "mcp-session-id"
MOST_HEARING = 100
"""Connections of the older protocol that are told of changes: those that have listed the questions last."""


async def _send(runs: Runs, arguments: AnswerTool, answer: Answer) -> JSONObject:
    receipts = await runs.answer(arguments.run, [answer], by=_read_sender(runs).user, comment=arguments.comment)
    return {"receipts": [receipt.model_dump(mode="json") for receipt in receipts]}


def _read_sender(runs: Runs) -> Sender:
    """Return the person for whom these runs are: `find_runs` gives those of somebody."""
    sender = runs.answering.sender
    assert sender is not None
    return sender


def _result(value: JSONObject) -> types.CallToolResult:
    text = types.TextContent(text=json.dumps(value, ensure_ascii=False))
    return types.CallToolResult(content=[text], structured_content=value)


def _word_error(error: Exception) -> str:
    """Return what an assistant is told of one of the `EXPECTED` errors: tools in place of commands."""
    match error:
        case Refusal():
            return f"{error.code}: {error.message}"
        case UnknownRun():
            return f"no run {error.run!r}; the tool runs lists them"
        case RunExists():
            return f"run {error.run!r} already exists: choose another id, or go on with that run"
    return str(in_our_words(error))


def _make_failure(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=message)], is_error=True)

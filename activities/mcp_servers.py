"""Tools of MCP servers. Each server has one open session, which all calls of a worker share.

A session per worker and not per call: a warm call takes 10 ms, one that starts a server over stdio more than a second.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pydantic import BaseModel
from temporalio.exceptions import ApplicationError

from holdfast.activities.imports import import_alone
from holdfast.activities.mcp_callers import AskNow, Callers, Continuation, InputRequired, ask_nobody
from holdfast.activities.registry import wrong
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.agents import ToolSpec

if TYPE_CHECKING:  # an extra, loaded when it is first used
    from httpx2 import Request, Response
    from mcp import Client, MCPError
    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage
    from mcp.types import CallToolResult
    from mcp.types import Tool as McpTool

    Incoming: TypeAlias = SessionMessage | Exception
    Streams: TypeAlias = tuple[ReadStream[Incoming], WriteStream[SessionMessage]]

Reply = TypeVar("Reply")
log = logging.getLogger("holdfast.mcp")

OPENING_SECONDS = 60.0
"""Limit for a server's first answer: npx and uvx download a server before its first start."""
CLOSING_SECONDS = 10.0
CONNECTING_SECONDS = 10.0
LOOKS = 20
"""Rounds of the event loop until the end of a dead process's output has reached us; six were seen."""

CONNECTION_CLOSED, UNREADABLE = -32000, -32700
"""JSON-RPC error codes of the SDK: the reply never came; it could not be parsed."""
UNREACHED, REFUSED, FORGOTTEN = -47001, -47002, -47003
"""Our codes for HTTP requests that certainly had no effect: no connection; refused for good; session unknown."""
UNREACHABLE = "mcp_unreachable"
"""Failure type: nothing was sent."""
LOST = "tool_lost"
"""Failure type: a call was sent, and its result never came."""
INVALID_PARAMS, HEADER_MISMATCH, URL_REQUIRED = -32602, -32020, -32042
"""JSON-RPC error codes of servers: of the parameters, among them a state that is no longer taken; of a tool that was
not listed as it is now; and, of the protocol of 2025-11-25, of a page that a person must open first."""
NO_CHANNEL = "mcp_no_channel"
"""Failure type: the server could not ask people in the middle of the call, which it had begun by then."""
_NO_CHANNEL = re.compile(r"elicitation.*(back[- ]?channel|server-initiated request)", re.DOTALL | re.IGNORECASE)
"""What servers of `mcp` and FastMCP say of that: in the protocol of 2026 no request goes to the client in mid-call."""
STATE_REFUSED = "mcp_state_refused"
"""Failure type: the server no longer takes the state that it gave out, and has done nothing."""
FOR_NOW = (408, 425, 429)
"""HTTP statuses of temporary refusals; all other 4xx are final."""


@dataclass(frozen=True)
class McpServer:
    """The configuration of a server: a command that speaks over stdio, or the URL of a streamable HTTP endpoint."""

    command: tuple[str, ...] = ()
    url: str | None = None
    env: tuple[str, ...] = ()
    """Names of the worker's environment variables that are passed to the command."""
    headers_env: Mapping[str, str] = field(default_factory=dict)
    """HTTP headers for the URL: by name, the environment variable that holds the value."""
    elicitation: bool = True
    """False: the server is told that people cannot be asked."""
    protocol: str | None = None
    """The version of the protocol to speak; None: the newest that the server knows."""

    def hide_secrets(self, text: str) -> str:
        """Return the text with secrets replaced by their variable: a server may repeat a key that it refuses.

        It may do so without the scheme that stands before it in a header (`Bearer …`).
        """
        values = [(name, os.environ.get(name, "")) for name in (*self.env, *self.headers_env.values())]
        tokens = [(name, os.environ.get(name, "").rpartition(" ")[2]) for name in self.headers_env.values()]
        for name, secret in (*values, *tokens):
            if len(secret) > 3:
                text = text.replace(secret, f"${name}")
        return text


class McpServers:
    """The servers of a worker. Sessions open on first use, and again after they broke; `close` ends them all."""

    def __init__(self, servers: Mapping[str, McpServer]) -> None:
        self._servers = servers
        self._sdk: _Sdk | None = None
        self._sessions: list[_McpSession] = []
        self._ask_in_mid_call: set[str] = set()
        """The servers that have tried to ask people in the middle of a call, so that they get the older protocol."""
        self._closed = False

    async def tools(self, server: str) -> list[ToolSpec]:
        """Return the tools that a server offers now."""
        return _specs(server, await self._request(server, lambda session: session.tools()))

    async def call(
        self,
        server: str,
        tool: str,
        args: JSONObject,
        continuation: Continuation | None = None,
        ask: AskNow = ask_nobody,
    ) -> JSON | InputRequired:
        """Return the tool's result as JSON, or what the server needs from people first.

        Nothing is sent twice: a call that is lost fails with `tool_lost`, and one whose server could not ask people in
        the middle of it with `mcp_no_channel`. The next call then uses the older protocol, in which it can.

        Args:
            continuation: For a call that needed something: what it needed.
            ask: What a server of an older protocol asks in the middle of the call goes to.
        """
        try:
            return await self._request(
                server, lambda session: session.call(tool, args, continuation, ask), is_call=True
            )
        except ApplicationError as error:
            if error.type == NO_CHANNEL:
                self._ask_in_mid_call.add(server)
            raise

    async def close(self) -> None:
        """End every session and its process."""
        self._closed = True
        await asyncio.gather(*(session.close() for session in self._sessions))

    async def _request(
        self, server: str, send: Callable[[_McpSession], Awaitable[Reply]], *, is_call: bool = False
    ) -> Reply:
        """Return the server's answer. A session that is dead before anything was sent is replaced, once."""
        try:
            return await self._over_session(server, send, is_call)
        except _NotSentError:
            log.info("MCP server %s: the session was dead, opening a new one", server)
        try:
            return await self._over_session(server, send, is_call)
        except _NotSentError:
            raise _unreachable(server, "every new session fails at once") from None

    async def _over_session(self, server: str, send: Callable[[_McpSession], Awaitable[Reply]], is_call: bool) -> Reply:
        session = await self._session(server)
        while is_call and not session.takes_call:  # it became known only as it was opened, or another call was faster
            session = await self._session(server)
        session.calls += is_call
        try:
            return await send(session)
        finally:
            session.calls -= is_call

    def check(self, name: str) -> None:
        """Raise the failure of a call if no server has this name. Connects to none."""
        if name not in self._servers:
            names = ", ".join(sorted(self._servers)) or "none"
            text = f"no MCP server named {name!r} (known: {names}); a server is a section [mcp.NAME] in holdfast.toml"
            raise wrong("unknown_tool", text)

    async def _session(self, name: str) -> _McpSession:
        """Return an open session with the server, one that takes a call if there is one."""
        self.check(name)
        if self._sdk is None:
            self._sdk = await asyncio.to_thread(_import_sdk)  # in a thread, so that heartbeats go on
        if self._closed:
            raise _unreachable(name, "the worker is shutting down")
        server = self._servers[name]
        mode = _mode(server.protocol, name, asks_in_mid_call=name in self._ask_in_mid_call)
        usable = (session for session in self._sessions if (session.name, session.mode) == (name, mode))
        session = next((session for session in usable if session.is_usable and session.takes_call), None)
        if session is None:
            session = _McpSession(name, server, self._sdk, mode)
            self._sessions = [*(session for session in self._sessions if not session.has_ended), session]
        await session.ready()
        return session


class _NotSentError(Exception):
    """A dead session, found before anything was sent over it."""


class _McpSession:
    """A connection to one server.

    It is opened and closed in a task of its own, since anyio demands that one task enters and leaves its scopes.
    Requests are made from the callers' tasks, which the SDK allows: each waits for its own reply, and a cancelled one
    withdraws only its own request.
    """

    def __init__(self, name: str, server: McpServer, sdk: _Sdk, mode: str) -> None:
        self.name, self.mode, self.calls = name, mode, 0
        self._server, self._sdk = server, sdk
        self._client: Client | None = None
        self._failure: tuple[str, bool] = ("the worker is shutting down", False)
        """Reason why it could not be opened, and whether that is final."""
        self._ready, self._over = asyncio.Event(), asyncio.Event()
        self._waiting = 0
        self._callers = Callers(name)
        self._tells_no_caller = False
        self._retired = False
        # An empty context: the session outlives the activity that happens to open it.
        self._task = asyncio.create_task(self._run(), context=Context())

    @property
    def is_usable(self) -> bool:
        return not (self._retired or self._over.is_set())

    @property
    def takes_call(self) -> bool:
        """False if a call is in flight whose questions could not be told from those of another."""
        return not (self._tells_no_caller and self.calls)

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    async def ready(self) -> None:
        await self._ready.wait()
        if self._client is None:
            raise _unreachable(self.name, *self._failure)

    async def tools(self) -> list[McpTool]:
        async with self._request() as client:
            try:
                return await _list_tools(client)
            except self._sdk.mcp.MCPError as error:
                if self._over.is_set():
                    raise _NotSentError from None  # a list has no effect, so it may be requested again
                raise self._without_effect(error) or _unreachable(self.name, self._message(error)) from None

    async def call(
        self, tool: str, args: JSONObject, continuation: Continuation | None, ask: AskNow
    ) -> JSON | InputRequired:
        name = f"mcp:{self.name}/{tool}"
        _check_encodable(name, args)
        async with self._request() as client:
            try:
                with self._callers.hold_call(ask):
                    result = await self._send_call(client, tool, args, continuation)
            except self._sdk.mcp.MCPError as error:
                if (required := _url_required(error)) is not None:
                    return required
                if continuation is not None and continuation.state is not None and error.code == INVALID_PARAMS:
                    raise wrong(STATE_REFUSED, f"{name}: {self._message(error)}") from None
                raise self._without_effect(error) or self._make_failure(name, error) from None
            except (RuntimeError, ValueError) as error:  # the SDK's errors for a result that does not fit its schema
                first = str(error).partition("\n")[0]
                raise wrong("tool_error", f"{name}: {self._server.hide_secrets(first)}") from None
        if isinstance(result, self._sdk.types.InputRequiredResult):
            requests = {key: _dump(request) for key, request in (result.input_requests or {}).items()}
            return InputRequired(requests, result.request_state)
        if result.is_error:
            raise self._make_tool_failure(name, _text(_plain(result)))
        return _plain(result)

    async def _send_call(self, client: Client, tool: str, args: JSONObject, continuation: Continuation | None) -> Any:
        """Send a call, and once more if the tool has to be listed again first.

        Not by the client's own `call_tool`: that answers at once what a server needs, and people take their time.
        """
        options: JSONObject = {"allow_input_required": True}
        if continuation is not None:
            responses = continuation.responses
            results = {key: self._sdk.types.ElicitResult.model_validate(value) for key, value in responses.items()}
            options |= {"input_responses": results or None, "request_state": continuation.state}
        try:
            return await client.session.call_tool(tool, args, **options)
        except self._sdk.mcp.MCPError as error:
            if error.code != HEADER_MISMATCH:
                raise
        await _list_tools(client)
        return await client.session.call_tool(tool, args, **options)

    async def _elicit(self, _context: object, params: BaseModel) -> Any:
        """Answer what the server asks in the middle of a call: whoever made the call says how."""
        request = {"method": "elicitation/create", "params": _dump(params)}
        try:
            response = await self._callers.ask(request)
        except ApplicationError as error:
            return self._sdk.types.ErrorData(code=INVALID_PARAMS, message=error.message)
        return self._sdk.types.ElicitResult.model_validate(response)

    async def close(self) -> None:
        self._over.set()
        if not self._ready.is_set():
            self._task.cancel()
        _, late = await asyncio.wait({self._task}, timeout=CLOSING_SECONDS)
        if late:
            self._task.cancel()
            await asyncio.wait(late)

    @asynccontextmanager
    async def _request(self) -> AsyncIterator[Client]:
        """Yield the client for one request. Raises `_NotSentError` if the session is dead, before anything is sent."""
        for _ in range(LOOKS):  # lets the end of a dead process's output through
            await asyncio.sleep(0)
        client = self._client
        if client is None or not self.is_usable:
            raise _NotSentError
        self._waiting += 1
        try:
            yield client
        finally:
            self._waiting -= 1
            if self._retired and not self._waiting:
                self._over.set()

    def _without_effect(self, error: MCPError) -> Exception | None:
        """Return the failure to raise if the request certainly had no effect, else None."""
        if error.code == FORGOTTEN:
            self._retired = True  # but not over: other callers may still wait for replies
            return _NotSentError()
        if error.code in (UNREACHED, REFUSED):
            return _unreachable(self.name, self._message(error), error.code == REFUSED)
        return None

    def _make_failure(self, name: str, error: MCPError) -> ApplicationError:
        # Servers use these codes for errors of their own too. Over stdio the end of the session tells the two apart;
        # over HTTP each request has its own connection, and asking a person in vain is better than a second run.
        if error.code in (CONNECTION_CLOSED, UNREADABLE) and (self._over.is_set() or self._server.url is not None):
            text = f"the call of {name} was lost ({self._message(error)}); it may have taken effect"
            return wrong(LOST, text)
        return self._make_tool_failure(name, error.message)

    def _make_tool_failure(self, name: str, text: str) -> ApplicationError:
        """Return the failure for an error that the server has reported."""
        if self._server.elicitation and _NO_CHANNEL.search(text):
            way_out = f'protocol = "2025-11-25" in [mcp.{self.name}] of holdfast.toml is one in which it can'
            reason = f"the server wanted to ask people, and could not by its protocol; {way_out}"
            return wrong(NO_CHANNEL, f"{name}: {reason}")
        return wrong("tool_error", f"{name}: {self._server.hide_secrets(text)}")

    def _message(self, error: MCPError) -> str:
        return self._server.hide_secrets(error.message)

    async def _run(self) -> None:
        """Open the session, keep it open until `_over` is set, and close it."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(OPENING_SECONDS):
                    callback = self._elicit if self._server.elicitation else None
                    made = self._sdk.mcp.Client(
                        self._transport(), cache=None, elicitation_callback=callback, mode=self.mode
                    )
                    client = await stack.enter_async_context(made)
                    is_old = client.session.initialize_result is not None
                    self._tells_no_caller = is_old and callback is not None and self._server.url is None
                    await _list_tools(client)  # the SDK checks results by it, and would request it after the first call
                self._client = client
                self._ready.set()
                await self._over.wait()
        except Exception as error:  # noqa: BLE001 whatever a server or its transport raises is reported or logged
            self._failure = self._reason(error)
            if self._ready.is_set():
                log.warning("MCP server %s: the session broke: %s", self.name, self._failure[0])
        finally:
            self._over.set()
            self._ready.set()

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[tuple[_ReadStream, WriteStream[SessionMessage]]]:
        async with self._process() if self._server.url is None else self._endpoint(self._server.url) as (read, write):
            yield _ReadStream(read, self._over), write

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[Streams]:
        command, *args = self._server.command
        env = {name: self._variable(name) for name in self._server.env}
        # With strict decoding, one invalid byte in a program's output would leave every caller waiting for ever.
        options = {"env": env, "encoding_error_handler": "replace"}
        parameters = self._sdk.mcp.StdioServerParameters(command=command, args=args, **options)
        async with self._sdk.mcp.stdio_client(parameters, errlog=sys.stderr) as streams:
            yield streams

    @asynccontextmanager
    async def _endpoint(self, url: str) -> AsyncIterator[Streams]:
        headers = {header: self._header(name) for header, name in self._server.headers_env.items()}
        # Only connecting has a limit here: a tool may take as long as its activity may.
        timeout = self._sdk.http.Timeout(CONNECTING_SECONDS, read=None)
        async with self._sdk.http.AsyncClient(headers=headers, timeout=timeout) as client:
            client.send = _ErrorReplies(self._sdk.http, client.send).send
            # No limit of size, as results over stdio have none either.
            async with self._sdk.connect(url, http_client=client, max_sse_event_size=None) as streams:
                yield streams

    def _variable(self, name: str) -> str:
        if name not in os.environ:
            raise ValueError(f"{name} is not set in the worker's environment")
        return os.environ[name]

    def _header(self, name: str) -> str:
        value = self._variable(name)
        if not value.isascii() or not value.isprintable():  # the HTTP client's own error would contain the value
            raise ValueError(f"{name} has characters that are not allowed in a header")
        return value

    def _reason(self, error: BaseException) -> tuple[str, bool]:
        """Return why the session ended, and whether that is final."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, TimeoutError):
            return f"no answer within {OPENING_SECONDS:g} s", False
        if not isinstance(error, self._sdk.mcp.MCPError):
            return self._server.hide_secrets(str(error) or type(error).__name__), False
        if error.code == CONNECTION_CLOSED and self._server.url is None:
            return "its process ended; its output is in the worker's log", False
        return self._message(error), error.code == REFUSED


class _ReadStream:
    """The stream of a server's messages. It sets `over` when it ends, so that nothing is sent over a dead session."""

    def __init__(self, stream: ReadStream[Incoming], over: asyncio.Event) -> None:
        self._stream, self._over = stream, over

    @property
    def last_context(self) -> Context | None:
        """The context of whoever sent what the last message answers, if the transport keeps it: see `mcp_callers`."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Incoming:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _ReadStream:
        return self

    async def __anext__(self) -> Incoming:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._over.set()
            raise

    async def __aenter__(self) -> _ReadStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stream.__aexit__(kind, error, trace)


class _ErrorReplies:
    """The `send` of an HTTP client that turns a failed request into a JSON-RPC error reply to that request.

    The SDK would end the session otherwise, and all other calls with it.
    """

    def __init__(self, http: ModuleType, send: Callable[..., Awaitable[Response]]) -> None:
        self._http, self._send = http, send
        self._unsent = (http.ConnectError, http.ConnectTimeout, http.PoolTimeout, http.ProxyError)

    async def send(self, request: Request, **options: object) -> Response:
        if request.method != "POST":
            return await self._send(request, **options)
        try:
            response = await self._send(request, **options)
            if response.is_error or not _has_type(response, "text/event-stream"):
                await response.aread()
        except self._unsent as error:
            return self._reply(request, UNREACHED, f"no connection: {error or type(error).__name__}")
        except self._http.RequestError as error:
            return self._reply(request, CONNECTION_CLOSED, str(error) or type(error).__name__)
        return self._turn_refusal(request, response) if response.is_error else response

    def _turn_refusal(self, request: Request, response: Response) -> Response:
        status, message = response.status_code, f"HTTP {response.status_code} {response.reason_phrase}"
        if status in (400, 404) and "mcp-session-id" in request.headers:
            return self._reply(request, FORGOTTEN, message)
        if status not in (401, 403) and _is_error_reply(response):
            return response
        if status >= 500:
            return self._reply(request, CONNECTION_CLOSED, message)
        return self._reply(request, UNREACHED if status in FOR_NOW else REFUSED, message)

    def _reply(self, request: Request, code: int, message: str) -> Response:
        # Without an id: the SDK fills in the request's.
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
        reply: Response = self._http.Response(502, json=error, request=request)
        return reply


def _has_type(response: Response, media_type: str) -> bool:
    return str(response.headers.get("content-type", "")).lower().startswith(media_type)


def _is_error_reply(response: Response) -> bool:
    if not _has_type(response, "application/json"):
        return False
    try:
        body = response.json()
    except ValueError:
        return False
    return isinstance(body, dict) and isinstance(body.get("error"), dict)


@dataclass(frozen=True)
class _Sdk:
    """The `mcp` package and the HTTP client that it uses."""

    mcp: ModuleType
    types: ModuleType
    http: ModuleType
    connect: Callable[..., AbstractAsyncContextManager[Streams]]


def _import_sdk() -> _Sdk:
    # On first use: the package is an extra, and takes over half a second that a worker without MCP servers can save.
    try:
        names = ("mcp", "mcp_types", "httpx2", "mcp.client.streamable_http")
        mcp, types, http, streamable_http = (import_alone(name) for name in names)
    except ModuleNotFoundError as error:
        text = f"tools of MCP servers need the mcp package ({error}): pip install 'holdfast[mcp]'"
        raise wrong("unknown_tool", text) from None
    for name in ("mcp", "httpx2"):  # at lower levels they log every request, and the ids of sessions
        logging.getLogger(name).setLevel(logging.WARNING)
    return _Sdk(mcp, types, http, streamable_http.streamable_http_client)


def _mode(protocol: str | None, server: str, *, asks_in_mid_call: bool) -> str:
    """Return how the SDK agrees on a protocol with the server. Raises `mcp_unreachable` for an unknown version."""
    versions = import_alone("mcp_types.version")
    older, newer = versions.HANDSHAKE_PROTOCOL_VERSIONS, versions.MODERN_PROTOCOL_VERSIONS
    if protocol is None:
        return "legacy" if asks_in_mid_call else "auto"
    if protocol in older:
        return "legacy"
    if protocol in newer:
        return protocol
    known = ", ".join((*older, *newer))
    raise _unreachable(server, f"protocol: {protocol!r} is not a version that the mcp package knows ({known})", True)


def _dump(value: BaseModel) -> JSONObject:
    dumped: JSONObject = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def _url_required(error: MCPError) -> InputRequired | None:
    """Return the pages that a person must open before the call is made again; None for another error."""
    data = error.error.data
    if error.code != URL_REQUIRED or not isinstance(data, dict) or not isinstance(data.get("elicitations"), list):
        return None
    pages = [page for page in data["elicitations"] if isinstance(page, dict)]
    requests = {str(page.get("elicitationId") or n): page for n, page in enumerate(pages, 1)}
    whole = {key: {"method": "elicitation/create", "params": {**page, "mode": "url"}} for key, page in requests.items()}
    return InputRequired(whole, takes_responses=False) if whole else None


def _check_encodable(name: str, args: JSONObject) -> None:
    """Refuse arguments with a lone surrogate, which models can write.

    The SDK's writer would fail on it, and that would end the session for all callers.
    """
    try:
        json.dumps(args, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise wrong("tool_error", f"{name}: the arguments are not valid text: {error.reason}") from None


async def _list_tools(client: Client) -> list[McpTool]:
    """Return the tools of all pages."""
    page = await client.list_tools()
    tools = list(page.tools)
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools


def _specs(server: str, tools: list[McpTool]) -> list[ToolSpec]:
    names = Counter(_fit(f"{server}_{tool.name}") for tool in tools)
    hints = {tool.name: tool.annotations for tool in tools if tool.annotations is not None}
    reads = {name for name, said in hints.items() if said.read_only_hint}
    repeatable = reads | {name for name, said in hints.items() if said.idempotent_hint}
    return [
        ToolSpec(
            name=_fit(whole) if names[_fit(whole)] == 1 else _with_digest(whole),
            description=tool.description or tool.title or "",
            parameters=tool.input_schema,
            reference=f"mcp:{server}/{tool.name}",
            reads_only=tool.name in reads,
            idempotent=tool.name in repeatable,
        )
        for tool in tools
        for whole in [f"{server}_{tool.name}"]
    ]


def _fit(name: str) -> str:
    """Return the name in a form that every provider accepts.

    >>> _fit("files_read.text")
    'files_read_text'
    """
    fit = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return fit if len(fit) <= 64 else _with_digest(name)


def _with_digest(name: str) -> str:
    """Return a unique form of a name that is too long, or that two tools would share.

    >>> _with_digest("files_read.text")
    'files_read_text_02f88784'
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:55] + "_" + hashlib.sha256(name.encode()).hexdigest()[:8]


def _plain(result: CallToolResult) -> JSON:
    """Return the structured content of a result; else its text; else its parts as JSON objects, without binary data."""
    if result.structured_content is not None:
        return result.structured_content
    parts = [_without_data(part.model_dump(mode="json", by_alias=True, exclude_none=True)) for part in result.content]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _without_data(part: JSONObject) -> JSONObject:
    """Return a part with the size of its base64 data in bytes instead: neither a history nor a model can use them.

    >>> _without_data({"type": "image", "mimeType": "image/png", "data": "aGVsbG8="})
    {'type': 'image', 'mimeType': 'image/png', 'bytes': 5}
    """
    if "resource" in part:
        return {**part, "resource": _without_data(part["resource"])}
    blob = part.get("data", part.get("blob"))
    if blob is None:
        return part
    rest = {key: value for key, value in part.items() if key not in ("data", "blob")}
    return {**rest, "bytes": len(blob) * 3 // 4 - blob[-2:].count("=")}


def _text(content: JSON) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _unreachable(server: str, reason: str, is_final: bool = False) -> ApplicationError:
    text = f"MCP server {server} cannot be used: {reason}; see [mcp.{server}] in holdfast.toml"
    return ApplicationError(text, type=UNREACHABLE, non_retryable=is_final)

"""Tools of MCP servers. Each server has one open session, which all calls of a worker share.

A session per worker and not per call: a warm call takes 10 ms, one that starts a server over stdio more than a second.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from temporalio.exceptions import ApplicationError

from holdfast.activities.registry import wrong
from holdfast.protocol.agents import ToolSpec

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


class McpServers:
    """The servers of a worker. Sessions open on first use, and again after they broke; `close` ends them all."""

    def __init__(self, servers: Mapping[str, McpServer]) -> None:
        self._servers = servers
        self._sdk: _Sdk | None = None
        self._sessions: list[_Session] = []
        self._closed = False

    async def tools(self, server: str) -> list[ToolSpec]:
        """Return the tools that a server offers now."""
        return _specs(server, await self._request(server, lambda session: session.tools()))

    async def call(self, server: str, tool: str, args: dict[str, Any]) -> Any:
        """Return the tool's result as JSON. Nothing is sent twice: a call that is lost fails with `tool_lost`."""
        return await self._request(server, lambda session: session.call(tool, args))

    async def close(self) -> None:
        """End every session and its process."""
        self._closed = True
        await asyncio.gather(*(session.close() for session in self._sessions))

    async def _request(self, server: str, send: Callable[[_Session], Awaitable[Any]]) -> Any:
        """Return the server's answer. A session that is dead before anything was sent is replaced, once."""
        try:
            return await send(await self._session(server))
        except _NotSentError:
            log.info("MCP server %s: the session was dead, opening a new one", server)
        try:
            return await send(await self._session(server))
        except _NotSentError:
            raise _unreachable(server, "each new session is dead at once") from None

    def check(self, name: str) -> None:
        """Raise the failure of a call if no server has this name. Connects to none."""
        if name not in self._servers:
            known = ", ".join(sorted(self._servers)) or "none"
            text = f"no MCP server named {name!r} (known: {known}); a server is a section [mcp.NAME] in holdfast.toml"
            raise wrong("unknown_tool", text)

    async def _session(self, name: str) -> _Session:
        self.check(name)
        if self._sdk is None:
            self._sdk = await asyncio.to_thread(_import_sdk)  # in a thread, so that heartbeats go on
        if self._closed:
            raise _unreachable(name, "the worker is leaving")
        session = next((session for session in self._sessions if session.name == name and session.is_usable), None)
        if session is None:
            session = _Session(name, self._servers[name], self._sdk)
            self._sessions = [*(session for session in self._sessions if not session.has_ended), session]
        await session.ready()
        return session


class _NotSentError(Exception):
    """A dead session, found before anything was sent over it."""


class _Session:
    """A connection to one server.

    It is opened and closed in a task of its own, since anyio demands that one task enters and leaves its scopes.
    Requests are made from the callers' tasks, which the SDK allows: each waits for its own reply, and a cancelled one
    withdraws only its own request.
    """

    def __init__(self, name: str, server: McpServer, sdk: _Sdk) -> None:
        self.name = name
        self._server, self._sdk = server, sdk
        self._client: Any = None
        self._failure: tuple[str, bool] = ("the worker is leaving", False)
        """Reason why it could not be opened, and whether that is final."""
        self._ready, self._over = asyncio.Event(), asyncio.Event()
        self._waiting = 0
        self._retired = False
        # An empty context: the session outlives the activity that happens to open it.
        self._task = asyncio.create_task(self._run(), context=Context())

    @property
    def is_usable(self) -> bool:
        return not (self._retired or self._over.is_set())

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    async def ready(self) -> None:
        await self._ready.wait()
        if self._client is None:
            raise _unreachable(self.name, *self._failure)

    async def tools(self) -> list[Any]:
        async with self._request() as client:
            try:
                return await _list_tools(client)
            except self._sdk.mcp.MCPError as error:
                if self._over.is_set():
                    raise _NotSentError from None  # a list has no effect, so it may be requested again
                raise self._without_effect(error) or _unreachable(self.name, self._message(error)) from None

    async def call(self, tool: str, args: dict[str, Any]) -> Any:
        name = f"mcp:{self.name}/{tool}"
        _check_encodable(name, args)
        async with self._request() as client:
            try:
                result = await client.call_tool(tool, args)
            except self._sdk.mcp.MCPError as error:
                raise self._without_effect(error) or self._failed(name, error) from None
            except (RuntimeError, ValueError) as error:  # the SDK's errors for a result that does not fit its schema
                first = str(error).partition("\n")[0]
                raise wrong("tool_error", f"{name}: {self._without_secrets(first)}") from None
        if result.is_error:
            raise wrong("tool_error", f"{name}: {self._without_secrets(_text(_plain(result)))}")
        return _plain(result)

    async def close(self) -> None:
        self._over.set()
        if not self._ready.is_set():
            self._task.cancel()
        _, late = await asyncio.wait({self._task}, timeout=CLOSING_SECONDS)
        if late:
            self._task.cancel()
            await asyncio.wait(late)

    @asynccontextmanager
    async def _request(self) -> AsyncIterator[Any]:
        """Yield the client for one request. Raises `_NotSentError` if the session is dead, before anything is sent."""
        for _ in range(LOOKS):  # lets the end of a dead process's output through
            await asyncio.sleep(0)
        if not self.is_usable:
            raise _NotSentError
        self._waiting += 1
        try:
            yield self._client
        finally:
            self._waiting -= 1
            if self._retired and not self._waiting:
                self._over.set()

    def _without_effect(self, error: Any) -> Exception | None:
        """Return the failure to raise if the request certainly had no effect, else None."""
        if error.code == FORGOTTEN:
            self._retired = True  # but not over: other callers may still wait for replies
            return _NotSentError()
        if error.code in (UNREACHED, REFUSED):
            return _unreachable(self.name, self._message(error), error.code == REFUSED)
        return None

    def _failed(self, name: str, error: Any) -> ApplicationError:
        # Servers use these codes for errors of their own too. Over stdio the end of the session tells the two apart;
        # over HTTP each request has its own connection, and asking a person in vain is better than a second run.
        if error.code in (CONNECTION_CLOSED, UNREADABLE) and (self._over.is_set() or self._server.url is not None):
            text = f"{name} was lost in mid-call ({self._message(error)}); it may have taken effect"
            return wrong(LOST, text)
        return wrong("tool_error", f"{name}: {self._message(error)}")

    def _message(self, error: Any) -> str:
        return self._without_secrets(error.message)

    async def _run(self) -> None:
        """Open the session, keep it open until `_over` is set, and close it."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(OPENING_SECONDS):
                    client = await stack.enter_async_context(self._sdk.mcp.Client(self._transport(), cache=None))
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
    async def _transport(self) -> AsyncIterator[tuple[_ReadStream, Any]]:
        async with self._process() if self._server.url is None else self._endpoint(self._server.url) as (read, write):
            yield _ReadStream(read, self._over), write

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[tuple[Any, Any]]:
        command, *args = self._server.command
        env = {name: self._variable(name) for name in self._server.env}
        # With strict decoding, one invalid byte in a program's output would leave every caller waiting for ever.
        options = {"env": env, "encoding_error_handler": "replace"}
        parameters = self._sdk.mcp.StdioServerParameters(command=command, args=args, **options)
        async with self._sdk.mcp.stdio_client(parameters, errlog=sys.stderr) as streams:
            yield streams

    @asynccontextmanager
    async def _endpoint(self, url: str) -> AsyncIterator[tuple[Any, Any]]:
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
            raise ValueError(f"{name} holds characters that no header may have")
        return value

    def _reason(self, error: BaseException) -> tuple[str, bool]:
        """Return why the session ended, and whether that is final."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, TimeoutError):
            return f"no answer within {OPENING_SECONDS:g} s", False
        if not isinstance(error, self._sdk.mcp.MCPError):
            return self._without_secrets(str(error) or type(error).__name__), False
        if error.code == CONNECTION_CLOSED and self._server.url is None:
            return "its process ended; its output is in the worker's log", False
        return self._message(error), error.code == REFUSED

    def _without_secrets(self, text: str) -> str:
        """Return the text with secrets replaced by their variable: a server may repeat a key that it refuses."""
        for name in (*self._server.env, *self._server.headers_env.values()):
            value = os.environ.get(name, "")
            if len(value) > 3:
                text = text.replace(value, f"${name}")
        return text


class _ReadStream:
    """The stream of a server's messages. It sets `over` when it ends, so that nothing is sent over a dead session."""

    def __init__(self, stream: Any, over: asyncio.Event) -> None:
        self._stream, self._over = stream, over

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _ReadStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._over.set()
            raise

    async def __aenter__(self) -> _ReadStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stream.__aexit__(*error)


class _ErrorReplies:
    """The `send` of an HTTP client that turns a failed request into a JSON-RPC error reply to that request.

    The SDK would end the session otherwise, and all other calls with it.
    """

    def __init__(self, http: Any, send: Callable[..., Awaitable[Any]]) -> None:
        self._http, self._send = http, send
        self._unsent = (http.ConnectError, http.ConnectTimeout, http.PoolTimeout, http.ProxyError)

    async def send(self, request: Any, **options: Any) -> Any:
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
        return self._refused(request, response) if response.is_error else response

    def _refused(self, request: Any, response: Any) -> Any:
        status, message = response.status_code, f"HTTP {response.status_code} {response.reason_phrase}"
        if status in (400, 404) and "mcp-session-id" in request.headers:
            return self._reply(request, FORGOTTEN, message)
        if status not in (401, 403) and _is_error_reply(response):
            return response
        if status >= 500:
            return self._reply(request, CONNECTION_CLOSED, message)
        return self._reply(request, UNREACHED if status in FOR_NOW else REFUSED, message)

    def _reply(self, request: Any, code: int, message: str) -> Any:
        # Without an id: the SDK fills in the request's.
        reply = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
        return self._http.Response(502, json=reply, request=request)


def _has_type(response: Any, media_type: str) -> bool:
    return str(response.headers.get("content-type", "")).lower().startswith(media_type)


def _is_error_reply(response: Any) -> bool:
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

    mcp: Any
    http: Any
    connect: Any


def _import_sdk() -> _Sdk:
    # On first use: the package is an extra, and takes over half a second that a worker without MCP servers can save.
    try:
        names = ("mcp", "httpx2", "mcp.client.streamable_http")
        mcp, http, streamable_http = (importlib.import_module(name) for name in names)
    except ModuleNotFoundError as error:
        text = f"tools of MCP servers need the mcp package ({error}): pip install 'holdfast[mcp]'"
        raise wrong("unknown_tool", text) from None
    for name in ("mcp", "httpx2"):  # at lower levels they log every request, and the ids of sessions
        logging.getLogger(name).setLevel(logging.WARNING)
    return _Sdk(mcp, http, streamable_http.streamable_http_client)


def _check_encodable(name: str, args: dict[str, Any]) -> None:
    """Refuse arguments with a lone surrogate, which models can write.

    The SDK's writer would fail on it, and that would end the session for all callers.
    """
    try:
        json.dumps(args, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise wrong("tool_error", f"{name}: the arguments are no valid text: {error.reason}") from None


async def _list_tools(client: Any) -> list[Any]:
    """Return the tools of all pages."""
    page = await client.list_tools()
    tools = list(page.tools)
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools


def _specs(server: str, tools: list[Any]) -> list[ToolSpec]:
    names = Counter(_fit(f"{server}_{tool.name}") for tool in tools)
    return [
        ToolSpec(
            name=_fit(whole) if names[_fit(whole)] == 1 else _with_digest(whole),
            description=tool.description or tool.title or "",
            parameters=tool.input_schema,
            reference=f"mcp:{server}/{tool.name}",
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


def _plain(result: Any) -> Any:
    """Return the structured content of a result; else its text; else its parts as JSON objects, without binary data."""
    if result.structured_content is not None:
        return result.structured_content
    parts = [_without_data(part.model_dump(mode="json", by_alias=True, exclude_none=True)) for part in result.content]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _without_data(part: dict[str, Any]) -> dict[str, Any]:
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


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _unreachable(server: str, reason: str, is_final: bool = False) -> ApplicationError:
    text = f"MCP server {server} cannot be used: {reason}; see [mcp.{server}] in holdfast.toml"
    return ApplicationError(text, type=UNREACHABLE, non_retryable=is_final)

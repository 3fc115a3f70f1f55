"""A model provider on localhost: OpenAI's chat completions and responses, saying what a test tells it to say.

    async with Provider() as provider:
        provider.text("hello")                           # the next reply; queued replies are given in order
        provider.calls(("search", {"query": "fish"}))    # tool calls; a text in place of a dict is sent as it is
        provider.status(429, "slow down", headers={"Retry-After": "7"})
        provider.hang()                                  # never answers; `await provider.left()` until the client goes
        provider.reply(lambda request: Reply(text=request.body["model"]))

Models reach it as `openai-compatible:any@<provider.url>`, or as `openai:any` with `base_url = provider.url`.
`provider.requests` holds what was asked, each with the number of the connection that it came on.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self, cast

PATIENCE = 60


@dataclass(frozen=True)
class Request:
    """What a client asked."""

    path: str
    headers: Mapping[str, str]
    body: Any
    connection: int

    @property
    def messages(self) -> list[Any]:
        """Of chat completions."""
        return list(self.body["messages"])

    @property
    def tools(self) -> list[str]:
        return [tool.get("function", tool)["name"] for tool in self.body.get("tools", [])]


@dataclass(frozen=True)
class Reply:
    """What the model says, in no API's words; or an HTTP answer as it is; or nothing, ever."""

    text: str | None = None
    calls: tuple[tuple[str, Any, str], ...] = ()
    """Name, arguments (a text is sent as it is), id."""
    finish: str | None = None
    usage: tuple[int, int] = (11, 7)
    model: str | None = None
    """Which model the provider says it was; the one asked for, if None."""
    reasoning: str | None = None
    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False
    resets: bool = False
    """Whether the connection is cut in the place of an answer."""
    once: Callable[[], bool] | None = None
    """It is sent when this is true."""
    cut: float | None = None
    """Which part of the body is missing at its end, as the connection closes."""


Answer = Reply | Callable[[Request], Reply]


class Provider:
    """The server; replies are given in the order in which they were queued, and one too few is an error."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._replies: deque[Answer] = deque()
        self._always: Answer | None = None
        self._connections = count(1)
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._arrived = asyncio.Condition()
        self._left = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._open.values():
            writer.close()
        await asyncio.gather(*self._open)

    def reply(self, *replies: Answer) -> None:
        """Queue replies, or functions that make them of the request."""
        self._replies.extend(replies)

    def always(self, reply: Answer) -> None:
        """What is said when nothing is queued."""
        self._always = reply

    def text(self, text: str, **more: Any) -> None:
        self.reply(Reply(text=text, **more))

    def calls(self, *calls: tuple[str, Any] | tuple[str, Any, str], **more: Any) -> None:
        """Tool calls as (name, arguments) or (name, arguments, id)."""
        numbered = enumerate(calls, 1)
        self.reply(Reply(calls=tuple((c[0], c[1], c[2] if len(c) > 2 else f"call_{n}") for n, c in numbered), **more))

    def status(self, status: int, message: str = "", code: str | None = None, **more: Any) -> None:
        """An error as OpenAI words it."""
        error = {"message": message, "type": "error", "code": code, "param": None}
        self.reply(Reply(status=status, body={"error": error}, **more))

    def hang(self) -> None:
        self.reply(Reply(hangs=True))

    async def asked(self, requests: int = 1) -> Request:
        """Wait until so many requests have come; the last of them."""
        async with asyncio.timeout(PATIENCE), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= requests)
        return self.requests[requests - 1]

    async def left(self) -> None:
        """Wait until a client has gone that was left hanging."""
        async with asyncio.timeout(PATIENCE):
            await self._left.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = next(self._connections)
        task = cast(asyncio.Task[None], asyncio.current_task())
        self._open[task] = writer
        try:
            while (request := await _read(reader, connection)) is not None:
                await self._answer(request, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self._left.set()
        finally:
            del self._open[task]
            writer.close()

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reply = self._next(request)
        async with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        if reply.hangs:
            await reader.read()
            self._left.set()
            return
        if reply.resets:
            writer.transport.abort()
            return
        while reply.once is not None and not reply.once():
            await asyncio.sleep(0.01)
        body, headers = self.encoded(reply, request)
        headers |= reply.headers
        lines = [f"HTTP/1.1 {reply.status} Said", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        whole = "\r\n".join(lines).encode() + body
        writer.write(whole if reply.cut is None else whole[: len(whole) - round(len(body) * reply.cut)])
        await writer.drain()
        if headers.get("Connection") == "close" or reply.cut is not None:
            writer.close()

    def _next(self, request: Request) -> Reply:
        answer = self._replies.popleft() if self._replies else self._always
        if answer is None:
            return Reply(status=400, body={"error": {"message": "the test queued no further reply"}})
        return answer if isinstance(answer, Reply) else answer(request)

    def encoded(self, reply: Reply, request: Request) -> tuple[bytes, dict[str, str]]:
        """The body with the headers that describe it."""
        body = json.dumps(self.body_of(reply, request)).encode()
        return body, {"Content-Type": "application/json", "Content-Length": str(len(body))}

    def body_of(self, reply: Reply, request: Request) -> Any:
        """What is sent: the reply's own body, else its words as the API has them."""
        if reply.body is not None:
            return reply.body
        model = reply.model or request.body["model"]
        return response(reply, model) if request.path.endswith("/responses") else completion(reply, model)


async def _read(reader: asyncio.StreamReader, connection: int) -> Request | None:
    """The next request on a connection; None at its end."""
    if not (line := await reader.readline()):
        return None
    path = line.split()[1].decode()
    headers: dict[str, str] = {}
    while (header := (await reader.readline()).decode().strip()) != "":
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(path, headers, json.loads(body or b"null"), connection)


def completion(reply: Reply, model: str) -> Any:
    """A reply of chat completions."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": _written(args)}}
            for name, args, id_ in reply.calls
        ]
    finish = reply.finish or ("tool_calls" if reply.calls else "stop")
    asked, said = reply.usage
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
        "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
    }


def response(reply: Reply, model: str) -> Any:
    """A reply of the responses API."""
    output: list[Any] = [
        {"type": "function_call", "id": f"fc_{id_}", "call_id": id_, "name": name, "arguments": _written(args)}
        for name, args, id_ in reply.calls
    ]
    if reply.text is not None:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        output.insert(
            0, {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        )
    asked, said = reply.usage
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": model,
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": asked,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": said,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": asked + said,
        },
    }


def _written(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(args)

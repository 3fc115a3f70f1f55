"""A little MCP server for the tests: `mcp_server.py` speaks over stdio, `mcp_server.py PORT [old [FILE]]` over HTTP.

Once FILE is there, the old server forgets the session it is asked in.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import AudioContent, CallToolResult, ImageContent, TextContent
from pydantic import BaseModel
from starlette.responses import PlainTextResponse

server = MCPServer("little", log_level="ERROR")


class Sum(BaseModel):
    sum: int


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Says it again."""
    return text


@server.tool()
def add(a: int, b: int) -> Sum:
    return Sum(sum=a + b)


@server.tool(name="process.id", structured_output=False)
def process_id() -> int:
    return os.getpid()


@server.tool(structured_output=False)
def variable(name: str) -> str:
    return os.environ.get(name, "unset")


@server.tool(structured_output=False)
def fail(reason: str) -> str:
    raise ToolError(reason)


@server.tool(structured_output=False)
def several() -> list[str]:
    return ["one", "two"]


@server.tool()
def pictures() -> CallToolResult:
    return CallToolResult(
        content=[
            TextContent(text="two"),
            ImageContent(data="aGVsbG8=", mime_type="image/png"),
            AudioContent(data="aGVsbG8h", mime_type="audio/wav"),
        ]
    )


@server.tool(structured_output=False)
async def wait(started: str, until: str) -> str:
    """Writes a line into a file, then waits until another file is there."""
    with Path(started).open("a") as file:
        file.write("started\n")
    while not Path(until).exists():
        await asyncio.sleep(0.01)
    return "done"


def is_time(sign: str) -> bool:
    """Once for each time that the file is put there."""
    there = Path(sign).exists()
    Path(sign).unlink(missing_ok=True)
    return there


def guarded(app: Any, old: bool, sign: str) -> Any:
    """The app, which asks for a token if LITTLE_TOKEN is set; an old one knows sessions only."""
    forgotten = set()

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", []))
        token = os.environ.get("LITTLE_TOKEN")
        if scope["type"] == "http" and token and headers.get(b"authorization") != token.encode():
            return await PlainTextResponse("who are you?", 401)(scope, receive, send)
        session = headers.get(b"mcp-session-id")
        if session and scope["method"] == "POST" and (session in forgotten or is_time(sign)):
            forgotten.add(session)
            return await PlainTextResponse("who?", 404)(scope, receive, send)
        if scope["type"] == "http" and old and headers.get(b"mcp-method") == b"server/discover":
            return await PlainTextResponse("what?", 400)(scope, receive, send)
        return await app(scope, receive, send)

    return answer


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            server.run("stdio")
        case [port, *how]:
            app = guarded(server.streamable_http_app(), "old" in how, how[-1] if how else "")
            uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error")

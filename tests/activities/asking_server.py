"""An MCP server that asks people: `asking_server.py` over stdio, `asking_server.py http PORT` over HTTP.

With `old` it speaks only the protocol of 2025, which asks in the middle of a call.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, ElicitationResult, Resolve
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
)
from pydantic import BaseModel, Field
from starlette.responses import PlainTextResponse

server = MCPServer("asking", log_level="ERROR")
"""Its states are good for this process alone."""


class Size(BaseModel):
    size: int = Field(ge=1, le=9)
    note: str = ""


class Colour(BaseModel):
    colour: str


def ask_size() -> Elicit[Size]:
    return Elicit("Which size?", Size)


def ask_colour() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


def note(folder: str, line: str) -> None:
    with (Path(folder) / "calls").open("a") as file:
        file.write(f"{line}\n")


@server.tool(structured_output=False)
def order(item: str, folder: str, size: Annotated[ElicitationResult[Size], Resolve(ask_size)]) -> str:
    """Orders something, once its size is known."""
    note(folder, item)
    return f"{item}: {size.model_dump(mode='json')}"


@server.tool(structured_output=False)
def paint(colour: Annotated[Colour, Resolve(ask_colour)], size: Annotated[Size, Resolve(ask_size)]) -> str:
    """Needs two things at once."""
    return f"{colour.colour} in {size.size}"


@server.tool(structured_output=False)
async def book(folder: str, ctx: Context) -> str:
    """Asks in the middle of the call, as the documentation of MCP servers has it."""
    note(folder, "begun")
    said = await ctx.elicit("Which seat?", Size)
    note(folder, "booked")
    return f"{said.action} {said.data.size if said.action == 'accept' else ''}"


@server.tool(structured_output=False)
async def reserve(ctx: Context) -> str:
    """Does the same as a server of FastMCP, which asks only by the protocol of 2025."""
    if ctx.protocol_version == "2026-07-28":
        raise ToolError("elicitation via server-initiated requests is unavailable on 2026-07-28 connections.")
    return (await ctx.elicit("Which seat?", Size)).action


@server.tool(structured_output=False)
async def twice(ctx: Context) -> str | InputRequiredResult:
    """Needs one thing after the other."""
    answer = (ctx.input_responses or {}).get("name")
    if not isinstance(answer, ElicitResult):
        return needs("first", "Your first name?")
    if ctx.request_state == "first":
        return needs("last " + str((answer.content or {})["name"]), "Your last name?")
    return f"{(ctx.request_state or '')[5:]} {(answer.content or {})['name']}"


def needs(state: str, message: str) -> InputRequiredResult:
    form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    request: InputRequest = ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=form))
    return InputRequiredResult(input_requests={"name": request}, request_state=state)


@server.tool(structured_output=False)
async def pay(url: str, ctx: Context) -> str | InputRequiredResult:
    """Sends somebody to a page."""
    if ctx.input_responses is not None:
        answer = ctx.input_responses["page"]
        assert isinstance(answer, ElicitResult)
        return f"{answer.action} {answer.content}"
    request = ElicitRequest(params=ElicitRequestURLParams(message="Please pay.", url=url))
    return InputRequiredResult(input_requests={"page": request})


@server.tool(structured_output=False)
def connect(folder: str) -> str:
    """Wants a page to be opened first, as servers of 2025 say it."""
    if (Path(folder) / "connected").exists():
        return "connected"
    page = {"mode": "url", "message": "Sign in.", "url": "https://sign.example/in", "elicitationId": "e1"}
    raise MCPError(code=-32042, message="sign in first", data={"elicitations": [page]})


@server.tool(structured_output=False)
async def form(schema: dict[str, Any], ctx: Context) -> str | InputRequiredResult:
    """Asks whatever it is told to ask."""
    if ctx.input_responses is not None:
        return str(ctx.input_responses["form"].model_dump(mode="json", exclude_none=True))
    request = ElicitRequest(params=ElicitRequestFormParams(message="Fill in.", requested_schema=schema))
    return InputRequiredResult(input_requests={"form": request})


@server.tool(structured_output=False)
def process() -> int:
    return os.getpid()


@server.tool(structured_output=False)
async def later(ctx: Context) -> str | InputRequiredResult:
    """Needs nothing but to be called again, three times."""
    count = int(ctx.request_state or "0")
    return str(count) if count == 3 else InputRequiredResult(request_state=str(count + 1))


def old_app(app: Any) -> Any:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if dict(scope.get("headers", [])).get(b"mcp-method") == b"server/discover":
            return await PlainTextResponse("what?", 400)(scope, receive, send)
        return await app(scope, receive, send)

    return answer


async def serve_old() -> None:
    low = server._lowlevel_server
    async with stdio_server() as (read, write), low.lifespan(low) as state:
        await serve_loop(low, read, write, lifespan_state=state, init_options=low.create_initialization_options())


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            server.run("stdio")
        case ["old"]:
            asyncio.run(serve_old())
        case ["http", port, *old]:
            app = server.streamable_http_app()
            uvicorn.run(old_app(app) if old else app, host="127.0.0.1", port=int(port), log_level="error")

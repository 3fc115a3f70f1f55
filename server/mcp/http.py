"""The MCP server over HTTP, on this machine: each request carries an API token, as those of the JSON API do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.client.runs import Runs
from holdfast.server.mcp.server import ToolScope
from holdfast.server.web.gate import Gate, Identity
from holdfast.server.web.problems import make_problem
from holdfast.server.web.site import Site

HOST = "127.0.0.1"
PATH = "/mcp"


class TokenDoor:
    """Let nobody pass without an API token, and say whose it is."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self.app, self.gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "http":
            try:
                scope["identity"] = await self._identify(HTTPConnection(scope))
            except HTTPException as error:  # no application around this one makes a response of it
                await make_problem(error).response()(scope, receive, send)
                return
        await self.app(scope, receive, send)

    async def _identify(self, connection: HTTPConnection) -> Identity:
        """Return whose token a request carries. Raises `HTTPException`."""
        identity = await asyncio.to_thread(self.gate.identify, connection)
        # A session of a browser is not enough: a page elsewhere could have it sent.
        if identity is None or identity.token is None:
            detail = "send a token: Authorization: Bearer TOKEN; holdfast token create makes one"
            raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})
        return identity


def runs_by_token(site: Site, gate: Gate) -> Callable[[ServerRequestContext[Any, Any], ToolScope], Runs]:
    """Return what gives the runs of a site as the holder of a request's token sees them.

    It raises `MCPError` where the token has not the scope, or has changed too much of late.
    """

    def find_runs(ctx: ServerRequestContext[Any, Any], scope: ToolScope) -> Runs:
        identity = ctx.request.scope["identity"] if ctx.request is not None else None
        if identity is None or scope not in identity.scopes:
            raise MCPError(types.INVALID_REQUEST, f"this token has no scope '{scope}'")
        if scope != "read":
            try:
                gate.count_change(identity)
            except HTTPException as error:
                raise MCPError(types.INVALID_REQUEST, error.detail) from None
        return site.find_runs(identity)

    return find_runs


def http_app(server: Server[Any], gate: Gate) -> ASGIApp:
    """Return the ASGI application of the MCP server, at `PATH`."""
    return TokenDoor(server.streamable_http_app(streamable_http_path=PATH, host=HOST), gate)

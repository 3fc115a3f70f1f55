"""The command for assistants: `mcp`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from mcp.server.lowlevel import NotificationOptions
from mcp.server.stdio import stdio_server

from holdfast.cli.command import perform
from holdfast.cli.output import DONE, say
from holdfast.cli.session import open_session
from holdfast.client.answering import Sender
from holdfast.client.reading import person
from holdfast.runtime.embedded import Startup
from holdfast.server.mcp.http import HOST, PATH, http_app, runs_by_token
from holdfast.server.mcp.server import AssistantContext
from holdfast.server.web.gate import Gate
from holdfast.server.web.listener import bind, listen, make_url
from holdfast.server.web.site import Site

app = typer.Typer(rich_markup_mode=None)


@app.command()
def mcp(
    http: Annotated[
        int | None,
        typer.Option("--http", metavar="PORT", min=0, max=65535, help="Serve HTTP on this machine, with API tokens."),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--as", metavar="USER", help="The person for whom the assistant works, over stdio.")
    ] = None,
) -> None:
    """Serve runs and questions to an assistant by MCP: over standard input and output, or over HTTP.

    The tools are start, runs, questions, answer and result. A permission, a review, a decision or a stop can only
    be answered by a person, whom the assistant's client asks.
    """
    perform(_stdio(person(user)) if http is None else _http(http))


async def _stdio(user: str) -> int:
    session = await open_session(Startup.ALL)
    runs = session.runs.acting_as(Sender(user))
    server = AssistantContext(session.config, session.runs, lambda ctx, scope: runs).server()
    options = server.create_initialization_options(NotificationOptions(resources_changed=True))
    async with stdio_server() as (read, write):
        await server.run(read, write, options)
    return DONE


async def _http(port: int) -> int:
    listener = bind(HOST, port)
    session = await open_session(Startup.ALL)
    site, gate = Site(session.config, session.runs), Gate.of(session.config)
    server = AssistantContext(session.config, session.runs, runs_by_token(site, gate)).server()
    ready = partial(say, f"MCP server at {make_url(listener)}{PATH}; a token: holdfast token create")
    await listen(http_app(server, gate), listener, ready)
    return DONE

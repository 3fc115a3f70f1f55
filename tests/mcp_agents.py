"""Agents of pydantic-ai whose tools are those of an MCP server, as its documentation has them; brought in by `from`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import MCP
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.toolsets import AbstractToolset

SCRIPT = Path(__file__).parent / "activities" / "mcp_server.py"
transport = StdioTransport(sys.executable, [str(SCRIPT)], env=dict(os.environ))
# No API accepts a dot in the name of a tool.
local = Agent("test", toolsets=[MCPToolset(transport, init_timeout=60).renamed({"process_id": "process.id"})])
functional = Agent("test")
shared = Agent("test")


@functional.toolset
def of_the_step(ctx: RunContext[None]) -> AbstractToolset[None]:
    """Build the server's toolset for each step, as one does whose tools depend on who asks."""
    server = StdioTransport(sys.executable, [str(SCRIPT)], env=dict(os.environ))
    return MCPToolset[None](server, init_timeout=60).renamed({"process_id": "process.id"})


@shared.toolset
def of_all_steps(ctx: RunContext[None]) -> AbstractToolset[None]:
    """Return the one toolset that the module has, as one does that chooses among several."""
    return local.toolsets[1]


remote = Agent("test", toolsets=[MCPToolset("http://127.0.0.1:9/mcp")])
capable = Agent("test", capabilities=[MCP(url="http://127.0.0.1:9/mcp")])

"""The client of the conformance suite's scenarios: list a server's tools, and call each, as a worker does.

`python -m benchmarks.board.mcp_client URL`
"""

from __future__ import annotations

import asyncio
import sys

from holdfast.activities import McpServers
from holdfast.activities.mcp_servers import McpServer
from holdfast.blueprint.json_values import JSONObject


async def call_every_tool(url: str) -> None:
    """Call every tool of a server, with 1 for each number that it takes."""
    servers = McpServers({"suite": McpServer(url=url)})
    try:
        for tool in await servers.tools("suite"):
            await servers.call("suite", tool.reference.rpartition("/")[2], _make_args(tool.parameters))
    finally:
        await servers.close()


def _make_args(schema: JSONObject) -> JSONObject:
    properties = schema.get("properties")
    return dict.fromkeys(properties, 1) if isinstance(properties, dict) else {}


if __name__ == "__main__":
    asyncio.run(call_every_tool(sys.argv[1]))

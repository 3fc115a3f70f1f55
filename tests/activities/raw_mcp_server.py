"""An MCP server over stdio without the package, old and with bad manners: it pages its tools. `raw_mcp_server.py FILE`

Once FILE is there, it dies between two pages. Apart from the other one: to import the package takes a second.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def raw_result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """What the raw server answers; None is an error."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    match method, params:
        case "initialize", _:
            about = {"serverInfo": {"name": "raw", "version": "1"}, "capabilities": {"tools": {}}}
            return {"protocolVersion": "2025-03-26", **about}
        case "tools/list", {"cursor": "more"}:
            return {"tools": [{"name": "grumble", "inputSchema": {"type": "object"}}]}
        case "tools/list", _:
            tools = [{"name": "misfit", "inputSchema": {"type": "object"}, "outputSchema": schema}]
            return {"tools": tools, "nextCursor": "more"}
        case "tools/call", {"name": "misfit"}:
            return {"content": [], "structuredContent": {"n": "many"}}
    return None


def serve_raw(sign: str) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "cursor" in message.get("params", {}) and Path(sign).exists():
            Path(sign).unlink()
            return
        if "id" not in message:
            continue
        result = raw_result(message["method"], message.get("params", {}))
        error = {"code": -32000, "message": f"not today, {os.environ.get('LITTLE_TOKEN')}"}
        if message.get("params", {}).get("name") == "garble":
            sys.stdout.buffer.write(b"\xff\n")
        answer = {"result": result} if result is not None else {"error": error}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)


if __name__ == "__main__":
    serve_raw(sys.argv[1])

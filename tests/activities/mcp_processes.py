"""MCP servers as processes of their own, on a free port."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.activities.mcp_servers import McpServer, McpServers

SCRIPT = str(Path(__file__).with_name("mcp_server.py"))
STDIO = McpServer(command=(sys.executable, SCRIPT))
PATIENCE = 6000


async def until_true(state: Callable[[], bool]) -> None:
    for _ in range(PATIENCE):
        if state():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("waited for a state that never came")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@asynccontextmanager
async def serving(port: int, *how: str, **env: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(sys.executable, SCRIPT, str(port), *how, env={**os.environ, **env})
    try:
        await until_true(lambda: answers(port))
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def pool(**servers: McpServer) -> AsyncIterator[McpServers]:
    made = McpServers(servers)
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def one(transport: str) -> AsyncIterator[tuple[McpServers, Callable[[], None]]]:
    """A pool with one server, and what kills that server."""
    if transport == "stdio":
        async with pool(little=STDIO) as servers:
            pid = int(await servers.call("little", "process.id", {}))
            yield servers, lambda: os.kill(pid, signal.SIGKILL)
        return
    port = free_port()
    async with serving(port, transport) as process, pool(little=at(port)) as servers:
        yield servers, process.kill


def at(port: int, **how: Any) -> McpServer:
    return McpServer(url=f"http://127.0.0.1:{port}/mcp", **how)


async def wait_for_text(file: Path, lines: int = 1) -> None:
    """Wait until a server has written so many lines; the file is there a moment before its text."""
    await until_true(lambda: file.exists() and file.read_text().count("\n") == lines)

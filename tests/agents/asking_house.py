"""A house whose worker has an MCP server that asks people."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from temporalio.client import Client

from holdfast.activities import McpServer, McpServers, all_activities
from holdfast.protocol.questions import Question
from holdfast.worker import create_worker
from tests.activities.mcp_processes import answers, free_port, until_true
from tests.agents.turns import agent, call, turn
from tests.conftest import Harness, Replays
from tests.repository import ROOT

SCRIPT = (sys.executable, str(ROOT / "tests" / "activities" / "asking_server.py"))
LAST = "{{ messages[-1].content }}"


class House(Harness):
    """A harness whose worker has one MCP server, `asking`."""

    servers: McpServers
    activities: list[Callable[..., Any]]

    working: AsyncExitStack

    async def start_worker(self) -> None:
        worker = create_worker(self.client, task_queue=self.runs.task_queue, activities=self.activities)
        await self.working.enter_async_context(worker)

    async def calls(self, name: str, /, _settings: dict[str, Any] | None = None, **args: Any) -> str:
        """Start a run whose agent calls a tool of the server, and says what that gave."""
        tools = [{"name": "mcp:asking", **(_settings or {})}]
        return await self.start(agent(self, [turn(call(f"asking_{name}", **args)), LAST], tools=tools), "Go")

    async def orders(self, **settings: Any) -> str:
        return await self.calls("order", settings, item="shirt", folder=str(self.folder))

    async def question_other_than(self, run: str, known: Question) -> Question | None:
        return next((question for question in await self.runs.questions(run) if question.id != known.id), None)

    def ordered(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().split() if file.exists() else []


@asynccontextmanager
async def asking_server(how: str) -> AsyncIterator[McpServer]:
    wire, *old = how.split("-")
    if wire == "stdio":
        yield McpServer(command=(*SCRIPT, *old))
        return
    port = free_port()
    process = await asyncio.create_subprocess_exec(*SCRIPT, "http", str(port), *old)
    try:
        await until_true(lambda: answers(port))
        yield McpServer(url=f"http://127.0.0.1:{port}/mcp")
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def house_with(
    how: str, temporal: Client, replays: Replays, folder: Path, test: str, protocol: str | None = None
) -> AsyncIterator[House]:
    house = House(temporal, f"asking-{uuid.uuid4().hex[:8]}", folder)
    async with asking_server(how) as server:
        server = replace(server, protocol=protocol)
        servers = McpServers({"asking": server})
        house.servers, house.activities = servers, all_activities([], {}, servers)
        try:
            async with AsyncExitStack() as house.working:
                await house.start_worker()
                yield house
                replays.add(test, await house.recorded())
        finally:
            await servers.close()

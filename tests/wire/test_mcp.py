"""Tools of an MCP server over each wire: their schemas are the server's, and the provider must take them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client

from holdfast.activities import all_activities
from holdfast.activities.mcp_servers import McpServer, McpServers
from holdfast.worker import create_worker
from tests.activities.provider import Reply
from tests.conftest import Harness, Replays
from tests.wire.fake import Fake

SCRIPTS = Path(__file__).parents[1] / "activities"
AGENT = "agents: {{clerk: {{model: fast, tools: ['mcp:{0}']}}}}\nsteps: [{{name: clerk, agent: clerk}}]"


@pytest_asyncio.fixture(scope="module")
async def servers() -> AsyncIterator[McpServers]:
    commands = {
        "little": (sys.executable, str(SCRIPTS / "mcp_server.py")),
        "raw": (sys.executable, str(SCRIPTS / "raw_mcp_server.py"), "/nowhere/never"),
    }
    servers = McpServers({name: McpServer(command=command) for name, command in commands.items()})
    yield servers
    await servers.close()


@pytest_asyncio.fixture
async def wired(
    temporal: Client,
    replays: Replays,
    tmp_path: Path,
    fake: Fake,
    servers: McpServers,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Harness]:
    harness = Harness(temporal, f"test-mcp-{tmp_path.name}-{fake.api.name}", tmp_path)
    activities = all_activities([], {"fast": fake.alias}, servers)
    async with create_worker(temporal, task_queue=harness.runs.task_queue, activities=activities):
        yield harness
        await harness.close(replays, request.node.nodeid)


async def test_a_model_calls_a_tool_of_an_mcp_server(wired: Harness, fake: Fake) -> None:
    fake.calls(("little_add", {"a": 2, "b": 40}))
    fake.reply(Reply(text="42."))
    assert await wired.output(await wired.start(AGENT.format("little"))) == "42."
    assert (fake.refused, len(fake.requests)) == ([], 2)
    assert "sum" in str(fake.requests[1].body) and "sum" not in str(fake.requests[0].body)


@pytest.mark.slow
async def test_a_tool_that_takes_any_object_is_offered_with_room_for_one(wired: Harness, fake: Fake) -> None:
    fake.calls(("raw_misfit", {"anything": {"goes": [1]}}))
    fake.reply(Reply(text="It does not fit."))
    assert await wired.output(await wired.start(AGENT.format("raw"))) == "It does not fit."
    assert fake.refused == []
    assert "raw_misfit" in fake.api.offered(fake.requests[0])

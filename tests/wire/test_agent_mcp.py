"""MCP servers that an agent of pydantic-ai connects to by itself: each call of a tool is an activity."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from temporalio.client import Client

import tests.mcp_agents
from holdfast.activities import all_activities
from holdfast.activities.agent_objects import unsupported_agents
from holdfast.protocol.runs import HistoryLimits
from holdfast.worker import create_worker
from tests.activities.mcp_processes import free_port, serving
from tests.activities.provider import Reply, Request
from tests.conftest import Harness
from tests.mcp_agents import SCRIPT
from tests.wire.fake import Fake

only_chat = pytest.mark.parametrize("fake", ["chat"], indirect=True)


def agent(name: str, more: str = "") -> str:
    return f"agents: {{a: {{from: 'tests.mcp_agents:{name}', model: fast{more}}}}}\nsteps: [{{name: s, agent: a}}]"


def agent_of(port: int) -> Agent[None, str]:
    """An agent with the server that listens there."""
    return Agent(
        "test",
        toolsets=[MCPToolset(f"http://127.0.0.1:{port}/mcp", init_timeout=60).renamed({"process_id": "process.id"})],
    )


@pytest_asyncio.fixture
async def wired(temporal: Client, tmp_path: Path, fake: Fake) -> AsyncIterator[Harness]:
    queue = f"agent-mcp-{tmp_path.name}-{fake.api.name}"
    harness = Harness(temporal, queue, tmp_path)
    activities = all_activities(["tests.mcp_agents"], {"fast": fake.alias})
    async with create_worker(temporal, task_queue=queue, activities=activities):
        yield harness
        await harness.replay()
    await tests.mcp_agents.transport.close()


async def activities_of(house: Harness, run: str) -> list[str]:
    """The types of the activities of a run, in the order in which they were scheduled."""
    events = [event for history in await house.histories(run) for event in history.events]
    scheduled = [event.activity_task_scheduled_event_attributes.activity_type.name for event in events]
    return [name for name in scheduled if name]


@pytest.mark.slow
async def test_each_call_of_a_server_is_an_activity(wired: Harness, fake: Fake) -> None:
    fake.calls(("add", {"a": 1, "b": 2}), ("echo", {"text": "hello"}))
    fake.calls(("fail", {"reason": "not today"}))
    fake.text("3")
    text = agent("local", ", tools: [{name: add, approve: always}]")
    run = await wired.start(text, "1 + 2?", history_limits=HistoryLimits(rounds=1))
    assert await wired.answered(run, {"granted": True}) == ["May add be called?"]
    assert (await wired.output(run), fake.refused) == ("3", [])
    events = [event.data for event in await wired.runs.watch.events(run)]
    assert [data.result for data in events if data.type == "tool.returned"] == ["hello", {"sum": 3}]
    failed = [(data.error, data.message) for data in events if data.type == "tool.failed"]
    assert failed == [("call_again", "Error executing tool fail: not today")]
    made = await activities_of(wired, run)
    assert (made.count("call_model"), made.count("call_tool")) == (3, 3)


@pytest.mark.slow
@pytest.mark.parametrize("fake", ["chat", "responses", "anthropic"], indirect=True)
async def test_a_picture_of_a_server_reaches_the_model(wired: Harness, fake: Fake) -> None:
    fake.calls(("pictures", {}))
    fake.text("A horse.")
    assert await wired.output(await wired.start(agent("local"), "What is it?")) == "A horse."
    assert (fake.refused, "aGVsbG8=" in json.dumps(fake.requests[1].body)) == ([], True)


@pytest.mark.slow
@only_chat
async def test_a_server_that_has_died_is_started_again(wired: Harness, fake: Fake) -> None:
    def kill(request: Request) -> Reply:
        os.kill(int(request.messages[-1]["content"]), signal.SIGKILL)
        # Before that, the call is sent, and lost: a person is asked for it, or the model told.
        return Reply(calls=(("process_id", {}, "call_2"),), once=tests.mcp_agents.transport._is_session_dead)

    fake.calls(("process_id", {}))
    fake.reply(kill)
    fake.text("Done.")
    assert await wired.output(await wired.start(agent("local"), "Go")) == "Done."
    first, second = [message["content"] for message in fake.requests[-1].messages if message["role"] == "tool"]
    assert first.isdigit() and second.isdigit() and first != second


def servers() -> list[int]:
    """The processes of servers that the worker, which is this process, has started."""
    return [child.pid for child in psutil.Process().children(recursive=True) if str(SCRIPT) in child.cmdline()]


@pytest.mark.slow
@only_chat
async def test_a_server_that_a_function_starts_ends_with_the_activity(wired: Harness, fake: Fake) -> None:
    before = servers()
    fake.calls(("add", {"a": 1, "b": 2}))
    fake.calls(("fail", {"reason": "not today"}))
    fake.text("3")
    text = agent("functional", ", tools: [{name: add, approve: always}]")
    run = await wired.start(text, "1 + 2?")
    assert await wired.answered(run, {"granted": True}) == ["May add be called?"]
    assert (await wired.output(run), fake.refused) == ("3", [])
    assert servers() == before


@pytest.mark.slow
@only_chat
async def test_a_misspelt_tool_of_a_server_is_told_before_the_first_request(wired: Harness, fake: Fake) -> None:
    text = agent("functional", ", permissions: [{tool: ad, action: deny}]")
    error = (await wired.result(await wired.start(text, "1 + 2?"))).error
    assert error is not None
    assert (error.type, "agents.a.permissions[0].tool: the agent has no tool 'ad'" in error.message) == (
        "unknown_agent",
        True,
    )
    assert ("did you mean 'add'?" in error.message, fake.requests) == (True, [])


@pytest.mark.slow
@only_chat
async def test_a_toolset_that_a_function_returns_again_keeps_its_process(wired: Harness, fake: Fake) -> None:
    for number in (1, 2):
        fake.calls(("process_id", {}, f"call_{number}"))
    fake.text("Done.")
    assert await wired.output(await wired.start(agent("shared"), "Go")) == "Done."
    first, second = [message["content"] for message in fake.requests[-1].messages if message["role"] == "tool"]
    assert first == second


@pytest.mark.slow
@only_chat
async def test_a_server_elsewhere_is_called(wired: Harness, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(tests.mcp_agents, "remote", agent_of(port))
    fake.calls(("echo", {"text": "hello"}))
    fake.text("Done.")
    async with serving(port):
        run = await wired.start(agent("remote"), "Go")
        assert await wired.output(run) == "Done."
    assert fake.requests[-1].messages[-1]["content"] == "hello"


@pytest.mark.slow
@only_chat
async def test_a_server_that_goes_fails_the_call_and_then_the_request(
    wired: Harness, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setattr(tests.mcp_agents, "remote", agent_of(port))
    async with serving(port) as process:

        def leave(request: Request) -> Reply:
            process.kill()
            return Reply(calls=(("echo", {"text": "hello"}, "call_1"),))

        fake.reply(leave)
        run = await wired.start(agent("remote", ", retry: {attempts: 1}"), "Go")
        error = (await wired.result(run)).error
    assert error is not None and error.type == "agent_failed"
    [failed] = [event.data for event in await wired.runs.watch.events(run) if event.type == "tool.failed"]
    assert (failed.error, "Client failed to connect" in failed.message) == ("tool_error", True)


@only_chat
async def test_a_server_that_is_away_fails_the_request(wired: Harness, fake: Fake) -> None:
    text = agent("remote", ", retry: {attempts: 2, backoff: 10ms}")
    error = (await wired.result(await wired.start(text, "Go"))).error
    assert error is not None and error.type == "agent_failed"
    assert ("Client failed to connect" in error.message, fake.requests) == (True, [])


def test_a_server_as_a_capability_is_refused_by_name() -> None:
    [refusal] = unsupported_agents(["tests.mcp_agents"])
    assert refusal.startswith("tests.mcp_agents:capable: capabilities: MCP ")
    assert refusal.endswith("toolsets=[MCPToolset(…)]")

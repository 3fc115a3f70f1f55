"""Tools of an MCP server as an agent's tools."""

from __future__ import annotations

import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from temporalio.client import Client

from holdfast.activities import McpServer, McpServers, all_activities
from holdfast.worker import create_worker
from tests.agents.turns import agent, call, turn
from tests.conftest import TOOLS, Harness, Replays
from tests.repository import ROOT

SERVER = McpServer(command=(sys.executable, str(ROOT / "tests" / "activities" / "mcp_server.py")))


@pytest_asyncio.fixture
async def house(
    temporal: Client, replays: Replays, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Harness]:
    """As everywhere, with a server called `files` behind the worker."""
    queue = f"mcp-{uuid.uuid4().hex[:8]}"
    harness = Harness(temporal, queue, tmp_path)
    servers = McpServers({"files": SERVER})
    try:
        async with create_worker(temporal, task_queue=queue, activities=all_activities([TOOLS], {}, servers)):
            yield harness
            await harness.close(replays, request.node.nodeid)
    finally:
        await servers.close()


@pytest.mark.slow
async def test_an_agent_calls_the_tools_of_a_server_once_a_person_agrees(house: Harness) -> None:
    turns = [
        turn(call("files_add", a=1, b=2), call("files_nothing")),
        "{{ messages[-2].content }}|{{ messages[-1].content }}",
    ]
    run = await house.start(agent(house, turns, tools=[{"name": "mcp:files", "approve": "args.a == 1"}]), "Go")
    question = await house.one(run)
    assert question.info["tool"] == "files_add"
    await house.answer(run, {"granted": True})
    result, unknown = (await house.output(run)).split("|")
    assert "3" in result
    assert "there is no tool 'files_nothing'" in unknown


async def test_a_step_calls_a_tool_of_a_server_itself(house: Harness) -> None:
    run = await house.start(
        """
        steps:
          - {name: sum, uses: "mcp:files/add", arguments: {a: "{{ input.a }}", b: 2}}
          - {name: text, uses: "mcp:files/echo", input: "{{ input.word }}", on_error: continue}
          - {name: said, uses: "mcp:files/echo", input: {text: "{{ steps.sum.output.sum }}!"}}
        output: ["{{ steps.sum.output }}", "{{ steps.said.output }}", "{{ steps.text.error.message }}"]
        """,
        {"a": 1, "word": "hi"},
    )
    total, said, refused = await house.output(run)
    assert (total, said) == ({"sum": 3}, "3!")
    assert refused == "mcp:files/echo takes an object of its arguments by name, not str; write arguments: {…}"


@pytest.mark.slow
async def test_what_a_servers_tool_gets_is_judged_before_the_run(house: Harness) -> None:
    blueprint = house.load(
        """
        steps:
          - {name: sum, uses: "mcp:files/add", arguments: {a: one}}
          - {name: none, uses: "mcp:files/subtract", arguments: {a: one}}
          - kind: plan
            name: plan
            plan: {goal: g, steps: [{id: x, tools: ["mcp:files/add"], arguments: {a: one, b: 1}}]}
        """
    )
    found = await house.runs.look_up(blueprint, connect=True)
    assert sorted((one.path, one.code) for one in found.problems) == [
        ("steps[0].arguments", "bad_shape"),
        ("steps[0].arguments.a", "tool_input"),
        ("steps[1].uses", "unknown_tool"),
        ("steps[2].plan.steps[0].arguments.a", "tool_input"),
    ]
    assert (await house.runs.look_up(blueprint)).problems == []


async def test_a_server_that_is_not_configured_fails_the_agent_with_the_way_out(house: Harness) -> None:
    run = await house.start(agent(house, ["x"], tools=["mcp:flies"]), "Go")
    error = (await house.result(run)).error
    assert error.type == "unknown_tool"
    assert "holdfast.toml" in error.message


@pytest.mark.slow
async def test_a_rule_that_names_no_tool_of_the_server_fails_before_the_first_request(house: Harness) -> None:
    rules = [{"tool": "files_ad", "action": "deny"}]
    run = await house.start(agent(house, ["never said"], tools=["mcp:files"], permissions=rules), "Go")
    error = (await house.result(run)).error
    assert error is not None
    assert (error.type, error.message.partition(" (")[2]) == ("unknown_tool", "did you mean 'files_add'?)")
    assert "permissions[0].tool" in error.message
    assert "model.replied" not in [event.type for event in await house.runs.watch.events(run)]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["agents.boss", "planner"])
async def test_so_does_one_of_a_planner(house: Harness, place: str) -> None:
    house.script(yaml.safe_dump({"lead": ["never said"]}))
    planner = {"model": "scripted:replies.yaml", "permissions": [{"tool": "files_ad", "action": "deny"}]}
    step = {"kind": "agentic_loop", "name": "lead", "registry": ["mcp:files"], "planner": planner}
    named = {"agents": {"boss": planner}, "steps": [{**step, "planner": "boss"}]}
    run = await house.start(yaml.safe_dump({"steps": [step]} if place == "planner" else named), "Go")
    error = (await house.result(run)).error
    assert error is not None
    assert error.type == "unknown_tool"
    assert f"{place}.permissions[0].tool: the agent has no tool 'files_ad' (did you mean" in error.message
    assert "model.replied" not in await house.types(run)

"""What follows an error of a tool, where the author says it: for agents, and for steps that call a tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.activities import AgentActivities, LookUpActivities, McpServers, ModelActivities, ToolActivities, tool
from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.load import loads
from holdfast.blueprint.requirements import list_requirements
from holdfast.client.lookup import make_request
from holdfast.protocol.runs import HistoryLimits
from tests.agents.turns import call, turn
from tests.conftest import Harness
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.tools import calls

SUCCESS = {"success": True, "data": {"message_id": "m2", "to": "Ana"}}


@tool(name="plan_sends")
def send_otherwise(log: str, to: str) -> str:
    """Sends a mail in another way."""
    return f"{to} by another way, not by {log}"


def direct(house: Harness, statuses: list[int], **rules: Any) -> str:
    arguments = {"log": str(house.folder / "log"), "to": "Ana", "fail": statuses}
    return yaml.safe_dump(
        {"steps": [{"name": "send", "uses": "plan_send", "arguments": arguments, "tool_errors": rules}]}
    )


def by_agent(house: Harness, statuses: list[int], turns: list[Any] | None = None, **rules: Any) -> str:
    send = call("plan_send", log=str(house.folder / "log"), to="Ana", fail=statuses)
    told = "{{ messages[-1].content }}"
    house.script(yaml.safe_dump({"clerk": turns or [turn(send), turn(send), turn(send), f"told: {told}"]}))
    agent = {"model": "scripted:replies.yaml", "tools": ["plan_send"], "tool_errors": rules}
    return yaml.safe_dump({"agents": {"clerk": agent}, "steps": [{"name": "clerk", "agent": "clerk"}]})


def sent(folder: Path) -> int:
    return calls(folder, "log")


# A step that calls a tool


async def test_a_person_gives_access_and_the_same_call_is_made_again(house: Harness) -> None:
    run = await house.start(direct(house, [401], authorization="ask"))
    question = await house.one(run)
    assert (question.kind, question.info["tool"]) == ("decision", "plan_send")
    await house.answer(run, "reconnected")
    assert await house.output(run) == SUCCESS
    assert sent(house.folder) == 2


async def test_a_person_is_asked_for_access_as_often_as_the_rule_says(house: Harness) -> None:
    run = await house.start(direct(house, [401, 401, 401], authorization={"ask": 1}))
    await house.answer(run, "reconnected")
    assert (await house.result(run)).error.type == "http_401"
    assert sent(house.folder) == 2


async def test_the_place_is_told_where_a_tool_raised_an_error_that_ends_its_agent(house: Harness) -> None:
    run = await house.start(by_agent(house, [500], other="fail"))
    assert (await house.result(run)).status == "failed"
    traces = [e.data.traceback for e in await house.runs.watch.events(run) if e.type in ("tool.failed", "step.failed")]
    assert len(traces) == 2 and all("plan_tools.py" in (trace or "") for trace in traces)


@pytest.mark.slow
async def test_without_access_the_step_fails(house: Harness) -> None:
    run = await house.start(direct(house, [403], authorization="ask"))
    await house.answer(run, "fail")
    assert (await house.result(run)).error.type == "http_403"
    assert sent(house.folder) == 1


@pytest.mark.parametrize(
    ("statuses", "rules", "type_", "made"),
    [
        ([200, 200], {"business": {"retry": 1}}, "business", 2),
        ([200], {"business": "fail"}, "business", 1),
        ([504], {"timeout": "fail"}, "http_504", 1),
        ([504, 504, 504], {"timeout": {"retry": 2}}, "http_504", 3),
        ([404], {"missing": "fail"}, "http_404", 1),
        ([400, 401], {"bad_arguments": {"retry": 1}, "authorization": "fail"}, "http_401", 2),
        ([500], {"business": {"retry": 1}}, "http_500", 1),
        ([500, 500], {"other": {"retry": 1}}, "http_500", 2),
        ([200, 400, 200], {"business": {"retry": 2}, "bad_arguments": {"retry": 2}, "total": 2}, "business", 3),
    ],
)
async def test_a_call_is_made_again_as_often_as_its_rule_says(
    house: Harness, statuses: list[int], rules: Any, type_: str, made: int
) -> None:
    error = (await house.result(await house.start(direct(house, statuses, **rules)))).error
    assert (error.type, error.address) == (type_, "pipeline:test;step:send")
    assert sent(house.folder) == made


async def test_a_call_that_succeeds_at_last_gives_its_result(house: Harness) -> None:
    assert await house.output(await house.start(direct(house, [504], timeout={"retry": 1}))) == SUCCESS


@pytest.mark.slow
async def test_without_a_rule_a_result_that_tells_no_success_is_one(house: Harness) -> None:
    output = await house.output(await house.start(direct(house, [200], timeout="fail")))
    assert output == {"success": False, "error": "the mailbox is full"}


@pytest.mark.parametrize("granted", [True, False])
async def test_a_person_agrees_to_the_tool_that_takes_the_place_of_a_missing_one(house: Harness, granted: bool) -> None:
    arguments = {"log": str(house.folder / "log"), "to": "Ana"}
    step = {"name": "send", "uses": "plan_sendss", "arguments": arguments, "tool_errors": {"missing": "find"}}
    run = await house.start(yaml.safe_dump({"steps": [step]}))
    question = await house.one(run)
    assert (question.kind, question.info["tool"], question.info["args"]) == ("permission", "plan_sends", arguments)
    assert question.message == "May plan_sends be called? It takes the place of plan_sendss, which is missing."
    await house.answer(run, {"granted": granted}, question)
    outcome = await house.result(run)
    if granted:
        assert outcome.output == f"Ana by another way, not by {arguments['log']}"
    else:
        assert (outcome.error.type, outcome.error.address) == ("not_approved", "pipeline:test;step:send")


@pytest.mark.slow
async def test_another_tool_that_does_not_take_the_arguments_is_not_called(house: Harness) -> None:
    arguments = {"log": str(house.folder / "log"), "to": "Ana", "fail": [404]}
    step = {"name": "send", "uses": "plan_send", "arguments": arguments, "tool_errors": {"missing": "find"}}
    error = (await house.result(await house.start(yaml.safe_dump({"steps": [step]})))).error
    assert (error.type, "fail" in error.message) == ("tool_input", True)
    assert sent(house.folder) == 1


# An agent


async def test_the_model_calls_again_as_often_as_the_rule_says(house: Harness) -> None:
    run = await house.start(by_agent(house, [200, 200, 200], business={"retry": 1}))
    error = (await house.result(run)).error
    assert (error.type, "the mailbox is full" in error.message) == ("business", True)
    assert sent(house.folder) == 2


async def test_a_person_gives_access_to_an_agents_tool_and_the_model_hears_nothing_of_it(house: Harness) -> None:
    turns = [
        turn(call("plan_send", log=str(house.folder / "log"), to="Ana", fail=[401])),
        "told: {{ messages[-1].content }}",
    ]
    run = await house.start(by_agent(house, [], turns, authorization="ask"))
    await house.answer(run, "reconnected")
    assert json.loads((await house.output(run)).removeprefix("told: ")) == SUCCESS
    assert sent(house.folder) == 2


@pytest.mark.parametrize("rule", ["fail", {"retry": 1}])
async def test_arguments_that_do_not_fit_are_bad_ones_too(house: Harness, rule: Any) -> None:
    bad = turn(call("plan_send", to="Ana"))
    run = await house.start(by_agent(house, [], [bad, bad, bad, "done"], bad_arguments=rule))
    assert (await house.result(run)).error.type == "tool_input"
    assert (await house.types(run)).count("model.requested") == (1 if rule == "fail" else 2)
    assert sent(house.folder) == 0


async def test_another_tool_of_the_agent_is_named_in_place_of_one_that_is_missing(house: Harness) -> None:
    send = call("plan_send", log=str(house.folder / "log"), to="Ana", fail=[404, 404])
    house.script(yaml.safe_dump({"clerk": [turn(send), "{{ messages[-1].content }}"]}))
    tools = ["plan_send", "plan_sends"]
    agent = {"model": "scripted:replies.yaml", "tools": tools, "tool_errors": {"missing": "find"}}
    document = {"agents": {"clerk": agent}, "steps": [{"name": "clerk", "agent": "clerk"}]}
    run = await house.start(yaml.safe_dump(document))
    outcome = await house.result(run)
    assert "call plan_sends in its place" in str(outcome.output)


MISSING = {"model": "scripted:replies.yaml", "tool_errors": {"missing": "find"}}
"""An agent that looks for another tool in place of one that is missing."""


async def test_an_agent_begins_without_a_missing_tool_if_another_of_its_tools_does_it(house: Harness) -> None:
    send = turn(call("plan_sends", log="log", to="Ana"))
    house.script(yaml.safe_dump({"clerk": [send, "{{ messages[1].content }} {{ messages[-1].content }}"]}))
    rules = [{"tool": "plan_sendss", "action": "ask"}]
    agent = {**MISSING, "tools": ["plan_sendss", "plan_sends"], "permissions": rules}
    document = {"agents": {"clerk": agent}, "steps": [{"name": "clerk", "agent": "clerk", "input": "Write"}]}
    output = await house.output(await house.start(yaml.safe_dump(document)))
    assert output.startswith("The tool plan_sendss is missing; call plan_sends in its place.")
    assert output.endswith("Ana by another way, not by log")


@pytest.mark.parametrize("tools", [["plan_sendss", "plan_update"], ["plan_sendss"]])
async def test_an_agent_whose_tool_is_missing_fails_without_another(house: Harness, tools: list[str]) -> None:
    house.script("[never]")
    document = {"agents": {"clerk": {**MISSING, "tools": tools}}, "steps": [{"name": "clerk", "agent": "clerk"}]}
    error = (await house.result(await house.start(yaml.safe_dump(document)))).error
    assert error.type == "unknown_tool"


@pytest.mark.slow
async def test_the_rules_of_a_step_take_the_place_of_its_agents(house: Harness) -> None:
    send = turn(call("plan_send", log=str(house.folder / "log"), to="Ana", fail=[200]))
    document = yaml.safe_load(by_agent(house, [], [send, send, "{{ messages[-1].content }}"], business="fail"))
    document["steps"][0]["tool_errors"] = {"business": {"retry": 1}}
    run = await house.start(yaml.safe_dump(document))
    assert await house.output(run) == SUCCESS
    assert sent(house.folder) == 2


@pytest.mark.slow
async def test_what_was_counted_is_carried_over_continue_as_new(house: Harness) -> None:
    log = str(house.folder / "log")
    turns = [turn(call("plan_send", log=log, to=f"Ana {n}", fail=[200] * 5)) for n in range(5)]
    run = await house.start(by_agent(house, [], turns, business={"retry": 2}), history_limits=HistoryLimits(rounds=1))
    assert (await house.result(run)).error.type == "business"
    assert sent(house.folder) == 3
    assert len(await house.histories(run)) == 3


# Before the start


@pytest.mark.parametrize(
    ("tools", "missing"),
    [(["plan_sendss", "plan_sends"], []), (["plan_sendss", "plan_update"], ["plan_sendss"]), (["qqq"], ["qqq"])],
)
async def test_a_missing_tool_keeps_no_run_from_its_start_if_another_does_it(
    tools: list[str], missing: list[str]
) -> None:
    agent = {"model": "echo", "tools": tools, "tool_errors": {"missing": "find"}}
    blueprint = loads(yaml.safe_dump({"agents": {"clerk": agent}, "steps": [{"name": "clerk", "agent": "clerk"}]}))
    assert await list_missing(blueprint) == missing


@pytest.mark.parametrize(("tool", "missing"), [("plan_sendss", []), ("qqq", ["qqq"])])
async def test_so_it_is_for_a_step_that_calls_its_tool(tool: str, missing: list[str]) -> None:
    step = {"name": "send", "uses": tool, "arguments": {}, "tool_errors": {"missing": "find"}}
    assert await list_missing(loads(yaml.safe_dump({"steps": [step]}))) == missing


async def list_missing(blueprint: Blueprint) -> list[str]:
    """Return the names of a blueprint that a worker here does not have."""
    servers = McpServers({})
    found = LookUpActivities(ToolActivities([], servers, {}), ModelActivities({}), servers, AgentActivities([], {}))
    result = await found.find_missing(make_request(list_requirements(blueprint), connect=False))
    return [entry.wanted.name for entry in result.missing]


# What is written wrong


@pytest.mark.parametrize(
    ("step", "path", "message"),
    [
        ({"uses": "send", "tool_errors": {"missing": "find"}}, "tool_errors.missing", "names of its arguments"),
        ({"uses": "stringify", "tool_errors": {"timeout": "fail"}}, "tool_errors", "run one activity"),
        ({"uses": "send", "tool_errors": {"timeout": "ask"}}, "tool_errors.timeout", "must be"),
        ({"uses": "send", "tool_errors": {"bussiness": "fail"}}, "tool_errors.bussiness", "unknown key"),
        ({"agent": {"model": "echo", "tool_errors": {"timeout": "fail"}}}, "agent.tool_errors", "whose tools"),
    ],
)
def test_rules_that_cannot_hold_are_errors(step: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        loads(yaml.safe_dump({"steps": [{"name": "s", **step}]}))
    [problem] = caught.value.problems
    assert (problem.path, message in problem.message) == (f"steps[0].{path}", True)

"""Steps whose plan gives the arguments of their tool: no model is asked for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.protocol.answers import Refusal
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import DRIVERS, Plans, advance, begin, call, finish, loop, statuses, step
from tests.plans.planned import planned


def sending(plans: Plans, id_: str = "1", **arguments: Any) -> dict[str, Any]:
    return step(id_, "", tools=["plan_send"], arguments={"log": str(plans.log), **arguments})


def execute(id_: str, **parameters: Any) -> dict[str, Any]:
    return call("execute_step_tool", step_id=id_, tool_name="plan_send", parameters=parameters)


async def test_arguments_are_no_templates(plans: Plans) -> None:
    steps = [sending(plans, to={"{{ x }}": ["{{ input }}", "{% if"]}, words="RESULT_FROM_0 {{ }}"), step("0", "Say")]
    output = await plans.output({"steps": steps}, {"0": "it"})
    assert output["steps"]["1"]["data"]["to"] == {"{{ x }}": ["{{ input }}", "{% if"]}


@pytest.mark.slow
async def test_an_agent_that_is_the_tool_works_on_its_input_once_a_person_agrees(plans: Plans) -> None:
    tools = [{"name": "agent:writer", "approve": "always"}]
    written = {"goal": "A test", "agent": "worker", "steps": [step("1", "", tools=["agent:writer"])]}
    written["steps"][0]["arguments"] = {"input": "Ana {and} Ben"}
    model = "scripted:replies.yaml"
    agents = {"worker": {"model": model, "tools": tools}, "writer": {"model": model}}
    plans.harness.script(json.dumps({"writer": "Dear {{ messages[-1].content }}"}))
    document = {"agents": agents, "steps": [{"kind": "plan", "name": "work", "plan": written}]}
    run = await plans.harness.start(json.dumps(document))
    question = await plans.harness.one(run)
    assert question.info["args"] == {"input": "Ana {and} Ben"}
    await plans.harness.answer(run, {"granted": True}, question)
    output = await plans.harness.output(run)
    assert output["steps"]["1"]["data"] == "Dear Ana {and} Ben"


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_call_is_made_as_the_plan_writes_it(plans: Plans, driver: str) -> None:
    steps = [step("list", "List"), sending(plans, to={"who": "CURRENT_ITEM", "all": "RESULT_FROM_list"})]
    plan = {"steps": steps, "loop_blocks": {"all": loop("RESULT_FROM_list", "1")}, "driver": driver}
    turns: list[Any] = [
        call("finish_step", step_id="list", result_summary="listed", result=["ana", "ben"]),
        begin("all"),
    ]
    turns += [part for _ in "ab" for part in (execute("1"), finish("1"), advance("all"))]
    run = await plans.start(plan, {"plan": turns} if driver == "agent" else {"list": [{"output": ["ana", "ben"]}]})
    output = await plans.harness.output(run)
    assert [one["to"] for one in plans.calls()] == [{"who": who, "all": ["ana", "ben"]} for who in ("ana", "ben")]
    assert output["steps"]["1"]["data"] == [
        {"message_id": f"m{n}", "to": one["to"]} for n, one in enumerate(plans.calls(), 1)
    ]
    if driver == "engine":
        assert [request["step"] for request in await plans.requests(run)] == ["list"]


async def test_a_value_is_not_read_for_references(plans: Plans) -> None:
    steps = [step("1", "Say"), sending(plans, "2", to="RESULT_FROM_1", words="for RESULT_FROM_1")]
    output = await plans.output({"steps": steps}, {"1": "see RESULT_FROM_2"})
    assert output["steps"]["2"]["data"]["to"] == "see RESULT_FROM_2"


async def test_an_agent_that_drives_cannot_give_other_arguments(plans: Plans) -> None:
    turns = [execute("1", to="eve", log=str(plans.log)), execute("1"), finish("1")]
    run = await plans.start({"steps": [sending(plans, to="ana")], "driver": "agent"}, {"plan": turns})
    await plans.harness.output(run)
    assert [one["to"] for one in plans.calls()] == ["ana"]
    refused, *_ = await plans.told(run)
    assert (refused["error"]["type"], refused["error"]["arguments"]["to"]) == ("arguments_in_plan", "ana")


@pytest.mark.parametrize(
    ("fail", "error"), [([200], "business"), ([400], "bad_arguments"), ([504], "timeout"), ([500], "http_500")]
)
async def test_a_call_that_no_model_can_correct_is_made_once(plans: Plans, fail: list[int], error: str) -> None:
    output = await plans.ended({"steps": [sending(plans, to="ana", fail=fail)]}, {})
    assert (statuses(output), output["steps"]["1"]["error"]["type"]) == ({"1": "failed"}, error)
    assert plans.tools() == ["send"]
    assert output["steps"]["1"]["called"] == ["plan_send"]


async def test_a_person_gives_access_again_and_the_call_is_repeated(plans: Plans) -> None:
    run = await plans.start({"steps": [sending(plans, to="ana", fail=[401])]}, {})
    await plans.harness.answer(run, "reconnected")
    assert statuses(await plans.harness.output(run)) == {"1": "completed"}
    assert plans.tools() == ["send", "send"]


async def test_a_tool_that_needs_leave_waits_for_it(plans: Plans) -> None:
    agent = {"model": "scripted:replies.yaml", "tools": [{"name": "plan_send", "approve": "always"}]}
    run = await plans.start({"steps": [sending(plans, to="ana")], "agent": agent}, {})
    question = await plans.harness.one(run)
    assert (question.info["tool"], question.info["args"]["to"]) == ("plan_send", "ana")
    await plans.harness.answer(run, {"granted": False}, question)
    outcome = await plans.harness.result(run)
    assert (outcome.output["steps"]["1"]["error"]["type"], plans.calls()) == ("not_approved", [])


async def test_arguments_that_do_not_fit_fail_the_step(plans: Plans) -> None:
    output = await plans.ended({"steps": [sending(plans, who="ana")]}, {})
    assert output["steps"]["1"]["error"]["type"] == "bad_arguments"
    assert plans.calls() == []


async def test_a_planner_is_told_what_its_tool_does_not_take(plans: Plans) -> None:
    good = {"goal": "Send", "steps": [step("1", "ana"), sending(plans, "2", to="x", words="RESULT_FROM_1")]}
    bad = {"goal": "Send", "steps": [step("1"), {**good["steps"][1], "arguments": {"who": "ana", "fail": "never"}}]}
    run = await planned(plans, [bad, good], tools="plan_send")
    assert statuses(await plans.harness.output(run)) == {"1": "completed", "2": "completed"}
    _, again = [request for request in await plans.requests(run) if request["step"] == "think"]
    errors = "\n".join(again["messages"][0]["content"]["errors"])
    for problem in ("to is missing", "log is missing", "who is not", "fail fits none"):
        assert f"steps[1].arguments: {problem}" in errors


@pytest.mark.slow
async def test_a_change_with_arguments_that_no_tool_takes_is_refused(plans: Plans) -> None:
    steps = [step("0", "ASK_INFO: Go on?"), sending(plans, to="ana")]
    run = await plans.start({"steps": steps}, {})
    question = await plans.harness.one(run)
    changed = {"goal": "A test", "steps": [*steps, sending(plans, "2", who="ben")]}
    with pytest.raises(Refusal) as caught:
        await plans.harness.runs.plans.change(run, changed)
    assert "steps[2].arguments: to is missing" in caught.value.message
    await plans.harness.answer(run, "yes", question)
    assert statuses(await plans.harness.output(run)) == {"0": "completed", "1": "completed"}

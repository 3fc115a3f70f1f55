"""What was approved is all that a plan may call: whoever drives it, whatever it is read from, after every revision."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import DRIVERS, SAYS_INSTRUCTION, Plans, ask, call, finish, loop, says, statuses, step

Json = dict[str, Any]
READ = """
agents:
  helper: {{model: "scripted:replies.yaml", tools: [plan_list, plan_update], description: Helps}}
  clerk: {{model: "scripted:replies.yaml", tools: [{tools}]}}
steps:
  - {{kind: plan, name: plan, input: null, plan: {{from: "{{{{ input }}}}", agent: clerk, {more}}}}}
"""
CLERK = {"model": "scripted:replies.yaml", "tools": ["plan_send", "plan_update"]}


async def read(plans: Plans, plan: Json, script: Json, tools: str = "plan_send", more: str = "driver: engine") -> str:
    plans.harness.script(json.dumps(script))
    return await plans.harness.start(READ.format(tools=tools, more=more), {"goal": "A test", **plan})


@pytest.mark.parametrize("source", ["file", "value"])
@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_step_without_tools_has_none_of_its_agents(plans: Plans, driver: str, source: str) -> None:
    turns = [plans.runs("1", "plan_send", to="ana"), finish("1", "read")]
    script = {"plan": turns} if driver == "agent" else {"1": [plans.wants("plan_send", to="ana"), "read"]}
    plan = {"steps": [step("1", "Read the file")]}
    if source == "value":
        run = await read(plans, plan, script, more=f"driver: {driver}")
    else:
        run = await plans.start({**plan, "agent": CLERK, "driver": driver}, script)
    await plans.harness.result(run)
    assert plans.calls() == []
    offered = {tool["name"] for request in await plans.requests(run) for tool in request.get("tools", [])}
    assert "plan_send" not in offered
    if driver == "agent":
        assert (await plans.told(run))[0]["error"]["type"] == "no_tools"


async def test_what_is_confirmed_lists_every_tool_that_can_run(plans: Plans) -> None:
    steps = [step("1", "Read"), step("2", "Look", tools=["agent:helper"]), step("3", "Send", tools=["plan_send"])]
    tools = "{name: plan_send, approve: always}, agent:helper"
    run = await read(plans, {"steps": steps}, {}, tools, "confirm: true")
    question = await plans.harness.one(run)
    assert question.info["about"]["tools"] == {
        "2": [{"tool": "agent:helper", "effect": "acts", "may_call": ["plan_list", "plan_update"]}],
        "3": [{"tool": "plan_send", "effect": "acts", "approval": "ask"}],
    }
    await plans.harness.answer(run, {"verdict": "rejected"}, question)
    await plans.harness.result(run)


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_tool_that_a_person_adds_to_an_approved_plan_is_approved_again(plans: Plans, driver: str) -> None:
    asks = step("1", "ASK_INFO: Go on?")
    script = {
        "plan": [ask("Go on?"), finish("1"), plans.runs("2", "plan_send", to="ana"), finish("2")],
        **({} if driver == "agent" else {"2": plans.wants("plan_send", to="ana")}),
    }
    more = f"confirm: true, driver: {driver}"
    run = await read(plans, {"steps": [asks, step("2", "Say it", dependencies=["1"])]}, script, more=more)
    await plans.harness.answer(run, {"verdict": "unchanged"})
    question = await plans.harness.one(run)
    sends = step("2", "Send it", tools=["plan_send"], dependencies=["1"])
    await plans.harness.runs.plans.change(run, {"goal": "A test", "steps": [asks, sends]})
    await plans.harness.answer(run, "yes", question)
    leave = await plans.harness.one(run)
    assert "plan_send is not in the plan that was approved for step 2" in leave.message
    await plans.harness.answer(run, {"granted": False}, leave)
    outcome = await plans.harness.result(run)
    assert (outcome.output["steps"]["2"]["error"]["type"], plans.calls()) == ("not_approved", [])


@pytest.mark.slow
async def test_a_tool_that_is_added_inside_a_loop_is_approved_again(plans: Plans) -> None:
    asks = step("1", "ASK_INFO: Go on?")
    run = await read(plans, {"steps": [asks]}, {"2": plans.wants("plan_send", to="ana")}, more="confirm: true")
    await plans.harness.answer(run, {"verdict": "unchanged"})
    question = await plans.harness.one(run)
    sends = step("2", "Send it", tools=["plan_send"])
    blocks = {"all": loop(["a", "b"], "2", dependencies=["1"])}
    await plans.harness.runs.plans.change(run, {"goal": "A test", "steps": [asks, sends], "loop_blocks": blocks})
    await plans.harness.answer(run, "yes", question)
    for _ in range(2):
        await plans.harness.answer(run, {"granted": False})
    await plans.harness.result(run)
    assert plans.calls() == []


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_tool_that_replaces_an_approved_one_is_approved_again(plans: Plans, driver: str) -> None:
    plan = {"steps": [step("1", "Update the calendar event", tools=["plan_updat"])], "driver": driver, "confirm": True}
    update = plans.runs("1", "plan_update", event="e1")
    turns = [plans.runs("1", "plan_updat"), call("find_tool", instruction="plan update an event"), update]
    run = await plans.start(plan, {"plan": turns} if driver == "agent" else {"1": plans.wants("plan_update", event=1)})
    await plans.harness.answer(run, {"verdict": "unchanged"})
    question = await plans.harness.one(run)
    assert "plan_update is not in the plan that was approved for step 1" in question.message
    await plans.harness.answer(run, {"granted": False}, question)
    await plans.harness.result(run)
    assert plans.calls() == []


@pytest.mark.slow
async def test_a_replacement_that_the_agent_lists_needs_no_approval_where_none_approved_the_plan(plans: Plans) -> None:
    steps = [step("1", "Update the calendar event", tools=["plan_updat"])]
    agent = {**CLERK, "tools": ["plan_updat", "plan_update"]}
    output = await plans.output({"steps": steps, "agent": agent}, {"1": plans.wants("plan_update", event="e1")})
    assert (statuses(output), plans.tools()) == ({"1": "completed"}, ["update"])


async def test_a_plan_that_nobody_approves_is_bounded_by_the_tools_of_its_agent(plans: Plans) -> None:
    run = await read(plans, {"steps": [step("1", tools=["plan_send"])]}, {"1": plans.wants("plan_send", to="a")}, "")
    outcome = await plans.harness.result(run)
    assert outcome.error is not None and outcome.error.type == "plan_invalid"
    assert "its agent lists none, and no person approves it" in outcome.error.message
    assert plans.calls() == []


@pytest.mark.slow
async def test_a_change_that_a_person_approved_is_approved(plans: Plans) -> None:
    more = [step("1"), step("2", "Send", tools=["plan_send"])]
    turns = [
        call("update_plan", new_plan={"goal": "A test", "steps": more}, reason="better"),
        finish("1"),
        plans.runs("2", "plan_send", to="a"),
        finish("2"),
    ]
    run = await plans.start({"steps": [step("1")], "driver": "agent", "confirm": True}, {"plan": turns})
    await plans.harness.answer(run, {"verdict": "unchanged"})
    review = await plans.harness.one(run)
    assert review.info["about"]["tools"] == {"2": [{"tool": "plan_send", "effect": "acts"}]}
    await plans.harness.answer(run, {"verdict": "unchanged"}, review)
    await plans.harness.output(run)
    assert plans.tools() == ["send"]


@pytest.mark.slow
async def test_an_agent_that_may_ask_still_asks_in_a_step_without_tools(plans: Plans) -> None:
    agent = {**CLERK, "human": ["ask"]}
    replies = [call("request_user_info", question="Which file?"), SAYS_INSTRUCTION]
    run = await plans.start({"steps": [step("1", "Read")], "agent": agent}, says("2", **{"1": replies}))
    await plans.harness.answer(run, "the first")
    assert statuses(await plans.harness.output(run)) == {"1": "completed"}

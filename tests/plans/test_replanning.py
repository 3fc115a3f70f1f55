"""A plan that failed, and what is done then: its results are read, and what was done is not done again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.blueprint.load import parse
from tests.agents.turns import agent, turn
from tests.agents.turns import call as calls
from tests.conftest import Harness
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import DRIVERS, Plans, finish, step

Json = dict[str, Any]
AGAIN = """
agents:
  planner: {model: "scripted:replies.yaml", instructions: Plan it, output_schema: plan}
  clerk: {model: "scripted:replies.yaml", tools: [plan_send]}
steps:
  - kind: loop
    name: until_done
    loop:
      max_loops: 3
      exit_expression: steps.work.status == 'completed'
      propagation: {next_input: "{{ steps.work.error.output }}"}
      body:
        - name: think
          uses: agents.planner
          input: {goal: Invite Ana and Ben, done: "{{ previous_step if iteration > 1 else none }}"}
        - kind: plan
          name: work
          on_error: continue
          plan: {from: "{{ steps.think.output }}", agent: clerk}
output: "{{ steps.until_done.output }}"
"""


async def test_a_plan_is_made_again_from_what_was_done(plans: Plans) -> None:
    """Ana has her mail by the first plan, which fails at Ben's; the second is told so, and only writes to Ben."""
    ana, ben = step("ana", "Write to Ana", tools=["plan_send"]), step("ben", "Write to Ben", tools=["plan_send"])
    script = {
        "think": [
            {"output": {"goal": "Invite both", "steps": [ana, {**ben, "dependencies": ["ana"]}]}},
            {"output": {"goal": "Invite Ben", "steps": [ben]}, "expect": "message_id"},
        ],
        "ana": plans.wants("plan_send", to="ana"),
        "ben": plans.wants("plan_send", to="ben", fail=[0, 500]),
    }
    plans.harness.script(json.dumps(script))
    run = await plans.harness.start(AGAIN)
    await plans.harness.output(run)
    assert [made["to"] for made in plans.calls()] == ["ana", "ben", "ben"]


FAILS = """
agents: {{clerk: {{model: "scripted:replies.yaml", tools: [plan_send]}}}}
steps:
  - {{kind: plan, name: work, on_error: {rule}, plan: {plan}}}
output: "{{{{ steps.work.error }}}}"
"""


def failing(plans: Plans, driver: str, rule: str) -> str:
    """A blueprint whose plan sends a mail, and then fails."""
    steps = [step("1", tools=["plan_send"]), step("2", tools=["plan_send"], dependencies=["1"])]
    plan = {"goal": "Send", "agent": "clerk", "driver": driver, "steps": steps}
    fail: Json = {"to": "ben", "fail": [0, 500]}
    turns = [plans.runs("1", "plan_send", to="ana"), finish("1"), plans.runs("2", "plan_send", **fail)]
    script = {"1": plans.wants("plan_send", to="ana"), "2": plans.wants("plan_send", **fail)}
    plans.harness.script(json.dumps({"work": turns} if driver == "agent" else script))
    return FAILS.format(rule=rule, plan=json.dumps(plan))


@pytest.mark.parametrize("driver", DRIVERS)
async def test_the_output_of_a_failed_plan_is_read_by_the_steps_after_it(plans: Plans, driver: str) -> None:
    error = await plans.harness.output(await plans.harness.start(failing(plans, driver, "continue")))
    assert (error["type"], error["address"]) == ("plan_failed", "pipeline:test;plan:work")
    assert error["output"]["steps"]["1"]["data"]["to"] == "ana"
    assert error["output"]["steps"]["2"]["called"] == ["plan_send"]


@pytest.mark.slow
async def test_a_fallback_reads_what_was_done(plans: Plans) -> None:
    rule = '{fallback: {name: tell, uses: flujo.builtins.passthrough, input: "{{ error.output.steps }}"}}'
    run = await plans.harness.start(failing(plans, "engine", rule))
    await plans.harness.output(run)
    [told] = [
        e.data.output
        for e in await plans.harness.runs.watch.events(run)
        if getattr(e.data, "name", "") == "tell" and e.type == "step.completed"
    ]
    assert "ana" in str(told)


@pytest.mark.slow
async def test_who_decides_about_a_failed_plan_sees_what_was_done(plans: Plans) -> None:
    run = await plans.harness.start(failing(plans, "engine", "ask"))
    question = await plans.harness.one(run)
    assert "ana" in str(question.info["done"])
    await plans.harness.answer(run, {"action": "skip", "value": None}, question)
    error = await plans.harness.output(run)
    assert error["output"]["status"] == "failed"


async def test_a_failed_agent_tells_which_tools_it_called(house: Harness) -> None:
    look = turn(calls("look_up", folder=str(house.folder), word="w"))
    text = agent(house, [look, look], tools=["look_up"], max_turns=1)
    run = await house.start(text.replace("uses: agents.boss", "uses: agents.boss, on_error: continue"), "Go")
    outcome = await house.result(run)
    assert outcome.output == {"called": ["look_up"]}


@pytest.mark.slow
async def test_the_calls_of_an_agent_that_is_a_tool_are_in_the_result(plans: Plans) -> None:
    helper = {"model": "scripted:replies.yaml", "tools": ["plan_send"], "description": "Helps"}
    plan = {"goal": "Help", "agent": "clerk", "steps": [step("1", tools=["agent:helper"])]}
    script = {
        "1": {"tool_calls": [{"name": "helper", "args": {"input": "send it"}}]},
        "helper": [plans.wants("plan_send", to="ana"), "sent"],
    }
    plans.harness.script(json.dumps(script))
    agents = {"helper": helper, "clerk": {"model": "scripted:replies.yaml", "tools": ["agent:helper"]}}
    text = json.dumps({"agents": agents, "steps": [{"kind": "plan", "name": "work", "plan": plan}]})
    output = await plans.harness.output(await plans.harness.start(text))
    assert output["steps"]["1"]["called"] == ["agent:helper", "plan_send"]


@pytest.mark.parametrize(
    ("read", "hint"),
    [
        ("steps.a.error.outptu", "did you mean 'output'?"),
        ("steps.a.error.zzz", "an error has type, message, address, output"),
        ("steps['a']['error']['mesage']", "did you mean 'message'?"),
    ],
)
def test_a_field_that_no_error_has_is_told_when_the_blueprint_is_read(read: str, hint: str) -> None:
    first = {"name": "a", "uses": "flujo.builtins.passthrough", "on_error": "continue"}
    after = {"name": "b", "uses": "flujo.builtins.passthrough", "input": f"{{{{ {read} }}}}"}
    [problem] = parse(json.dumps({"steps": [first, after]}), file="test.yaml").problems
    assert (problem.path, problem.hint) == ("steps[1].input", hint)


@pytest.mark.slow
def test_a_fallback_knows_the_fields_of_its_error() -> None:
    after = {"name": "b", "uses": "flujo.builtins.passthrough", "input": "{{ error.tpye }}"}
    first = {"name": "a", "uses": "flujo.builtins.passthrough", "on_error": {"fallback": after}}
    [problem] = parse(json.dumps({"steps": [first]}), file="test.yaml").problems
    assert problem.hint == "did you mean 'type'?"

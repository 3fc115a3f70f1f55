"""What a plan must not do: act without leave, run a tool twice, let a model take a question away, or hang."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.protocol.answers import Answer
from holdfast.protocol.runs import HistoryLimits
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import (
    SAYS_INSTRUCTION,
    Plans,
    advance,
    ask,
    begin,
    call,
    finish,
    loop,
    reasons,
    statuses,
    step,
)

Json = dict[str, Any]
READ = """
agents:
  clerk: {{model: "scripted:replies.yaml"{tools}}}
  other: {{model: "scripted:replies.yaml"}}
steps:
  - {{kind: plan, name: work, input: null, plan: {{from: "{{{{ input }}}}", agent: clerk}}}}
"""


async def test_a_step_calls_no_tool_of_another_step(plans: Plans) -> None:
    steps = [step("1", "Send", tools=["plan_send"]), step("2", "Update", tools=["plan_update"])]
    script = {"1": plans.wants("plan_send", to="a"), "2": plans.wants("plan_send", to="b")}
    output = await plans.ended({"steps": steps}, script)
    assert (statuses(output), plans.tools()) == ({"1": "completed", "2": "failed"}, ["send"])


async def test_a_plan_that_is_read_gets_round_no_approval_by_naming_another_agent(plans: Plans) -> None:
    plan = {"goal": "Send", "steps": [step("1", "Send", tools=["plan_send"], agent="other")]}
    plans.harness.script(json.dumps({"1": plans.wants("plan_send", to="a")}))
    text = READ.format(tools=", tools: [{name: plan_send, approve: always}]")
    run = await plans.harness.start(text, plan)
    question = await plans.harness.one(run)
    assert (question.kind, plans.calls()) == ("permission", [])
    await plans.harness.answer(run, {"granted": False}, question)
    assert (await plans.harness.result(run)).status == "failed"
    assert plans.calls() == []


async def test_a_plan_that_is_read_calls_no_function_by_its_module(plans: Plans) -> None:
    plan = {"goal": "Note", "steps": [step("1", "Note", tools=["tests.plans.plan_tools:note"])]}
    plans.harness.script(json.dumps({"1": plans.wants("note")}))
    run = await plans.harness.start(READ.format(tools=""), plan)
    outcome = await plans.harness.result(run)
    assert outcome.error is not None and outcome.error.type == "plan_invalid"
    assert "may only name registered tools" in outcome.error.message
    assert plans.calls() == []


@pytest.mark.slow
async def test_find_tool_lends_no_tool_to_a_step_that_lacks_none(plans: Plans) -> None:
    turns = [
        call("find_tool", instruction="plan send a mail"),
        plans.runs("1", "plan_send", to="a"),
        plans.runs("1", "plan_update", event="e"),
        finish("1"),
    ]
    await plans.output({"steps": [step("1", tools=["plan_update"])], "driver": "agent"}, {"plan": turns})
    assert plans.tools() == ["update"]


async def test_find_tool_brings_no_tool_that_the_model_names_into_a_step(plans: Plans) -> None:
    turns = [
        plans.runs("1", "no_such_tool"),
        call("find_tool", instruction="plan_send"),
        plans.runs("1", "plan_send", to="a"),
        call("update_state", step_1_status="failed"),
    ]
    run = await plans.start({"steps": [step("1", tools=["no_such_tool"])], "driver": "agent"}, {"plan": turns})
    await plans.harness.result(run)
    assert plans.tools() == []


async def test_the_person_sees_the_plans_question_whatever_the_model_asks(plans: Plans) -> None:
    steps = [step("1", "CONFIRM_ACTION: Delete all?", tools=["plan_update"])]
    turns = [ask("Would you like a nice day?", options=["Yes", "Of course"]), finish("1")]
    run = await plans.start({"steps": steps, "driver": "agent"}, {"plan": turns})
    question = await plans.harness.one(run)
    assert question.message == "Delete all?"
    assert question.info["agent_says"] == "Would you like a nice day?"
    assert [option.id for option in question.options] == ["accept", "refuse"]
    await plans.harness.answer(run, "refuse", question)
    assert reasons(await plans.harness.output(run)) == {"1": "declined"}


async def test_a_yes_may_be_said_in_ones_own_words_and_what_it_is_for_is_the_plans(plans: Plans) -> None:
    steps = [step("4", "CONFIRM_ACTION: Envoyer les invitations ?", pause_for_response=True)]
    question = "Voulez-vous envoyer les 10 invitations maintenant ?"
    turns = [ask(question, options=["Oui, envoyer", "Non, annuler"]), finish("step_4", "Oui, envoyer")]
    run = await plans.start({"steps": steps, "driver": "agent"}, {"plan": turns})
    asked = await plans.harness.one(run)
    assert asked.message == "Envoyer les invitations ?"
    assert [option.id for option in asked.options] == ["accept", "refuse"]
    assert asked.info["agent_says"] == question
    await plans.harness.answer(run, "Oui, envoyer", asked)
    output = await plans.harness.output(run)
    assert output["steps"]["4"]["data"]["outcome"] == "confirmed"


async def test_the_model_takes_no_question_away(plans: Plans) -> None:
    steps = [step("1"), step("2", "CONFIRM_ACTION: Send?"), step("3", "Send", dependencies=["2"])]
    turns = [
        call("update_state", step_2_status="skipped"),
        call("update_plan", new_plan={"goal": "A test", "steps": [steps[0], step("3", "Send")]}, reason="quicker"),
        finish("1"),
        ask("Send?"),
        finish("2"),
        finish("3"),
    ]
    run = await plans.start({"steps": steps, "driver": "agent"}, {"plan": turns})
    await plans.harness.answer(run, "accept")
    assert statuses(await plans.harness.output(run)) == {"1": "completed", "2": "completed", "3": "completed"}


@pytest.mark.slow
async def test_what_has_run_is_put_into_no_loop(plans: Plans) -> None:
    steps = [step("1", tools=["plan_send"]), step("2", "ASK_INFO: Go on?")]
    run = await plans.start({"steps": steps}, {"1": plans.wants("plan_send", to="a")})
    await plans.harness.one(run)
    again = {"goal": "A test", "steps": steps, "loop_blocks": {"again": loop([1, 2], "1")}}
    handle = plans.harness.client.get_workflow_handle(f"{run}/plan:plan")
    with pytest.raises(Exception, match="Workflow update failed") as caught:
        await handle.execute_update("plan", {"plan": again})
    assert "cannot be put into a loop" in str(caught.value.__cause__)
    await plans.harness.answer(run, "yes")
    await plans.harness.output(run)
    assert plans.tools() == ["send"]


async def test_a_person_who_doubts_a_repeated_call_ends_nothing_by_it(plans: Plans) -> None:
    agent = {"model": "scripted:replies.yaml", "human": ["ask"]}
    looks = [call("get_state", key="progress")] * 3
    run = await plans.start({"steps": [step("1")], "agent": agent, "driver": "agent"}, {"plan": [*looks, finish("1")]})
    question = await plans.harness.one(run)
    assert question.kind == "permission"
    await plans.harness.answer(run, {"granted": False}, question)
    assert statuses(await plans.harness.output(run)) == {"1": "completed"}


async def test_a_repeated_call_stops_a_plan_that_can_ask_nobody_also_after_continue_as_new(plans: Plans) -> None:
    looks = [call("get_state", key="progress")] * 3
    plan = {"steps": [step("1")], "driver": "agent"}
    run = await plans.start(plan, {"plan": [*looks, finish("1")]}, history_limits=HistoryLimits(rounds=1))
    outcome = await plans.harness.result(run)
    assert outcome.error is not None and outcome.error.type == "doom_loop"


@pytest.mark.slow
async def test_a_tool_that_is_found_counts_for_its_step_after_continue_as_new(plans: Plans) -> None:
    plan = {"steps": [step("1", "Update the calendar event", tools=["plan_updat"])], "driver": "agent"}
    turns = [
        plans.runs("1", "plan_updat", event="e1"),
        call("find_tool", instruction="plan update an event"),
        plans.runs("1", "plan_update", event="e1"),
        finish("1"),
    ]
    run = await plans.start(plan, {"plan": turns}, history_limits=HistoryLimits(rounds=1))
    await plans.harness.answer(run, {"granted": True})
    assert (await plans.harness.output(run))["steps"]["1"]["data"] == {"updated": "e1"}


async def test_options_that_come_to_nothing_fail_the_step_and_not_the_run(plans: Plans) -> None:
    steps = [
        step("1"),
        step("2", condition="RESULT_FROM_1 equals no"),
        step("3", "ASK_INFO: Which?", options=["RESULT_FROM_2"], optional=True, condition="RESULT_FROM_2 is empty"),
    ]
    output = await plans.output({"steps": steps}, {"1": "yes"})
    assert output["steps"]["3"]["error"]["type"] == "bad_options"


async def test_text_that_only_looks_like_json_is_text(plans: Plans) -> None:
    steps = [step("1"), step("2", "CURRENT_ITEM", loopover="RESULT_FROM_1")]
    output = await plans.ended({"steps": steps}, {"1": "[" * 20_000, "2": "seen"})
    assert output["loops"]["loop_2"]["error"]["type"] == "loop_over_text"


async def test_a_step_is_not_done_before_each_of_its_tools_is(plans: Plans) -> None:
    steps = [step("1", tools=["plan_update", "plan_send"])]
    update = plans.wants("plan_update", event="e")
    output = await plans.ended({"steps": steps}, {"1": [update, "All done"]})
    assert output["steps"]["1"]["error"]["type"] == "no_tool_result"


@pytest.mark.slow
async def test_errors_inside_a_loop_are_told_outside(plans: Plans) -> None:
    steps = [step("1", tools=["plan_send"])]
    blocks = {"outer": loop(["a"], "inner"), "inner": loop([1, 2], "1")}
    script = {"1": plans.wants("plan_send", to="a", fail=[500])}
    script = {"1": [script["1"], plans.wants("plan_send", to="b", fail=[500])]}
    output = await plans.output({"steps": steps, "loop_blocks": blocks}, script)
    assert (output["status"], output["loops"]["outer"]["status"]) == ("completed_with_errors", "completed_with_errors")


@pytest.mark.slow
async def test_a_question_that_is_cancelled_in_a_loop_of_a_loop_cancels_the_plan(plans: Plans) -> None:
    steps = [step("1", "ASK_INFO: CURRENT_ITEM?")]
    blocks = {"outer": loop(["a", "b"], "inner"), "inner": loop([1, 2], "1")}
    turns = [begin("outer"), begin("inner"), ask("1?"), advance("inner"), advance("outer")]
    run = await plans.start({"steps": steps, "loop_blocks": blocks, "driver": "agent"}, {"plan": turns})
    question = await plans.harness.one(run)
    await plans.harness.runs.answer(run, [Answer(question=question.id, action="cancel")])
    outcome = await plans.harness.result(run)
    assert outcome.error is not None and outcome.error.type == "plan_cancelled"


async def test_a_refused_update_of_the_state_changes_nothing(plans: Plans) -> None:
    steps = [step("1"), step("2", tools=["plan_update"], optional=True)]
    turns = [
        call("update_state", step_1_status="skipped", step_2_status="completed"),
        finish("1"),
        call("update_state", step_2_status="failed"),
    ]
    output = await plans.output({"steps": steps, "driver": "agent"}, {"plan": turns})
    assert statuses(output) == {"1": "completed", "2": "failed"}


async def test_a_number_is_an_option_before_it_is_the_place_of_one(plans: Plans) -> None:
    steps = [step("1", "ASK_INFO: How many?", options=["1", "2", "3"])]
    run = await plans.start({"steps": steps}, {})
    await plans.harness.answer(run, 1)
    assert (await plans.harness.output(run))["steps"]["1"]["response"] == "1"


@pytest.mark.slow
async def test_free_words_may_be_a_no(plans: Plans) -> None:
    steps = [step("1", "Envoyer ?", pause_for_response=True), step("2", condition="RESULT_FROM_1 contains confirmed")]
    run = await plans.start({"steps": steps}, {"2": SAYS_INSTRUCTION})
    await plans.harness.answer(run, "non, surtout pas")
    output = await plans.harness.output(run)
    assert output["steps"]["1"]["data"]["outcome"] == "cancelled"

"""Control calls that are wrong, early, late or twice: what they are told, and that nothing changes by them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.protocol.events import ChildStarted
from holdfast.runtime.errors import BadInput
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import Plans, advance, ask, begin, call, finish, loop, reasons, statuses, step
from tests.plans.events import EVENTS, events_plan, events_turns

Json = dict[str, Any]


async def driven(plans: Plans, plan: Json, turns: list[Any]) -> tuple[Json, list[Json]]:
    """What the plan gives, and what each call was told but the last, whose result no model sees."""
    run = await plans.start({**plan, "driver": "agent"}, {"plan": turns})
    outcome = await plans.harness.result(run)
    return outcome.output, await plans.told(run)


def error(result: Json) -> str:
    text: str = result["error"]["type"]
    return text


@pytest.mark.slow
async def test_a_loop_is_started_once_and_advanced_when_its_item_is_done(plans: Plans) -> None:
    plan = {"steps": [step("1"), step("2", dependencies=["1"])], "loop_blocks": {"all": loop(["a", "b"], "1", "2")}}
    turns = [
        advance("all"),
        begin("all"),
        begin("all"),
        finish("2"),
        finish("1", "one"),
        advance("all"),
        finish("2", "two"),
        advance("all", expected_iteration=1),
        advance("all", expected_iteration=0),
        call("get_loop_context", loop_id=""),
        finish("all_iter_0_step_1"),
        finish("all_iter_1_step_1"),
        finish("2"),
        advance("all"),
    ]
    output, results = await driven(plans, plan, turns)
    assert output["status"] == "completed"
    assert error(results[0]) == "loop_not_started"
    assert results[1] == {
        "loop_id": "all",
        "total_iterations": 2,
        "current_iteration": 0,
        "current_item": "a",
        "should_continue": True,
        "items_remaining": 1,
    }
    assert results[2] == {**results[1], "already_started": True}
    assert (error(results[3]), results[3]["error"]["missing"]) == ("dependencies_not_met", ["1"])
    assert results[4] == {"success": True, "stored_in_loop": "all", "to_do": "next: step 2"}
    assert (error(results[5]), results[5]["error"]["missing"]) == ("iteration_incomplete", ["2"])
    assert results[7]["current_iteration"] == 0
    assert (results[8]["current_iteration"], results[8]["current_item"]) == (1, "b")
    assert results[9]["current_iteration"] == 1
    assert error(results[10]) == "other_iteration"
    assert results[11]["success"] is True


async def test_after_its_end_a_loop_stays_ended(plans: Plans) -> None:
    plan = {"steps": [step("1"), step("9")], "loop_blocks": {"all": loop(["a"], "1")}}
    turns = [begin("all"), finish("1"), advance("all"), advance("all"), begin("all"), finish("1"), finish("9")]
    output, results = await driven(plans, plan, turns)
    assert output["status"] == "completed"
    for result in results[3:5]:
        assert (result["should_continue"], result["completed"]) == (False, True)
    assert error(results[5]) == "loop_over"


@pytest.mark.slow
async def test_a_step_is_finished_once_and_only_when_something_came_out(plans: Plans) -> None:
    steps = [step("1", tools=["plan_update"]), step("2", dependencies=["1"]), step("3", "ASK_INFO: Who?")]
    turns = [
        finish("1"),
        finish("nope"),
        finish("2"),
        plans.runs("1", "plan_send", to="ana"),
        plans.runs("1", "plan_update", event="e"),
        plans.runs("1", "plan_update", event="e"),
        finish("step_1", "updated"),
        finish("1", "updated"),
        finish("1", "something else"),
        finish("3", "Ana"),
        ask("Who is it?"),
        finish("3", "Ana"),
        finish("2"),
    ]
    run = await plans.start({"steps": steps, "driver": "agent"}, {"plan": turns})
    await plans.harness.answer(run, "Ben")
    output, results = await plans.harness.output(run), await plans.told(run)
    assert [error(result) for result in results[:4]] == [
        "no_tool_result",
        "unknown_step",
        "dependencies_not_met",
        "tool_not_in_step",
    ]
    assert results[4] == {"success": True, "data": {"updated": "e"}, "error": None}
    assert results[5] == {**results[4], "already_executed": True}
    assert results[6] == results[7] == {"success": True, "to_do": "next: step 3, step 2"} or results[7]["success"]
    assert error(results[8]) == "already_finished"
    assert error(results[9]) == "answer_missing"
    assert results[10] == {"response": "Ben", "step_id": "3"}
    assert output["steps"]["3"]["response"] == "Ben"
    assert plans.tools() == ["update"]


@pytest.mark.slow
async def test_the_state_can_be_looked_at(plans: Plans) -> None:
    keys = [call("get_state", key=key) for key in ("progress", "steps", "results", "active_loops", "summary")]
    plan = {"steps": [step("1"), step("2", condition="RESULT_FROM_1 equals no"), step("3")]}
    turns = [finish("1", "yes"), *keys, call("get_step_result", step_id="1"), finish("3")]
    _, results = await driven(plans, plan, turns)
    assert results[1] == {"progress": {"completed_steps": 2, "total_steps": 3, "current_step": "3"}}
    told_of_it = {"status": "skipped", "reason": "condition_false", "instruction": "Do it"}
    assert results[2]["steps"]["2"] == told_of_it
    assert results[3] == {"results": {"1": "yes"}}
    assert results[4] == {"active_loops": {}}
    assert results[5]["to_do"] == "next: step 3"
    assert results[6] == {"step_id": "1", "status": "completed", "response": "yes", "data": None, "error": None}


@pytest.mark.slow
async def test_the_results_of_a_loop_that_is_over_inside_another_can_be_looked_at(plans: Plans) -> None:
    blocks = {"outer": loop(["a"], "inner"), "inner": loop([1, 2], "1")}
    items = [begin("inner"), finish("1", "one"), advance("inner"), finish("1", "two"), advance("inner")]
    keys = [call("get_state", key=key) for key in ("results", "progress")]
    turns = [begin("outer"), *items, *keys, call("get_step_result", step_id="1"), advance("outer")]
    _, results = await driven(plans, {"steps": [step("1")], "loop_blocks": blocks}, turns)
    assert results[6] == {"results": {"1": ["one", "two"]}}
    assert results[7]["progress"]["completed_steps"] == 1
    assert results[8]["data"] == ["one", "two"]


async def test_only_states_of_steps_and_ones_own_values_can_be_set(plans: Plans) -> None:
    plan = {"steps": [step("1"), step("2", condition="RESULT_FROM_1 equals no"), step("3", optional=True), step("4")]}
    turns = [
        finish("1", "yes"),
        call("update_state", step_2_status="skipped"),
        call("update_state", updates={"vars.note": 1, "step_3_status": "failed", "step_3_error": "no way"}),
        call("update_state", step_4_status="done"),
        call("update_state", results={"1": "no"}),
        call("update_state", step_4_status="skipped"),
    ]
    output, results = await driven(plans, plan, turns)
    assert results[1]["success"] is True
    assert [error(result) for result in results[3:5]] == ["not_allowed", "not_allowed"]
    assert statuses(output) == {"1": "completed", "2": "skipped", "3": "failed", "4": "skipped"}
    assert reasons(output) == {"2": "condition_false", "4": "skipped_by_agent"}
    assert output["steps"]["3"]["error"]["message"] == "no way"


async def test_a_plan_is_changed_but_not_what_is_over(plans: Plans) -> None:
    old = {"goal": "A test", "steps": [step("1"), step("2")]}
    changed_past = {"goal": "A test", "steps": [step("1", "Other"), step("2")]}
    broken = {"goal": "A test", "steps": [step("1"), step("2", dependencies=["7"])]}
    new = {"goal": "A test", "steps": [step("1"), step("3", "Instead of RESULT_FROM_1")]}
    turns = [
        finish("1"),
        call("update_plan", new_plan=changed_past, reason="why not"),
        call("update_plan", new_plan=broken, reason="why not"),
        call("update_plan", new_plan=new, reason="2 is not needed"),
        finish("3", "instead"),
    ]
    output, results = await driven(plans, old, turns)
    assert "'1' has begun or ended" in results[1]["error"]["message"]
    assert "steps[1].dependencies[0]" in results[2]["error"]["message"]
    assert (results[3]["success"], results[3]["revision"]) == (True, 2)
    assert statuses(output) == {"1": "completed", "3": "completed"}


@pytest.mark.slow
async def test_a_text_ends_no_plan_and_wrong_calls_stop_it(plans: Plans) -> None:
    run = await plans.start({"steps": [step("1")], "driver": "agent"}, {"plan": [{"output": "All done!"}]})
    outcome = await plans.harness.result(run)
    assert outcome.error is not None
    assert "the plan has not ended; next: step 1" in outcome.error.message
    run = await plans.start({"steps": [step("1")], "driver": "agent"}, {"plan": [finish(str(n)) for n in range(2, 9)]})
    outcome = await plans.harness.result(run)
    assert outcome.error is not None and outcome.error.type == "bad_calls"


@pytest.mark.slow
async def test_a_loop_has_a_workflow_of_its_own_and_the_conversation_goes_on_in_it(plans: Plans) -> None:
    plan = events_plan(driver="agent")
    run = await plans.start(plan, {"plan": events_turns(plans, EVENTS)})
    output = await plans.harness.output(run)
    assert output["status"] == "completed"
    events = await plans.harness.runs.watch.events(run)
    started = {event.type: event.data.workflow for event in events if isinstance(event.data, ChildStarted)}
    assert started == {"plan.started": f"{run}/plan:plan", "loop.started": f"{run}/plan:plan;loop:loop_events"}
    assert [event.data.iteration for event in events if event.type == "loop.iteration"] == [1, 2]


async def test_a_question_that_is_no_step_is_asked_too(plans: Plans) -> None:
    turns = [ask("Which room?", options=["A", "B"]), finish("1", "booked")]
    run = await plans.start({"steps": [step("1")], "driver": "agent"}, {"plan": turns})
    question = await plans.harness.one(run)
    assert question.kind == "clarification"
    await plans.harness.answer(run, "B", question)
    output = await plans.harness.output(run)
    assert json.dumps(await plans.told(run)) == '[{"response": "B"}]'
    assert output["status"] == "completed"


@pytest.mark.slow
async def test_an_agent_is_told_something_while_it_drives_a_plan_and_while_it_is_in_a_loop_of_it(plans: Plans) -> None:
    plan = {
        "driver": "agent",
        "steps": [
            step("1", "First?", pause_for_response=True),
            step("2", "And now?", pause_for_response=True),
        ],
        "loop_blocks": {"all": loop(["a"], "2")},
    }
    turns = [
        ask("First?"),
        {**finish("1"), "expect": "Use the train."},
        begin("all"),
        ask("And now?"),
        {**finish("2"), "expect": "Not the night train."},
        advance("all"),
    ]
    run = await plans.start(plan, {"plan": turns})
    question = await plans.harness.one(run)
    with pytest.raises(BadInput, match="at work: pipeline:test;plan:plan"):
        await plans.harness.runs.control.tell(run, "Use the train.", agent="other")
    assert await plans.harness.runs.control.tell(run, "Use the train.", agent="plan") == "pipeline:test;plan:plan"
    await plans.harness.answer(run, "yes", question)
    question = await plans.harness.one(run)
    assert await plans.harness.runs.control.tell(run, "Not the night train.") == "pipeline:test;plan:plan;loop:all"
    await plans.harness.answer(run, "yes", question)
    assert (await plans.harness.output(run))["status"] == "completed"

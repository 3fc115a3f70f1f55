"""Loops over what a model or a person wrote: a list is read, prose asks a person or fails, no lump is acted on."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.protocol.answers import Answer
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import DRIVERS, Plans, advance, begin, call, finish, loop, says, statuses, step

Json = dict[str, Any]
GUESTS: list[Json] = [step("1", "List the guests"), step("2", "Greet CURRENT_ITEM")]
BLOCKS = {"all": loop("RESULT_FROM_1", "2")}
PROSE = "Ana and Ben"


def greeted(output: Json) -> Any:
    return output["steps"]["2"].get("data")


@pytest.mark.first_row
@pytest.mark.parametrize(
    "written",
    ["- Ana\n- Ben", "1. Ana\n2. Ben", '```json\n["Ana", "Ben"]\n```', 'Here: ["Ana", "Ben"]', ["Ana", "Ben"]],
)
async def test_a_list_is_read_however_a_model_writes_it(plans: Plans, written: Any) -> None:
    output = await plans.output({"steps": GUESTS, "loop_blocks": BLOCKS}, {"1": [{"output": written}], **says("2")})
    assert greeted(output) == ["Greet Ana", "Greet Ben"]


async def test_a_step_that_feeds_a_loop_is_asked_for_a_list(plans: Plans) -> None:
    run = await plans.start({"steps": GUESTS, "loop_blocks": BLOCKS}, {"1": [PROSE, {"output": ["Ana"]}], **says("2")})
    assert greeted(await plans.harness.output(run)) == ["Greet Ana"]
    asked = [one for one in await plans.requests(run) if one["step"] == "1"]
    assert [one["output_schema"]["type"] for one in asked] == ["array", "array"]
    assert "Return a list" in asked[0]["instructions"]


async def test_prose_fails_the_loop_where_nobody_can_be_asked(plans: Plans) -> None:
    steps = [GUESTS[0], step("2", "Send", tools=["plan_send"])]
    script = {"1": PROSE, "2": plans.wants("plan_send", to="a")}
    output = await plans.ended({"steps": steps, "loop_blocks": BLOCKS}, script)
    assert (output["loops"]["all"]["error"]["type"], plans.calls()) == ("loop_over_text", [])


@pytest.mark.slow
async def test_an_agent_with_turns_is_asked_for_a_list_too(plans: Plans) -> None:
    agent = {"model": "scripted:replies.yaml", "tools": ["plan_send"]}
    plan = {"steps": GUESTS, "loop_blocks": BLOCKS, "agent": agent}
    assert greeted(await plans.output(plan, {"1": "- Ana\n- Ben", **says("2")})) == ["Greet Ana", "Greet Ben"]
    output = await plans.ended(plan, {"1": PROSE, **says("2")})
    assert output["loops"]["all"]["error"]["type"] == "loop_over_text"


ASKING: Json = {"steps": [*GUESTS, step("3", "ASK_INFO: Done?")], "loop_blocks": {"all": {**BLOCKS["all"]}}}


@pytest.mark.slow
@pytest.mark.parametrize("given", [["Ana", "Ben"], "Ana\nBen", "Ana, Ben"])
async def test_prose_asks_a_person_where_the_plan_asks_people(plans: Plans, given: Any) -> None:
    run = await plans.start(ASKING, {"1": PROSE, **says("2")})
    question = await plans.harness.one(run)
    assert (PROSE in question.message, question.requestedSchema["type"]) == (True, "array")
    await plans.harness.refused(run, PROSE, question)
    await plans.harness.answer(run, given, question)
    await plans.harness.answer(run, "yes")
    assert greeted(await plans.harness.output(run)) == ["Greet Ana", "Greet Ben"]


@pytest.mark.slow
@pytest.mark.parametrize(("action", "status"), [("decline", "failed"), ("cancel", "cancelled")])
async def test_who_does_not_say_the_items_ends_the_loop(plans: Plans, action: Any, status: str) -> None:
    blocks = {"all": loop("RESULT_FROM_1", "2", on_item_error="ask")}
    run = await plans.start({"steps": GUESTS, "loop_blocks": blocks}, {"1": PROSE, **says("2")})
    question = await plans.harness.one(run)
    await plans.harness.runs.answer(run, [Answer(question=question.id, action=action)])
    assert (await plans.harness.result(run)).output["loops"]["all"]["status"] == status


@pytest.mark.slow
async def test_an_agent_that_drives_finishes_such_a_step_with_a_list(plans: Plans) -> None:
    turns = [
        finish("1", PROSE),
        call("finish_step", step_id="1", result_summary=PROSE, result=["Ana", "Ben"]),
        begin("all"),
        *(one for _ in "ab" for one in (finish("2"), advance("all"))),
    ]
    plan = {"steps": GUESTS, "loop_blocks": BLOCKS, "driver": "agent"}
    run = await plans.start(plan, {"plan": turns})
    output = await plans.harness.output(run)
    assert [one["item"] for one in output["loops"]["all"]["iteration_results"]] == ["Ana", "Ben"]
    assert (await plans.told(run))[0]["error"]["type"] == "list_needed"
    assert output["steps"]["1"]["response"] == PROSE


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_an_item_that_is_prose_is_no_list_of_an_inner_loop(plans: Plans, driver: str) -> None:
    blocks = {"all": loop("CURRENT_ITEM", "2"), "outer": loop([PROSE], "all")}
    plan = {"steps": GUESTS[1:], "loop_blocks": blocks, "driver": driver}
    output = await plans.ended(plan, {"2": "x", "plan": [begin("outer"), begin("all"), advance("outer")]})
    [item] = output["loops"]["outer"]["iteration_results"]
    assert item["loops"]["all"]["error"]["type"] == "loop_over_text"


@pytest.mark.slow
async def test_what_a_person_says_is_split_or_asked_about(plans: Plans) -> None:
    steps = [step("1", "ASK_INFO: Who?"), GUESTS[1]]
    for said, items in (("Ana", ["Greet Ana"]), ("- Ana\n- Ben", ["Greet Ana", "Greet Ben"])):
        run = await plans.start({"steps": steps, "loop_blocks": BLOCKS}, says("2"))
        await plans.harness.answer(run, said)
        assert greeted(await plans.harness.output(run)) == items
    run = await plans.start({"steps": steps, "loop_blocks": BLOCKS}, says("2"))
    await plans.harness.answer(run, "Ana, Ben and Cleo")
    question = await plans.harness.one(run)
    await plans.harness.answer(run, ["Ana"], question)
    output = await plans.harness.output(run)
    assert (greeted(output), statuses(output)["2"]) == (["Greet Ana"], "completed")


@pytest.mark.slow
async def test_a_loop_does_not_carry_what_the_only_tool_of_a_step_gave_twice(plans: Plans) -> None:
    args = {"log": str(plans.log), "events": ["MARK"]}
    plan = {"steps": [step("1", tools=["plan_list"], arguments=args)], "loop_blocks": {"all": loop(["a"], "1")}}
    run = await plans.start(plan, {})
    output = await plans.harness.output(run)
    [history] = [one for one in await plans.harness.histories(run) if one.workflow_id.endswith("loop:all")]
    ended = history.events[-1].workflow_execution_completed_event_attributes
    [result] = await plans.harness.client.data_converter.decode(ended.result.payloads)
    [iteration] = result["result"]["iterations"]
    assert iteration["results"]["1"]["tool_results"] == [{"tool": "plan_list"}]
    [told] = output["steps"]["1"]["data"]
    assert told == {"events_count": 1, "events": ["MARK"]}

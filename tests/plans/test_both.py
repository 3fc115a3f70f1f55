"""The same plan under both drivers gives the same: loops, conditions, references, joins, questions."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest

from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import (
    DRIVERS,
    SAYS_INSTRUCTION,
    Plans,
    advance,
    ask,
    begin,
    finish,
    loop,
    reasons,
    statuses,
    step,
)
from tests.plans.events import EVENTS, Json, events_plan, events_turns

pytestmark = pytest.mark.parametrize("driver", DRIVERS)


async def run(plans: Plans, driver: str, plan: Json, script: Json, turns: list[Any]) -> Json:
    """What the plan gives, or gave when it failed, under one of the drivers."""
    return await plans.ended({**plan, "driver": driver}, {"plan": turns} if driver == "agent" else script)


def said(plan_steps: list[Json], replies: Json) -> Json:
    """A script in which every step that is not named says its instruction."""
    return {**{one["id"]: SAYS_INSTRUCTION for one in plan_steps}, **replies}


def events_script(plans: Plans, events: list[Any]) -> Json:
    return {
        "1": plans.wants("plan_list", events=events),
        "4": [plans.wants("plan_update", event=event) for event in events] or "never",
        "5": [plans.wants("plan_send", to=event) for event in events] or "never",
    }


@pytest.mark.slow
async def test_the_steps_of_a_loop_run_item_by_item(plans: Plans, driver: str) -> None:
    output = await run(plans, driver, events_plan(), events_script(plans, EVENTS), events_turns(plans, EVENTS))
    assert plans.tools() == ["list", "update", "send", "update", "send"]
    assert [one["event"] for one in plans.calls() if one["tool"] == "update"] == EVENTS
    assert output["status"] == "completed"
    items = output["loops"]["loop_events"]["iteration_results"]
    assert [(one["index"], one["item"], one["status"]) for one in items] == [
        (0, EVENTS[0], "completed"),
        (1, EVENTS[1], "completed"),
    ]
    assert items[1]["steps"]["5"] == {
        "status": "completed",
        "response": "done",
        "data": {"message_id": "m5", "to": EVENTS[1]},
        "error": None,
    }
    assert output["steps"]["4"]["data"] == [{"updated": EVENTS[0]}, {"updated": EVENTS[1]}]


@pytest.mark.slow
async def test_an_empty_list_is_nothing_to_do(plans: Plans, driver: str) -> None:
    output = await run(plans, driver, events_plan(), events_script(plans, []), events_turns(plans, []))
    assert output["status"] == "completed"
    assert output["loops"]["loop_events"]["iteration_results"] == []
    assert (statuses(output)["4"], reasons(output)) == ("skipped", {"4": "empty_loop", "5": "empty_loop"})


@pytest.mark.first_row
@pytest.mark.parametrize("form", ["pseudo-step", "own loopover"])
async def test_a_loop_may_be_written_in_three_ways(plans: Plans, driver: str, form: str) -> None:
    steps = [step("1", "List", tools=["plan_list"])]
    if form == "pseudo-step":
        steps += [{"id": "3", "loopover": "RESULT_FROM_1", "start_step": "4", "dependencies": ["1"]}]
        steps += [step("4", "See CURRENT_ITEM"), step("5", "Then RESULT_FROM_4", dependencies=["4"])]
        steps += [step("6", "After RESULT_FROM_3", dependencies=["3"])]
        body, after, name = ["4", "5"], "6", "3"
    else:
        steps += [step("4", "See CURRENT_ITEM", loopover="RESULT_FROM_1"), step("6", "After RESULT_FROM_4")]
        body, after, name = ["4"], "6", "loop_4"
    script = said(steps, {"1": plans.wants("plan_list", events=["a", "b"])})
    turns = [plans.runs("1", "plan_list", events=["a", "b"]), finish("1"), begin(name)]
    for item in ("a", "b"):
        turns += [finish("4", f"See {item}"), *([finish("5", f"Then See {item}")] if "5" in body else [])]
        turns += [advance(name)]
    told = '["See a","See b"]' if name == "loop_4" else ""
    turns += [finish(after, f"After {told}" if told else "later")]
    output = await run(plans, driver, {"steps": steps}, script, turns)
    assert output["status"] == "completed"
    assert output["steps"]["4"]["data"] == ["See a", "See b"]
    assert [sorted(one["steps"]) for one in output["loops"][name]["iteration_results"]] == [body, body]
    if told:
        assert output["steps"]["6"]["response"] == f"After {told}"


@pytest.mark.slow
async def test_when_one_item_fails_the_next_go_on(plans: Plans, driver: str) -> None:
    steps = [
        step("4", "Send it to CURRENT_ITEM", tools=["plan_send"]),
        step("5", "File RESULT_FROM_4", dependencies=["4"]),
        step("6", "After it: LOOP_INDEX"),
    ]
    plan = {"steps": steps, "loop_blocks": {"all": loop(["a", "b", "c"], "4", "5", "6")}}
    sending = [plans.wants("plan_send", to=to, fail=[0, 500]) for to in "abc"]
    script = said(steps, {"4": sending, "5": "filed", "6": "after"})
    turns: list[Any] = [begin("all")]
    for to in "abc":
        turns += [plans.runs("4", "plan_send", to=to, fail=[0, 500])]
        turns += [finish("4"), finish("5", "filed")] if to != "b" else []
        turns += [finish("6", "after"), advance("all")]
    output = await run(plans, driver, plan, script, turns)
    assert output["status"] == "completed_with_errors"
    items = output["loops"]["all"]["iteration_results"]
    assert [one["status"] for one in items] == ["completed", "failed", "completed"]
    assert {id_: one["status"] for id_, one in items[1]["steps"].items()} == {
        "4": "failed",
        "5": "skipped",
        "6": "completed",
    }
    assert items[1]["steps"]["5"]["reason"] == "dependency_failed"
    assert output["steps"]["4"]["data"][1] is None


async def test_a_branch_that_was_skipped_joins_again(plans: Plans, driver: str) -> None:
    steps = [
        step("1", "status"),
        step("2", "Confirmed way", condition="RESULT_FROM_1 contains confirmed"),
        step("3", "Other way", condition="RESULT_FROM_1 not_contains confirmed"),
        step("4", "Both: RESULT_FROM_2, RESULT_FROM_3", dependencies=["2", "3"]),
        step("5", "Only after 3", dependencies=["3"]),
        step("6", "Since there is 1", dependencies=["3"], condition="RESULT_FROM_1 is not empty"),
    ]
    script = said(steps, {"1": "it is Confirmed"})
    turns = [finish("1", "it is Confirmed"), finish("2", "Confirmed way"), finish("4", "Both: Confirmed way, ")]
    turns += [finish("6", "Since there is 1")]
    output = await run(plans, driver, {"steps": steps}, script, turns)
    assert output["status"] == "completed"
    assert reasons(output) == {"3": "condition_false", "5": "dependency_skipped"}
    assert output["steps"]["4"]["response"] == "Both: Confirmed way, "


async def test_a_loop_over_something_runs_though_something_else_that_it_waits_for_was_skipped(
    plans: Plans, driver: str
) -> None:
    steps = [step("1", '["a"]'), step("2", condition="RESULT_FROM_1 contains b"), step("3", "CURRENT_ITEM")]
    plan = {"steps": steps, "loop_blocks": {"all": loop("RESULT_FROM_1", "3", dependencies=["2"])}}
    turns = [finish("1", '["a"]'), begin("all"), finish("3", "a"), advance("all")]
    output = await run(plans, driver, plan, said(steps, {}), turns)
    assert (statuses(output), output["steps"]["3"]["data"]) == (
        {"1": "completed", "2": "skipped", "3": "completed"},
        ["a"],
    )


async def test_references_are_told_apart_and_values_are_not_read_again(plans: Plans, driver: str) -> None:
    steps = [
        step("1", "a"),
        step("2", "never shown"),
        step("10", "b"),
        step("11", "RESULT_FROM_10 then RESULT_FROM_1."),
    ]
    script = said(steps, {"1": "see RESULT_FROM_2", "10": "ten"})
    wanted = "ten then see RESULT_FROM_2."
    turns = [finish("1", "see RESULT_FROM_2"), finish("2"), finish("10", "ten"), finish("11", wanted)]
    output = await run(plans, driver, {"steps": steps}, script, turns)
    assert output["steps"]["11"]["response"] == wanted


@pytest.mark.first_row
@pytest.mark.parametrize(("answer", "goes_on"), [("oui, ENVOYER ", True), ("Non, annuler", False)])
async def test_a_confirmation_is_told_by_how_it_came_out(plans: Plans, driver: str, answer: str, goes_on: bool) -> None:
    question = "CONFIRM_ACTION: Envoyer les invitations ?"
    steps = [
        step("4", question, pause_for_response=True, options=["Oui, envoyer", "Non, annuler"]),
        step("5", "Envoyer", condition="RESULT_FROM_4 contains CONFIRMED"),
        step("6", "Annuler", condition="RESULT_FROM_4 equals canceled"),
    ]
    turns = [ask("Envoyer les invitations ?"), finish("4", "une réponse"), finish("5" if goes_on else "6", "fait")]
    script = {"plan": turns} if driver == "agent" else said(steps, {"5": "fait", "6": "fait"})
    started = await plans.start({"steps": steps, "driver": driver}, script)
    asked = await plans.harness.one(started)
    assert (asked.message, asked.kind) == ("Envoyer les invitations ?", "decision")
    assert asked.address == "pipeline:test;plan:plan;hitl:4"
    await plans.harness.answer(started, answer, asked)
    output = await plans.harness.output(started)
    text = "Oui, envoyer" if goes_on else "Non, annuler"
    assert output["steps"]["4"]["response"] == text
    assert output["steps"]["4"]["data"] == {
        "response": text,
        "outcome": "confirmed" if goes_on else "cancelled",
        "option_index": 0 if goes_on else 1,
        "option_type": 1 if goes_on else 0,
    }
    assert (statuses(output)["5"], statuses(output)["6"]) == (
        ("completed", "skipped") if goes_on else ("skipped", "completed")
    )


@pytest.mark.slow
async def test_loops_in_loops_keep_their_own_items(plans: Plans, driver: str) -> None:
    steps = [step("1", "CURRENT_ITEM_outer-CURRENT_ITEM LOOP_INDEX_outer.LOOP_INDEX")]
    blocks = {"outer": loop(["a", "b"], "inner"), "inner": loop([1, 2, 3], "1")}
    turns: list[Any] = [begin("outer")]
    for outer in (0, 1):
        turns.append(begin("inner"))
        for inner in (0, 1, 2):
            turns += [finish("1", f"{'ab'[outer]}-{inner + 1} {outer}.{inner}"), advance("inner")]
        turns.append(advance("outer"))
    output = await run(plans, driver, {"steps": steps, "loop_blocks": blocks}, said(steps, {}), turns)
    assert output["status"] == "completed"
    assert output["steps"]["1"]["data"] == [["a-1 0.0", "a-2 0.1", "a-3 0.2"], ["b-1 1.0", "b-2 1.1", "b-3 1.2"]]


@pytest.mark.slow
async def test_a_condition_on_a_step_that_failed_lets_nothing_happen(plans: Plans, driver: str) -> None:
    steps = [
        step("1", "Send", tools=["plan_send"], optional=True),
        step("2", "Again", condition="RESULT_FROM_1 not_contains sent"),
        step("3", "Alone"),
    ]
    script = said(steps, {"1": plans.wants("plan_send", to="ana", fail=[500]), "3": "alone"})
    turns = [plans.runs("1", "plan_send", to="ana", fail=[500]), finish("3", "alone")]
    output = await run(plans, driver, {"steps": steps}, script, turns)
    assert output["status"] == "completed_with_errors"
    assert (statuses(output)["1"], reasons(output)) == ("failed", {"2": "condition_unresolved"})


async def test_text_is_compared_composed_and_without_case(plans: Plans, driver: str) -> None:
    apart = unicodedata.normalize("NFD", "RÉUNION confirmée")
    steps = [
        step("1", "say"),
        step("2", "contains", condition="RESULT_FROM_1 contains réunion"),
        step("3", "equals", condition=f"NOT(RESULT_FROM_1 not_equals '{unicodedata.normalize('NFC', apart.lower())}')"),
    ]
    turns = [finish("1", apart), finish("2", "contains"), finish("3", "equals")]
    output = await run(plans, driver, {"steps": steps}, said(steps, {"1": apart}), turns)
    assert statuses(output) == {"1": "completed", "2": "completed", "3": "completed"}


@pytest.mark.slow
async def test_a_question_with_tools_runs_them_only_after_a_yes(plans: Plans, driver: str) -> None:
    steps = [step("1", "CONFIRM_ACTION: Send it?", tools=["plan_send"]), step("2", "After", dependencies=["1"])]
    turns = [ask("Send it?"), finish("1")]
    script = {"plan": turns} if driver == "agent" else said(steps, {"1": plans.wants("plan_send", to="ana")})
    started = await plans.start({"steps": steps, "driver": driver}, script)
    await plans.harness.answer(started, "refuse")
    output = await plans.harness.output(started)
    assert (plans.calls(), reasons(output)) == ([], {"1": "declined", "2": "dependency_skipped"})


@pytest.mark.slow
async def test_a_failed_plan_fails_the_run_and_tells_what_it_gave(plans: Plans, driver: str) -> None:
    steps = [step("1", "Say"), step("2", "Send", tools=["plan_send"]), step("3", "Say too")]
    script = said(steps, {"2": plans.wants("plan_send", to="ana", fail=[500])})
    turns = [finish("1", "Say"), plans.runs("2", "plan_send", to="ana", fail=[500]), finish("3", "Say too")]
    started = await plans.start({"steps": steps, "driver": driver}, {"plan": turns} if driver == "agent" else script)
    outcome = await plans.harness.result(started)
    assert outcome.status == "failed"
    assert outcome.error is not None and outcome.error.type == "plan_failed"
    assert outcome.output["status"] == "failed"
    assert statuses(outcome.output) == {"1": "completed", "2": "failed", "3": "completed"}


@pytest.mark.slow
async def test_a_limit_of_steps_is_reached_at_the_same_step(plans: Plans, driver: str) -> None:
    steps = [step(id_, "Send", tools=["plan_send"]) for id_ in ("1", "2", "3")]
    agent = {"model": "scripted:replies.yaml"}
    plan = {"goal": "A test", "agent": agent, "driver": driver, "steps": steps}
    turns = [turn for id_ in "123" for turn in (plans.runs(id_, "plan_send", to=id_), finish(id_))]
    plans.harness.script(json.dumps({"plan": turns, **{id_: plans.wants("plan_send", to=id_) for id_ in "123"}}))
    run_of_plan = {"kind": "plan", "name": "plan", "input": None, "plan": plan}
    started = await plans.harness.start(json.dumps({"limits": {"steps": 3}, "steps": [run_of_plan]}))
    outcome = await plans.harness.result(started)
    assert outcome.error is not None and outcome.error.type == "limit_reached"
    assert outcome.error.address.endswith(";step:3")
    assert [call["to"] for call in plans.calls()] == ["1", "2"]  # the run's own step is the first of the three

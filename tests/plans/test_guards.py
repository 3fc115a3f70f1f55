"""What stands between a plan and what it must not do without a person: it holds whatever is changed, said or chosen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.protocol.answers import Answer, Refusal
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import DRIVERS, Plans, advance, ask, begin, call, finish, loop, reasons, says, statuses, step

Json = dict[str, Any]
PAYER = {"model": "scripted:replies.yaml", "tools": [{"name": "plan_send", "approve": "always"}]}


def changed(**new: Any) -> Json:
    """A call by which an agent changes the plan."""
    return call("update_plan", new_plan={"goal": "A test", **new}, reason="better")


async def refuses_leave(plans: Plans, run: str) -> None:
    question = await plans.harness.one(run)
    assert (question.kind, plans.calls()) == ("permission", [])
    await plans.harness.answer(run, {"granted": False}, question)
    await plans.harness.result(run)
    assert plans.calls() == []


async def test_an_agents_change_of_something_else_takes_no_approval_away(plans: Plans) -> None:
    plain = step("1", "Send", tools=["plan_send"])
    plan = {"steps": [{**plain, "agent": PAYER}], "driver": "agent"}
    new = call("update_plan", new_plan={"goal": "Other", "steps": [plain]}, reason="r")
    await refuses_leave(plans, await plans.start(plan, {"plan": [new, plans.runs("1", "plan_send", to="a")]}))


@pytest.mark.slow
@pytest.mark.parametrize("instruction", ["Send", "Send it now"])
async def test_a_persons_change_takes_no_approval_away_either(plans: Plans, instruction: str) -> None:
    """Neither of a step that stays, nor of one that is written anew without its agent."""
    asks = step("1", "ASK_INFO: Go on?")
    steps = [asks, step("2", "Send", tools=["plan_send"], agent=PAYER, dependencies=["1"])]
    run = await plans.start({"steps": steps}, {"2": plans.wants("plan_send", to="a"), **says("3")})
    question = await plans.harness.one(run)
    after = [asks, step("2", instruction, tools=["plan_send"], dependencies=["1"]), step("3", dependencies=["1"])]
    await plans.harness.runs.plans.change(run, {"goal": "A test", "steps": after})
    await plans.harness.answer(run, "yes", question)
    await refuses_leave(plans, run)


@pytest.mark.slow
async def test_an_authors_function_stays_allowed_when_another_step_is_changed(plans: Plans) -> None:
    note = step("2", "Note", tools=["tests.plans.plan_tools:note"], dependencies=["1"])
    steps = [step("1", "ASK_INFO: Go on?"), note]
    run = await plans.start({"steps": steps}, {"2": plans.wants("note"), **says("3")})
    question = await plans.harness.one(run)
    await plans.harness.runs.plans.change(run, {"goal": "A test", "steps": [*steps, step("3")]})
    await plans.harness.answer(run, "yes", question)
    assert statuses(await plans.harness.output(run)) == {"1": "completed", "2": "completed", "3": "completed"}


GUARDED = [
    step("1", "CONFIRM_ACTION: Send them?"),
    step("2", "Send", tools=["plan_send"], condition="RESULT_FROM_1 contains confirmed"),
    step("3", "Tell of RESULT_FROM_2"),
    step("4", "Update", tools=["plan_update"]),
]


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize(
    "new",
    [
        {"steps": [GUARDED[0], {**GUARDED[1], "condition": "NOT(RESULT_FROM_1 is empty)"}, *GUARDED[2:]]},
        {"steps": [*GUARDED, step("5", "Send first", tools=["plan_send"])]},
        {"steps": GUARDED, "loop_blocks": {"many": loop(["a", "b"], "2")}},
        {"steps": [*GUARDED, step("step_1", "Say it")]},
    ],
)
async def test_where_a_plan_asks_people_one_of_them_agrees_to_an_agents_change(plans: Plans, new: Json) -> None:
    turns = [changed(**new), ask("Send?"), finish("1"), plans.runs("4", "plan_update", event="e"), finish("4")]
    run = await plans.start({"steps": GUARDED, "driver": "agent"}, {"plan": turns})
    change = await plans.harness.one(run)
    assert (change.kind, change.message, plans.calls()) == ("review", "May the plan be changed? better", [])
    await plans.harness.answer(run, {"verdict": "rejected", "reason": "no"}, change)
    question = await plans.harness.one(run)
    assert (await plans.told(run))[0]["error"]["type"] == "plan_refused"
    await plans.harness.answer(run, "refuse", question)
    await plans.harness.output(run)
    assert plans.tools() == ["update"]


@pytest.mark.slow
async def test_a_tool_that_nobody_gave_the_plan_comes_in_by_a_persons_leave_only(plans: Plans) -> None:
    steps = [step("1", "Update", tools=["plan_update"])]
    more = step("2", "Send", tools=["plan_send"])
    turns = [
        changed(steps=[*steps, step("3", "Update", tools=["plan_update"])]),
        changed(steps=[*steps, more]),
        plans.runs("1", "plan_update", event="e"),
        finish("1"),
        plans.runs("2", "plan_send", to="a"),
        finish("2"),
    ]
    run = await plans.start({"steps": steps, "driver": "agent"}, {"plan": turns})
    change = await plans.harness.one(run)
    assert [one["id"] for one in change.info["payload"]["steps"]] == ["1", "2"]
    await plans.harness.answer(run, {"verdict": "unchanged"}, change)
    await plans.harness.output(run)
    assert plans.tools() == ["update", "send"]
    events = [event.data for event in await plans.harness.runs.watch.events(run) if event.type == "plan.revised"]
    assert [one.revision for one in events] == [2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("agent", [{**PAYER, "tools": []}, {"model": PAYER["model"], "human": ["approve"]}])
async def test_leave_that_is_asked_for_every_call_is_asked_after_a_change(plans: Plans, agent: Json) -> None:
    asks = step("1", "ASK_INFO: Go on?")
    agent = {**agent, "human": ["approve"]}
    steps = [asks, step("2", "Send", tools=["plan_send"], agent=agent, dependencies=["1"])]
    run = await plans.start({"steps": steps}, {"9": plans.wants("plan_send", to="a")})
    question = await plans.harness.one(run)
    after = [asks, step("9", "Send", tools=["plan_send"], dependencies=["1"])]
    await plans.harness.runs.plans.change(run, {"goal": "A test", "steps": after})
    await plans.harness.answer(run, "yes", question)
    await refuses_leave(plans, run)


READ = """
agents:
  strict: {model: "scripted:replies.yaml", tools: [{name: plan_send, approve: always}]}
  lax: {model: "scripted:replies.yaml", tools: [plan_send]}
steps:
  - {kind: plan, name: work, input: null, plan: {from: "{{ input }}", agent: strict}}
"""


async def test_a_step_of_a_read_plan_that_names_another_agent_is_under_the_rules_of_both(plans: Plans) -> None:
    plans.harness.script(json.dumps([plans.wants("plan_send", to="a"), "done"]))
    plan = {"goal": "Send", "steps": [step("1", "Send it", tools=["plan_send"], agent="lax")]}
    await refuses_leave(plans, await plans.harness.start(READ, plan))


@pytest.mark.slow
async def test_a_step_that_is_reworded_keeps_the_tools_of_its_own_agent(plans: Plans) -> None:
    asks = step("1", "ASK_INFO: Go on?")
    own = {"model": PAYER["model"], "tools": ["plan_send"]}
    steps = [asks, step("2", "Send", tools=["plan_send"], agent=own, dependencies=["1"])]
    agent = {"model": "scripted:replies.yaml", "tools": ["plan_list"]}
    run = await plans.start({"steps": steps, "agent": agent}, {"2": plans.wants("plan_send", to="a")})
    question = await plans.harness.one(run)
    after = [asks, step("2", "Send it now", tools=["plan_send"], agent=PAYER["model"], dependencies=["1"])]
    new = {"goal": "A test", "steps": after, "agent": "scripted:replies.yaml"}
    await plans.harness.runs.plans.change(run, new)
    await plans.harness.answer(run, "yes", question)
    await plans.harness.output(run)
    assert plans.tools() == ["send"]


@pytest.mark.first_row
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (["Yes, confirmed", "No, not confirmed"], "No, not confirmed"),
        ([], "No, Ana has not confirmed yet"),
        ([], "I believe that she has confirmed it"),
        ([], "OK, stop"),
        ([], "Yes, but wait until Monday"),
    ],
)
async def test_words_that_are_no_yes_confirm_nothing(
    plans: Plans, driver: str, options: list[str], answer: str
) -> None:
    steps = [
        step("1", "CONFIRM_ACTION: Send them?", options=options),
        step("2", "Send", tools=["plan_send"], condition="RESULT_FROM_1 contains confirmed"),
    ]
    script = {"engine": {"2": plans.wants("plan_send", to="a")}, "agent": {"plan": [ask("Send?"), finish("1")]}}
    run = await plans.start({"steps": steps, "driver": driver}, script[driver])
    await plans.harness.answer(run, answer)
    if answer.startswith("No,"):
        output = await plans.harness.output(run)
    else:  # what is neither a yes nor a no is asked about once more
        again = await plans.harness.one(run)
        assert (again.round, answer in again.message, "Send them?" in again.message) == (2, True, True)
        await plans.harness.answer(run, answer, again)
        output = await plans.harness.output(run)
    assert (reasons(output), plans.calls()) == ({"2": "condition_false"}, [])
    assert (output["steps"]["1"]["response"], output["steps"]["1"]["data"]["outcome"]) == (answer, "cancelled")
    assert output["note"] == "no tool was called; skipped: 2 (condition_false)"


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_after_an_unclear_answer_a_clear_yes_counts(plans: Plans, driver: str) -> None:
    steps = [
        step("1", "CONFIRM_ACTION: Les envoyer ?"),
        step("2", "Send", tools=["plan_send"], condition="RESULT_FROM_1 contains confirmed"),
    ]
    turns = [ask("Send?"), finish("1"), plans.runs("2", "plan_send", to="a"), finish("2")]
    script = {"engine": {"2": plans.wants("plan_send", to="a")}, "agent": {"plan": turns}}
    run = await plans.start({"steps": steps, "driver": driver, "language": "fr"}, script[driver])
    question = await plans.harness.one(run)
    assert [option.id for option in question.options] == ["accepter", "refuser"]
    await plans.harness.answer(run, "oui mais pas lui", question)
    await plans.harness.answer(run, "Vas-y !")
    output = await plans.harness.output(run)
    assert (output["steps"]["1"]["data"]["outcome"], plans.tools()) == ("confirmed", ["send"])
    assert "note" not in output


@pytest.mark.slow
async def test_a_plain_question_on_which_a_yes_depends_is_asked_once_more_too(plans: Plans) -> None:
    steps = [
        step("1", "Les envoyer ?", pause_for_response=True),
        step("2", "Send", tools=["plan_send"], condition="RESULT_FROM_1 equals confirmed"),
    ]
    run = await plans.start({"steps": steps}, {"2": plans.wants("plan_send", to="a")})
    await plans.harness.answer(run, "demain")
    assert (await plans.harness.one(run)).round == 2
    await plans.harness.answer(run, "c'est bon")
    await plans.harness.output(run)
    assert plans.tools() == ["send"]


async def test_a_question_on_which_nothing_depends_takes_any_words(plans: Plans) -> None:
    steps = [step("1", "How are you?", pause_for_response=True), step("2", "RESULT_FROM_1")]
    run = await plans.start({"steps": steps}, says("2"))
    await plans.harness.answer(run, "fine, but tired")
    assert (await plans.harness.output(run))["steps"]["2"]["response"] == "fine, but tired"


async def test_a_model_offers_no_yes_of_its_own_where_something_depends_on_one(plans: Plans) -> None:
    steps = [
        step("1", "Send them?", pause_for_response=True),
        step("2", "Send", tools=["plan_send"], condition="RESULT_FROM_1 contains confirmed"),
    ]
    turns = [ask("What now?", options=["OK, keep it as a draft"]), finish("1")]
    run = await plans.start({"steps": steps, "driver": "agent"}, {"plan": turns})
    question = await plans.harness.one(run)
    assert (question.message, question.options) == ("Send them?", [])
    await plans.harness.answer(run, "no", question)
    await plans.harness.output(run)
    assert plans.calls() == []


@pytest.mark.slow
@pytest.mark.parametrize(("of", "said", "sends"), [("all", "No, not confirmed", 0), ("q", "It is confirmed", 1)])
async def test_answers_in_a_loop_are_looked_at_from_outside_as_inside(
    plans: Plans, of: str, said: str, sends: int
) -> None:
    mark = "CONFIRM_ACTION" if of == "all" else "ASK_INFO"
    steps = [step("q", f"{mark}: CURRENT_ITEM?"), step("s", "Send", tools=["plan_send"])]
    steps[1]["condition"] = f"RESULT_FROM_{of} contains confirmed"
    plan = {"steps": steps, "loop_blocks": {"all": loop(["a"], "q")}}
    run = await plans.start(plan, {"s": plans.wants("plan_send", to="a")})
    await plans.harness.answer(run, said)
    await plans.harness.output(run)
    assert len(plans.calls()) == sends


async def test_what_is_told_of_something_is_looked_at_as_it_is_told(plans: Plans) -> None:
    steps = [step("1", "ASK_INFO: What is its status?"), step("2", condition="RESULT_FROM_1 contains confirmed")]
    run = await plans.start({"steps": steps}, says("2"))
    await plans.harness.answer(run, "It is confirmed since Monday")
    assert statuses(await plans.harness.output(run)) == {"1": "completed", "2": "completed"}


async def test_a_person_may_tell_what_the_model_did_not_think_of(plans: Plans) -> None:
    steps = [step("1", "ASK_INFO: Who comes?")]
    run = await plans.start({"steps": steps, "driver": "agent"}, {"plan": [ask("Who?", options=["Ben"]), finish("1")]})
    await plans.harness.answer(run, "Ana")
    assert (await plans.harness.output(run))["steps"]["1"]["response"] == "Ana"


@pytest.mark.first_row
@pytest.mark.parametrize(
    "mark", ["CONFIRM_ACTION :", "confirm_action:", "**CONFIRM_ACTION:**", " CONFIRM_ACTION\u00a0:"]
)
async def test_a_mark_is_one_however_it_is_set(plans: Plans, mark: str) -> None:
    steps = [step("1", f"{mark} Supprimer tout ?", tools=["plan_send"])]
    run = await plans.start({"steps": steps}, {"1": plans.wants("plan_send", to="a")})
    question = await plans.harness.one(run)
    assert question.message == "Supprimer tout ?"
    await plans.harness.answer(run, "Non, surtout pas", question)
    await plans.harness.output(run)
    assert plans.calls() == []


@pytest.mark.first_row
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    ("condition", "runs"),
    [
        ("> 1", True),
        ("> 2", False),
        ("contains confirmed", False),
        ('equals {"confirmed": false, "events": [1, 2]}', True),
    ],
)
async def test_json_in_a_text_is_looked_at_as_what_it_says(
    plans: Plans, driver: str, condition: str, runs: bool
) -> None:
    told = json.dumps({"confirmed": False, "events": [1, 2]})
    steps = [step("1"), step("2", condition=f"RESULT_FROM_1 {condition}")]
    turns = [finish("1", told), finish("2")] if runs else [finish("1", told)]
    output = await plans.output({"steps": steps, "driver": driver}, {"1": told, "2": "done", "plan": turns})
    assert statuses(output)["2"] == ("completed" if runs else "skipped")


async def test_what_a_person_said_is_looped_over_and_filled_in_as_it_was_said(plans: Plans) -> None:
    steps = [step("1", "ASK_INFO: Which towns?"), step("2", "See CURRENT_ITEM"), step("3", "From RESULT_FROM_1")]
    run = await plans.start({"steps": steps, "loop_blocks": {"all": loop("RESULT_FROM_1", "2")}}, says("2", "3"))
    await plans.harness.answer(run, '["Paris", "Lyon"]')
    output = await plans.harness.output(run)
    assert output["steps"]["2"]["data"] == ["See Paris", "See Lyon"]
    assert output["steps"]["3"]["response"] == 'From ["Paris", "Lyon"]'


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_an_item_that_is_tried_again_goes_on_behind_what_is_done(plans: Plans, driver: str) -> None:
    steps = [step("1", "Update", tools=["plan_update"]), step("2", "Send", tools=["plan_send"], dependencies=["1"])]
    blocks = {"all": loop(["a"], "1", "2", on_item_error="ask")}
    sends = plans.runs("2", "plan_send", to="a", fail=[0, 500])
    turns = [
        begin("all"),
        plans.runs("1", "plan_update", event="e"),
        finish("1"),
        sends,
        advance("all"),
        sends,
        finish("2"),
        advance("all"),
    ]
    script = {
        "1": plans.wants("plan_update", event="e"),
        "2": plans.wants("plan_send", to="a", fail=[0, 500]),
        "plan": turns,
    }
    run = await plans.start({"steps": steps, "loop_blocks": blocks, "driver": driver}, script)
    await plans.harness.answer(run, {"action": "retry"})
    assert (await plans.harness.output(run))["status"] == "completed"
    assert plans.tools() == ["update", "send", "send"]


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_an_item_may_be_changed_to_nothing_and_one_that_is_let_pass_fails_no_plan(
    plans: Plans, driver: str
) -> None:
    steps = [step("1", "Send CURRENT_ITEM", tools=["plan_send"])]
    fails = plans.runs("1", "plan_send", to="a", fail=[500, 500, 500])
    turns = [begin("all"), fails, advance("all"), fails, advance("all")]
    script = {"1": plans.wants("plan_send", to="a", fail=[500, 500, 500]), "plan": turns}
    blocks = {"all": loop(["a"], "1", on_item_error="ask")}
    run = await plans.start({"steps": steps, "loop_blocks": blocks, "driver": driver}, script)
    await plans.harness.answer(run, {"action": "edit", "input": None})
    await plans.harness.answer(run, {"action": "skip"})
    output = await plans.harness.output(run)
    [item] = output["loops"]["all"]["iteration_results"]
    assert (output["status"], item["item"], item["status"]) == ("completed_with_errors", None, "skipped")


@pytest.mark.first_row
@pytest.mark.parametrize(("item", "answer"), [("a", "edit: b"), ([1], [2]), ({"n": 1}, {"n": 2}), (1, "edit: 2")])
async def test_an_item_is_edited_in_few_words(plans: Plans, item: Any, answer: Any) -> None:
    steps = [step("1", "Send CURRENT_ITEM", tools=["plan_send"])]
    script = {"1": plans.wants("plan_send", to="x", fail=[500])}
    blocks = {"all": loop([item], "1", on_item_error="ask")}
    run = await plans.start({"steps": steps, "loop_blocks": blocks}, script)
    await plans.harness.answer(run, answer)
    [told] = (await plans.harness.output(run))["loops"]["all"]["iteration_results"]
    assert told["item"] == {"a": "b", "1": 2}.get(str(item), answer)


@pytest.mark.slow
async def test_a_word_that_is_no_action_is_taken_for_no_item(plans: Plans) -> None:
    steps = [step("1", "Send CURRENT_ITEM", tools=["plan_send"])]
    script = {"1": plans.wants("plan_send", to="x", fail=[500])}
    blocks = {"all": loop(["a", "b", "c"], "1", on_item_error="ask")}
    run = await plans.start({"steps": steps, "loop_blocks": blocks}, script)
    for wrong in ("retyr", "edit"):
        assert "edit: <new input>" in (await plans.harness.refused(run, wrong)).message
    refused = await plans.harness.refused(run, {"action": "edit"})
    assert "input: is missing" in refused.message
    await plans.harness.answer(run, "abort")
    told = (await plans.harness.result(run)).output["loops"]["all"]
    assert told["error"]["message"].startswith("1 of 3 items failed; 2 were not begun: item 1, step 1: ")


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_an_item_whose_question_is_cancelled_is_told_as_that(plans: Plans, driver: str) -> None:
    steps = [
        step("1", "ASK_INFO: CURRENT_ITEM?"),
        step("2", dependencies=["1"], condition="RESULT_FROM_1 equals never"),
    ]
    turns = [begin("all"), ask("a?"), finish("1"), advance("all"), ask("b?"), advance("all")]
    plan = {"steps": steps, "loop_blocks": {"all": loop(["a", "b"], "1", "2")}, "driver": driver}
    run = await plans.start(plan, {"2": "x", "plan": turns})
    await plans.harness.answer(run, "x")
    question = await plans.harness.one(run)
    await plans.harness.runs.answer(run, [Answer(question=question.id, action="cancel")])
    output = (await plans.harness.result(run)).output
    items = output["loops"]["all"]["iteration_results"]
    assert [one["status"] for one in items] == ["completed", "cancelled"]
    assert statuses(output) == {"1": "cancelled", "2": "skipped"}


@pytest.mark.slow
async def test_a_person_may_let_more_steps_run_at_once(plans: Plans) -> None:
    asks = step("1", "ASK_INFO: Go on?")
    steps = [asks, *(step(id_, "Send", tools=["plan_send"], agent=PAYER, dependencies=["1"]) for id_ in "23")]
    run = await plans.start({"steps": steps}, {id_: plans.wants("plan_send", to=id_) for id_ in "23"})
    question = await plans.harness.one(run)
    after = [{key: value for key, value in one.items() if key != "agent"} for one in steps]
    await plans.harness.runs.plans.change(run, {"goal": "A test", "steps": after, "max_parallel": 2})
    await plans.harness.answer(run, "yes", question)
    for leave in await plans.harness.asked(run, 2):
        await plans.harness.answer(run, {"granted": True}, leave)
    assert (await plans.harness.output(run))["status"] == "completed"


@pytest.mark.slow
async def test_what_the_author_said_of_the_whole_plan_stays(plans: Plans) -> None:
    steps = [step("1", "ASK_INFO: Go on?")]
    run = await plans.start({"steps": steps, "fail_fast": True})
    question = await plans.harness.one(run)
    with pytest.raises(Refusal, match="'fail_fast' is set in the blueprint"):
        await plans.harness.runs.plans.change(run, {"goal": "A test", "steps": steps, "fail_fast": False})
    await plans.harness.answer(run, "yes", question)
    await plans.harness.output(run)

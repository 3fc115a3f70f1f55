"""What else plans do: read, confirmed and changed by people; items at once; rules of failure; bounds; deadlines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.client.answering import Answering
from holdfast.client.states import Outcome
from holdfast.protocol import guard
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.guard import Key
from holdfast.protocol.runs import HistoryLimits
from tests.answering import answer_by
from tests.conftest import Harness
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import (
    DRIVERS,
    Plans,
    advance,
    begin,
    call,
    finish,
    loop,
    reasons,
    says,
    statuses,
    step,
)

Json = dict[str, Any]


# Loops


async def test_an_object_with_one_list_is_that_list_and_with_two_an_error(plans: Plans) -> None:
    steps = [step("1"), step("2", "CURRENT_ITEM"), step("3", "CURRENT_ITEM")]
    blocks = {"one": loop("RESULT_FROM_1", "2"), "two": loop("RESULT_FROM_1", "3")}
    data = {"events": ["a"], "count": 1}
    output = await plans.ended(
        {"steps": steps[:2], "loop_blocks": {"one": blocks["one"]}}, says("2", **{"1": {"output": data}})
    )
    assert output["steps"]["2"]["data"] == ["a"]
    several = {"events": ["a"], "rooms": ["b"]}
    output = await plans.ended({"steps": steps, "loop_blocks": blocks}, says("2", "3", **{"1": {"output": several}}))
    assert output["loops"]["one"]["error"]["type"] == "loop_over_ambiguous"
    assert statuses(output)["2"] == "skipped"


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize(
    ("value", "items"),
    [
        ('["a", "b"]', ["a", "b"]),
        ("1. just\n2. text", ["just", "text"]),
        ({"output": 7}, [7]),
        ({"output": {"a": 1}}, [{"a": 1}]),
    ],
)
async def test_what_is_no_list_is_one_item_and_text_never_its_letters(
    plans: Plans, value: Any, items: list[Any]
) -> None:
    steps = [step("1"), step("2", "CURRENT_ITEM", loopover="RESULT_FROM_1")]
    output = await plans.output({"steps": steps}, {"1": value, "2": "seen"})
    assert [one["item"] for one in output["loops"]["loop_2"]["iteration_results"]] == items


async def test_a_list_that_is_too_long_fails_the_loop(plans: Plans) -> None:
    plan = {"steps": [step("1", "CURRENT_ITEM")], "loop_blocks": {"all": loop([1, 2, 3], "1", max_items=2)}}
    output = await plans.ended(plan, says("1"))
    assert output["loops"]["all"]["error"]["type"] == "loop_too_large"


@pytest.mark.slow
async def test_texts_that_their_values_make_too_long_fail_their_loop_or_step_alone(plans: Plans) -> None:
    long = "RESULT_FROM_1 " * 900
    steps = [step("1"), step("2", "CURRENT_ITEM"), step("3", long), step("4", "Go on")]
    output = await plans.ended(
        {"steps": steps, "loop_blocks": {"all": loop([long], "2")}}, says("4", **{"1": "a" * 10_000})
    )
    errors = [part["error"]["type"] for part in (output["loops"]["all"], output["steps"]["3"])]
    assert (errors, output["steps"]["4"]["status"]) == (["expression_error"] * 2, "completed")


@pytest.mark.slow
async def test_items_at_once_give_what_they_give_one_by_one(plans: Plans) -> None:
    items = list(range(7))
    steps = [step("1", "CURRENT_ITEM"), step("2", "LOOP_INDEX: RESULT_FROM_1")]
    outputs = []
    for at_once in (1, 3):
        plan = {"steps": steps, "loop_blocks": {"all": loop(items, "1", "2", max_parallel=at_once)}}
        outputs.append(await plans.output(plan, says("1", "2")))
    assert outputs[0] == outputs[1]
    assert outputs[0]["steps"]["2"]["data"] == [f"{n}: {n}" for n in items]


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_failing_item_may_end_the_loop(plans: Plans, driver: str) -> None:
    blocks = {"all": loop(["a", "b", "c"], "1", on_item_error="fail")}
    steps = [step("1", "Send to CURRENT_ITEM", tools=["plan_send"]), step("2", "After", dependencies=["all"])]
    sending = {"to": "x", "fail": [0, 500]}
    turns = [begin("all"), plans.runs("1", "plan_send", **sending), finish("1"), advance("all")]
    turns += [plans.runs("1", "plan_send", **sending), advance("all")]
    script = {"plan": turns} if driver == "agent" else {"1": plans.wants("plan_send", **sending), "2": "after"}
    output = await plans.ended({"steps": steps, "loop_blocks": blocks, "driver": driver}, script)
    assert (output["status"], output["loops"]["all"]["status"]) == ("failed", "failed")
    assert len(output["loops"]["all"]["iteration_results"]) == 2
    assert reasons(output) == {"2": "dependency_failed"}


@pytest.mark.slow
async def test_a_person_decides_on_a_failing_item(plans: Plans) -> None:
    blocks = {"all": loop(["a", "b"], "1", on_item_error="ask")}
    steps = [step("1", "Send to CURRENT_ITEM", tools=["plan_send"])]
    sending = [plans.wants("plan_send", to=to, fail=[500, 0, 500]) for to in "ab"]
    run = await plans.start({"steps": steps, "loop_blocks": blocks}, {"1": sending})
    await plans.harness.answer(run, {"action": "retry"})
    await plans.harness.answer(run, {"action": "skip"})
    output = await plans.harness.output(run)
    assert output["status"] == "completed_with_errors"
    assert [one["status"] for one in output["loops"]["all"]["iteration_results"]] == ["completed", "skipped"]
    assert len(plans.calls()) == 3


@pytest.mark.slow
async def test_a_question_in_a_loop_knows_its_item(plans: Plans) -> None:
    steps = [
        step("1", "CONFIRM_ACTION: Invite CURRENT_ITEM?"),
        step("2", "RESULT_FROM_1", condition="RESULT_FROM_1 equals confirmed"),
    ]
    run = await plans.start({"steps": steps, "loop_blocks": {"all": loop(["Ana", "Ben"], "1", "2")}}, says("2"))
    question = await plans.harness.one(run)
    assert (question.message, question.iteration) == ("Invite Ana?", 1)
    assert question.address == "pipeline:test;plan:plan;loop:all:1;hitl:1"
    await plans.harness.answer(run, 0, question)
    await plans.harness.answer(run, "refuse")
    output = await plans.harness.output(run)
    items = output["loops"]["all"]["iteration_results"]
    assert [one["steps"]["2"]["status"] for one in items] == ["completed", "skipped"]


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize(
    ("size", "parts", "rounds"), [(60, 3, 10), pytest.param(1_000, 20, 50, marks=pytest.mark.slow)]
)
async def test_a_plan_of_many_items_continues_as_new_and_gives_the_same(
    plans: Plans, size: int, parts: int, rounds: int
) -> None:
    def plan(sizes: list[int]) -> Json:
        begins = [sum(sizes[:n]) for n in range(len(sizes))]
        blocks = {
            f"l{n}": loop(list(range(begin, begin + size)), f"s{n}", max_parallel=10)
            for n, (begin, size) in enumerate(zip(begins, sizes, strict=True))
        }
        return {"steps": [step(f"s{n}", "item CURRENT_ITEM") for n in range(len(sizes))], "loop_blocks": blocks}

    script = "{{ messages[-1].content }}"
    limits = HistoryLimits(rounds=rounds)
    whole = await plans.start(plan([size]), [script], history_limits=limits)
    several = await plans.start(plan([size // parts] * parts), [script], history_limits=limits)
    outcome, other = await result(plans.harness, whole), await result(plans.harness, several)
    assert outcome.output["steps"]["s0"]["data"] == [f"item {n}" for n in range(size)]
    together = [value for n in range(parts) for value in other.output["steps"][f"s{n}"]["data"]]
    assert together == outcome.output["steps"]["s0"]["data"]
    histories = await plans.harness.histories(whole)
    continued = [one for one in histories if one.workflow_id.endswith("loop:l0")]
    assert len(continued) > size // rounds // 2
    assert max(len(one.events) for one in histories) < 30 * rounds


async def result(house: Harness, run: str) -> Outcome:
    return await house.runs.result(run)


# Steps at once, and failures


@pytest.mark.slow
async def test_steps_at_once_give_the_same_and_ask_at_once(plans: Plans) -> None:
    steps = [step("1"), step("2", "ASK_INFO: First?"), step("3", "ASK_INFO: Second?"), step("4", "RESULT_FROM_1")]
    run = await plans.start({"steps": steps, "max_parallel": 4}, says("1", "4"))
    first, second = await plans.harness.asked(run, 2)
    await plans.harness.answer(run, "b", second)
    await plans.harness.answer(run, "a", first)
    output = await plans.harness.output(run)
    assert [output["steps"][id_]["response"] for id_ in "234"] == ["a", "b", "Do it"]


async def test_items_at_once_ask_at_once(plans: Plans) -> None:
    blocks = {"all": loop(["a", "b"], "1", max_parallel=2)}
    run = await plans.start({"steps": [step("1", "ASK_INFO: Who is CURRENT_ITEM?")], "loop_blocks": blocks}, {})
    questions = await plans.harness.asked(run, 2)
    assert [one.message for one in questions] == ["Who is a?", "Who is b?"]
    for question in reversed(questions):
        await plans.harness.answer(run, question.message, question)
    output = await plans.harness.output(run)
    assert [one["response"] for one in output["steps"]["1"]["data"]] == ["Who is a?", "Who is b?"]


async def test_the_next_item_begins_when_any_has_ended_and_in_a_new_history_when_all_have(plans: Plans) -> None:
    blocks = {"all": loop(["a", "b", "c", "d"], "1", max_parallel=2)}
    plan = {"steps": [step("1", "ASK_INFO: Who is CURRENT_ITEM?")], "loop_blocks": blocks}
    run = await plans.start(plan, {}, history_limits=HistoryLimits(rounds=3))
    first, second = await plans.harness.asked(run, 2)
    await plans.harness.answer(run, "B", second)
    _, third = await plans.harness.asked(run, 2)
    assert (first.message, third.message) == ("Who is a?", "Who is c?")
    await plans.harness.answer(run, "C", third)
    await plans.harness.answer(run, "A", first)
    fourth = await plans.harness.one(run)
    await plans.harness.answer(run, "D", fourth)
    output = await plans.harness.output(run)
    assert [one["response"] for one in output["steps"]["1"]["data"]] == ["A", "B", "C", "D"]
    histories = [one for one in await plans.harness.histories(run) if one.workflow_id.endswith("loop:all")]
    assert len(histories) == 2


@pytest.mark.slow
async def test_an_item_that_ends_while_the_run_is_paused_is_followed_after_the_pause(plans: Plans) -> None:
    blocks = {"all": loop(["a", "b", "c"], "1", max_parallel=2)}
    run = await plans.start({"steps": [step("1", "ASK_INFO: Who is CURRENT_ITEM?")], "loop_blocks": blocks}, {})
    _, second = await plans.harness.asked(run, 2)
    await plans.harness.runs.control.pause(run)
    await plans.harness.answer(run, "B", second)
    assert [one.message for one in await plans.harness.asked(run, 1)] == ["Who is a?"]
    await plans.harness.runs.control.resume(run)
    first, third = await plans.harness.asked(run, 2)
    assert third.message == "Who is c?"
    await plans.harness.answer(run, "A", first)
    await plans.harness.answer(run, "C", third)
    output = await plans.harness.output(run)
    assert [one["response"] for one in output["steps"]["1"]["data"]] == ["A", "B", "C"]


@pytest.mark.parametrize("in_loop", [False, True])
async def test_cancelling_one_of_several_questions_ends_the_others(plans: Plans, in_loop: bool) -> None:
    steps = [step("1", "ASK_INFO: CURRENT_ITEM?"), step("2", "After RESULT_FROM_1")]
    plan: Json = {"steps": steps, "loop_blocks": {"all": loop(["a", "b", "c"], "1", max_parallel=2)}}
    if not in_loop:
        plan = {"steps": [step("0", "ASK_INFO: a?"), step("1", "ASK_INFO: b?"), steps[1]], "max_parallel": 3}
    run = await plans.start(plan, says("2"))
    first, _ = await plans.harness.asked(run, 2)
    await plans.harness.runs.answer(run, [Answer(question=first.id, action="cancel")])
    outcome = await result(plans.harness, run)
    assert outcome.error is not None and outcome.error.type == "plan_cancelled"
    assert reasons(outcome.output)["2"] in ("dependency_failed", "plan_cancelled")
    if in_loop:
        items = outcome.output["loops"]["all"]["iteration_results"]
        assert [(one["item"], one["status"]) for one in items] == [("a", "cancelled"), ("b", "cancelled")]
    else:
        assert [statuses(outcome.output)[id_] for id_ in "01"] == ["cancelled", "cancelled"]


async def test_fail_fast_starts_nothing_more(plans: Plans) -> None:
    steps = [step("1", "Send", tools=["plan_send"]), step("2"), step("3")]
    script = says("2", "3", **{"1": plans.wants("plan_send", to="a", fail=[500])})
    output = await plans.ended({"steps": steps, "fail_fast": True}, script)
    assert (output["status"], reasons(output)) == ("failed", {"2": "fail_fast", "3": "fail_fast"})


async def test_a_failed_step_leaves_those_beside_it_alone(plans: Plans) -> None:
    steps = [step("1", "Send", tools=["plan_send"]), step("2", dependencies=["1"]), step("3")]
    script = says("3", **{"1": plans.wants("plan_send", to="a", fail=[500])})
    output = await plans.ended({"steps": steps}, script)
    assert statuses(output) == {"1": "failed", "2": "skipped", "3": "completed"}


# People


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "status", "reason"),
    [
        ({"on_timeout": "skip"}, "skipped", "timeout"),
        ({"on_timeout": "default", "default": "no"}, "completed", None),
        ({}, "failed", None),
    ],
)
async def test_when_nobody_answers_the_plan_says_what_happens(
    plans: Plans, more: Json, status: str, reason: Any
) -> None:
    steps = [step("1", "CONFIRM_ACTION: Go?", options=["Yes", "No"], timeout=0.5, **more)]
    output = await plans.ended({"steps": steps}, {})
    assert (output["steps"]["1"]["status"], output["steps"]["1"].get("reason")) == (status, reason)
    if status == "completed":
        assert output["steps"]["1"]["data"]["outcome"] == "cancelled"
    if status == "failed":
        assert output["steps"]["1"]["error"]["type"] == "question_expired"


async def test_cancelling_a_question_cancels_the_plan(plans: Plans) -> None:
    run = await plans.start({"steps": [step("1", "ASK_INFO: Who?"), step("2")]}, says("2"))
    question = await plans.harness.one(run)
    await plans.harness.runs.answer(run, [Answer(question=question.id, action="cancel")])
    outcome = await result(plans.harness, run)
    assert outcome.error is not None and outcome.error.type == "plan_cancelled"
    assert statuses(outcome.output) == {"1": "cancelled", "2": "skipped"}


@pytest.mark.slow
async def test_an_answer_that_is_no_option_is_refused_and_the_question_stays(plans: Plans) -> None:
    steps = [step("1", "CONFIRM_ACTION: Go?", options=["Oui", "Non", {"text": "Plus tard", "type": 2}])]
    run = await plans.start({"steps": steps}, {})
    for wrong in ("peut-être", "", 3, None):
        assert (await plans.harness.refused(run, wrong)).code == "invalid_answer"
    await plans.harness.answer(run, 2)
    output = await plans.harness.output(run)
    assert output["steps"]["1"]["data"] == {
        "response": "Plus tard",
        "outcome": "other",
        "option_index": 2,
        "option_type": 2,
    }


@pytest.mark.slow
async def test_an_agent_of_a_plan_may_ask_before_it_calls(plans: Plans) -> None:
    replies = [
        {"tool_calls": [{"name": "request_user_info", "args": {"question": "To whom?"}}]},
        plans.wants("plan_send", to="{{ messages[-1].content }}"),
    ]
    agent = {"model": "scripted:replies.yaml", "human": ["ask"]}
    run = await plans.start({"steps": [step("1", "Send", tools=["plan_send"])], "agent": agent}, {"1": replies})
    await plans.harness.answer(run, "Ana")
    output = await plans.harness.output(run)
    assert output["steps"]["1"]["data"]["to"] == "Ana"


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_tool_that_needs_leave_waits_for_it(plans: Plans, driver: str) -> None:
    agent = {"model": "scripted:replies.yaml", "tools": [{"name": "plan_send", "approve": "always"}]}
    plan = {"steps": [step("1", "Send", tools=["plan_send"])], "agent": agent, "driver": driver}
    turns = {"plan": [plans.runs("1", "plan_send", to="ana"), finish("1")]}
    run = await plans.start(plan, turns if driver == "agent" else {"1": plans.wants("plan_send", to="ana")})
    question = await plans.harness.one(run)
    assert (question.kind, question.info["tool"]) == ("permission", "plan_send")
    assert plans.calls() == []
    await plans.harness.answer(run, {"granted": False, "reason": "not today"}, question)
    output = (await result(plans.harness, run)).output
    assert output["steps"]["1"]["error"] == {"type": "not_approved", "message": "not approved: not today"}
    assert plans.calls() == []


# Read, confirmed, changed

PLANNED = """
agents:
  planner: {{model: "scripted:planner.yaml"}}
  clerk: {{model: "scripted:replies.yaml"}}
steps:
  - {{name: planner, uses: agents.planner, input: "Invite the team"}}
  - kind: plan
    name: work
    plan: {{from: "{{{{ steps.planner.output }}}}", agent: clerk, driver: {driver}, confirm: {confirm}}}
"""


async def planned(plans: Plans, plan: Any, driver: str = "engine", confirm: str = "false", script: Any = None) -> str:
    plans.harness.script(json.dumps([{"output": plan}]), "planner.yaml")
    plans.harness.script(json.dumps(script or says("1", "2")))
    return await plans.harness.start(PLANNED.format(driver=driver, confirm=confirm))


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_plan_that_a_planner_gave_is_run(plans: Plans, driver: str) -> None:
    plan = json.dumps({"goal": "Invite", "steps": [step("1", "Write"), step("2", "Send RESULT_FROM_1")]})
    script = {"work": [finish("1", "Write"), finish("2", "Send Write")]} if driver == "agent" else None
    output = await plans.harness.output(await planned(plans, f"```json\n{plan}\n```", driver, script=script))
    assert output["steps"]["2"]["response"] == "Send Write"


async def test_what_is_no_plan_fails_the_step_with_all_that_is_wrong(plans: Plans) -> None:
    plan = {"goal": "", "steps": [step("1", "RESULT_FROM_9")]}
    outcome = await result(plans.harness, await planned(plans, plan))
    assert outcome.error is not None and outcome.error.type == "plan_invalid"
    assert "goal: 'goal' is empty" in outcome.error.message
    assert "steps[0].instruction: there is no step or loop '9'" in outcome.error.message


@pytest.mark.slow
async def test_a_person_confirms_a_plan_or_changes_it(plans: Plans) -> None:
    run = await planned(plans, {"goal": "Invite", "steps": [step("1", "Write")]}, confirm="true")
    question = await plans.harness.one(run)
    assert (question.kind, question.address) == ("review", "pipeline:test;plan:work;hitl:confirm-plan")
    shown = question.info["payload"]
    assert shown == {"goal": "Invite", "steps": [step("1", "Write")]}
    broken = {**shown, "steps": [step("1", "Write", dependencies=["7"])]}
    refusal = await plans.harness.refused(run, {"verdict": "edited", "payload": broken}, question)
    assert "steps[0].dependencies[0]: there is no step or loop '7'" in refusal.message
    changed = {**shown, "steps": [step("1", "Write twice")]}
    await plans.harness.answer(run, {"verdict": "edited", "payload": changed}, question)
    assert (await plans.harness.output(run))["steps"]["1"]["response"] == "Write twice"


async def test_a_rejected_plan_runs_nothing(plans: Plans) -> None:
    run = await planned(plans, {"goal": "Invite", "steps": [step("1", "Write")]}, confirm="true")
    await plans.harness.answer(run, {"verdict": "rejected", "reason": "too short"})
    outcome = await result(plans.harness, run)
    assert outcome.error is not None and outcome.error.type == "plan_rejected"
    assert "too short" in outcome.error.message


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_person_changes_what_is_left_of_a_plan(plans: Plans, driver: str) -> None:
    steps = [step("1"), step("2", "ASK_INFO: Go on?"), step("3")]
    turns = [finish("1", "Do it"), call("request_user_info", question="Go on?"), finish("2"), finish("4", "new: Do it")]
    plan = {"goal": "A test", "steps": steps, "driver": driver}
    run = await plans.start(plan, {"plan": turns} if driver == "agent" else says("1", "4"))
    await plans.harness.one(run)
    new = {"goal": "A test", "steps": [*steps[:2], step("4", "new: RESULT_FROM_1")]}
    handle = plans.harness.client.get_workflow_handle(f"{run}/plan:plan")
    for wrong, why in (
        ({**new, "steps": [step("1", "other"), *new["steps"][1:]]}, "'1' has begun or ended"),
        ({**new, "steps": [new["steps"][0], new["steps"][2]]}, "'2' has begun or ended"),
        ({**new, "steps": [*steps[:2], step("4", "RESULT_FROM_7")]}, "there is no step or loop '7'"),
        ({**new, "steps": [steps[1], step("4", "RESULT_FROM_1")]}, "loop '1' (the change removes it; put it back"),
    ):
        with pytest.raises(Exception, match="Workflow update failed") as caught:
            await handle.execute_update("plan", {"plan": wrong})
        assert why in str(caught.value.__cause__)
    revision = await handle.execute_update("plan", {"plan": new, "reason": "better", "by": "user:ana", "revision": 1})
    assert revision == 2
    await plans.harness.answer(run, "yes")
    output = await plans.harness.output(run)
    assert statuses(output) == {"1": "completed", "2": "completed", "4": "completed"}
    assert output["steps"]["4"]["response"] == "new: Do it"
    events = [event for event in await plans.harness.runs.watch.events(run) if event.type == "plan.revised"]
    assert [event.data.to_json() for event in events] == [{"revision": 2, "by": "user:ana", "reason": "better"}]


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "runs"), [("Oui", True), ("Plus tard", False), ("Non", False)])
async def test_where_a_yes_is_asked_for_only_a_yes_runs_the_tools(plans: Plans, answer: str, runs: bool) -> None:
    steps = [step("1", "Envoyer ?", pause_for_response=True, options=["Oui", "Non", "Plus tard"], tools=["plan_send"])]
    run = await plans.start({"steps": steps}, {"1": plans.wants("plan_send", to="ana")})
    await plans.harness.answer(run, answer)
    output = await plans.harness.output(run)
    assert statuses(output)["1"] == ("completed" if runs else "skipped")
    assert len(plans.calls()) == int(runs)


@pytest.mark.slow
async def test_a_tool_that_is_done_is_not_run_again_whatever_the_model_says(plans: Plans) -> None:
    steps = [step("1", "Update and send", tools=["plan_update", "plan_send"])]
    update = plans.wants("plan_update", event="e")
    output = await plans.ended({"steps": steps}, {"1": [update, update, plans.wants("plan_send", to="ana")]})
    assert (statuses(output), plans.tools()) == ({"1": "completed"}, ["update", "send"])
    forever = await plans.ended({"steps": steps}, {"1": [update]})
    assert forever["steps"]["1"]["error"]["type"] == "max_turns"


@pytest.mark.slow
async def test_where_answers_need_a_token_a_change_of_the_plan_needs_one(plans: Plans, monkeypatch: Any) -> None:
    monkeypatch.setattr(guard, "DEPLOYMENT", guard.Guard(keys=[Key("k", "k")]))
    steps = [step("1", "ASK_INFO: Go on?"), step("2")]
    run = await plans.start({"steps": steps}, says("2"))
    await plans.harness.one(run)
    new = {"goal": "A test", "steps": [steps[0], step("2", "Other")]}
    runs = plans.harness.runs
    with pytest.raises(Refusal) as caught:
        await runs.plans.change(run, new)
    assert caught.value.code == "bad_token"
    answer_by(runs, Answering(keys=[Key("k", "k")]))
    assert await runs.plans.change(run, new) == 2
    await plans.harness.answer(run, "yes")
    assert (await plans.harness.output(run))["steps"]["2"]["response"] == "Other"

"""Plans that a planner wrote: corrected, revised, agreed to, with the tools that their agent has."""

from __future__ import annotations

import json
from typing import Any

import pytest

import holdfast.client.__main__ as client_script
from holdfast.client.proposals import describe_proposal
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.questions import Question
from tests.conftest import Harness
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import DRIVERS, Plans, ask, call, finish, statuses, step
from tests.plans.planned import Json, planned
from tests.serve.ground import client_of, site_of_house

GOOD = {"goal": "Say it", "steps": [step("1", "Say hello")]}
BAD = {"goal": "Say it", "steps": [step("1", "Say hello", dependencies=["9"])]}


async def of_planner(plans: Plans, run: str) -> list[Json]:
    """What the planner was asked."""
    return [one for one in await plans.requests(run) if one["step"] == "think"]


@pytest.mark.first_row
@pytest.mark.parametrize("source", ["steps.think.output", "previous_step"])
async def test_a_plan_that_cannot_be_run_goes_back_to_its_planner_with_the_errors(plans: Plans, source: str) -> None:
    run = await planned(plans, [BAD, GOOD], source=source)
    assert statuses(await plans.harness.output(run)) == {"1": "completed"}
    first, again = await of_planner(plans, run)
    content = again["messages"][0]["content"]
    assert (first["messages"][0]["content"], content["task"]) == ("Think of tea", "Think of tea")
    assert (content["your_plan"], again["instructions"]) == (BAD, first["instructions"])
    assert "steps[0].dependencies[0]" in content["errors"][0]


async def test_a_planner_corrects_its_plan_three_times_at_most(plans: Plans) -> None:
    run = await planned(plans, [BAD, {"steps": []}, "no plan", BAD])
    outcome = await plans.harness.result(run)
    assert outcome.error is not None and outcome.error.type == "plan_invalid"
    assert len(await of_planner(plans, run)) == 4


async def test_a_plan_of_nobody_known_is_not_corrected(plans: Plans) -> None:
    run = await planned(plans, [GOOD], source="input")
    outcome = await plans.harness.result(run)
    assert outcome.error is not None and outcome.error.type == "plan_invalid"
    assert len(await of_planner(plans, run)) == 1


@pytest.mark.first_row
@pytest.mark.parametrize(
    "written",
    [
        {"plan_id": "p1", "status": "draft", "version": 2, **GOOD},
        {"goal": "Say it", "steps": [{"id": 1, "description": "Say hello", "priority": "high", "status": "pending"}]},
        {"plan": GOOD},
        {"thought": "hm", "plan": GOOD["steps"], "goal": "Say it"},
        GOOD["steps"],
        f"Here is the plan:\n```json\n{json.dumps(GOOD)}\n```\nEnjoy.",
        f"Here is the plan: {json.dumps({'plan': GOOD})} Enjoy [1].",
    ],
)
async def test_what_a_planner_writes_around_its_plan_stops_nothing(plans: Plans, written: Any) -> None:
    run = await planned(plans, [written])
    assert (await plans.harness.output(run))["steps"]["1"]["response"] == "Say hello"
    assert len(await of_planner(plans, run)) == 1


@pytest.mark.slow
async def test_a_planners_notes_are_kept(plans: Plans) -> None:
    run = await planned(plans, [{"plan_id": "p1", **GOOD, "steps": [{**GOOD["steps"][0], "priority": 1}]}])
    await plans.harness.output(run)
    plan = (await plans.harness.runs.plans.read(run)).snapshot.plan
    assert (plan["notes"], plan["steps"][0]["notes"]) == ({"plan_id": "p1"}, {"priority": 1})


async def test_a_key_that_would_change_the_meaning_is_no_note(plans: Plans) -> None:
    wrong = {"goal": "Say it", "steps": [step("1"), step("2", "Say hello", depends_on=["1"])]}
    run = await planned(plans, [wrong, GOOD])
    await plans.harness.output(run)
    assert "depends_on" in (await of_planner(plans, run))[1]["messages"][0]["content"]["errors"][0]


# What a planner says of a step in words of its own


def approved_by(type_: str, **more: Any) -> Json:
    """A plan in which a step of this type stands between a draft and a mail."""
    steps = [
        step("1", "Draft"),
        {"id": "2", "type": type_, "instruction": "Ana approves the mail", "dependencies": ["1"]},
        step("3", "Send", tools=["plan_send"], **more),
    ]
    return {"goal": "Send", "steps": steps}


@pytest.mark.first_row
@pytest.mark.parametrize("type_", ["human_approval", "Approval", "HUMAN-APPROVAL", "HumanApproval", "confirm"])
@pytest.mark.parametrize(("answer", "sent"), [("refuse", []), ("accept", ["send"])])
async def test_an_approval_of_a_planners_is_asked_of_a_person(
    plans: Plans, type_: str, answer: str, sent: list[str]
) -> None:
    script = {"1": "Dear Ben", "3": plans.wants("plan_send", to="ben")}
    run = await planned(plans, [approved_by(type_, dependencies=["2"])], script, tools="plan_send")
    question = await plans.harness.one(run)
    assert (question.message, plans.calls()) == ("Ana approves the mail", [])
    await plans.harness.answer(run, answer, question)
    output = await plans.harness.output(run)
    assert plans.tools() == sent
    assert output["steps"]["3"].get("reason") == (None if sent else "declined")


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize(
    "who", [{"type": "human"}, {"type": "Ask"}, {"type": "ask_user"}, {"assigned_to": "human"}, {"owner": "User"}]
)
async def test_a_step_that_a_planner_gives_to_a_person_is_a_question(plans: Plans, who: Json) -> None:
    plan = {"goal": "Ask", "steps": [{"id": "1", "instruction": "Who comes?", **who}]}
    run = await planned(plans, [plan])
    await plans.harness.answer(run, "Ana")
    assert (await plans.harness.output(run))["steps"]["1"]["response"] == "Ana"


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"goal": "Say", "steps": [{**step("1"), "status": "completed"}]}, "steps[0].status"),
        ({"goal": "Say", "steps": [{**step("1"), "state": "DONE"}]}, "steps[0].state"),
        ({"goal": "Say", "steps": [{**step("1"), "result": "said"}]}, "steps[0].result"),
        ({"goal": "Say", "steps": [{**step("1"), "type": "gateway"}]}, "steps[0].type"),
        (approved_by("approval"), "steps[1].type"),
    ],
)
async def test_what_must_not_be_guessed_at_goes_back_to_the_planner(plans: Plans, wrong: Json, path: str) -> None:
    run = await planned(plans, [wrong, GOOD], tools="plan_send")
    await plans.harness.output(run)
    errors = (await of_planner(plans, run))[1]["messages"][0]["content"]["errors"]
    assert any(path in error for error in errors)
    assert plans.calls() == []


@pytest.mark.first_row
@pytest.mark.parametrize("type_", ["task", "Tool", "ACTION", "agent_task"])
async def test_other_types_of_a_planners_are_notes(plans: Plans, type_: str) -> None:
    run = await planned(plans, [{"goal": "Say", "steps": [{**step("1"), "type": type_, "status": "pending"}]}])
    assert statuses(await plans.harness.output(run)) == {"1": "completed"}
    assert len(await of_planner(plans, run)) == 1


# Review


CONFIRM = "confirm: true, max_revisions: 2"


@pytest.mark.slow
async def test_a_plan_that_is_wanted_otherwise_goes_back_with_the_reason(plans: Plans) -> None:
    other = {"goal": "Say less", "steps": [step("2", "Hush")]}
    run = await planned(plans, [GOOD, other], more=CONFIRM)
    question = await plans.harness.one(run)
    assert question.requestedSchema["properties"]["verdict"]["enum"] == ["unchanged", "edited", "rejected", "revise"]
    await plans.harness.answer(run, {"verdict": "revise", "reason": "say less"}, question)
    again = await plans.harness.one(run)
    assert (again.round, again.info["payload"]["goal"]) == (2, "Say less")
    await plans.harness.answer(run, {"verdict": "unchanged"}, again)
    assert statuses(await plans.harness.output(run)) == {"2": "completed"}
    content = (await of_planner(plans, run))[1]["messages"][0]["content"]
    assert (content["wanted"], content["your_plan"]["goal"]) == ("say less", "Say it")


async def send_words(house: Harness, door: str, question: Question, words: str) -> None:
    """Answer a question with a text through one of the doors."""
    answers = [Answer(question=question.id, content=words)]
    match door:
        case "script":
            await client_script.answer(house.runs, question.run, question.id, words, None)
        case "API":
            async with client_of(site_of_house(house)) as api:
                body = {"answers": [{"question": question.id, "content": words, "digest": question.digest}]}
                sent = await api.post(f"/api/v1/runs/{question.run}/answers", json=body)
                assert sent.status_code == 200, sent.text
        case _:
            await house.runs.answer(question.run, answers, signal=door == "signal")


@pytest.mark.slow
@pytest.mark.parametrize("door", ["update", "signal", "script", "API"])
async def test_free_words_have_a_plan_revised_through_every_door(plans: Plans, door: str) -> None:
    other = {"goal": "Say less", "steps": [step("2", "Hush")]}
    run = await planned(plans, [GOOD, other], more=CONFIRM)
    question = await plans.harness.one(run)
    await send_words(plans.harness, door, question, "warmer, and only Ana")
    again = await plans.harness.one(run)
    assert (again.round, again.info["payload"]["goal"]) == (2, "Say less")
    await plans.harness.answer(run, {"verdict": "unchanged"}, again)
    content = (await of_planner(plans, run))[1]["messages"][0]["content"]
    assert content["wanted"] == "warmer, and only Ana"
    await plans.harness.output(run)


@pytest.mark.slow
async def test_a_plan_is_revised_as_often_as_the_author_says(plans: Plans) -> None:
    run = await planned(plans, [GOOD], more=CONFIRM)
    for _ in range(2):
        await plans.harness.answer(run, {"verdict": "revise", "reason": "other"})
    question = await plans.harness.one(run)
    assert "revise" not in question.requestedSchema["properties"]["verdict"]["enum"]
    refusal = await plans.harness.refused(run, {"verdict": "revise", "reason": "other"}, question)
    assert refusal.code == "invalid_answer"
    await plans.harness.answer(run, {"verdict": "unchanged"}, question)
    await plans.harness.output(run)


@pytest.mark.slow
async def test_a_revision_says_what_is_wanted(plans: Plans) -> None:
    run = await planned(plans, [GOOD], more=CONFIRM)
    question = await plans.harness.one(run)
    assert "reason" in (await plans.harness.refused(run, {"verdict": "revise"}, question)).message
    await plans.harness.answer(run, {"verdict": "unchanged"}, question)
    await plans.harness.output(run)


@pytest.mark.slow
@pytest.mark.parametrize("reason", [{}, {"reason": "too long"}])
async def test_a_plan_that_is_rejected_is_over(plans: Plans, reason: Json) -> None:
    run = await planned(plans, [GOOD], more=CONFIRM)
    await plans.harness.answer(run, {"verdict": "rejected", **reason})
    outcome = await plans.harness.result(run)
    assert outcome.error is not None and outcome.error.type == "plan_rejected"
    assert len(await of_planner(plans, run)) == 1


@pytest.mark.slow
async def test_a_revised_plan_is_corrected_too(plans: Plans) -> None:
    run = await planned(plans, [GOOD, BAD, GOOD], more=CONFIRM)
    await plans.harness.answer(run, {"verdict": "revise", "reason": "other"})
    await plans.harness.answer(run, {"verdict": "unchanged"})
    await plans.harness.output(run)
    assert len(await of_planner(plans, run)) == 3


# Tools


SENDS = {"goal": "Send", "steps": [step("1", "Send", tools=["plan_send"])]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tools", "wrong", "told"),
    [
        ("plan_send", "rm_rf", "the agent has no tool 'rm_rf'"),
        ("plan_send, plan_sent", "plan_sent", "did you mean 'plan_send'?"),
    ],
)
async def test_a_planner_is_told_of_a_tool_that_the_agent_does_not_have(
    plans: Plans, tools: str, wrong: str, told: str
) -> None:
    lacks = {"goal": "Send", "steps": [step("1", "Send", tools=[wrong])]}
    script = {"1": plans.wants("plan_send", to="a")}
    run = await planned(plans, [lacks, SENDS], script, tools=tools)
    await plans.harness.output(run)
    [error] = (await of_planner(plans, run))[1]["messages"][0]["content"]["errors"]
    assert "steps[0].tools[0]" in error and told in error
    assert plans.tools() == ["send"]


@pytest.mark.slow
async def test_who_agrees_sees_the_tools_of_each_step_and_which_need_approval(plans: Plans) -> None:
    plan = {"goal": "Send", "steps": [step("1", "Send", tools=["plan_send", "plan_list", "plan_read"]), step("2")]}
    tools = "{name: plan_send, approve: always}, plan_list, plan_read"
    run = await planned(plans, [plan], tools=tools, more="confirm: true")
    question = await plans.harness.one(run)
    sends = {"tool": "plan_send", "effect": "acts", "approval": "ask"}
    others = [{"tool": "plan_list", "effect": "repeatable"}, {"tool": "plan_read", "effect": "reads"}]
    assert question.info["about"]["tools"] == {"1": [sends, *others]}
    await plans.harness.answer(run, {"verdict": "rejected"}, question)
    await plans.harness.result(run)


@pytest.mark.slow
async def test_a_plan_cannot_be_edited_to_a_tool_that_the_agent_does_not_have(plans: Plans) -> None:
    run = await planned(plans, [SENDS], tools="plan_send", more="confirm: true")
    edited = {"goal": "Send", "steps": [step("1", "Clean up", tools=["rm_rf"])]}
    refusal = await plans.harness.refused(run, {"verdict": "edited", "payload": edited})
    assert "the agent has no tool 'rm_rf'" in refusal.message
    await plans.harness.answer(run, {"verdict": "rejected"})
    await plans.harness.result(run)


@pytest.mark.slow
async def test_a_plan_edited_to_a_tool_that_no_worker_has_is_asked_about_once_more(plans: Plans) -> None:
    run = await planned(plans, [SENDS], {"1": "said"}, more="confirm: true")
    edited = {"goal": "Send", "steps": [step("1", "Clean up", tools=["rm_rf"])]}
    await plans.harness.answer(run, {"verdict": "edited", "payload": edited})
    again = await plans.harness.one(run)
    assert (again.round, "no tool named 'rm_rf'" in again.message) == (2, True)
    assert "problem" in again.info["about"]["tools"]["1"][0] and "cannot be called" in (describe_proposal(again) or "")
    refusal = await plans.harness.refused(run, {"verdict": "unchanged"}, again)
    assert "no tool named 'rm_rf'" in refusal.message  # nobody agrees to what cannot be run
    mended = {"goal": "Send", "steps": [step("1", "Say it")]}
    await plans.harness.answer(run, {"verdict": "edited", "payload": mended}, again)
    assert statuses(await plans.harness.output(run)) == {"1": "completed"}


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_change_brings_in_no_tool_that_no_worker_has(plans: Plans, driver: str) -> None:
    steps = [step("1", "ASK_INFO: Go on?")]
    turns = [ask("Go on?"), finish("1")]
    run = await plans.start({"steps": steps, "driver": driver}, {"plan": turns})
    question = await plans.harness.one(run)
    more = {"goal": "A test", "steps": [*steps, step("2", "Clean", tools=["rm_rf"])]}
    with pytest.raises(Refusal, match="no tool named 'rm_rf'"):
        await plans.harness.runs.plans.change(run, more)
    assert (await plans.harness.runs.plans.read(run)).snapshot.revision == 1
    await plans.harness.answer(run, "yes", question)
    await plans.harness.output(run)


@pytest.mark.slow
async def test_a_tool_of_the_authors_that_no_worker_has_keeps_nobody_from_changing_the_rest(plans: Plans) -> None:
    steps = [step("1", "ASK_INFO: Go on?"), step("2", "Clean", tools=["rm_rf"])]
    turns = [ask("Go on?"), finish("1"), call("update_state", step_2_status="skipped"), finish("3")]
    run = await plans.start({"steps": steps, "driver": "agent"}, {"plan": turns})
    question = await plans.harness.one(run)
    await plans.harness.runs.plans.change(run, {"goal": "A test", "steps": [*steps, step("3")]})
    await plans.harness.answer(run, "yes", question)
    assert statuses(await plans.harness.output(run)) == {"1": "completed", "2": "skipped", "3": "completed"}


@pytest.mark.slow
async def test_an_agent_brings_in_no_tool_that_no_worker_has_and_learns_what_new_ones_take(plans: Plans) -> None:
    steps = [step("1")]
    agent = {"model": "scripted:replies.yaml", "tools": ["plan_send", "rm_rf"]}
    turns = [
        *(
            call("update_plan", new_plan={"goal": "x", "steps": [*steps, step("2", tools=[tool])]}, reason="more")
            for tool in ("rm_rf", "plan_send")
        ),
        finish("1"),
        plans.runs("2", "plan_send", to="a"),
        finish("2"),
    ]
    run = await plans.start({"steps": steps, "driver": "agent", "agent": agent}, {"plan": turns})
    await plans.harness.output(run)
    refused, taken = (await plans.told(run))[:2]
    assert (refused["error"]["type"], taken["success"]) == ("plan_refused", True)
    assert "to" in taken["tools"]["plan_send"]["parameters"]["properties"]


@pytest.mark.slow
async def test_an_agent_that_drives_is_told_what_the_tools_take(plans: Plans) -> None:
    steps = [step("1", tools=["plan_send"])]
    turns = [call("get_state", key="tools"), plans.runs("1", "plan_send", to="a"), finish("1")]
    run = await plans.start({"steps": steps, "driver": "agent"}, {"plan": turns})
    await plans.harness.output(run)
    told = (await plans.requests(run))[0]["messages"][0]["content"]["tools"]["plan_send"]
    assert (
        told["description"]
        == "Sends a mail; `fail` are the statuses of the first calls, 0 for success, 200 for `success: false`."
    )
    assert {"to", "fail"} <= told["parameters"]["properties"].keys()
    assert (await plans.told(run))[0]["tools"]["plan_send"] == told

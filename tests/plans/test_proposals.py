"""A plan that waits for approval: it is read in words, what was changed is told, and a sentence sends it back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.load import loads
from holdfast.blueprint.questions import Review
from holdfast.cli.plan_text import plan_text
from holdfast.cli.render import question_text
from holdfast.client.proposals import describe_proposal, question_json
from holdfast.client.reading import in_short
from holdfast.server.mcp.elicitation import message_for
from holdfast.server.web.addresses import question_address
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import DRIVERS, Plans, finish, loop, step
from tests.plans.planned import planned
from tests.serve.ground import WHO, client_of, person, site_of_house
from tests.serve.pages import desk

Json = dict[str, Any]
FIRST: Json = {
    "goal": "Invite them",
    "steps": [
        step("1", "List the guests"),
        step("2", "CONFIRM_ACTION: Invite CURRENT_ITEM?"),
        step("3", "Invite CURRENT_ITEM", tools=["plan_send"], condition="RESULT_FROM_2 contains confirmed"),
    ],
    "loop_blocks": {"guests": loop("RESULT_FROM_1", "2", "3")},
}
SECOND: Json = {"goal": "Invite them", "steps": [step("1", "List the guests, Ana too"), step("4", "Say so")]}
SEND: Json = step("1", "Send", tools=["plan_send"])
TOOLS = "{name: plan_send, approve: always}"
CONFIRM = "confirm: true, max_revisions: 2"


async def test_a_plan_is_shown_in_words_wherever_it_is_reviewed(plans: Plans) -> None:
    run = await planned(plans, [FIRST], tools=TOOLS, more=CONFIRM)
    question = await plans.harness.one(run)
    text = describe_proposal(question)
    assert text is not None
    lines = text.splitlines()
    assert lines[:3] == [
        "1. List the guests",
        "guests. For each item of [result of 1]; if one fails, the next begins",
        "   After 1",
    ]
    assert "Tool plan_send: may have an effect; needs approval; the agent chooses the arguments" in text
    assert lines[-5:-2] == ["", "Effects: plan_send (3).", "Approval before the call: plan_send (3)."]
    shown = question_text(question).plain
    assert all(line in shown for line in lines[:3]) and "loop_blocks" not in shown
    assert text in message_for(question)
    async with desk(plans.harness) as ana:
        page = (await ana.client.get(question_address(question))).text
    assert 'class="proposal"' in page and "<b>1</b> List the guests" in page
    seen = plan_text(await plans.harness.runs.plans.read(run)).plain
    assert "Invite CURRENT_ITEM" in seen and f"waits for approval: holdfast attach {run}" in seen
    await plans.harness.answer(run, {"verdict": "rejected"}, question)
    await plans.harness.result(run)


@pytest.mark.slow
async def test_after_a_revision_it_is_told_what_has_changed(plans: Plans) -> None:
    run = await planned(plans, [FIRST, SECOND], tools=TOOLS, more=CONFIRM)
    question = await plans.harness.one(run)
    sentence = in_short("oui mais plus court", question)
    assert sentence == {"verdict": "revise", "reason": "oui mais plus court"}
    await plans.harness.answer(run, sentence, question)
    again = await plans.harness.one(run)
    assert again.info["about"]["changes"] == [
        {"id": "1", "change": "changed", "was": "List the guests"},
        {"id": "4", "change": "new"},
        *({"id": id_, "change": "left_out"} for id_ in ("2", "3", "guests")),
    ]
    shown = question_text(again, None).plain
    assert "~ 1. List the guests, Ana too (changed; before: List the guests)" in shown
    assert "+ 4. Say so (new)" in shown and "Left out: 2, 3, guests" in shown
    await plans.harness.answer(run, {"verdict": "rejected"}, again)
    await plans.harness.result(run)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ("yes", "unchanged"),
        ("no, too long", "rejected"),
        ("revise, shorter", "revise"),
        ("warmer, and only Ana", "revise"),
    ],
)
async def test_what_is_typed_is_a_verdict(plans: Plans, words: str, verdict: str) -> None:
    run = await planned(plans, [FIRST], tools=TOOLS, more=CONFIRM)
    question = await plans.harness.one(run)
    content = in_short(words, question)
    assert isinstance(content, dict) and content["verdict"] == verdict
    await plans.harness.answer(run, {"verdict": "rejected"}, question)
    await plans.harness.result(run)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "asked", "told"),
    [
        ({}, "May this plan be run?", "Effects: none"),
        ({"language": "fr"}, "Ce plan peut-il", "Effets : aucun"),
        ({"goal": "Préparer et envoyer les invitations de la fête"}, "Ce plan peut-il", "Effets : aucun"),
    ],
)
async def test_the_question_is_in_the_language_of_the_plan(plans: Plans, keys: Json, asked: str, told: str) -> None:
    """In the one that the plan names, else in that of its goal and instructions where these tell it."""
    run = await plans.start({"steps": [step("1")], "confirm": True, **keys}, {})
    question = await plans.harness.one(run)
    assert question.message.startswith(asked) and told in (describe_proposal(question) or "")
    await plans.harness.answer(run, {"verdict": "rejected"}, question)
    await plans.harness.result(run)


def test_other_reviews_take_no_sentence() -> None:
    assert Review(message="Right?", payload={"a": 1}).read("make it shorter please") is None


REPLY = "{{ steps.work.reply.verdict }} by {{ steps.work.reply.by }}: {{ steps.work.reply.reason or '' }}"


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    ("answer", "fail", "reply"),
    [
        ({"verdict": "unchanged"}, [], "unchanged by user:ana: "),
        ({"verdict": "unchanged"}, [500], "unchanged by user:ana: "),
        ({"verdict": "rejected", "reason": "No"}, [], "rejected by user:ana: No"),
    ],
)
async def test_who_approved_a_plan_is_its_reply(
    plans: Plans, driver: str, answer: Json, fail: list[int], reply: str
) -> None:
    """Also where it fails after it, or was rejected."""
    plan = {"goal": "Send", "agent": "clerk", "confirm": True, "driver": driver, "steps": [SEND]}
    turns = [plans.runs("1", "plan_send", to="ana", fail=fail), finish("1")]
    plans.harness.script(json.dumps({"1": plans.wants("plan_send", to="ana", fail=fail), "work": turns}))
    work = {"kind": "plan", "name": "work", "plan": plan, "on_error": "continue"}
    agents = {"clerk": {"model": "scripted:replies.yaml", "tools": ["plan_send"]}}
    run = await plans.harness.start(json.dumps({"agents": agents, "steps": [work], "output": REPLY}))
    await plans.harness.answer(run, answer, by="ana")
    assert await plans.harness.output(run) == reply


def test_a_plan_that_nobody_confirms_has_no_reply() -> None:
    plan = {"goal": "Send", "steps": [SEND]}
    with pytest.raises(BlueprintError, match="asks nobody itself, and has no reply"):
        loads(json.dumps({"steps": [{"kind": "plan", "name": "work", "plan": plan}], "output": REPLY}))


@pytest.mark.slow
@pytest.mark.parametrize("door", ["update", "api"])
async def test_a_sentence_sends_the_plan_back_at_every_door(plans: Plans, door: str) -> None:
    """As it is typed: a program, too, may pass on what a person has said."""
    run = await planned(plans, [FIRST, SECOND], tools=TOOLS, more=CONFIRM)
    question = await plans.harness.one(run)
    if door == "api":
        body = {
            "answers": [{"question": question.id, "content": "plus court, et seulement Ana", "digest": question.digest}]
        }
        async with client_of(site_of_house(plans.harness), person("bot", is_service=True)) as api:
            sent = await api.post(f"/api/v1/runs/{run}/answers", json=body, headers={WHO: "ana"})
        assert sent.status_code == 200, sent.text
    else:
        await plans.harness.answer(run, "plus court, et seulement Ana", question)
    again = await plans.harness.one(run)
    assert again.info["about"]["changes"][0]["id"] == "1"
    await plans.harness.answer(run, {"verdict": "rejected"}, again)
    await plans.harness.result(run)


@pytest.mark.slow
async def test_the_api_tells_a_proposal_in_words(plans: Plans) -> None:
    run = await planned(plans, [FIRST], tools=TOOLS, more=CONFIRM)
    question = await plans.harness.one(run)
    async with client_of(site_of_house(plans.harness), person("bot", is_service=True)) as api:
        told = (await api.get(f"/api/v1/questions/{question.id}", headers={WHO: "ana"})).json()
        [listed] = (await api.get(f"/api/v1/questions?run={run}", headers={WHO: "ana"})).json()
    assert told["proposal"] == listed["proposal"] == describe_proposal(question)
    assert question_json(question) == {**question.model_dump(mode="json"), "proposal": describe_proposal(question)}
    await plans.harness.answer(run, {"verdict": "rejected"}, question)
    await plans.harness.result(run)

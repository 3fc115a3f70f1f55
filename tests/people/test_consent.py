"""A no does nothing, however it is read: the output of a step that asks is what the author may act on."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from holdfast.protocol.answers import Answer, Refusal
from tests.conftest import Harness

PAID = {"name": "pay", "input": "paid"}
SIGN = {"kind": "hitl", "name": "sign", "ask": "permission", "message": "Pay 10?"}
LAST = "{{ steps.end.output }}"


def branches(condition: str, yes: str = "true", no: str = "false") -> dict[str, Any]:
    kept = {"name": "kept", "input": "kept"}
    return {
        "kind": "conditional",
        "name": "pay_or_not",
        "condition_expression": condition,
        "branches": {yes: [PAID], no: [kept]},
    }


SUNK = {**SIGN, "sink_to": "signed"}
SPELLINGS: dict[str, list[dict[str, Any]]] = {
    "its output": [SIGN, {**PAID, "when": "steps.sign.output"}],
    "compared": [SIGN, {**PAID, "when": "steps.sign.output == true"}],
    "compared with false": [SIGN, {**PAID, "when": "steps.sign.output != false"}],
    "branches": [SIGN, branches("steps.sign.output")],
    "branches of not": [SIGN, branches("not steps.sign.output", "false", "true")],
    "not": [SIGN, {**PAID, "when": "not not steps.sign.output"}],
    "and": [SIGN, {**PAID, "when": "steps.sign.output and true"}],
    "the step before": [SIGN, {**PAID, "when": "previous_step"}],
    "the last answer": [SIGN, {**PAID, "when": "resume_input"}],
    "a template": [SIGN, {"name": "pay", "input": "{{ 'paid' if steps.sign.output else 'kept' }}"}],
    "a text": [SIGN, {"name": "pay", "input": "{% if steps.sign.output %}paid{% else %}kept{% endif %}"}],
    "sunk": [SUNK, {**PAID, "when": "context.signed"}],
    "sunk and branched": [SUNK, branches("context.signed")],
}
EARLIER = {"kind": "hitl", "name": "earlier", "ask": "permission", "message": "Look?"}
ENDS: dict[str, dict[str, Any]] = {
    "yes": {"content": {"granted": True}},
    "denied": {"content": {"granted": False, "reason": "too dear"}},
    "declined": {"action": "decline"},
    "cancelled": {"action": "cancel"},
}


async def ended(house: Harness, steps: list[dict[str, Any]], end: dict[str, Any]) -> Any:
    """Answer yes to a first question, and the second as `end` says; return what was paid."""
    done = {"name": "end", "input": "{{ previous_step if previous_step is not boolean else 'kept' }}"}
    run = await house.start(yaml.safe_dump({"steps": [EARLIER, *steps, done]}, sort_keys=False))
    await house.answer(run, {"granted": True})
    question = await house.one(run)
    await house.runs.answer(run, [Answer(question=question.id, **end)], by="user:ana")
    return await house.output(run)


@pytest.mark.matrix
@pytest.mark.parametrize("end", [*ENDS])
@pytest.mark.parametrize("spelling", [*SPELLINGS])
async def test_only_a_yes_pays(house: Harness, spelling: str, end: str) -> None:
    paid = await ended(house, SPELLINGS[spelling], ENDS[end])
    assert paid == ("paid" if end == "yes" else "kept")


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"on_timeout": "skip"}, {"default": False}, {"default": "no, too late"}])
async def test_an_expired_permission_pays_nothing(later: Harness, more: dict[str, Any]) -> None:
    sign = {**SIGN, "timeout": "3d", **more}
    for spelling in ("its output", "branches", "the last answer"):
        steps = [sign if step is SIGN else step for step in SPELLINGS[spelling]]
        done = {"name": "end", "input": "{{ steps.sign.output }} {{ previous_step }}"}
        run = await later.start(yaml.safe_dump({"steps": [EARLIER, *steps, done]}, sort_keys=False))
        await later.answer(run, {"granted": True})
        assert (await later.output(run)).startswith("false") and "paid" not in await later.output(run)


@pytest.mark.parametrize(("on_decline", "status"), [("fail", "failed"), ("abort", "failed"), ("continue", "completed")])
async def test_a_written_on_decline_is_for_a_denial_too(house: Harness, on_decline: str, status: str) -> None:
    run = await house.start(yaml.safe_dump({"steps": [{**SIGN, "on_decline": on_decline}]}))
    await house.answer(run, {"granted": False, "reason": "too dear"}, by="user:ana")
    result = await house.result(run)
    assert result.status == status
    if result.error is not None:
        assert result.error.message == "user:ana said no to sign: too dear"


@pytest.mark.parametrize(
    ("content", "output"),
    [({"verdict": "unchanged"}, []), ({"verdict": "edited", "payload": [1]}, [1]), ({"verdict": "rejected"}, None)],
)
async def test_a_review_gives_what_was_approved(house: Harness, content: Any, output: Any) -> None:
    steps = [{"kind": "hitl", "name": "look", "ask": "review", "input": "{{ input }}", "message": "Right?"}]
    run = await house.start(yaml.safe_dump({"steps": steps}), [])
    await house.answer(run, content)
    assert await house.output(run) == output


async def test_a_review_is_corrected_by_what_changes_alone(house: Harness) -> None:
    steps = [{"kind": "hitl", "name": "look", "ask": "review", "input": "{{ input }}", "message": "Right?"}]
    run = await house.start(yaml.safe_dump({"steps": steps}), {"to": "ana", "days": 3})
    assert (await house.refused(run, {})).code == "invalid_answer"
    await house.answer(run, {"days": 2})
    assert await house.output(run) == {"to": "ana", "days": 2}


@pytest.mark.parametrize("input_", ["{{ steps.look.output }}", "{{ previous_step }}"])
async def test_a_tool_gets_no_review_that_was_rejected(house: Harness, input_: str) -> None:
    look = {"kind": "hitl", "name": "look", "ask": "review", "input": "a letter", "message": "Right?"}
    skipped = {"name": "skipped", "when": "false"}
    tool = {"name": "send", "uses": "shout", "input": input_}
    run = await house.start(yaml.safe_dump({"steps": [look, skipped, tool]}))
    await house.answer(run, "no, not this one")
    error = (await house.result(run)).error
    assert error is not None
    assert error.type == "not_approved" and "steps.look.reply.verdict" in error.message


REPLY = {"name": "who", "input": "{{ steps.sign.reply }}"}


async def test_the_reply_says_who_answered_and_how(house: Harness) -> None:
    run = await house.start(yaml.safe_dump({"steps": [SIGN, REPLY]}))
    await house.answer(run, {"granted": True, "scope": "run", "reason": "fine"}, by="user:ana")
    reply = await house.output(run)
    said = {key: reply[key] for key in ("action", "by", "scope", "reason", "comment")}
    assert said == {"action": "accept", "by": "user:ana", "scope": "run", "reason": "fine", "comment": None}
    assert reply["at"].startswith("20") and reply["proved_by"] == "nothing"


async def test_the_reply_of_a_quorum_names_everybody(house: Harness) -> None:
    run = await house.start(yaml.safe_dump({"steps": [{**SIGN, "quorum": 2}, REPLY]}))
    question = await house.one(run)
    for by in ("user:ana", "user:bob"):
        await house.answer(run, {"granted": True}, question, by=by)
    reply = await house.output(run)
    assert reply["by"] == ["user:ana", "user:bob"]
    assert [(one["by"], one["content"]["granted"]) for one in reply["answers"]] == [
        ("user:ana", True),
        ("user:bob", True),
    ]


async def test_a_failed_step_has_its_reply(house: Harness) -> None:
    sign = {**SIGN, "on_decline": "fail", "on_error": "continue"}
    run = await house.start(yaml.safe_dump({"steps": [sign, REPLY]}))
    await house.runs.answer(run, [Answer(question=(await house.one(run)).id, action="decline")], by="user:ana")
    reply = await house.output(run)
    assert (reply["action"], reply["by"]) == ("decline", "user:ana")


@pytest.mark.parametrize("content", ["yes", "oui", "OK", True, {"granted": True}])
async def test_a_typed_yes_is_a_yes(house: Harness, content: Any) -> None:
    run = await house.start(yaml.safe_dump({"steps": [SIGN]}))
    await house.answer(run, content)
    assert await house.output(run) is True


@pytest.mark.parametrize(
    "content", ["", "maybe", "yes but", "not ok?", None, {}, {"granted": "yes"}, {"granted": None}, 1, []]
)
async def test_what_is_no_whole_answer_is_refused(house: Harness, content: Any) -> None:
    run = await house.start(yaml.safe_dump({"steps": [SIGN, REPLY]}))
    assert (await house.refused(run, content)).code == "invalid_answer"
    await house.answer(run, "non: trop cher")
    reply = await house.output(run)
    assert (reply["action"], reply["reason"]) == ("accept", "trop cher")


FIRST = {**SIGN, "name": "first"}
FOUR_EYES = {**SIGN, "name": "second", "not_by": ["{{ steps.first.reply.by }}"]}
THE_SAME = {**SIGN, "name": "second", "assignees": ["{{ steps.first.reply.by }}"]}


async def answered(house: Harness, run: str, *people: str) -> None:
    question = await house.one(run)
    for by in people:
        await house.answer(run, {"granted": True}, question, by=by)


async def test_four_eyes_over_two_steps(house: Harness) -> None:
    run = await house.start(yaml.safe_dump({"steps": [FIRST, FOUR_EYES]}))
    await answered(house, run, "user:ana")
    second = await house.one(run)
    assert second.not_by == ["user:ana"]
    with pytest.raises(Refusal, match="user:ana may not answer it"):
        await house.answer(run, {"granted": True}, second, by="user:ana")
    await answered(house, run, "user:bob")
    assert await house.output(run) is True


async def test_the_same_person_is_asked_again(house: Harness) -> None:
    run = await house.start(yaml.safe_dump({"steps": [FIRST, THE_SAME]}))
    await answered(house, run, "user:ana")
    assert (await house.one(run)).assignees == ["user:ana"]
    await answered(house, run, "user:ana")
    assert await house.output(run) is True


async def test_nobody_of_a_quorum_is_asked_again(house: Harness) -> None:
    steps = [{**FIRST, "quorum": 2}, {**FOUR_EYES, "not_by": "{{ steps.first.reply.by }}"}]
    run = await house.start(yaml.safe_dump({"steps": steps}))
    await answered(house, run, "user:ana", "user:bob")
    assert (await house.one(run)).not_by == ["user:ana", "user:bob"]


@pytest.mark.parametrize("second", [FOUR_EYES, THE_SAME, {**THE_SAME, "assignees": "{{ steps.first.reply.by }}"}])
@pytest.mark.parametrize("more", [{"on_timeout": "skip"}, {"default": False}])
async def test_what_nobody_answered_opens_no_question_to_everybody(
    later: Harness, second: dict[str, Any], more: dict[str, Any]
) -> None:
    run = await later.start(yaml.safe_dump({"steps": [{**FIRST, "timeout": "3d", **more}, second]}))
    error = (await later.result(run)).error
    assert error is not None
    assert error.type == "bad_assignees" and "gives nobody" in error.message


@pytest.mark.slow
async def test_a_list_that_gives_nobody_to_exclude_is_one(house: Harness) -> None:
    steps = [{**FIRST, "not_by": "{{ input.authors }}"}]
    run = await house.start(yaml.safe_dump({"steps": steps}), {"authors": []})
    assert (await house.one(run)).not_by == []

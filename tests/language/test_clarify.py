"""Clarifications: talk with a person until an object is known."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.conftest import Harness, until

SCHEMA = {
    "type": "object",
    "required": ["audience", "length"],
    "properties": {
        "audience": {"type": "string", "description": "Who is it for?"},
        "length": {"type": "integer", "minimum": 100},
        "tone": {"enum": ["warm", "formal"]},
    },
}


def clarify(**more: Any) -> str:
    step = {"kind": "clarify", "name": "brief", "goal": "A brief for {{ input }}", "schema": SCHEMA, **more}
    return yaml.safe_dump({"steps": [step]}, sort_keys=False)


async def test_what_is_lacking_is_asked_one_fact_a_question(house: Harness) -> None:
    run = await house.start(clarify(), "tea")
    question = await house.one(run)
    assert (question.message, question.address) == ("Who is it for?", "pipeline:test;clarify:brief;hitl:audience")
    assert question.info == {"goal": "A brief for tea"}
    assert question.owner == f"{run}/clarify:brief"
    assert await house.answered(run, "the team", 200) == ["Who is it for?", "Length?"]
    assert await house.output(run) == {"audience": "the team", "length": 200}


async def test_known_facts_are_not_asked_and_those_that_do_not_fit_are(house: Harness) -> None:
    run = await house.start(clarify(known={"audience": "all", "length": 3, "other": 1}), "tea")
    assert await house.answered(run, 300) == ["Length?"]
    assert await house.output(run) == {"audience": "all", "length": 300}


async def test_several_facts_are_taken_from_one_answer(house: Harness) -> None:
    run = await house.start(clarify(), "tea")
    await house.answer(run, {"audience": "all", "length": 150, "tone": "warm"})
    assert await house.output(run) == {"audience": "all", "length": 150, "tone": "warm"}


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "blank"),
        (3, "must be text, not 3"),
        (None, "must be text, not null"),
        ({"length": 5}, "length: must be at least 100, not 5"),
        ({"lenght": 5}, "lenght: is not one of the fields: audience, length, tone"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_with_the_reason(house: Harness, answer: Any, why: str) -> None:
    run = await house.start(clarify(), "tea")
    refused = await house.refused(run, answer)
    assert refused.code == "invalid_answer"
    assert why in refused.message
    await house.answered(run, "all", 100)
    assert (await house.output(run))["length"] == 100


@pytest.mark.slow
async def test_what_was_understood_is_shown_and_corrected(house: Harness) -> None:
    run = await house.start(clarify(confirm=True), "tea")
    await house.answered(run, "all", 100)
    question = await house.one(run)
    assert (question.kind, question.info["payload"]) == ("review", {"audience": "all", "length": 100})
    assert (await house.refused(run, {"verdict": "edited", "payload": {"audience": "x"}})).code == "invalid_answer"
    await house.answer(run, {"verdict": "edited", "payload": {"audience": "x", "length": 101}})
    assert await house.output(run) == {"audience": "x", "length": 101}


@pytest.mark.slow
async def test_what_is_rejected_is_changed_with_the_values_so_far_at_hand(house: Harness) -> None:
    run = await house.start(clarify(confirm=True, known={"audience": "all"}, max_questions=1), "tea")
    await house.answered(run, 100, {"verdict": "rejected", "reason": "too short"})
    question = await house.one(run)
    assert question.message == "What should be changed? too short"
    assert [field.get("default") for field in question.requestedSchema["properties"].values()] == ["all", 100, None]
    await house.answered(run, {"length": 200}, {"verdict": "unchanged"})
    assert await house.output(run) == {"audience": "all", "length": 200}


@pytest.mark.slow
async def test_the_tenth_rejection_ends_it(house: Harness) -> None:
    run = await house.start(clarify(confirm=True, known={"audience": "all", "length": 100}), "tea")
    for _ in range(9):
        await house.answered(run, {"verdict": "rejected"}, {"length": 200})
    await house.answer(run, {"verdict": "rejected"})
    assert (await house.result(run)).error.type == "not_confirmed"


@pytest.mark.slow
async def test_by_default_there_are_questions_enough_for_all_facts(house: Harness) -> None:
    schema = {"properties": {f"f{number}": {"type": "integer"} for number in range(9)}}
    run = await house.start(clarify(schema=schema), "tea")
    await house.answered(run, *range(9))
    assert await house.output(run) == {f"f{number}": number for number in range(9)}


async def test_a_null_is_a_fact_where_it_fits(house: Harness) -> None:
    schema = {"required": ["a", "b"], "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "integer"}}}
    run = await house.start(clarify(schema=schema, known={"b": None}), "tea")
    assert await house.answered(run, None, 1) == ["A?", "B?"]
    assert await house.output(run) == {"a": None, "b": 1}


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("rule", "answers", "output"),
    [
        ("fail", ["all"], "max_questions"),
        ("finish", ["all"], {"audience": "all"}),
        ("ask", ["all", "more", 100], {"audience": "all", "length": 100}),
        ("ask", ["all", "finish"], {"audience": "all"}),
        ("ask", ["all", "fail"], "max_questions"),
    ],
)
async def test_at_the_most_questions_it_does_what_the_author_says(
    house: Harness, rule: str, answers: list[Any], output: Any
) -> None:
    run = await house.start(clarify(max_questions=1, on_max_questions=rule), "tea")
    await house.answered(run, *answers)
    outcome = await house.result(run)
    assert (outcome.error.type if outcome.error else outcome.output) == output


@pytest.mark.slow
async def test_facts_that_do_not_fit_together_are_asked_for_as_a_whole(house: Harness) -> None:
    together = {
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "not": {"const": {"a": 1, "b": 1}},
    }
    run = await house.start(clarify(schema={"type": "object", **together}), "tea")
    await house.answered(run, 1, 1)
    question = await house.one(run)
    assert question.message.startswith("This does not fit together:")
    await house.answer(run, {"a": 1, "b": 2}, question)
    assert await house.output(run) == {"a": 1, "b": 2}


async def test_a_question_that_is_declined_fails_the_clarification(house: Harness) -> None:
    run = await house.start(clarify(), "tea")
    await house.decline(run, "no idea")
    assert (await house.result(run)).error.type == "question_declined"


# With an agent


def worded(house: Harness, *replies: Any, **more: Any) -> str:
    house.script(yaml.safe_dump({"brief": [{"output": reply} for reply in replies]}))
    return clarify(agent={"model": "scripted:replies.yaml"}, **more)


@pytest.mark.slow
async def test_a_model_words_the_questions_and_reads_free_text(house: Harness) -> None:
    asks = {"facts": {}, "question": "For whom, and how long?", "options": ["team, 200", "all, 300"]}
    read = {"facts": {"audience": "the team", "length": 200}, "summary": "A brief of 200 words for the team."}
    run = await house.start(worded(house, asks, read, confirm=True), "tea")
    question = await house.one(run)
    assert (question.message, question.kind) == ("For whom, and how long?", "clarification")
    await house.answer(run, "the team, about two hundred words", question)
    summary = await house.one(run)
    assert summary.message == "A brief of 200 words for the team."
    await house.answer(run, {"verdict": "unchanged"}, summary)
    assert await house.output(run) == {"audience": "the team", "length": 200}
    assert (await house.runs.state(run)).usage.requests == 2


@pytest.mark.slow
async def test_what_a_model_asks_twice_or_forgets_to_ask_is_asked_plainly(house: Harness) -> None:
    same = {"facts": {"audience": "all"}, "question": "Who?"}
    run = await house.start(worded(house, {"facts": {}, "question": "Who?"}, same, {"facts": {}}), "tea")
    assert await house.answered(run, "all") == ["Who?"]
    question = await house.one(run)
    assert question.message == "Length?"
    await house.answer(run, 100, question)
    assert await house.output(run) == {"audience": "all", "length": 100}


@pytest.mark.slow
async def test_facts_of_a_model_that_do_not_fit_are_given_back_to_it_and_then_asked(house: Harness) -> None:
    wrong = {"facts": {"audience": "all", "length": "long"}}
    run = await house.start(worded(house, wrong, wrong, {**wrong, "question": None}, {"facts": {}}), "tea")
    question = await house.one(run)
    assert question.message == "the value must be a whole number, not 'long'. Length?"
    await house.answer(run, 100, question)
    assert await house.output(run) == {"audience": "all", "length": 100}


@pytest.mark.slow
async def test_a_clarification_of_a_cancelled_run_is_cancelled(house: Harness) -> None:
    run = await house.start(clarify(), "tea")
    await house.one(run)
    await house.runs.control.cancel(run)

    async def closed() -> bool:
        return "question.cancelled" in await house.types(run)

    await until(closed)

"""Questions and answers: answered once, by the right question, refused with a reason."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from holdfast.protocol.answers import Answer, Receipt, Refusal
from holdfast.protocol.views import RefusedSignal
from holdfast.runtime.errors import NothingSent
from tests.conftest import Harness, until
from tests.flows import MORE_OR_STOP, ONE
from tests.people.raw_answers import straight

FIVE = "steps:\n" + "".join(f"  - {{kind: hitl, name: q{n}, message: Question {n}, sink_to: a{n}}}\n" for n in range(5))
FORM = """
steps:
  - kind: hitl
    name: form
    message: Who?
    input_schema: {type: object, required: [name, age], properties: {name: {type: string}, age: {type: integer}}}
"""
PICK = """
steps:
  - kind: hitl
    name: pick
    ask: decision
    message: Which?
    multiple: 2
    options: [{id: a, label: First}, {id: b, label: Second}, {id: c, label: Third}]
"""


async def refused(house: Harness, run: str, answer: Answer, **how: object) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await house.runs.answer(run, [answer], **how)
    return caught.value


async def test_five_questions_in_a_row_have_their_own_ids_and_get_their_own_answers(house: Harness) -> None:
    run = await house.start(FIVE)
    seen = []
    for n in range(5):
        question = await house.one(run)
        seen.append(question.id)
        await house.answer(run, f"answer {n}", question)
    outcome = await house.result(run)
    assert len(set(seen)) == 5
    assert outcome.context == {f"a{n}": f"answer {n}" for n in range(5)}


async def test_an_answer_to_a_closed_question_never_reaches_the_next_one(house: Harness) -> None:
    run = await house.start(FIVE)
    first = await house.one(run)
    await house.answer(run, "yes", first, by="user:ana")
    await house.one(run)
    refusal = await refused(house, run, Answer(question=first.id, content="late"), by="user:bob")
    assert refusal.code == "already_answered"
    assert "user:ana" in refusal.message


BAD = {
    "unknown": (ONE, {"question": "0123456789abcdef", "content": "x"}, "unknown_question", "open:"),
    "blank": (ONE, {"content": "  "}, "invalid_answer", "blank"),
    "null": (ONE, {"content": None}, "invalid_answer", "expected text, got null"),
    "missing field": (FORM, {"content": {"name": "Ana"}}, "invalid_answer", "age"),
    "wrong type": (FORM, {"content": {"name": "Ana", "age": "old"}}, "invalid_answer", "age"),
    "wrong option": (PICK, {"content": ["a", "z"]}, "invalid_answer", "'z' is not one of the options"),
    "too many": (PICK, {"content": ["a", "b", "c"]}, "invalid_answer", "at most 2"),
    "twice": (PICK, {"content": ["a", "First"]}, "invalid_answer", "chosen twice"),
    "no list": (PICK, {"content": "a"}, "invalid_answer", "expected a list"),
    "changed": (ONE, {"content": "x", "digest": "old"}, "question_changed", "has changed"),
    "unknown field": (ONE, {"content": "x", "colour": "red"}, "invalid_answer", "colour"),
}
RIGHT = {ONE: "go", FORM: {"name": "Ana", "age": 4}, PICK: ["b", "Third"]}


@pytest.mark.first_row
@pytest.mark.parametrize("case", BAD)
async def test_a_bad_answer_is_refused_without_a_trace_and_the_right_one_then_works(house: Harness, case: str) -> None:
    blueprint, answer, code, reason = BAD[case]
    run = await house.start(blueprint)
    question = await house.one(run)
    before = len((await house.client.get_workflow_handle(run).fetch_history()).events)
    error = await straight(house, question, {"answers": [{"question": question.id, **answer}]})
    assert (error.type, reason in error.message) == (code, True), error.message
    assert len((await house.client.get_workflow_handle(run).fetch_history()).events) == before
    await house.answer(run, RIGHT[blueprint], question)
    assert (await house.result(run)).status == "completed"


async def test_labels_and_loose_spelling_are_taken_for_option_ids(house: Harness) -> None:
    run = await house.start(PICK)
    await house.answer(run, [" SECOND ", "a"])
    assert await house.output(run) == ["b", "a"]


@pytest.mark.slow
async def test_the_same_key_again_gives_the_same_receipt_and_counts_once(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP.replace("max_loops: 5", "checkpoint_every: 1"), "start")
    question = await house.one(run)
    first = await house.answer(run, "more", question, by="user:ana", key="k1")
    await until(lambda: house.runs.questions(run), "the next iteration")
    again = await house.answer(run, "more", question, by="user:ana", key="k1")
    assert again == first
    assert (await house.one(run)).iteration == 2
    await house.answered(run, "stop")


async def test_the_same_key_with_other_content_is_a_conflict(house: Harness) -> None:
    run = await house.start(FIVE)
    question = await house.one(run)
    await house.answer(run, "more", question, key="k1")
    refusal = await refused(house, run, Answer(question=question.id, content="less"), key="k1")
    assert refusal.code == "key_conflict"


async def refused_signals(house: Harness, run: str) -> list[RefusedSignal]:
    return [signal for view in (await house.runs.state(run)).views for signal in view.refused]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["update", "signal"])
async def test_the_key_of_a_refused_signal_answers_no_other_question(house: Harness, by: str) -> None:
    body = "{kind: hitl, name: pick, ask: decision, message: Which?, options: [a, b]}"
    run = await house.start(
        f"steps: [{{kind: loop, name: l, loop: {{max_loops: 2, checkpoint_every: 1, body: {body}}}}}]"
    )
    first = await house.one(run)
    owner = house.client.get_workflow_handle(first.owner)
    await owner.signal("answer", {"question": first.address, "content": "c", "key": "k"})
    [signal] = await until(lambda: refused_signals(house, run))
    assert (signal.code, signal.question) == ("invalid_answer", first.id)
    await house.answer(run, "a", first, key="k2")
    second = await house.one(run)
    if by == "signal":
        await owner.signal("answer", {"question": second.id, "content": "b", "key": "k"})

        async def again() -> bool:
            return [signal.code for signal in await refused_signals(house, run)] == ["invalid_answer", "key_conflict"]

        await until(again, "the second refusal")
    else:
        assert (await refused(house, run, Answer(question=second.id, content="b"), key="k")).code == "key_conflict"
    assert await house.one(run) == second


@pytest.mark.slow
async def test_of_fifty_answers_at_the_same_instant_one_is_accepted_and_the_others_learn_who_won(
    house: Harness,
) -> None:
    run = await house.start(FIVE)
    question = await house.one(run)

    async def one(n: int) -> Receipt | Refusal | None:
        try:
            answer = Answer(question=question.id, content=f"{n}")
            [receipt] = await house.runs.answer(run, [answer], by=f"user:{n}", key=f"k{n}")
        except Refusal as refusal:
            return refusal
        except NothingSent:  # the worker is too busy to be asked; under its key the answer counts once
            return None
        return receipt

    results = await asyncio.gather(*(until(partial(one, n), f"the word of user:{n}") for n in range(50)))
    [winner] = [result for result in results if isinstance(result, Receipt)]
    losers = [result for result in results if isinstance(result, Refusal)]
    assert {loser.code for loser in losers} == {"already_answered"}
    assert all(f"by {winner.by} at" in loser.message for loser in losers)
    outcome = await house.runs.outcome(run)
    assert f"user:{outcome.context['a0']}" == winner.by


@pytest.mark.first_row
@pytest.mark.parametrize("text", ["'&<é\"", "x" * 10_000, "ends with:", "{{ input }}", "null"])
async def test_text_comes_back_unchanged(house: Harness, text: str) -> None:
    run = await house.start(ONE)
    await house.answer(run, text)
    assert await house.output(run) == text


async def test_empty_options_mean_free_text(house: Harness) -> None:
    run = await house.start("steps: [{kind: hitl, name: ask, ask: decision, message: Go?, options: '{{ [] }}'}]")
    await house.answer(run, "as I like")
    assert await house.output(run) == "as I like"


SIGNALS = [
    {"answers": [{"question": "ID", "action": "accept", "content": "warm"}]},
    {"question": "ID", "content": "warm"},
    {"question": "pipeline:test;hitl:ask", "content": "warm", "by": "user:ana"},
]


@pytest.mark.parametrize("payload", SIGNALS)
async def test_a_signal_answers_as_typed(house: Harness, payload: dict) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    typed = {**payload, "question": question.id} if payload.get("question") == "ID" else payload
    if "answers" in typed:
        typed = {"answers": [{**typed["answers"][0], "question": question.id}]}
    await house.client.get_workflow_handle(run).signal("answer", typed)
    assert await house.output(run) == "warm"


@pytest.mark.first_row
@pytest.mark.parametrize("payload", [None, 3, "text", [], {}, {"answers": 1}, {"answers": [{}]}, {"question": "nope"}])
async def test_a_signal_that_is_no_answer_is_kept_as_refused_and_breaks_nothing(
    house: Harness, payload: object
) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    await house.client.get_workflow_handle(run).signal("answer", payload)
    view = await until(lambda: _refused(house, run), "the refused signal")
    assert view[0].code in ("invalid_answer", "unknown_question")
    await house.answer(run, "go", question)
    assert await house.output(run) == "go"


async def _refused(house: Harness, run: str) -> list:
    return (await house.runs.state(run)).views[0].refused


async def test_a_batch_is_taken_whole_or_refused_whole(house: Harness) -> None:
    run = await house.start(FIVE)
    question = await house.one(run)
    batch = [Answer(question=question.id, content="ok"), Answer(question="feedfeedfeedfeed", content="x")]
    payload = {"answers": [one.model_dump() for one in batch]}
    assert (await straight(house, question, payload)).type == "unknown_question"
    assert (await house.one(run)).id == question.id


DECLINES = {"fail": ("failed", "question_declined"), "abort": ("failed", "aborted"), "continue": ("completed", None)}


@pytest.mark.slow
@pytest.mark.parametrize("on_decline", DECLINES)
async def test_a_declined_question_goes_on_as_the_author_said(house: Harness, on_decline: str) -> None:
    run = await house.start(f"steps: [{{kind: hitl, name: ask, message: Go?, on_decline: {on_decline}}}]")
    question = await house.one(run)
    await house.runs.answer(run, [Answer(question=question.id, action="decline")], by="user:ana", comment="no time")
    outcome = await house.result(run)
    assert (outcome.status, outcome.error and outcome.error.type) == DECLINES[on_decline]
    assert outcome.error is None or "user:ana declined ask: no time" in outcome.error.message


@pytest.mark.slow
async def test_a_cancelled_run_closes_its_questions_and_takes_no_answer(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP, "start")
    question = await house.one(run)
    await house.runs.control.cancel(run)
    await house.runs.control.cancel(run)
    assert (await house.result(run)).status == "cancelled"
    assert (await house.runs.state(run)).questions == []
    assert (await refused(house, run, Answer(question=question.id, content="x"))).code == "run_closed"
    types = [event.type for event in await house.runs.watch.events(run)]
    assert types.count("question.cancelled") == types.count("run.cancelled") == 1
    await house.runs.control.cancel(run)


@pytest.mark.slow
async def test_a_paused_run_takes_answers_and_starts_no_step_until_it_is_resumed(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP, "start")
    question = await house.one(run)
    await house.runs.control.pause(run)
    assert (await house.runs.state(run)).views[1].status == "paused"
    await house.answer(run, "more", question)
    assert (await house.runs.state(run)).status == "paused"
    assert [event.type for event in await house.runs.watch.events(run)].count("loop.iteration") == 1
    assert (await house.runs.control.resume(run)).left == []
    assert (await house.one(run)).iteration == 2
    await house.answered(run, "stop")


async def test_who_is_awaited_can_be_found_by_search_attribute(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP, "start")
    await house.one(run)

    async def found() -> list[str]:
        return [one.owner for one in (await house.runs.lists.find_waiting())[0] if one.run == run]

    assert await until(found, "visibility") == [f"{run}/loop:clarify"]
    await house.answered(run, "stop")

    async def gone() -> bool:
        return not await found()

    assert await until(gone, "nobody is awaited any more")


@pytest.mark.slow
async def test_half_a_character_is_no_answer(house: Harness) -> None:
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?}]")
    for content in ("\ud800", {"a": "\ud800"}):
        assert (await house.refused(run, content)).code == "invalid_answer"

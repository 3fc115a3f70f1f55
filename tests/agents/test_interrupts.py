"""Interrupts in tools."""

from __future__ import annotations

import pytest

import tests.interrupting  # noqa: F401 registers the tools
from holdfast.protocol.answers import Answer
from tests.conftest import Harness, until
from tests.tools import calls

BOOK = "steps: [{{name: book, uses: book, input: {{folder: '{folder}', flight: LH1}}}}]"
RESEARCH = """
steps:
  - {{name: look, uses: research, input: {{folder: "{folder}", topics: [a, b, c]}}}}
"""


YES = {"granted": True}


def plain(tool: str, arguments: str = "") -> str:
    return f"steps: [{{name: it, uses: {tool}{arguments}}}]"


async def test_a_tool_that_interrupts_runs_again_with_its_state_and_the_answer(house: Harness) -> None:
    run = await house.start(BOOK.format(folder=house.folder))
    question = await house.one(run)
    assert question.message == "Which seat on LH1?"
    assert question.info == {"message": "Which seat on LH1?", "price": 40}
    assert (question.address, question.kind, question.root_cause) == ("pipeline:test;step:book", "input", True)
    await house.answer(run, "12A", question)
    assert await house.output(run) == "LH1 12A 40"
    assert calls(house.folder, "book") == 2
    assert (await house.types(run)).count("tool.returned") == 1


async def test_three_at_once_are_three_questions_with_one_parent_and_each_goes_on_by_itself(house: Harness) -> None:
    run = await house.start(RESEARCH.format(folder=house.folder))
    asked = await house.asked(run, 3)
    here = "pipeline:test;step:look"
    assert [one.address for one in asked] == [f"{here};level:{topic}" for topic in "abc"]
    assert all(one.parents == [{"address": here, "info": {"topics": ["a", "b", "c"]}}] for one in asked)
    await house.runs.answer(run, [Answer(question=one.id, content=one.message) for one in asked[:2]], by="user:ana")

    async def looked_up() -> bool:
        return calls(house.folder, "a") == calls(house.folder, "b") == 1

    await until(looked_up, "the answered two to go on")
    [left] = await house.asked(run, 1)
    assert (left.id, left.round, left.digest) == (asked[2].id, 1, asked[2].digest)
    await house.answer(run, "last", left, by="user:bob")
    told = {"a": "What about a? by user:ana", "b": "What about b? by user:ana", "c": "last by user:bob"}
    assert await house.output(run) == told
    assert [calls(house.folder, name) for name in ("research", "a", "b", "c")] == [3, 1, 1, 1]


async def test_a_library_that_swallows_interrupts_cannot_keep_people_from_being_asked(house: Harness) -> None:
    run = await house.start(plain("swallows"))
    asked = await house.asked(run, 2)
    assert [one.message for one in asked] == ["What about a?", "What about b?"]
    await house.runs.answer(run, [Answer(question=one.id, content="yes") for one in asked])
    assert await house.output(run) == ["yes", "yes"]


async def test_a_tool_that_asks_twice_asks_another_question(house: Harness) -> None:
    run = await house.start(plain("two_rounds", f", input: {{folder: '{house.folder}'}}"))
    first = await house.one(run)
    await house.answer(run, "red", first)

    async def second_asked() -> bool:
        return [one.message for one in await house.runs.questions(run)] == ["Question 2?"]

    await until(second_asked)
    second = await house.one(run)
    assert (second.round, second.address) == (2, first.address)
    assert second.id != first.id
    assert (await house.refused(run, "late", first)).code == "already_answered"
    await house.answer(run, "blue", second)
    assert await house.output(run) == "red and blue"


async def test_no_except_swallows_an_interrupt_and_no_retry_repeats_it(house: Harness) -> None:
    run = await house.start(plain("stubborn", ", retry: {attempts: 5, backoff: 0.01}"))
    await house.answer(run, "yes")
    assert await house.output(run) == "yes"
    assert (await house.types(run)).count("tool.called") == 2


async def test_state_and_data_of_the_wrong_type_are_told_from_none(house: Harness) -> None:
    run = await house.start(plain("looks_at_itself", f", input: {{folder: '{house.folder}'}}"))
    a, b = await house.asked(run, 2)
    await house.answer(run, "no number", a)

    async def ran_again() -> bool:
        return calls(house.folder, "rounds") == 2

    await until(ran_again)
    await house.asked(run, 2)  # both were raised again: `a` in its second round
    [a2] = [one for one in await house.runs.questions(run) if one.address == a.address]
    assert a2.round == 2
    await house.answer(run, None, b)
    top, in_a, in_b, in_c = await house.output(run)
    assert top == [True, True]
    assert in_a == [True, True, False, False]  # raised again, and not answered since
    assert in_b == [True, False, True, False]  # a text is no whole number; answered with nothing
    assert in_c == [False, False, False, False]


async def returned(house: Harness, run: str, content: object) -> str:
    """Answer the one question, and return what it is asked again with."""
    before = await house.one(run)
    await house.answer(run, content, before)

    async def another() -> bool:
        return [one.round for one in await house.runs.questions(run)] == [before.round + 1]

    await until(another, "the question again")
    again = await house.one(run)
    assert again.address == before.address and again.id != before.id
    assert "question.returned" in await house.types(run)
    return again.message


@pytest.mark.slow
async def test_a_tool_gives_an_answer_back_and_is_asked_again_with_the_reason(house: Harness) -> None:
    run = await house.start(plain("seats", f", input: {{folder: '{house.folder}'}}"))
    assert (
        await returned(house, run, "window")
        == "The answer was returned: 'window' is no seat, such as 12A\n\nWhich seat?"
    )
    await house.answer(run, "12A")

    async def next_asked() -> bool:
        return [one.message for one in await house.runs.questions(run)] == ["How many bags?"]

    await until(next_asked)
    assert "valid integer" in await returned(house, run, "two")  # not of the type in which the tool reads it
    await house.answer(run, 2)
    assert await house.output(run) == "12A 20"
    assert calls(house.folder, "paid") == 1


@pytest.mark.parametrize(
    ("tool", "bad", "reason", "good", "output"),
    [("insists", "many", "valid integer", 3, "3"), ("may_run_twice", "Rome", "TypeError", {"city": "Rome"}, "Rome")],
)
async def test_an_answer_of_the_wrong_form_is_asked_for_again(
    house: Harness, tool: str, bad: object, reason: str, good: object, output: str
) -> None:
    run = await house.start(plain(tool, f", input: {{folder: '{house.folder}'}}"))
    assert reason in await returned(house, run, bad)
    await house.answer(run, good)
    assert await house.output(run) == output


async def test_an_agent_of_another_library_gives_an_answer_back(house: Harness) -> None:
    run = await house.start("agents: {a: {from: foreign}}\nsteps: [{name: it, agent: a, input: go}]")
    assert "must be an object" in await returned(house, run, "Rome")
    await house.answer(run, {"name": "Rome"})
    assert await house.output(run) == "to Rome"


@pytest.mark.parametrize(
    ("payload", "kind", "answer", "told"),
    [
        ("null", "permission", {"granted": True}, {"confirmed": True}),
        ("null", "permission", {"granted": False, "reason": "no"}, {"confirmed": False}),
        (
            "{days: 3}",
            "review",
            {"verdict": "edited", "payload": {"days": 2}},
            {"confirmed": True, "payload": {"days": 2}},
        ),
        ("{days: 3}", "review", {"verdict": "rejected"}, {"confirmed": False}),
    ],
)
async def test_a_confirmation_of_googles_adk_is_a_question(
    house: Harness, payload: str, kind: str, answer: object, told: object
) -> None:
    run = await house.start(plain("hosts_adk", f", input: {{payload: {payload}}}"))
    question = await house.one(run)
    hint = "May book_leave be called?" if payload == "null" else "Book 3 days?"  # ADK's own hint is for programmers
    assert (question.message, question.kind, question.asked.consents) == (hint, kind, True)
    await house.answer(run, answer, question)
    assert await house.output(run) == [told]


async def test_a_declined_confirmation_is_a_no(house: Harness) -> None:
    run = await house.start(plain("hosts_adk", ", input: {payload: null}"))
    await house.decline(run)
    assert await house.output(run) == [{"confirmed": False}]


async def test_only_an_answer_can_be_given_back(house: Harness) -> None:
    run = await house.start(plain("gives_nothing_back"))
    error = (await house.result(run)).error
    assert error is not None and error.type == "bad_interrupt"


async def test_data_of_the_wrong_type_is_no_data(house: Harness) -> None:
    run = await house.start(plain("wants_leave", ", input: {amount: 3}"))
    assert (await house.refused(run, "leave")).code == "invalid_answer"
    await house.answer(run, {"granted": True})
    assert await house.output(run) == "paid 3"


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("tool", "arguments", "message", "kind", "answer", "output"),
    [
        (
            "wants_leave",
            ", input: {amount: 3}",
            "May wants_leave be called?",
            "permission",
            YES,
            "paid 3",
        ),
        ("done_elsewhere", "", "done_elsewhere is done elsewhere: what was its result?", "input", 42, 42),
        ("legacy", "", "Continue?", "input", "go", "go"),
        ("sign_page", "", "Who signs page 3?", "input", "Ana", "signed by Ana"),
        ("halts", "", "Which way?", "decision", "B", "b"),
        ("in_a_group", "", "In a group?", "input", "yes", "yes"),
        ("decides", "", "Which?", "decision", "B", "b"),
    ],
)
async def test_what_means_an_interrupt_is_one_at_its_callers_address(
    house: Harness, tool: str, arguments: str, message: str, kind: str, answer: object, output: object
) -> None:
    run = await house.start(plain(tool, arguments))
    question = await house.one(run)
    assert (question.message, question.kind, question.address) == (message, kind, "pipeline:test;step:it")
    await house.answer(run, answer)
    assert await house.output(run) == output


async def test_an_interrupt_that_is_declined_fails_the_step_with_the_reason(house: Harness) -> None:
    run = await house.start(BOOK.format(folder=house.folder))
    await house.decline(run, "no time")
    error = (await house.result(run)).error
    assert (error.type, error.address) == ("question_declined", "pipeline:test;step:book")
    assert "no time" in error.message
    assert calls(house.folder, "book") == 1


async def test_declining_one_of_several_closes_the_others(house: Harness) -> None:
    run = await house.start(RESEARCH.format(folder=house.folder))
    first, *_ = await house.asked(run, 3)
    await house.runs.answer(run, [Answer(question=first.id, action="decline")])
    assert (await house.result(run)).error.address == "pipeline:test;step:look;level:a"
    types = await house.types(run)
    assert (types.count("question.asked"), types.count("question.cancelled")) == (3, 2)


async def test_declining_a_permission_is_a_no_that_the_tool_hears(house: Harness) -> None:
    run = await house.start(plain("asks_leave", f", input: {{folder: '{house.folder}'}}"))
    await house.decline(run, "too dear")
    assert await house.output(run) == "no: too dear"
    assert calls(house.folder, "did") == 0


async def test_two_interrupts_at_one_place_are_the_authors_mistake(house: Harness) -> None:
    run = await house.start(plain("two_at_one_place"))
    error = (await house.result(run)).error
    assert error.type == "bad_interrupt"
    assert "level(name)" in error.message


@pytest.mark.slow
async def test_a_run_that_is_cancelled_closes_the_questions_of_its_tools(house: Harness) -> None:
    run = await house.start(RESEARCH.format(folder=house.folder))
    await house.asked(run, 3)
    await house.runs.control.cancel(run)
    assert (await house.result(run)).status == "cancelled"
    assert (await house.types(run)).count("question.cancelled") == 3


async def test_leave_that_a_library_asks_for_and_does_not_get_ends_the_call(house: Harness) -> None:
    run = await house.start(plain("wants_leave", ", input: {amount: 3}"))
    await house.answer(run, {"granted": False, "reason": "too much"})
    error = (await house.result(run)).error
    assert (error.type, error.message) == ("not_approved", "not approved: too much")


async def test_only_a_yes_is_the_leave_that_a_library_asks_for(house: Harness) -> None:
    run = await house.start(plain("asks_then_wants_leave", ", input: {always: false}"))
    await house.answer(run, "savings")
    leave = await house.one(run)
    assert (leave.kind, leave.address) == ("permission", "pipeline:test;step:it;level:leave")
    await house.answer(run, YES, leave)
    assert await house.output(run) == "paid from savings, kept"


@pytest.mark.slow
async def test_a_library_that_asks_for_leave_again_is_told_only_once_it_was_given(house: Harness) -> None:
    run = await house.start(plain("asks_then_wants_leave", ", input: {always: true}"))
    await house.answer(run, "savings")
    await house.answer(run, YES)
    error = (await house.result(run)).error
    assert (error.type, "although it was granted" in error.message) == ("bad_interrupt", True)


async def test_what_is_done_elsewhere_needs_an_answer_that_is_one(house: Harness) -> None:
    run = await house.start(plain("done_elsewhere"))
    assert (await house.refused(run, None)).code == "invalid_answer"
    assert (await house.one(run)).asked.needs_data
    await house.answer(run, {"paid": None})
    assert await house.output(run) == {"paid": None}


async def test_leave_that_a_library_asks_for_in_a_group_of_tasks_is_asked_for_once(house: Harness) -> None:
    run = await house.start(plain("leave_in_a_group", ", input: {broken: false}"))
    assert (await house.one(run)).kind == "permission"
    await house.answer(run, YES)
    assert await house.output(run) == "paid"


async def test_a_group_of_tasks_with_a_failure_tells_it(house: Harness) -> None:
    run = await house.start(plain("leave_in_a_group", ", input: {broken: true}"))
    error = (await house.result(run)).error
    assert (error.type, error.message) == ("tool_error", "leave_in_a_group: OSError: no such account")


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("what", "type_", "reason"),
    [
        ("result", "tool_output", "surrogate"),
        ("key", "tool_output", "surrogate"),
        ("text", "bad_interrupt", "not JSON"),
        ("info", "bad_interrupt", "not JSON"),
        ("state", "bad_interrupt", "not JSON"),
        ("nan", "bad_interrupt", "not JSON"),
        ("blank", "bad_interrupt", "has no message"),
        ("choice", "bad_interrupt", "needs options"),
        ("kind", "bad_interrupt", "Seat is not a kind of question"),
        ("failure", "tool_error", "OSError: ?"),
    ],
)
async def test_what_is_no_json_or_no_question_is_the_tools_failure(
    house: Harness, what: str, type_: str, reason: str
) -> None:
    error = (await house.result(await house.start(plain("says", f", input: {what}")))).error
    assert (error.type, reason in error.message) == (type_, True), error.message


async def test_an_answer_counts_only_for_the_question_that_it_was_given_to(house: Harness) -> None:
    """`b` is answered while the tool runs again, and asks for something else by then."""
    run = await house.start(plain("changes_its_mind", f", input: {{folder: '{house.folder}'}}"))
    a, b = await house.asked(run, 2)
    await house.answer(run, 900, a)

    async def runs_again() -> bool:
        return calls(house.folder, "runs") == 2

    await until(runs_again)
    await house.answer(run, {"granted": True}, b)
    (house.folder / "go").touch()
    question = await house.one(run)
    assert (question.message, question.round) == ("May 1000 be paid?", 2)
    await house.answer(run, {"granted": False}, question)
    assert await house.output(run) == [900, False]


async def test_what_is_said_and_kept_at_a_level_stays_while_another_asks(house: Harness) -> None:
    run = await house.start(plain("one_after_the_other", f", input: {{folder: '{house.folder}'}}"))
    assert await house.answered(run, "x", "y") == ["a?", "b?"]
    assert await house.output(run) == "costly x y"
    assert calls(house.folder, "search") == 1


@pytest.mark.slow
async def test_parents_are_shown_as_they_are_now(house: Harness) -> None:
    run = await house.start(RESEARCH.format(folder=house.folder).replace("uses: research", "uses: counting"))
    first, *_ = await house.asked(run, 3)
    await house.answer(run, "x", first)

    async def counted() -> bool:
        return [one.parents[0]["info"] for one in await house.runs.questions(run)] == ["1 found", "1 found"]

    await until(counted)
    for question in await house.asked(run, 2):
        await house.answer(run, "x", question)
    assert await house.output(run) == 3


async def test_a_question_whose_schema_is_none_is_the_authors_mistake(house: Harness) -> None:
    run = await house.start(plain("bad_form"))
    assert (await house.result(run)).error.type == "bad_interrupt"


@pytest.mark.slow
async def test_a_paused_run_starts_no_call_whose_leave_is_given(house: Harness) -> None:
    run = await house.start(plain("asks_leave", f", input: {{folder: '{house.folder}'}}"))
    question = await house.one(run)
    await house.runs.control.pause(run)
    await house.answer(run, {"granted": True}, question)
    assert calls(house.folder, "did") == 0
    await house.runs.control.resume(run)
    assert await house.output(run) == "did it"


@pytest.mark.slow
async def test_the_current_details_show_a_question_as_it_is_worded_now(house: Harness) -> None:
    run = await house.start(plain("asks_in_other_words"))
    first, second = await house.asked(run, 2)
    await house.answer(run, 900, first)
    handle = house.client.get_workflow_handle(run)

    async def shown() -> bool:
        return "Why 900?" in (await handle.query("__temporal_workflow_metadata")).current_details

    await until(shown, "the details")
    await house.answer(run, "for ink", second)
    assert await house.output(run) == [900, "for ink"]

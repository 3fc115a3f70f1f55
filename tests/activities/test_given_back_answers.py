"""Answers that a graph's node cannot use: they are given back, and asked for again with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command
from temporalio.exceptions import ApplicationError

from holdfast.activities.graphs.answers import DeliveredAnswers
from holdfast.activities.graphs.returns import GivenBack
from holdfast.activities.graphs.running import GraphCall
from holdfast.client.history import add_returns, answers_given
from holdfast.protocol.answers import Answer
from holdfast.protocol.questions import Question
from tests import graphs
from tests.conftest import Harness, until
from tests.tools import calls


async def started(house: Harness, graph: str) -> str:
    uses = graph if graph.startswith("with_") else f'"tests.graphs:{graph}"'
    return await house.start(f"steps: [{{name: graph, uses: {uses}, input: {{folder: '{house.folder}', log: []}}}}]")


async def asked_again(house: Harness, run: str, before: Question) -> Question:
    """Return the question that stands in the place of this one by now."""

    async def others() -> bool:
        return any(one.address == before.address and one.id != before.id for one in await house.runs.questions(run))

    await until(others, "another question in its place")
    return next(one for one in await house.runs.questions(run) if one.address == before.address)


async def log(house: Harness, run: str) -> Any:
    return (await house.output(run))["log"]


@pytest.mark.parametrize("graph", ["reading", "reading_own_saver"])
async def test_a_node_that_fails_on_its_answer_asks_again(house: Harness, graph: str) -> None:
    run = await started(house, graph)
    first = await house.one(run)
    await house.answer(run, "7", first)
    second = await asked_again(house, run, first)
    assert second.round == 2
    assert second.message.startswith("The answer was returned: it could not be used (TypeError: ")
    assert second.message.endswith("Which room?")
    await house.answer(run, "7", second)  # the same once more: a person may insist as often as they like
    third = await asked_again(house, run, second)
    assert third.message == second.message  # one reason, that of the last answer
    await house.answer(run, {"room": 9}, third)
    assert await log(house, run) == ["first", "room 9", "last"]
    assert [calls(house.folder, name) for name in ("first", "past", "last")] == [1, 1, 1]
    returned = [
        event.data.to_json()["id"] for event in await house.runs.watch.events(run) if event.type == "question.returned"
    ]
    assert returned == [first.id, second.id]
    history = add_returns(await answers_given(house.client, run), await house.runs.watch.events(run))
    assert [(one.question, one.action) for one in history] == [
        (first.id, "accept"),
        (first.id, "return"),
        (second.id, "accept"),
        (second.id, "return"),
        (third.id, "accept"),
    ]
    assert str(history[1].content).startswith("it could not be used (TypeError: ")


@pytest.mark.slow
async def test_other_answers_of_the_same_moment_are_kept(house: Harness) -> None:
    run = await started(house, "reading_at_once")
    asked = {one.address.partition("step:graph;")[2]: one for one in await house.asked(run, 3)}
    assert set(asked) == {"level:picky", "level:slow", "level:inner;level:picky"}
    inner, outer, slow = asked["level:inner;level:picky"], asked["level:picky"], asked["level:slow"]
    await house.runs.answer(run, [Answer(question=slow.id, content="Monday"), Answer(question=inner.id, content="7")])
    again = await asked_again(house, run, inner)
    assert [one.id for one in await house.asked(run, 2)] == [again.id, outer.id]
    await house.runs.answer(run, [Answer(question=one.id, content={"room": 7}) for one in (again, outer)])
    (Path(house.folder) / "go").touch()
    assert sorted(await log(house, run)) == ["day Monday", "room 7", "room 7"]
    assert calls(house.folder, "past") == 2


async def test_a_node_that_has_called_something_since_keeps_its_answer(house: Harness) -> None:
    run = await started(house, "paying")
    await house.answer(run, "mine")
    error = (await house.result(run)).error
    assert error is not None and error.type == "tool_error"
    assert calls(house.folder, "pay") == 1


async def test_a_table_that_cannot_read_an_answer_gives_it_back(house: Harness) -> None:
    run = await started(house, "with_strict_table")
    first = await house.one(run)
    await house.answer(run, "left", first)
    second = await asked_again(house, run, first)
    await house.answer(run, {"to": "left"}, second)
    assert await log(house, run) == ["answer left"]


async def test_each_question_of_a_node_has_an_address_of_its_own(house: Harness) -> None:
    run = await started(house, "asking_thrice")
    questions = [await house.one(run)]
    for again in ("Two?", "Three?"):
        await house.answer(run, questions[-1].message, questions[-1])

        async def asked(message: str = again) -> bool:
            return [one.message for one in await house.runs.questions(run)] == [message]

        await until(asked)
        questions.append(await house.one(run))
    await house.answer(run, "Three?", questions[-1])
    addresses = [one.address.rpartition(":")[2] for one in questions]
    assert await log(house, run) == ["One? Two? Three?"]
    assert addresses == ["thrice", "thrice~2", "thrice~3"]


async def test_an_answer_that_a_killed_worker_has_left_in_the_checkpoint_is_dropped_too(tmp_path: Path) -> None:
    graph, config = graphs.reading, {"configurable": {"thread_id": str(tmp_path)}}
    await graph.ainvoke({"folder": str(tmp_path), "log": []}, config)
    [pending] = (await graph.aget_state(config)).interrupts
    answers = DeliveredAnswers(graph.checkpointer, str(tmp_path), {pending.id: "7"}, in_thread=False)
    for _ in range(2):  # the first worker was killed before it could drop the answer
        with pytest.raises(TypeError) as caught:
            await graph.ainvoke(Command(resume={pending.id: "7"}), config)
    assert [one.id for one in await answers.find_failed(caught.value)] == [pending.id]
    await answers.drop({})
    ended = await graph.ainvoke(Command(resume={pending.id: {"room": 7}}), config)
    assert ended["log"] == ["first", "room 7", "last"]


async def asked_at(house: Harness, run: str, address: str, message: str) -> Question:
    """Return the open question whose address and message end so."""

    async def fits() -> bool:
        return any(one.address.endswith(address) and one.message.endswith(message) for one in await listed())

    async def listed() -> list[Question]:
        return list(await house.runs.questions(run))

    await until(fits, f"{message!r} at {address}")
    return next(one for one in await listed() if one.address.endswith(address))


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["deciding", "deciding_own_saver"])
async def test_a_node_that_fails_on_one_of_its_answers_asks_for_all_again(house: Harness, graph: str) -> None:
    run = await started(house, graph)
    first = await asked_at(house, run, "level:decides", "Refund 250 EUR?")
    await house.answer(run, "bad", first)
    await house.answer(run, "because", await asked_at(house, run, "level:decides~2", "And why?"))
    again = await asked_again(house, run, first)
    assert again.message == (
        "The answer was returned: one of the 2 answers that this node has read could not be used "
        "(ValueError: bad is no decision), so each is asked again; this one was 'bad'\n\nRefund 250 EUR?"
    )
    await house.answer(run, "yes", again)
    why = await asked_at(house, run, "level:decides~2", "And why?")
    assert "this one was 'because'" in why.message
    await house.answer(run, "it was broken", why)
    assert await log(house, run) == ["first", "yes, it was broken", "last"]
    assert [calls(house.folder, name) for name in ("first", "past", "last")] == [1, 1, 1]


@pytest.mark.slow
async def test_all_answers_of_a_node_in_a_subgraph_are_asked_again_and_no_others(house: Harness) -> None:
    run = await started(house, "deciding_at_once")
    first = await asked_at(house, run, "level:inner;level:decides", "Refund 250 EUR?")
    slow = await asked_at(house, run, "level:slow", "Which day?")
    await house.answer(run, "bad", first)
    why = await asked_at(house, run, "level:inner;level:decides~2", "And why?")
    await house.runs.answer(run, [Answer(question=why.id, content="so"), Answer(question=slow.id, content="Monday")])
    again = await asked_again(house, run, first)
    assert [one.id for one in await house.asked(run, 1)] == [again.id]
    await house.answer(run, "no", again)
    (Path(house.folder) / "go").touch()
    await house.answer(run, "late", await asked_at(house, run, "level:inner;level:decides~2", "And why?"))
    assert sorted(await log(house, run)) == ["day Monday", "no, late"]


@pytest.mark.slow
async def test_an_answer_before_a_call_is_not_given_back_and_the_node_fails_in_the_end(house: Harness) -> None:
    run = await started(house, "looking_up")
    await house.answer(run, "Mon", await asked_at(house, run, "level:looks_up_between", "Which day?"))
    hour = await asked_at(house, run, "~2", "Which hour?")
    for _ in range(2):  # the same answer twice proves nothing of the one before it
        await house.answer(run, "9", hour)
        hour = await asked_again(house, run, hour)
        assert hour.message.startswith("The answer was returned: it could not be used (ValueError: Mon is no day)")
    await house.answer(run, "10", hour)
    error = (await house.result(run)).error
    assert error is not None and "ValueError: Mon is no day (it failed so before, on an answer" in error.message


@pytest.mark.slow
async def test_an_answer_that_does_not_fit_its_form_leaves_the_one_before_it(house: Harness) -> None:
    run = await started(house, "booking")
    await house.answer(run, "Ana", await asked_at(house, run, "level:books", "Who comes?"))
    room = await asked_at(house, run, "level:books~2", "Which room?")
    await house.answer(run, {"number": 7}, room)
    again = await asked_again(house, run, room)
    assert "only even rooms are free" in again.message
    await house.answer(run, {"number": 8}, again)
    assert await log(house, run) == ["Ana in 8"]


@pytest.mark.slow
async def test_a_person_who_retries_a_failed_step_is_asked_its_questions_again(house: Harness) -> None:
    step = (
        f"{{name: graph, uses: 'tests.graphs:deciding', on_error: ask, input: {{folder: '{house.folder}', log: []}}}}"
    )
    run = await house.start(f"steps: [{step}]")
    for value in ("bad", "because"):
        await house.answer(run, value, await house.one(run))
    again = await asked_at(house, run, "level:decides", "Refund 250 EUR?")
    await house.runs.answer(run, [Answer(question=again.id, action="decline")])
    failed = await house.one(run)
    assert "declined the question" in failed.message
    await house.answer(run, "retry", failed)
    await house.answer(run, "yes", await asked_at(house, run, "level:decides", "Refund 250 EUR?"))
    await house.answer(run, "so", await asked_at(house, run, "level:decides~2", "And why?"))
    assert await log(house, run) == ["first", "yes, so", "last"]


@pytest.mark.slow
async def test_answers_that_a_lost_attempt_had_taken_back_are_asked_for_again(house: Harness, monkeypatch) -> None:
    ask_again, lost = GraphCall._ask_again, []

    async def lose_first(call: GraphCall, given_back: GivenBack) -> object:
        if not lost:
            lost.append(given_back)
            raise ApplicationError("lost")
        return await ask_again(call, given_back)

    monkeypatch.setattr(GraphCall, "_ask_again", lose_first)
    more = f"retry: {{attempts: 2, backoff: 0.01}}, input: {{folder: '{house.folder}', log: []}}"
    run = await house.start(f"steps: [{{name: graph, uses: 'tests.graphs:deciding', {more}}}]")
    first = await asked_at(house, run, "level:decides", "Refund 250 EUR?")
    await house.answer(run, "bad", first)
    await house.answer(run, "because", await asked_at(house, run, "level:decides~2", "And why?"))
    again = await asked_again(house, run, first)
    assert "the node that had read it failed, and has to read it again; this one was 'bad'" in again.message
    await house.answer(run, "yes", again)
    why = await asked_at(house, run, "level:decides~2", "And why?")
    assert "this one was 'because'" in why.message
    await house.answer(run, "so", why)
    assert await log(house, run) == ["first", "yes, so", "last"]
    assert lost

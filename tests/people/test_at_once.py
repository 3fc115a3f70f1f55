"""Many people who answer the questions of one run at the same moment: each is told the truth, and nothing is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from holdfast.client import tree
from holdfast.client.open_questions import OpenQuestions
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer, Receipt, Refusal
from holdfast.protocol.questions import Question
from holdfast.runtime.workers import NoWorker
from tests.conftest import Harness

MAP = """
steps:
- kind: map
  name: each
  map:
    iterable_input: "{{{{ range({count}) }}}}"
    max_concurrency: 50
    body: [{{kind: hitl, name: ask, message: "Who takes {{{{ item }}}}?"}}]
"""


async def sent(runs: Runs, question: Question, name: str) -> str:
    """Answer a question with one's name until a receipt tells how that ended: a busy machine first sends a signal."""
    answers = [Answer(question=question.id, content=name)]
    while True:
        try:
            [receipt] = await runs.answer(question.run, answers, by=name, key=name)
        except Refusal as refusal:
            return refusal.code
        except NoWorker:  # the worker is too busy to be asked: under its key the answer counts once
            continue
        if isinstance(receipt, Receipt):
            return receipt.status


@pytest.mark.parametrize(("count", "people"), [(6, 20), pytest.param(60, 60, marks=pytest.mark.slow)])
async def test_many_answers_at_once(house: Harness, count: int, people: int) -> None:
    run = await house.start(MAP.format(count=count))
    questions = await house.asked(run, min(count, 50))
    told = await asyncio.gather(
        *(sent(house.runs, questions[n % len(questions)], f"user:p{n}") for n in reversed(range(people)))
    )
    assert told.count("answered") == len(questions)
    assert set(told) == {"answered", "already_answered"}


async def test_who_was_first_is_told_where_no_worker_can_be_asked(house: Harness, monkeypatch) -> None:
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?, on_decline: continue}]")
    question = await house.one(run)
    await house.runs.answer(run, [Answer(question=question.id, action="decline")], by="user:ana")
    await house.result(run)
    monkeypatch.setattr(tree, "QUERY_LIMIT", timedelta(microseconds=1))
    with pytest.raises(Refusal, match=f"question {question.id} was declined by user:ana at"):
        found = OpenQuestions(run, [question])
        await house.runs.answer(run, [Answer(question=question.id, content="yes")], by="user:bob", open_questions=found)


async def test_an_answer_that_ended_its_run_gets_its_receipt_again_where_no_worker_can_be_asked(
    house: Harness, monkeypatch
) -> None:
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?}]")
    question = await house.one(run)
    found = OpenQuestions(run, [question])
    given = await house.runs.answer(run, [Answer(question=question.id, content="yes")], key="k", open_questions=found)
    await house.result(run)
    monkeypatch.setattr(tree, "QUERY_LIMIT", timedelta(microseconds=1))
    assert given == await house.runs.answer(
        run, [Answer(question=question.id, content="yes")], key="k", open_questions=found
    )


class Overtaken(tree.Tree):
    """Views of a run in which people answer the first questions between two pages."""

    answers: Callable[[], Awaitable[object]] | None = None

    async def query(self, workflow: str, name: str, argument: object, *how: Any, **more: Any) -> Any:
        if argument and self.answers is not None:
            answers, self.answers = self.answers, None
            await answers()
        return await super().query(workflow, name, argument, *how, **more)


@pytest.mark.slow
@pytest.mark.parametrize("answered", [1, 15, 45])
async def test_a_question_is_listed_though_others_are_answered_between_two_pages(house: Harness, answered: int) -> None:
    run = await house.start(MAP.format(count=50))
    questions = await house.asked(run, 50)
    first = [Answer(question=question.id, content="yes") for question in questions[:answered]]
    found = OpenQuestions(run, questions)
    overtaken = Overtaken(house.client, house.runs.task_queue)
    overtaken.answers = lambda: house.runs.answer(run, first, open_questions=found)
    listed = {question.id for question in (await overtaken.view(run)).questions}
    assert overtaken.answers is None, "the view has one page"
    assert {question.id for question in questions[answered:]} <= listed

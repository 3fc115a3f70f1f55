"""One answer to several questions of the same form."""

import re

import pytest

from holdfast.protocol.answers import Answer
from tests.conftest import Harness
from tests.serve.pages import Desk, desk, started

SAME = "steps: [{kind: hitl, name: ask, ask: permission, message: May it?}]"


def names(questions) -> list[str]:
    return [f"{question.run}/{question.id}" for question in questions]


async def sent(ana: Desk, questions, do: str, **texts: str):
    """Open the page of these questions and press a button."""
    page = (await ana.client.get("/batch", params={"q": names(questions)})).text
    shown = re.findall(r'name="shown" value="([^"]*)"', page)
    [key] = re.findall(r'name="key" value="([^"]*)"', page)
    checked = re.findall(r'name="q" value="([^"]*)"', page)
    return await ana.client.post("/batch", data={"q": checked, "shown": shown, "key": key, "do": do, **texts})


@pytest.mark.slow
async def test_a_batch_of_twenty_is_granted(house: Harness) -> None:
    runs = [await house.start(SAME) for _ in range(20)]
    questions = [await house.one(run) for run in runs]
    async with desk(house) as ana:
        page = await sent(ana, questions, "grant:once", comment="all fine")
    assert page.status_code == 200 and "20 questions were answered" in page.text
    outputs = [await house.output(run) for run in runs]
    assert outputs == [True] * 20


async def test_questions_that_were_declined_together_were_not_answered(house: Harness) -> None:
    questions = [await started(house, "text") for _ in range(2)]
    async with desk(house) as ana:
        page = await sent(ana, questions, "decline")
    assert "2 questions were declined" in page.text


async def test_questions_of_another_form_are_left_out_and_named(house: Harness) -> None:
    questions = [await started(house, name) for name in ("permit", "text", "secret")]
    async with desk(house) as ana:
        page = await sent(ana, questions, "no", reason="no")
    assert "1 question was answered" in page.text
    assert [len(await house.asked(question.run)) for question in questions[1:]] == [1, 1]


@pytest.mark.slow
async def test_one_that_somebody_else_answered_is_named_and_the_others_count(house: Harness) -> None:
    questions = [await started(house, "permit") for _ in range(3)]
    taken = questions[1]
    async with desk(house) as ana:
        page = (await ana.client.get("/batch", params={"q": names(questions)})).text
        await house.runs.answer(taken.run, [Answer(question=taken.id, content={"granted": False})], by="user:bob")
        shown = re.findall(r'name="shown" value="([^"]*)"', page)
        page = await ana.client.post(
            "/batch", data={"q": names(questions), "shown": shown, "key": "k", "do": "grant:once"}
        )
    assert "2 questions were answered" in page.text and "1 is no longer open" in page.text


async def test_what_was_not_on_the_page_is_not_decided(house: Harness) -> None:
    question = await started(house, "permit")
    async with desk(house) as ana:
        page = await ana.client.post("/batch", data={"q": names([question]), "key": "k", "do": "grant:once"})
    assert page.status_code == 409 and [one.id for one in await house.asked(question.run)] == [question.id]


async def test_a_wrong_answer_to_several_is_kept(house: Harness) -> None:
    questions = [await started(house, "form") for _ in range(2)]
    async with desk(house) as ana:
        page = await sent(ana, questions, "answer", **{"f:name": "Ms Sato"})
    assert page.status_code == 422 and "\nMs Sato</textarea>" in page.text and "this field is needed" in page.text


async def test_nothing_selected_says_how(house: Harness) -> None:
    async with desk(house) as ana:
        page = await ana.get("/batch", q="nonsense")
    assert page.status_code == 200 and "No question is selected" in page.text

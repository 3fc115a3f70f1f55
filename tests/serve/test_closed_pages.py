"""The page of a closed question: the whole answer, whose it was, whether it counted, and what proves it."""

import html
from dataclasses import replace

import pytest

from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.guard import Key
from holdfast.server.web.addresses import question_address
from holdfast.server.web.dispatches import dispatch_place, has_ended
from tests.answering import answer_by
from tests.conftest import Harness
from tests.serve.ground import client_of, person
from tests.serve.pages import desk, inbox_of, started, words

LONG = "At the lake, said Ana; " * 150
AS_ANA = {"x-test-identity": "ana"}
AS_BOB = {"x-test-identity": "bob"}


async def test_a_long_answer_is_shown_whole(house: Harness) -> None:
    question = await started(house, "text")
    async with desk(house) as ana:
        await ana.send(question, "answer", comment="why: " + LONG[:1000], **{"f:": LONG})
        page = html.unescape((await ana.get(question_address(question))).text)
    assert LONG in page and "why: " + LONG[:1000].strip() in page


async def test_all_who_agreed_are_named_with_what_they_said_and_when(house: Harness) -> None:
    run = await house.start("steps: [{name: ask, kind: hitl, message: Well?, quorum: 3}]")
    question = await house.one(run)
    for by, said in {"user:ana": LONG, "user:bob": "so <be> it", "user:cem": "fine"}.items():
        await house.answer(run, said, question, by=by, comment=f"says {by}")
    async with desk(house) as ana:
        raw = (await ana.get(question_address(question))).text
        state = words("<main" + (await ana.get(f"{question_address(question)}/part")).text)
    page = words(raw)
    assert "Answered by ana, bob, cem" in page and "Answered by ana, bob, cem" in state
    assert "so &lt;be&gt; it" in page and html.escape(LONG.strip(), quote=False) in page.replace("&#39;", "'")
    assert [f"says user:{name}" in page for name in ("ana", "bob", "cem")] == [True] * 3
    assert "note good" in raw  # Ana is one of them
    refused = await house.refused(run, "no", question)
    assert refused.code == "run_closed" or "user:bob" in str(refused)


async def test_who_sent_the_answer_hears_that_it_counts(house: Harness) -> None:
    question = await started(house, "text")
    async with client_of(inbox_of(house)) as client:
        await house.runs.answer(question.run, [Answer(question=question.id, content="warm")], by="user:ana")
        part = f"{question_address(question)}/part"
        mine, other = [(await client.get(part, headers=who)).text for who in (AS_ANA, AS_BOB)]
    assert "Your answer counts:" in mine and "warm" in mine and "stays here" not in mine
    assert "Your answer counts" not in other and "stays here" in other


async def test_an_answer_that_came_too_late_is_told_when_the_page_is_opened_again(house: Harness) -> None:
    question = await started(house, "text")
    site = inbox_of(house)

    async def fail() -> bool:
        raise Refusal("already_answered", "too late")

    async with client_of(site) as client:
        await house.runs.answer(question.run, [Answer(question=question.id, content="warm")], by="user:ana")
        await has_ended(site.dispatches.begin(dispatch_place(question.run, question.id, person("bob")), fail()), 60)
        address = question_address(question)
        ana, bob = [(await client.get(address, headers=who)).text for who in (AS_ANA, AS_BOB)]
    assert "came too late" in bob and "came too late" not in ana


@pytest.mark.parametrize("proves", [True, False])
async def test_what_nothing_proves_is_called_so_where_a_sign_in_would_prove_it(house: Harness, proves: bool) -> None:
    question = await started(house, "text")
    site = inbox_of(house)
    await house.runs.answer(question.run, [Answer(question=question.id, content="warm")], by="user:ana")
    if proves:
        key = Key(id="inbox", secret=b"k" * 32, proves="person")
        answer_by(site.runs, replace(site.runs.answering, inbox=key))
    async with client_of(site) as client:
        page = (await client.get(question_address(question), headers=AS_ANA)).text
    assert ("Nothing proves who sent it" in page) is proves

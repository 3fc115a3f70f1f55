"""A guarded deployment: an answer needs a token, and a signal is not taken."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from client.answering import Answering
from client.runs import Runs
from protocol import guard
from protocol.answers import Answer, Refusal
from protocol.guard import sign
from tests.conftest import Harness, until
from tests.people.test_asking import ONE, straight

KEY = "a key of the deployment"


@pytest.fixture(autouse=True)
def guarded(house: Harness) -> Iterator[None]:
    """The worker knows the key, and so do the clients of this house."""
    guard.DEPLOYMENT.answer_key = KEY
    house.runs = Runs(house.client, house.runs.task_queue, Answering(key=KEY))
    yield
    guard.DEPLOYMENT.answer_key = None


async def test_a_client_with_the_key_answers(house: Harness) -> None:
    run = await house.start(ONE)
    await house.answer(run, "go", by="user:ana")
    assert await house.output(run) == "go"


async def test_an_answer_with_no_token_a_forged_or_an_old_one_is_refused(house: Harness) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    soon, past = datetime.now(UTC) + timedelta(hours=1), datetime.now(UTC) - timedelta(hours=1)
    signed = {"run": run, "question": question.id}
    tokens = [
        None,
        "nonsense",
        sign("another key", **signed, by="user:ana", expiry=soon),
        sign(KEY, **signed, by="user:bob", expiry=soon),
        sign(KEY, **signed, by="user:ana", expiry=past),
    ]
    for token in tokens:
        answer = {"answers": [{"question": question.id, "content": "go"}], "by": "user:ana", "token": token}
        assert (await straight(house, question, answer)).type == "bad_token"
    await house.answer(run, "go", question)


async def test_a_guarded_run_takes_no_signal(house: Harness) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    await house.client.get_workflow_handle(run).signal("answer", {"question": question.id, "content": "go"})

    async def refused() -> list[str]:
        return [one.code for one in (await house.runs.standing(run)).views[0].refused]

    assert await until(refused, "the refusal") == ["not_allowed"]
    await house.answer(run, "go", question)


async def test_a_client_without_the_key_is_told_so(house: Harness) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    stranger = Runs(house.client, house.runs.task_queue)
    with pytest.raises(Refusal) as caught:
        await stranger.answer(run, [Answer(question=question.id, content="go")])
    assert caught.value.code == "bad_token"
    await house.answer(run, "go", question)

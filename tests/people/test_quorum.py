"""A quorum: several different people must accept, and one who declines ends it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.protocol import guard
from holdfast.protocol.answers import Answer, Receipt, Refusal
from holdfast.protocol.events import QuestionClosed
from tests.conftest import Harness, until, worker_for
from tests.people.raw_answers import straight

EDITORS = ["user:ana", "user:bob", "user:eve"]
TWO = "steps: [{kind: hitl, name: ask, message: Go?, assignees: ['group:editors'], quorum: 2%s}]"
CHOICE = TWO % ", ask: decision, options: [red, blue, green]"
MANY = TWO % ", ask: decision, multiple: 2, options: [red, blue, green]"


@pytest.fixture(autouse=True)
def groups() -> Iterator[None]:
    guard.DEPLOYMENT.groups = {"editors": EDITORS}
    yield
    guard.DEPLOYMENT.groups = {}


async def refused(house: Harness, run: str, content: Any, **how: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await house.answer(run, content, **how)
    return caught.value


async def statuses(house: Harness, run: str, *given: tuple[str, Any]) -> list[str]:
    return [(await house.answer(run, content, by=by)).status for by, content in given]


async def test_two_of_three_accept_and_the_last_content_counts(house: Harness) -> None:
    run = await house.start(TWO % "")
    first = await house.one(run)
    assert (first.quorum, first.answers_so_far) == (2, 0)
    assert (await house.answer(run, "warm", first, by="user:ana")).status == "waiting_quorum"
    half = await house.one(run)
    assert (half.id, half.digest, half.answers_so_far, half.accepted_by) == (first.id, first.digest, 1, ["user:ana"])
    assert (await house.answer(run, "cold", half, by="user:eve")).status == "answered"
    assert await house.output(run) == "cold"
    told = [event for event in await house.runs.watch.events(run) if event.type.startswith("question.")]
    assert [event.type for event in told] == ["question.asked", "question.accepted", "question.answered"]
    assert (told[1].data.by, told[1].data.so_far, told[1].data.quorum) == ("user:ana", 1, 2)
    assert (told[2].data.by, told[2].data.accepted_by) == ("user:eve", ["user:ana"])


@pytest.mark.slow
@pytest.mark.parametrize("again", ["user:ana", "ana"])
async def test_a_person_who_accepts_again_changes_nothing_and_is_told(house: Harness, again: str) -> None:
    run = await house.start(TWO % "")
    await house.answer(run, "warm", by="user:ana")
    before = len((await house.client.get_workflow_handle(run).fetch_history()).events)
    refusal = await refused(house, run, "cold", by=again)
    assert refusal.code == "already_answered"
    assert "was accepted by user:ana before; 1 of 2 have accepted" in refusal.message
    assert len((await house.client.get_workflow_handle(run).fetch_history()).events) == before
    assert (await house.one(run)).answers_so_far == 1
    assert await statuses(house, run, ("user:bob", "go")) == ["answered"]
    assert await house.output(run) == "go"


@pytest.mark.slow
async def test_the_same_key_gets_the_same_receipt_before_and_after_the_quorum(house: Harness) -> None:
    run = await house.start((TWO % "").replace("}]", "}, {kind: hitl, name: then, message: And?}]"))
    question = await house.one(run)
    first = await house.answer(run, "warm", question, by="user:ana", key="k1")
    assert await house.answer(run, "warm", question, by="user:ana", key="k1") == first
    payload = {"answers": [{"question": question.id, "content": "cold"}], "by": "user:ana", "key": "k1"}
    assert (await straight(house, question, payload)).type == "key_conflict"
    last = await house.answer(run, "cold", question, by="user:bob", key="k2")
    handle = house.client.get_workflow_handle(run)
    again = {"answers": [{"question": question.id, "content": "warm"}], "by": "user:ana", "key": "k1"}
    assert Receipt.model_validate((await handle.execute_update("answer", again))[0]) == first
    assert (first.status, last.status) == ("waiting_quorum", "answered")
    await house.answer(run, "end")
    await house.result(run)
    assert await house.runs.answer(run, [Answer(question=question.id, content="warm")], by="user:ana", key="k1") == [
        first
    ]
    assert (await refused(house, run, "x", question=question, by="user:ana", key="k1")).code == "key_conflict"


async def test_one_who_declines_declines_for_all(house: Harness) -> None:
    run = await house.start(TWO % "")
    question = await house.one(run)
    await house.answer(run, "warm", question, by="user:ana")
    [receipt] = await house.runs.answer(run, [Answer(question=question.id, action="decline")], by="user:bob")
    assert receipt.status == "answered"
    error = (await house.result(run)).error
    assert error is not None
    assert (error.type, error.message) == ("question_declined", "user:bob declined ask")
    assert (await refused(house, run, "go", question=question, by="user:eve")).code == "already_answered"


async def test_who_has_accepted_may_still_decline(house: Harness) -> None:
    run = await house.start(TWO % ", on_decline: continue")
    question = await house.one(run)
    await house.answer(run, "warm", question, by="user:ana")
    await house.runs.answer(run, [Answer(question=question.id, action="decline")], by="user:ana")
    assert await house.output(run) is None


NO = {
    "permission": ({"granted": True}, {"granted": False}, False),
    "review": ({"verdict": "unchanged"}, {"verdict": "rejected"}, None),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", NO)
async def test_a_no_is_a_no_whoever_says_yes_before_or_after(house: Harness, kind: str) -> None:
    yes, no, output = NO[kind]
    for given in ([("user:ana", no)], [("user:ana", yes), ("user:bob", no)]):
        run = await house.start(TWO % f", ask: {kind}", "text")
        assert (await statuses(house, run, *given))[-1] == "answered"
        assert await house.output(run) is output
    run = await house.start(TWO % f", ask: {kind}", "text")
    assert await statuses(house, run, ("user:ana", yes), ("user:bob", yes)) == ["waiting_quorum", "answered"]


async def test_of_options_as_many_must_choose_the_same(house: Harness) -> None:
    run = await house.start(CHOICE)
    given = [("user:ana", "red"), ("user:bob", "blue"), ("user:eve", "Red")]
    assert await statuses(house, run, *given) == ["waiting_quorum", "waiting_quorum", "answered"]
    assert await house.output(run) == "red"


async def test_of_several_options_the_order_does_not_matter(house: Harness) -> None:
    run = await house.start(MANY)
    given = [("user:ana", ["red", "blue"]), ("user:bob", ["red"]), ("user:eve", ["blue", "red"])]
    assert await statuses(house, run, *given) == ["waiting_quorum", "waiting_quorum", "answered"]
    assert sorted(await house.output(run)) == ["blue", "red"]


async def test_without_assignees_anybody_counts_but_nobody_twice_and_nobody_unnamed(house: Harness) -> None:
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?, quorum: 2}]")
    assert (await refused(house, run, "go")).code == "not_allowed"
    assert await statuses(house, run, ("user:x", "go"), ("y", "went")) == ["waiting_quorum", "answered"]


@pytest.mark.slow
async def test_of_fifty_answers_at_once_two_count_and_the_others_learn_who_was_last(house: Harness) -> None:
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?, quorum: 2}, {kind: hitl, name: then}]")
    question = await house.one(run)

    door = asyncio.Semaphore(10)  # the server lets in so many at a time

    async def one(n: int) -> Receipt | Refusal:
        try:
            async with door:
                return await house.answer(run, f"{n}", question, by=f"user:{n}")
        except Refusal as refusal:
            return refusal

    results = await asyncio.gather(*map(one, range(50)))
    taken = sorted((result for result in results if isinstance(result, Receipt)), key=lambda one: one.status)
    assert [receipt.status for receipt in taken] == ["answered", "waiting_quorum"]
    refusals = [result for result in results if isinstance(result, Refusal)]
    assert {refusal.code for refusal in refusals} == {"already_answered"}
    assert all(f"answered by {taken[0].by} at" in refusal.message for refusal in refusals)
    closing = [event.data.by for event in await house.runs.watch.events(run) if isinstance(event.data, QuestionClosed)]
    assert closing == [taken[0].by]
    await house.answer(run, "end")


async def test_a_worker_that_starts_anew_knows_who_has_accepted(temporal: Client, tmp_path: Path) -> None:
    queue = f"anew-{uuid.uuid4().hex[:8]}"
    house = Harness(temporal, queue, tmp_path)
    async with worker_for(temporal, queue):
        run = await house.start(TWO % "")
        first = await house.answer(run, "warm", by="user:ana", key="k")
    guard.DEPLOYMENT.groups = {"editors": ["user:bob"]}
    async with worker_for(temporal, queue):
        question = await house.one(run)
        assert (question.accepted_by, question.answers_so_far) == (["user:ana"], 1)
        assert await house.answer(run, "warm", question, by="user:ana", key="k") == first
        await house.answer(run, "cold", question, by="user:bob")
        assert await house.output(run) == "cold"
        await house.replay()


async def test_the_current_details_say_how_far_it_is(house: Harness) -> None:
    run = await house.start(TWO % "")
    await house.answer(run, "warm", by="user:ana")
    handle = house.client.get_workflow_handle(run)

    async def told() -> bool:
        details = (await handle.query("__temporal_workflow_metadata")).current_details
        return "Waits for group:editors. 1 of 2 have accepted (user:ana)" in details and "update execute" in details

    assert await until(told, "the details")
    await house.answer(run, "cold", by="user:bob")

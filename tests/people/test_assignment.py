"""Claim, release, delegate, reassign: who may, what they change, and that an answer counts once all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from holdfast.activities import tool
from holdfast.client.answering import Answering
from holdfast.client.runs import Runs
from holdfast.protocol import guard
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.assignment import CLAIM, MOST_ASSIGNMENTS
from holdfast.protocol.guard import Key
from holdfast.protocol.questions import Question
from holdfast.runtime.errors import NothingSent
from tests.conftest import Harness, until
from tests.flows import ASK, repeat, written

GROUPS = {"editors": ["user:ana", "user:bob"], "legal": ["user:eve", "user:zoe"]}
ONE = "steps: [{kind: hitl, name: ask, message: Go?%s}]"
ANYONE = ONE % ""
EDITORS = ONE % ", assignees: ['group:editors']"
BOTH = ONE % ", assignees: ['user:ana', 'user:bob'], quorum: 2"
STEERED = "access: {steer: ['user:max']}\n" + EDITORS


@pytest.fixture(autouse=True)
def groups(house: Harness) -> Iterator[None]:
    """The groups of this deployment."""
    guard.DEPLOYMENT.groups = dict(GROUPS)
    yield
    guard.DEPLOYMENT.groups, guard.DEPLOYMENT.keys = {}, []


async def refused(work: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await work
    return caught.value


async def waits_for(house: Harness, run: str, *names: str) -> bool:
    """Return whether the search attribute names these people."""
    listed = [row async for row in house.client.list_workflows(f"WorkflowId = '{run}'")]
    return [
        list(pair.value) for row in listed for pair in row.typed_search_attributes if "Waiting" in pair.key.name
    ] == [list(names)]


async def straight(house: Harness, question: Question, name: str, payload: object) -> ApplicationError:
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await house.client.get_workflow_handle(question.owner).execute_update(name, payload)
    assert isinstance(caught.value.cause, ApplicationError)
    return caught.value.cause


# Claims


async def test_who_claims_a_question_answers_it_and_nobody_else(house: Harness) -> None:
    run = await house.start(EDITORS)
    before = await house.one(run)
    receipt = await house.runs.assignment.claim(run, "ask", by="user:ana")
    question = await house.one(run)
    assert (question.claimed_by, question.claimed_until) == ("user:ana", receipt.until)
    assert (question.id, question.digest) == (before.id, before.digest)
    refusal = await refused(house.answer(run, "go", by="user:bob"))
    assert (refusal.code, "claimed by user:ana until" in refusal.message) == ("not_allowed", True)
    await house.answer(run, "go", by="user:ana")
    assert await house.output(run) == "go"


async def test_a_claim_ends_after_its_time(house: Harness) -> None:
    run = await house.start(ANYONE)
    await house.runs.assignment.claim(run, "ask", by="user:ana", seconds=0.01)
    question = await house.one(run)
    assert question.claimed_until is not None
    assert question.claimant(question.claimed_until) is None
    await until(lambda: taken(house, run, question), "the end of the claim")
    assert await house.output(run) == "go"


async def taken(house: Harness, run: str, question: Question) -> bool:
    try:
        await house.answer(run, "go", question, by="user:bob")
    except Refusal:
        return False
    return True


async def test_a_claim_lasts_eight_hours_unless_it_says_otherwise_and_can_be_extended(house: Harness) -> None:
    run = await house.start(ANYONE)
    await house.one(run)
    receipt = await house.runs.assignment.claim(run, "ask", by="user:ana")
    assert receipt.until == receipt.at + timedelta(hours=8)
    receipt = await house.runs.assignment.claim(run, "ask", by="user:ana", seconds=86400)
    assert receipt.until == receipt.at + timedelta(days=1) == (await house.one(run)).claimed_until
    await house.answer(run, "go", by="user:ana")


async def test_only_who_may_answer_may_claim_and_only_by_name(house: Harness) -> None:
    run = await house.start(EDITORS)
    question = await house.one(run)
    assert (await refused(house.runs.assignment.claim(run, "ask", by="user:eve"))).code == "not_allowed"
    assert (await straight(house, question, CLAIM, {"question": question.id})).type == "not_allowed"
    assert (await straight(house, question, CLAIM, {"question": "nope", "by": "ana"})).type == "unknown_question"
    assert (await straight(house, question, CLAIM, ["ask"])).type == "invalid_answer"
    assert (await refused(house.runs.assignment.claim(run, "ask", by="ana", seconds=1e9))).code == "invalid_answer"
    assert await house.types(run) == ["run.started", "step.started", "question.asked"]
    await house.answer(run, "go", question, by="ana")


@pytest.mark.slow
async def test_a_release_lets_others_answer(house: Harness) -> None:
    run = await house.start(EDITORS)
    await house.one(run)
    assert (await refused(house.runs.assignment.release(run, "ask", by="user:ana"))).code == "not_allowed"
    await house.runs.assignment.claim(run, "ask", by="user:ana")
    assert (await refused(house.runs.assignment.release(run, "ask", by="user:bob"))).code == "not_allowed"
    await house.runs.assignment.release(run, "ask", by="user:ana")
    await house.answer(run, "go", by="user:bob")


async def test_who_may_steer_may_decline_what_another_has_claimed(house: Harness) -> None:
    run = await house.start(STEERED.replace("group:editors", "user:max', 'user:ana"))
    question = await house.one(run)
    await house.runs.assignment.claim(run, "ask", by="user:ana")
    assert (await refused(house.answer(run, "go", question, by="user:max"))).code == "not_allowed"
    await house.runs.answer(run, [Answer(question=question.id, action="decline")], by="user:max")
    assert (await house.result(run)).status == "failed"


async def test_an_acceptance_below_the_quorum_ends_the_claim(house: Harness) -> None:
    run = await house.start(BOTH)
    await house.one(run)
    await house.runs.assignment.claim(run, "ask", by="user:ana")
    await house.answer(run, "go", by="user:ana")
    await house.answer(run, "go", by="user:bob")
    assert await house.output(run) == "go"


async def test_a_repeated_command_gets_a_receipt_and_counts_once(house: Harness) -> None:
    run = await house.start(ANYONE)
    question = await house.one(run)
    payload = {"question": question.id, "by": "user:ana", "key": "k"}
    handle = house.client.get_workflow_handle(run)
    receipts = [await handle.execute_update(CLAIM, payload) for _ in range(2)]
    assert [receipt["status"] for receipt in receipts] == ["claimed", "claimed"]
    assert (await straight(house, question, CLAIM, {**payload, "seconds": 60})).type == "key_conflict"
    assert (await house.types(run)).count("question.claimed") == 1
    await house.answer(run, "go", by="user:ana")


@pytest.mark.slow
async def test_a_question_takes_fifty_of_these_commands(house: Harness) -> None:
    run = await house.start(ANYONE)
    question = await house.one(run)
    handle = house.client.get_workflow_handle(run)
    for _ in range(MOST_ASSIGNMENTS):
        await handle.execute_update(CLAIM, {"question": question.id, "by": "user:ana"})
    refusal = await refused(house.runs.assignment.claim(run, "ask", by="user:ana"))
    assert (refusal.code, "50 times" in refusal.message) == ("not_allowed", True)
    await house.answer(run, "go", by="user:ana")


@pytest.mark.first_row
@pytest.mark.parametrize("name", ["claim", "release", "delegate", "reassign"])
async def test_a_signal_is_refused(house: Harness, name: str) -> None:
    run = await house.start(ANYONE)
    question = await house.one(run)
    await house.client.get_workflow_handle(run).signal(name, {"question": question.id, "by": "ana", "to": "user:bob"})

    async def listed() -> bool:
        [view] = await house.runs.tree.views(run)
        return [signal.code for signal in view.refused] == ["not_allowed"]

    await until(listed, "the refusal")
    assert (await house.one(run)) == question


async def test_an_answer_by_signal_to_what_another_has_claimed_is_refused(house: Harness) -> None:
    run = await house.start(ANYONE)
    question = await house.one(run)
    await house.runs.assignment.claim(run, "ask", by="user:ana")
    with pytest.raises(NothingSent, match="claimed by user:ana"):
        await house.runs.answer(run, [Answer(question=question.id, content="go")], by="bob", signal=True)
    await house.client.get_workflow_handle(run).signal("answer", {"question": question.id, "content": "go"})

    async def listed() -> bool:
        [view] = await house.runs.tree.views(run)
        return ["claimed by user:ana" in signal.message for signal in view.refused] == [True]

    await until(listed, "the refusal")
    await house.answer(run, "go", question, by="user:ana")


async def test_a_guarded_run_takes_a_claim_with_a_token_only(house: Harness) -> None:
    key = Key("ops", "secret", scope=frozenset(["answer"]))
    guard.DEPLOYMENT.keys = [key]
    runs = Runs(house.client, house.runs.task_queue, Answering(keys=[key]))
    house.runs, open_runs = runs, house.runs
    run = await house.start(ANYONE)
    question = await house.one(run)
    assert (await refused(open_runs.assignment.claim(run, "ask", by="user:ana"))).code == "bad_token"
    assert (await runs.assignment.claim(run, "ask", by="user:ana")).status == "claimed"
    assert (await refused(runs.assignment.reassign(run, "ask", ["user:bob"], by="user:ana"))).code == "not_allowed"
    await house.answer(run, "go", question, by="user:ana")


# Delegation


async def test_a_delegate_answers_instead_of_the_person_who_delegates(house: Harness) -> None:
    run = await house.start(EDITORS)
    before = await house.one(run)
    receipt = await house.runs.assignment.delegate(run, "ask", "user:zoe", by="user:ana")
    assert receipt.assignees == ["group:editors", "user:zoe"]
    question = await house.one(run)
    assert (question.id, question.digest, question.delegations) == (before.id, before.digest, {"user:ana": "user:zoe"})
    refusal = await refused(house.answer(run, "go", by="user:ana"))
    assert (refusal.code, "user:ana has delegated it to user:zoe" in refusal.message) == ("not_allowed", True)
    await until(lambda: waits_for(house, run, "group:editors", "user:zoe"), "the search attribute")
    await house.answer(run, "go", by="user:zoe")


@pytest.mark.slow
async def test_what_waits_for_anyone_waits_for_the_delegate_alone(house: Harness) -> None:
    run = await house.start(ANYONE)
    await house.one(run)
    await house.runs.assignment.delegate(run, "ask", "user:zoe", by="user:ana")
    assert (await refused(house.answer(run, "go", by="user:bob"))).code == "not_allowed"
    await house.runs.assignment.delegate(run, "ask", "user:ana", by="user:zoe")
    assert (await house.one(run)).delegations == {"user:zoe": "user:ana"}
    await house.answer(run, "go", by="user:ana")


@pytest.mark.first_row
@pytest.mark.parametrize("to", ["user:zoe", "group:legal", "group:nobody", "user:ana"])
async def test_a_delegation_never_reaches_who_may_not_answer(house: Harness, to: str) -> None:
    run = await house.start(ONE % ", not_by: ['group:legal']")
    await house.one(run)
    refusal = await refused(house.runs.assignment.delegate(run, "ask", to, by="user:ana"))
    assert refusal.code == ("invalid_answer" if to == "user:ana" else "not_allowed"), refusal.message
    await house.answer(run, "go", by="user:ana")


async def test_a_delegate_counts_once_in_a_quorum(house: Harness) -> None:
    run = await house.start(BOTH)
    await house.one(run)
    refusal = await refused(house.runs.assignment.delegate(run, "ask", "user:bob", by="user:ana"))
    assert "2 people must accept, and only 1 could: user:bob" in refusal.message
    await house.answer(run, "go", by="user:bob")
    assert (
        "counts once" in (await refused(house.runs.assignment.delegate(run, "ask", "user:bob", by="user:ana"))).message
    )
    assert (
        await refused(house.runs.assignment.delegate(run, "ask", "user:eve", by="user:bob"))
    ).code == "already_answered"
    await house.runs.assignment.delegate(run, "ask", "user:eve", by="user:ana")
    await house.answer(run, "go", by="user:eve")
    assert await house.output(run) == "go"


# Reassignment


@pytest.mark.slow
async def test_who_may_steer_reassigns_a_question(house: Harness) -> None:
    run = await house.start(STEERED)
    await house.one(run)
    await house.runs.assignment.claim(run, "ask", by="user:ana")
    assert (
        await refused(house.runs.assignment.reassign(run, "ask", ["user:zoe"], by="user:ana"))
    ).code == "not_allowed"
    receipt = await house.runs.assignment.reassign(run, "ask", ["user:zoe"], by="user:max", comment="ana has left")
    assert (receipt.assignees, (await house.one(run)).claimed_by) == (["user:zoe"], None)
    assert (await refused(house.answer(run, "go", by="user:bob"))).code == "not_allowed"
    await house.answer(run, "go", by="user:zoe")
    [event] = [event for event in await house.runs.watch.events(run) if event.type == "question.reassigned"]
    assert (event.data.by, event.data.comment) == ("user:max", "ana has left")


CLAIMED = asyncio.Event()


@tool
async def working() -> str:
    """Keep the server, which skips the time in which nothing works, at the time of the question."""
    await CLAIMED.wait()
    return "done"


ESCALATED = f"""
steps:
- kind: parallel
  name: both
  branches:
    one:
    - {{kind: hitl, name: ask, message: Go?, on_timeout: escalate, escalate: [{{after: 1d, assignees: ['user:ana']}}]}}
    two: [{{name: other, uses: "{__name__}:working"}}]
"""


@pytest.mark.slow
async def test_an_escalation_ends_claim_and_delegation(later: Harness) -> None:
    run = await later.start(ESCALATED)
    await until(lambda: later.runs.questions(run), "the question")
    await later.runs.assignment.delegate(run, "ask", "user:zoe", by="user:ana")
    await later.runs.assignment.claim(run, "ask", by="user:zoe", seconds=3 * 86400)
    CLAIMED.set()

    async def escalated() -> bool:
        return (await later.one(run)).assignees == ["user:ana"]

    await until(escalated, "the escalation")
    assert (await later.one(run)).delegations == {}
    await later.answer(run, "go", by="user:ana")


# Boundaries


@pytest.mark.slow
async def test_claims_and_delegations_reach_a_loop_that_has_continued_as_new(house: Harness) -> None:
    run = await house.start(written(repeat(ASK, most=3)))
    await house.answered(run, "1", "2")
    question = await house.one(run)
    assert question.iteration == 3
    await house.runs.assignment.claim(run, question.id, by="user:ana")
    await house.runs.assignment.delegate(run, question.id, "user:zoe", by="user:ana")
    assert (await refused(house.answer(run, "3", by="user:ana"))).code == "not_allowed"
    await house.answer(run, "3", by="user:zoe")
    await house.output(run)  # an answer is accepted before the run goes on
    types = await house.types(run)
    assert types.index("question.claimed") < types.index("question.delegated") < types.index("run.completed")


@pytest.mark.slow
async def test_a_claim_of_the_last_iteration_is_not_one_of_the_next(house: Harness) -> None:
    run = await house.start(written(repeat(ASK, most=2)))
    question = await house.one(run)
    await house.runs.assignment.claim(run, question.id, by="user:ana")
    await house.answer(run, "1", question, by="user:ana")
    assert (await house.one(run)).claimed_by is None
    await house.answer(run, "2", by="user:bob")

"""A guarded deployment: commands need tokens of its keys, and signals are not taken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.client import Client, WorkflowExecutionStatus

from holdfast.client.answering import Answering
from holdfast.client.runs import Runs
from holdfast.protocol import guard
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.guard import BadToken, Key, Proof, SignedCommand, canonical, check_token, sign
from tests.conftest import Harness, until, worker_for
from tests.flows import ONE
from tests.people.raw_answers import signalled, straight, updated
from tests.repository import ROOT

KEY = Key("ops", "a key of the deployment")
TWO = """
steps:
  - kind: parallel
    name: both
    branches:
      a: [{kind: hitl, name: one, message: A?}]
      b: [{kind: hitl, name: two, message: B?}]
"""
NESTED = """
steps:
  - kind: loop
    name: outer
    loop:
      max_loops: 2
      body:
        - kind: loop
          name: inner
          loop: {max_loops: 1, body: [{kind: hitl, name: ask, message: Go?}]}
"""
ENDLESS = """
steps:
  - kind: loop
    name: l
    loop: {max_loops: 1000, checkpoint_every: 1, body: [{kind: hitl, name: ask, message: Go?}]}
"""
VECTORS = json.loads((ROOT / "docs" / "token-vectors.json").read_text())


@pytest.fixture(autouse=True)
def guarded(house: Harness) -> Iterator[None]:
    """The worker knows the key, and so do the clients of this house."""
    guard.DEPLOYMENT.keys = [KEY]
    house.runs = Runs(house.client, house.runs.task_queue, Answering(keys=[KEY]))
    yield
    guard.DEPLOYMENT.keys = []


def soon(hours: float = 1) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


def signed(run: str, owner: str, command: str, payload: dict[str, Any], key: Key = KEY) -> dict[str, Any]:
    proof: Proof = "person" if key.proves == "person" else "client"
    return {**payload, "token": sign(key, SignedCommand(run, owner, command, payload), soon(), proof)}


async def code_of(house: Harness, owner: str, payload: Any, name: str) -> str | None:
    """The code of a refusal by the workflow itself; None if it is taken."""
    told = await updated(house, owner, payload, name)
    return None if told is None else told.type


async def statuses(house: Harness, run: str) -> list[str]:
    return [view.status for view in await house.runs.tree.views(run)]


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["name"])
def test_the_vectors_hold(case: dict[str, Any]) -> None:
    command = SignedCommand(*(case[name] for name in ("run", "owner", "command", "payload")))
    key, expiry = Key(**case["key"]), datetime.fromtimestamp(case["expiry"], UTC)
    assert command.message(case["expiry"], case["proof"]).decode() == case["message"]
    assert sign(key, command, expiry, case["proof"]) == case["token"]
    assert check_token([Key("other", "k"), key], case["token"], command) == (key, case["proof"])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_canonical_numbers_are_the_same_numbers(number: float) -> None:
    assert float(canonical(number)) == number


@pytest.mark.parametrize(
    "token",
    [
        None,
        1,
        "",
        "ops",
        "ops.1.ab",
        "ops.1.2.3.4",
        "ops.x.client.ab",
        "ops.\u0661.client.ab",
        f"ops.{'9' * 400}.client.ab",
    ],
)
def test_what_is_no_token_is_refused(token: Any) -> None:
    with pytest.raises(BadToken):
        check_token([KEY], token, SignedCommand("r", "r", "pause", {}))


async def test_a_client_with_the_key_answers(house: Harness) -> None:
    run = await house.start(ONE)
    await house.answer(run, "go", by="user:ana")
    assert await house.output(run) == "go"


async def test_an_answer_with_no_token_a_forged_or_an_old_one_is_refused(house: Harness) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    answer = {"answers": [{"question": question.id, "content": "go"}], "by": "user:ana"}
    said = SignedCommand(run, run, "answer", answer)
    tokens = [
        None,
        "nonsense",
        sign(Key("ops", "another key"), said, soon()),
        sign(Key("other", KEY.secret), said, soon()),
        sign(KEY, said, soon(-1)),
        sign(KEY, said, soon(), "person"),
        sign(KEY, said, soon()).replace(".client.", ".person."),
    ]
    for token in tokens:
        assert (await straight(house, question, {**answer, "token": token})).type == "bad_token"
    await house.answer(run, "go", question)


async def test_a_token_is_for_this_content_owner_person_and_command_only(house: Harness) -> None:
    run = await house.start(TWO)
    one, two = await house.asked(run, 2)
    payload = {"answers": [{"question": one.id, "content": "go"}], "by": "user:ana", "key": "k"}
    good = signed(run, run, "answer", payload)
    answers = good["answers"]
    for other in (
        {"answers": [{**answers[0], "content": "stop"}]},
        {"answers": [{**answers[0], "action": "decline"}]},
        {"answers": [{**answers[0], "question": two.id}]},
        {"by": "user:bob"},
        {"key": "another"},
        {"comment": "and more"},
        {"token": signed(run, f"{run}/x", "answer", payload)["token"]},
        {"token": signed("another", run, "answer", payload)["token"]},
        {"token": signed(run, run, "tell", payload)["token"]},
    ):
        assert (await straight(house, one, {**good, **other})).type == "bad_token"
    assert await updated(house, run, good) is None
    assert await updated(house, run, good) is None  # the same once more: the same receipt
    await house.answer(run, "go", two)


@pytest.mark.slow
async def test_a_key_is_for_its_scope_only(house: Harness) -> None:
    answers, steers = (Key(name, name, scope=frozenset([name])) for name in ("answer", "steer"))
    guard.DEPLOYMENT.keys = [answers, steers]
    run = await house.start(ONE)
    question = await house.one(run)
    answer = {"answers": [{"question": question.id, "content": "go"}]}
    assert await code_of(house, run, signed(run, run, "answer", answer, steers), "answer") == "not_allowed"
    assert await code_of(house, run, signed(run, run, "pause", {"key": "k"}, answers), "pause") == "not_allowed"
    assert await code_of(house, run, signed(run, run, "pause", {"key": "k"}, steers), "pause") is None
    assert await code_of(house, run, signed(run, run, "resume", {"key": "l"}, steers), "resume") is None
    assert await code_of(house, run, signed(run, run, "answer", answer, answers), "answer") is None
    assert await house.output(run) == "go"


async def test_the_starter_steers_with_a_key_that_proves_a_person(house: Harness) -> None:
    inbox = Key("inbox", "i", "person", frozenset(["answer"]))
    guard.DEPLOYMENT.keys = [KEY, inbox]
    run = await house.start(ONE, started_by="user:ana")
    question = await house.one(run)
    for by, code in (("user:bob", "not_allowed"), ("user:ana", None)):
        payload = signed(run, run, "pause", {"by": by, "key": f"k {by}"}, inbox)
        assert await code_of(house, run, payload, "pause") == code
    await house.runs.control.resume(run)
    await house.answer(run, "go", question)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pause", "resume"])
async def test_a_guarded_run_is_steered_with_a_token_alone(house: Harness, name: str) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    assert (await signalled(house, run, name=name)).code == "not_allowed"
    for payload in (None, {"key": "k"}, {"key": "k", "token": "ops.1893456000.client.00"}):
        assert await code_of(house, run, payload, name) == "bad_token"
    assert await code_of(house, run, signed(run, run, name, {}), name) == "not_allowed"  # it has no key
    await house.answer(run, "go", question)
    assert await house.output(run) == "go"


async def test_a_pause_that_is_sent_again_after_the_resume_pauses_nothing(house: Harness) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    pause = signed(run, run, "pause", {"key": "k"})
    assert await code_of(house, run, pause, "pause") is None
    assert (await house.runs.control.resume(run)).left == []
    assert await code_of(house, run, pause, "pause") is None
    assert await statuses(house, run) == ["waiting"]
    other = signed(run, run, "pause", {"key": "k", "by": "user:bob"})
    assert await code_of(house, run, other, "pause") == "key_conflict"
    await house.answer(run, "go", question)


@pytest.mark.slow
async def test_pause_and_resume_reach_the_children_of_a_guarded_run(house: Harness) -> None:
    run = await house.start(NESTED)
    first = await house.one(run)
    await house.runs.control.pause(run)
    assert await statuses(house, run) == ["paused"] * 3
    await house.answer(run, "go", first)
    await until(lambda: _has_ended(house, first.owner), "the end of the inner loop")
    assert "paused" in await statuses(house, run)
    await house.runs.control.resume(run)
    second = await house.one(run)  # in a child that was started later
    assert second.id != first.id and "paused" not in await statuses(house, run)
    await house.answer(run, "go", second)
    assert await house.output(run) == "go"


@pytest.mark.slow
async def test_pause_and_resume_of_a_guarded_run_hold_over_boundaries_and_another_worker(
    temporal: Client, tmp_path: Path
) -> None:
    away = Harness(temporal, f"test-{uuid4().hex[:8]}", tmp_path)
    away.runs = Runs(temporal, away.runs.task_queue, Answering(keys=[KEY]))
    async with worker_for(temporal, away.runs.task_queue):
        run = await away.start(ENDLESS)
        await away.answered(run, "1", "2")
        question = await away.one(run)
        assert (await away.runs.control.pause(run)).left == []
    async with worker_for(temporal, away.runs.task_queue):
        await away.answer(run, "3", question)
        assert await statuses(away, run) == ["paused"] * 2
        await away.runs.control.resume(run)
        following = await away.one(run)
        assert following.iteration == 4 and "paused" not in await statuses(away, run)
        assert await code_of(away, following.owner, {"key": "k"}, "pause") == "bad_token"
        await away.runs.control.cancel(run)
    await away.replay()


async def _has_ended(house: Harness, workflow: str) -> bool:
    return (await house.client.get_workflow_handle(workflow).describe()).status != WorkflowExecutionStatus.RUNNING


async def test_a_guarded_run_takes_no_signal(house: Harness) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    await house.client.get_workflow_handle(run).signal("answer", {"question": question.id, "content": "go"})

    async def refused() -> list[str]:
        return [one.code for one in (await house.runs.state(run)).views[0].refused]

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


@pytest.mark.slow
async def test_who_may_steer_is_said_in_the_blueprint(house: Harness) -> None:
    guard.DEPLOYMENT.keys = []
    house.runs = Runs(house.client, house.runs.task_queue, Answering())
    guard.DEPLOYMENT.groups = {"ops": ["user:ana"]}
    try:
        run = await house.start(f"access: {{steer: ['group:ops']}}\n{NESTED}")
        question = await house.one(run)
        assert (await signalled(house, run, name="pause")).code == "not_allowed"
        for by, code in ((None, "not_allowed"), ("user:bob", "not_allowed"), ("user:ana", None)):
            assert await code_of(house, question.owner, {"by": by}, "pause") == code
        await house.runs.control.resume(run, "user:ana")
        await house.answer(run, "go", question)
        await house.answer(run, "go", await house.one(run))
        assert await house.output(run) == "go"
    finally:
        guard.DEPLOYMENT.groups = {}

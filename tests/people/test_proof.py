"""What proves who answers: it stands in the token, a validator derives it from the key, the event records it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.cli.render import answer_command
from holdfast.client.answering import Answering, Sender
from holdfast.client.history import answers_given
from holdfast.client.runs import Runs
from holdfast.protocol import guard
from holdfast.protocol.answers import Answer, Refusal, read_answers
from holdfast.protocol.events import QuestionReplied
from holdfast.protocol.guard import Key, Proof, SignedCommand, proof_in, sign
from holdfast.protocol.people import who_may, with_proved
from holdfast.protocol.questions import Question
from holdfast.runtime.errors import NothingSent
from tests.conftest import Harness
from tests.flows import ONE
from tests.people.raw_answers import signalled, updated

INBOX = Key("inbox", "of the inbox", "person")
OPS = Key("ops", "of the command line")
ANA = Sender("user:ana", proof="person")
EDITORS = "steps: [{kind: hitl, name: ask, message: Go?, assignees: ['group:editors']}]"
LEAVE = "steps: [{kind: hitl, name: ask, ask: permission, message: Pay?}]"


@pytest.fixture(autouse=True)
def doors() -> Iterator[None]:
    yield
    guard.DEPLOYMENT.keys, guard.DEPLOYMENT.inbox, guard.DEPLOYMENT.groups = [], None, {}


def of_inbox(house: Harness, sender: Sender, *, keys: list[Key] | None = None) -> Runs:
    """The runs as the embedded set's inbox has them for somebody, where the deployment has these keys."""
    guard.DEPLOYMENT.keys, guard.DEPLOYMENT.inbox = keys or [], INBOX
    answering = Answering(keys=keys or [], inbox=INBOX)
    return Runs(house.client, house.runs.task_queue, answering).acting_as(sender)


async def send(runs: Runs, question: Question, content: Any = "go", **how: Any) -> None:
    await runs.answer(question.run, [Answer(question=question.id, content=content, **how)], by="user:forged")


async def replies(house: Harness, run: str) -> list[QuestionReplied]:
    return [event.data for event in await house.runs.watch.events(run) if isinstance(event.data, QuestionReplied)]


def signed(question: Question, key: Key, proof: Proof, **payload: Any) -> dict[str, Any]:
    """An answer to it as any client could make it that holds the key."""
    payload = {"answers": [{"question": question.id, "content": "go"}], "by": "user:ana", "key": "k", **payload}
    command = SignedCommand(question.run, question.owner, "answer", payload)
    return {**payload, "token": sign(key, command, datetime.now(UTC) + timedelta(minutes=1), proof)}


@pytest.mark.first_row
@pytest.mark.parametrize("proof", ["person", "link", "client", "assistant", "service"])
async def test_the_event_says_what_the_token_proves(house: Harness, proof: Proof) -> None:
    run = await house.start(ONE)
    await send(of_inbox(house, Sender("user:ana", proof=proof)), await house.one(run))
    await house.output(run)
    [reply] = await replies(house, run)
    assert (reply.by, reply.proved_by) == ("user:ana", proof)


async def test_without_a_token_nothing_is_proved(house: Harness) -> None:
    run = await house.start(ONE)
    await house.answer(run, "go", by="user:ana")
    await house.output(run)
    assert [reply.proved_by for reply in await replies(house, run)] == ["nothing"]


async def test_without_any_key_a_sign_in_proves_nothing(house: Harness) -> None:
    run = await house.start(ONE)
    await send(house.runs.acting_as(replace(ANA, groups=("group:editors",))), await house.one(run))
    await house.output(run)
    assert [(reply.by, reply.proved_by) for reply in await replies(house, run)] == [("user:ana", "nothing")]


async def test_a_token_in_a_signal_proves_nothing(house: Harness) -> None:
    run = await house.start(ONE)
    forged = signed(await house.one(run), Key("inbox", "guessed", "person"), "person")
    await house.client.get_workflow_handle(run).signal("answer", forged)
    await house.output(run)
    assert [reply.proved_by for reply in await replies(house, run)] == ["nothing"]


@pytest.mark.slow
@pytest.mark.parametrize("key", [Key("inbox", "guessed", "person"), Key("other", INBOX.secret, "person")])
async def test_a_token_that_cannot_be_verified_is_refused_though_none_is_needed(house: Harness, key: Key) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    for inbox in (None, INBOX):
        guard.DEPLOYMENT.inbox = inbox
        refusal = await updated(house, run, signed(question, key, "person"))
        assert refusal is not None and refusal.type == "bad_token"
    await house.answer(run, "go", question)


@pytest.mark.slow
@pytest.mark.parametrize("proof", ["person", "link", "nothing"])
async def test_a_key_of_a_client_cannot_prove_a_person(house: Harness, proof: Any) -> None:
    guard.DEPLOYMENT.keys = [OPS]
    run = await house.start(ONE)
    refusal = await updated(house, run, signed(await house.one(run), OPS, proof))
    assert refusal is not None and refusal.type == "bad_token" and "ops" in refusal.message
    await house.runs.control.cancel(run)


async def test_the_embedded_inbox_guards_no_run(house: Harness) -> None:
    runs = of_inbox(house, ANA)
    run = await house.start(ONE)
    question = await house.one(run)
    assert (await runs.control.pause(run)).left == []
    assert (await house.runs.control.unpause(run, "user:bob")).left == []  # without a token
    await house.answer(run, "go", question)


@pytest.mark.slow
async def test_everything_is_sent_in_the_name_of_the_sender(house: Harness) -> None:
    guard.DEPLOYMENT.keys = [replace(INBOX, scope=frozenset(["answer"]))]  # who started a run may steer it
    runs = of_inbox(house, ANA, keys=list(guard.DEPLOYMENT.keys))
    run = await runs.start(house.load(ONE), started_by="user:forged")
    house.started.append(run)
    await house.one(run)
    assert (await runs.control.pause(run, "user:forged")).left == []
    assert (await runs.control.resume(run, "user:forged")).left == []
    claimed = await runs.assignment.claim(run, "ask", by="user:forged")
    assert claimed.by == "user:ana"
    await send(runs, await house.one(run))


async def test_a_client_that_holds_no_key_for_it_sends_nothing(house: Harness) -> None:
    guard.DEPLOYMENT.keys = [OPS]
    runs = Runs(house.client, house.runs.task_queue, Answering(keys=[OPS])).acting_as(ANA)
    run = await house.start(ONE)
    with pytest.raises(NothingSent, match='may prove a person.* proves = "person"'):
        await send(runs, await house.one(run))
    await house.runs.control.cancel(run)


def test_an_inbox_says_which_key_it_lacks() -> None:
    assert Answering().inbox_problem is None
    assert Answering(keys=[OPS, INBOX]).inbox_problem is None
    assert Answering(keys=[OPS], inbox=INBOX).inbox_problem is None
    assert "HOLDFAST_INBOX_KEY" in str(Answering(keys=[OPS]).inbox_problem)


# Groups


async def test_proved_groups_count_in_place_of_those_of_the_file(house: Harness) -> None:
    guard.DEPLOYMENT.groups = {"editors": ["user:bob"]}
    run = await house.start(EDITORS)
    question = await house.one(run)
    bob = Sender("user:bob", ("group:legal",), "person")
    with pytest.raises(Refusal, match="user:bob may not answer"):
        await send(of_inbox(house, bob), question)
    await send(of_inbox(house, replace(ANA, groups=("group:editors",))), question)
    await house.output(run)
    assert [reply.groups for reply in await replies(house, run)] == [["group:editors"]]


async def test_a_sign_in_that_proves_no_groups_leaves_those_of_the_file(house: Harness) -> None:
    guard.DEPLOYMENT.groups = {"editors": ["user:ana"]}
    run = await house.start(EDITORS)
    await send(of_inbox(house, ANA), await house.one(run))
    await house.output(run)


@pytest.mark.parametrize("keys", [[], [OPS]])
async def test_groups_of_anybody_else_are_refused(house: Harness, keys: list[Key]) -> None:
    guard.DEPLOYMENT.keys = keys
    run = await house.start(EDITORS)
    question = await house.one(run)
    payload = signed(question, OPS, "client", groups=["group:editors"])
    refusal = await updated(house, run, payload if keys else {**payload, "token": None})
    assert refusal is not None and refusal.type == "not_allowed" and "groups" in refusal.message
    await house.runs.control.cancel(run)


@pytest.mark.slow
async def test_proved_groups_say_who_may_steer(house: Harness) -> None:
    run = await house.start(f"access: {{steer: ['group:ops']}}\n{ONE}")
    await house.one(run)
    with pytest.raises(Refusal):
        await of_inbox(house, ANA).control.pause(run)
    operator = of_inbox(house, replace(ANA, groups=("group:ops",)))
    assert (await operator.control.pause(run)).left == []
    with pytest.raises(Refusal, match="group:ops may steer this run"):
        await of_inbox(house, ANA).control.cancel(run)
    assert (await operator.control.cancel(run)).status == "cancelled"


def test_what_is_no_group_is_refused_as_one() -> None:
    with pytest.raises(Refusal, match="not a group"):
        read_answers({"question": "q", "groups": ["user:ana"]})


def test_groups_of_the_file_stay_for_everybody_else() -> None:
    file = {"editors": ["user:ana", "user:bob"]}
    assert with_proved(file, "user:ana", None) == file
    assert with_proved(file, "user:ana", []) == {"editors": ["user:bob"]}
    assert with_proved(file, None, ["group:legal"]) == file


# Consent


@pytest.mark.parametrize(("proof", "code"), [("service", "not_allowed"), ("client", None)])
async def test_a_service_cannot_consent(house: Harness, proof: Proof, code: str | None) -> None:
    run = await house.start(LEAVE)
    question = await house.one(run)
    sent = send(of_inbox(house, Sender("user:bot", proof=proof)), question, {"granted": True}, digest=question.digest)
    if code is None:
        await sent
        return
    with pytest.raises(Refusal) as caught:
        await sent
    assert caught.value.code == code
    await house.answer(run, {"granted": True}, question)


async def test_a_service_may_decline(house: Harness) -> None:
    run = await house.start(LEAVE)
    runs = of_inbox(house, Sender("user:bot", proof="service"))
    await runs.answer(run, [Answer(question=(await house.one(run)).id, action="decline")])
    await house.result(run)


@pytest.mark.slow
async def test_a_consent_without_the_digest_of_what_was_shown_is_unseen(house: Harness) -> None:
    unseen = []
    for digest in (True, False):
        run = await house.start(LEAVE)
        question = await house.one(run)
        await send(house.runs, question, {"granted": True}, digest=question.digest if digest else None)
        await house.result(run)
        unseen += [reply.unseen for reply in await replies(house, run)]
    assert unseen == [None, True]


async def test_an_answer_that_is_no_consent_is_not_unseen(house: Harness) -> None:
    run = await house.start(ONE)
    await house.answer(run, "go")
    await house.output(run)
    assert [reply.unseen for reply in await replies(house, run)] == [None]


# Steps that take only proved answers

SIGNED = "steps: [{kind: hitl, name: ask, message: Go?, proof: person}]"


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("proof", ["link", "client", "assistant", "service"])
async def test_a_step_with_proof_refuses_less_than_a_sign_in(house: Harness, proof: Proof) -> None:
    run = await house.start(SIGNED)
    question = await house.one(run)
    for runs in (of_inbox(house, Sender("user:ana", proof=proof)), house.runs):
        for action in ("accept", "decline", "cancel"):
            with pytest.raises(Refusal, match="signed in") as caught:
                await runs.answer(run, [Answer(question=question.id, action=action, content="go")], by="user:ana")
            assert caught.value.code == "not_allowed"
    await send(of_inbox(house, ANA), question)
    assert await house.output(run) == "go"


async def test_a_step_with_proof_takes_no_signal(house: Harness) -> None:
    run = await house.start(SIGNED)
    question = await house.one(run)
    with pytest.raises(NothingSent, match="signed in"):
        await house.runs.answer(run, [Answer(question=question.id, content="go")], by="user:ana", signal=True)
    refused = await signalled(house, run, signed(question, INBOX, "person"))
    assert (refused.code, "signed in" in refused.message) == ("not_allowed", True)
    await send(of_inbox(house, ANA), question)


async def test_who_may_answer_says_that_they_must_sign_in(house: Harness) -> None:
    run = await house.start(SIGNED.replace("proof", "assignees: ['group:editors'], proof"))
    question = await house.one(run)
    assert (question.proof, who_may(question.people)) == ("person", "group:editors (signed in)")
    assert "holdfast serve" in answer_command(question)
    await house.runs.control.cancel(run)


# What shows it


async def test_history_and_trace_say_what_is_proved(house: Harness) -> None:
    run = await house.start(ONE)
    await send(of_inbox(house, ANA), await house.one(run))
    await house.output(run)
    assert [record.proved_by for record in await answers_given(house.client, run)] == ["person"]
    [step] = (await house.runs.watch.trace(await house.runs.state(run))).steps
    assert [answer["proved_by"] for answer in step.to_json()["answers"]] == ["person"]


@pytest.mark.parametrize("token", [None, "", "inbox.1.ab", "nonsense"])
def test_what_is_no_token_proves_nothing(token: str | None) -> None:
    assert proof_in(token) == "nothing"


@pytest.mark.slow
@pytest.mark.parametrize("proof", ["client", "link", None])
async def test_nobody_takes_or_gives_away_a_step_with_proof_without_a_sign_in(
    house: Harness, proof: Proof | None
) -> None:
    run = await house.start(SIGNED.replace("Go?", "Go?, assignees: ['user:ana']"))
    question = (await house.one(run)).id
    runs = house.runs if proof is None else of_inbox(house, Sender("user:ana", proof=proof))
    with pytest.raises(Refusal, match="signed in"):
        await runs.assignment.delegate(run, question, "user:eve", by="user:ana")
    with pytest.raises(Refusal, match="signed in"):
        await runs.assignment.claim(run, question, by="user:ana")
    signed_in = of_inbox(house, ANA)
    await signed_in.assignment.claim(run, question, by="user:forged")
    with pytest.raises(Refusal, match="signed in"):
        await runs.assignment.release(run, question, by="user:ana")
    await signed_in.assignment.delegate(run, question, "user:eve", by="user:forged")
    assert (await house.one(run)).assignees == ["user:eve"]
    await house.runs.control.cancel(run)

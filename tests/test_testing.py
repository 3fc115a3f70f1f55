"""`holdfast.testing`: an author's tests of workflows of the author's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio
from temporalio.client import WorkflowExecutionDescription, WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from examples.invite_guests.workflow import Invitations
from holdfast import testing
from holdfast.protocol.answers import Refusal
from holdfast.runtime.config import load_config
from holdfast.runtime.config.sections import EncryptionKeySection, EncryptionSection
from tests.own import Approvals, Booking, Escalated, Mistaken, Office, Reminder, Salary, Stray


@pytest_asyncio.fixture(scope="module")
async def env() -> AsyncIterator[testing.Environment]:
    async with testing.environment(
        workflows=[Invitations, Office, Approvals, Escalated, Reminder, Salary, Mistaken, Stray, Booking]
    ) as environment:
        yield environment


async def test_a_workflow_is_answered_in_the_order_of_the_answers(env: testing.Environment) -> None:
    assert await env.run(Invitations.run, ["Ana"], answers=["change", ["Eve", "Bob"], "yes"]) == "sent to 2"


@pytest.mark.slow
async def test_an_answer_is_for_the_question_that_its_pattern_fits(env: testing.Environment) -> None:
    answers = [
        {"question": "*", "content": "change"},
        {"question": "*", "content": []},
        {"question": "*", "decline": True},
    ]
    with pytest.raises(WorkflowFailureError):
        await env.run(Invitations.run, ["Ana"], answers=answers)


@pytest.mark.slow
async def test_what_nobody_answers_comes_to_its_deadline_at_once(env: testing.Environment) -> None:
    assert await env.run(Invitations.run, ["Ana"]) == "not sent"


@pytest.mark.slow
async def test_the_timers_of_an_authors_own_are_skipped(env: testing.Environment) -> None:
    assert await env.run(Reminder.run, answers=["done"]) == "done after 30 days"


@pytest.mark.slow
async def test_an_answer_that_is_left_over_is_told(env: testing.Environment) -> None:
    with pytest.raises(testing.NoAnswer, match=r"not used: \*: 'no'; asked: \['Send the invitations to Ana\?'\]"):
        await env.run(Invitations.run, ["Ana"], answers=["yes", "no"])


@pytest.mark.slow
async def test_a_workflow_may_ask_after_a_cancel_that_it_catches(env: testing.Environment) -> None:
    handle = await env.start(Booking.run)
    assert [question.message for question in await env.questions(handle)] == ["Book it?"]
    await handle.cancel()
    assert await env.finish(handle, [{"question": "loss", "content": "yes"}]) == "yes"


@pytest.mark.slow
async def test_a_child_of_temporals_own_call_is_told_when_it_asks(env: testing.Environment) -> None:
    with pytest.raises(testing.NoAnswer, match=r"asks 'Approve 1\?', and was started by Temporal's own call"):
        await env.run(Stray.run, answers=["yes"])


async def test_a_question_without_an_answer_is_told_with_its_text(env: testing.Environment) -> None:
    with pytest.raises(testing.NoAnswer, match=r"no answer fits what .* waits for: 'Approve 1\?'"):
        await env.run(Approvals.run, 1, answers=[{"question": "other", "content": "yes"}])


async def test_a_wrong_answer_is_refused_as_in_production(env: testing.Environment) -> None:
    with pytest.raises(Refusal, match="is not one of the options"):
        await env.run(Invitations.run, ["Ana"], answers=["perhaps"])


@pytest.mark.slow
async def test_a_test_may_answer_step_by_step(env: testing.Environment) -> None:
    handle = await env.start(Office.run)
    [question] = await env.questions(handle)
    assert question.message == "Approve 1?"
    await env.answer(handle, "yes")
    [question] = await env.questions(handle)
    assert question.message == "Approve 2?"
    await handle.cancel()
    assert await env.questions(handle) == []


async def test_a_child_that_has_not_started_is_waited_for(env: testing.Environment, monkeypatch) -> None:
    describe, looks = WorkflowHandle.describe, Counter[str]()

    async def describe_before_start(handle: WorkflowHandle) -> WorkflowExecutionDescription:
        """At the first look at a parent its child has not started, so there is none of its id."""
        described = await describe(handle)
        children = described.raw_description.pending_children
        looks[handle.id] += bool(children)
        if looks[handle.id] == 1:
            children[0].run_id = ""
        elif not children and looks.total() == 1:
            raise RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b"")
        return described

    handle = await env.start(Office.run)
    await env.questions(handle)
    monkeypatch.setattr(WorkflowHandle, "describe", describe_before_start)
    [question] = await env.questions(handle)
    assert question.message == "Approve 1?" and looks[handle.id] > 1


async def test_a_test_may_move_the_clock(env: testing.Environment) -> None:
    handle = await env.start(Invitations.run, ["Ana"])
    await env.questions(handle)
    await env.skip(handle, timedelta(days=3))
    assert await handle.result() == "not sent"


@pytest.mark.slow
async def test_an_answer_may_name_the_person_who_gives_it(env: testing.Environment) -> None:
    answers = [{"question": "first", "content": "yes", "by": "user:ana"}, {"question": "second", "content": "yes"}]
    assert await env.run(Salary.run, answers=answers) is True
    with pytest.raises(Refusal, match="user:ana may"):
        await env.run(Salary.run, answers=["yes"])


@pytest.mark.slow
async def test_an_answer_of_somebody_who_is_asked_later_is_kept_until_then(env: testing.Environment) -> None:
    answers = [{"question": "*", "content": "yes", "by": "user:max"}]
    assert await env.run(Escalated.run, answers=answers) == "yes"


async def test_a_key_that_an_answer_does_not_have_is_refused(env: testing.Environment) -> None:
    with pytest.raises(ValueError, match="unknown key 'contents' of an answer; it has: question, content"):
        await env.run(Salary.run, answers=[{"question": "first", "contents": "yes"}])


@pytest.mark.slow
@pytest.mark.parametrize("asks", [True, False])
async def test_a_mistake_in_the_workflow_is_told(env: testing.Environment, asks: bool) -> None:
    with pytest.raises(testing.NoAnswer, match="does not go on: .*nothing_of_a_text"):
        await env.run(Mistaken.run, asks, answers=["yes"] if asks else [])


@pytest.mark.slow
async def test_the_keys_of_a_deployment_are_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_KEY", raising=False)
    key = EncryptionKeySection(id="k1", env="HF_KEY")
    config = load_config().model_copy(update={"encryption": EncryptionSection(keys=[key])})
    async with testing.environment(workflows=[Invitations], config=config) as environment:
        assert await environment.run(Invitations.run, ["Ana"], answers=["yes"]) == "sent to 1"

"""Reminders and the ladder, on a server that skips time: the question keeps its id."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from holdfast.client.event_texts import progress
from holdfast.protocol.answers import Refusal
from holdfast.protocol.events import Event
from holdfast.protocol.people import People
from holdfast.workflows.handlers.questions import Timetable
from tests.conftest import Harness, until, worker_for

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
ASK = """
steps:
  - kind: hitl
    name: ask
    message: Go?
    on_error: continue
    %s
  - {name: end, input: {output: "{{ steps.ask.output }}", error: "{{ steps.ask.error }}"}}
"""
LADDER = """assignees: [user:ana]
    remind_every: 20h
    on_timeout: escalate
    escalate: [{after: 1d, assignees: ["group:heads"]}, {after: 2d, assignees: [user:bob, "user:{{ input }}"]}]
"""
PASSED = ("question.reminded", "question.escalated", "question.expired", "question.answered")


async def events(house: Harness, run: str) -> list[Event]:
    return [event for event in await house.runs.watch.events(run) if event.type in PASSED]


def hours(start: Event, passed: list[Event]) -> list[int]:
    return [round((event.time - start.time).total_seconds() / 3600) for event in passed]


async def started(house: Harness, skipping: WorkflowEnvironment, text: str, input: object = None) -> str:
    """A run whose time stands still until it is moved on."""
    with skipping.with_time_skipping_disabled():
        run = await house.start(ASK % text, input)
    await house.one(run)
    return run


async def pass_time(skipping: WorkflowEnvironment, house: Harness, run: str, **length: float) -> None:
    await skipping.fast_forward(house.client.get_workflow_handle(run), timedelta(**length))


async def test_reminders_come_once_each_at_their_time_until_the_deadline(later: Harness) -> None:
    run = await later.start(ASK % "remind_every: 6h\n    timeout: 1d")
    assert (await later.output(run))["error"]["type"] == "question_expired"
    asked = next(event for event in await later.runs.watch.events(run) if event.type == "question.asked")
    passed = await events(later, run)
    assert [event.type for event in passed] == ["question.reminded"] * 3 + ["question.expired"]
    assert hours(asked, passed) == [6, 12, 18, 24]
    assert [event.data.n for event in passed[:3]] == [1, 2, 3]
    assert {event.data.id for event in passed} == {asked.data.id}


def test_there_are_at_most_a_hundred_reminders_and_missed_ones_are_one() -> None:
    times = Timetable(NOON, None, People(remind_every=3600))
    assert times.next == NOON + timedelta(hours=1)
    assert not times.take_reminder(NOON + timedelta(minutes=59))
    assert times.take_reminder(NOON + timedelta(hours=5, minutes=30))
    assert times.next == NOON + timedelta(hours=6)
    while times.next is not None:
        assert times.take_reminder(times.next)
    assert times.reminders == 100


async def test_the_ladder_is_climbed_and_the_question_stays_the_same(
    later: Harness, skipping: WorkflowEnvironment
) -> None:
    run = await started(later, skipping, LADDER, "eve")
    first = await later.one(run)
    await pass_time(skipping, later, run, hours=25)
    second = await until(lambda: _waiting_for(later, run, ["group:heads"]), "the first rung")
    await pass_time(skipping, later, run, hours=24)
    third = await until(lambda: _waiting_for(later, run, ["user:bob", "user:eve"]), "the second rung")
    assert {first.id, second.id, third.id} == {first.id}
    assert {first.digest, second.digest, third.digest} == {first.digest}
    assert (first.reminders, second.reminders, third.reminders) == (0, 1, 2)
    climbed = [event.data.assignees for event in await events(later, run) if event.type == "question.escalated"]
    assert climbed == [["group:heads"], ["user:bob", "user:eve"]]
    await later.answer(run, "go", third, by="user:eve")
    assert (await later.output(run))["output"] == "go"


async def _waiting_for(house: Harness, run: str, assignees: list[str]):
    [question] = await house.runs.questions(run)
    return question if question.assignees == assignees else None


async def test_who_was_asked_before_the_rung_may_answer_no_more(later: Harness, skipping: WorkflowEnvironment) -> None:
    run = await started(later, skipping, LADDER, "eve")
    question = await later.one(run)
    await pass_time(skipping, later, run, hours=49)
    await until(lambda: _waiting_for(later, run, ["user:bob", "user:eve"]), "the last rung")
    with pytest.raises(Refusal) as late:
        await later.answer(run, "go", question, by="user:ana")
    assert late.value.code == "not_allowed"
    assert "user:bob, user:eve may" in late.value.message
    await later.answer(run, "go", question, by="user:bob", key="k")


@pytest.mark.slow
async def test_behind_the_last_rung_a_later_timeout_ends_the_wait_with_the_default_if_there_is_one(
    later: Harness,
) -> None:
    bare = await later.start(ASK % (LADDER + "    timeout: 3d"), "eve")
    eased = await later.start(ASK % (LADDER + "    timeout: 3d\n    default: nobody"), "eve")
    assert (await later.output(bare))["error"]["type"] == "question_expired"
    assert (await later.output(eased))["output"] == "nobody"
    assert [event.type for event in await events(later, bare)].count("question.escalated") == 2


@pytest.mark.slow
async def test_an_answer_ends_reminders(later: Harness, skipping: WorkflowEnvironment) -> None:
    run = await started(later, skipping, "remind_every: 1h")
    await pass_time(skipping, later, run, hours=2.5)
    await until(lambda: _reminded(later, run, 2), "two reminders")
    await later.answer(run, "go")
    assert (await later.output(run))["output"] == "go"
    assert [event.type for event in await events(later, run)] == ["question.reminded"] * 2 + ["question.answered"]


async def _reminded(house: Harness, run: str, times: int) -> bool:
    return [question.reminders for question in await house.runs.questions(run)] == [times]


@pytest.mark.slow
async def test_what_passed_while_no_worker_was_there_is_caught_up_with_once(
    skipping: WorkflowEnvironment, tmp_path: Path
) -> None:
    queue = f"away-{uuid.uuid4().hex[:8]}"
    house = Harness(skipping.client, queue, tmp_path)
    async with worker_for(skipping.client, queue):
        run = await started(house, skipping, LADDER, "eve")
    moving = asyncio.create_task(pass_time(skipping, house, run, hours=49))

    async def fired() -> bool:
        history = await skipping.client.get_workflow_handle(run).fetch_history()
        return any(event.HasField("timer_fired_event_attributes") for event in history.events)

    await until(fired, "the first timer")
    async with worker_for(skipping.client, queue):
        question = await until(lambda: _waiting_for(house, run, ["user:bob", "user:eve"]), "the last rung")
        await moving
        passed = await events(house, run)
        assert [event.type for event in passed].count("question.escalated") == 2
        assert [event.data.n for event in passed if event.type == "question.reminded"] == list(
            range(1, question.reminders + 1)
        )
        await house.answer(run, "go", question, by="user:bob")
        assert (await house.output(run))["output"] == "go"
        await house.replay()


@pytest.mark.slow
async def test_a_worker_that_starts_in_between_goes_on_with_the_same_timetable(
    skipping: WorkflowEnvironment, tmp_path: Path
) -> None:
    queue = f"again-{uuid.uuid4().hex[:8]}"
    house = Harness(skipping.client, queue, tmp_path)
    async with worker_for(skipping.client, queue):
        run = await started(house, skipping, LADDER, "eve")
        await pass_time(skipping, house, run, hours=21)
        await until(lambda: _reminded(house, run, 1), "the first reminder")
    async with worker_for(skipping.client, queue):
        await pass_time(skipping, house, run, hours=4)
        question = await until(lambda: _waiting_for(house, run, ["group:heads"]), "the first rung")
        assert question.reminders == 1
        await pass_time(skipping, house, run, hours=24)
        question = await until(lambda: _waiting_for(house, run, ["user:bob", "user:eve"]), "the last rung")
        assert question.reminders == 2
        await house.answer(run, "go", question, by="user:bob")
        assert (await house.output(run))["output"] == "go"
        await house.replay()


def test_a_person_who_follows_is_told_of_reminders_and_rungs() -> None:
    told = {"offset": 1, "time": "2026-01-01T00:00:00Z", "address": "pipeline:p;hitl:ask"}
    lines = [
        progress(Event(**told, type="question.reminded", data={"id": "x", "n": 2, "assignees": ["user:ana"]})),
        progress(Event(**told, type="question.escalated", data={"id": "x", "assignees": ["group:heads"]})),
    ]
    assert [str(line) for line in lines] == ["↻ ask  reminder 2  for user:ana", "↑ ask  for group:heads"]

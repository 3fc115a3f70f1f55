"""The search attributes of what waits for people, and the lists that visibility makes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.common import SearchAttributePair, TypedSearchAttributes

from holdfast.client.listing import WaitingFilter
from holdfast.client.states import Waiting
from holdfast.protocol.names import QUESTIONS_ATTRIBUTE, SINCE_ATTRIBUTE, WAITING_ATTRIBUTE
from holdfast.protocol.people import MANY, listed_ids
from holdfast.workflows.details import DEADLINE_KEY, WAITING_KEY
from tests.conftest import Harness, until

ASK = "steps: [{kind: hitl, name: ask, message: Go?, timeout: 2h}]"
LOOP = """
agents: {echo: {model: echo}}
steps:
  - kind: loop
    name: l
    loop: {max_loops: 3, body: [{name: draft, agent: echo}, {kind: hitl, name: ask, message: Go?}]}
"""
BOTH = """
steps:
  - kind: parallel
    name: both
    branches:
      one: {kind: hitl, name: one, message: One?}
      two: {kind: hitl, name: two, message: Two?, timeout: 1d}
"""


async def rows(house: Harness, run: str, **wanted: object) -> list[Waiting]:
    return [row for row in (await house.runs.lists.find_waiting(wanted=WaitingFilter(**wanted)))[0] if row.run == run]  # type: ignore[arg-type]


async def listed(house: Harness, run: str, **wanted: object) -> Waiting:
    """The row of a run, once visibility has it."""
    row: Waiting = (await until(lambda: rows(house, run, **wanted), "the row"))[0]
    return row


def upserts(events: list[HistoryEvent]) -> list[HistoryEvent]:
    return [event for event in events if event.HasField("upsert_workflow_search_attributes_event_attributes")]


def written(event: HistoryEvent) -> set[str]:
    """The names of the attributes that an upsert writes."""
    return set(event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields)


async def test_a_row_has_the_ids_the_oldest_asking_and_the_nearest_deadline(house: Harness) -> None:
    run = await house.start(BOTH)
    one, two = await house.asked(run, 2)
    row = await listed(house, run)
    assert sorted(row.questions) == sorted([one.id, two.id])
    assert row.since == min(one.asked_at, two.asked_at)
    assert row.deadline == two.deadline
    assert row.blueprint == "test"


async def test_what_is_answered_leaves_the_row_at_once(house: Harness) -> None:
    run = await house.start(BOTH)
    one, two = await house.asked(run, 2)
    await house.answer(run, "yes", two)
    [only] = await house.asked(run)

    async def left() -> bool:
        row = await listed(house, run)
        return row.questions == [only.id] and row.deadline is None

    await until(left)
    assert only.id == one.id


async def test_a_question_right_after_another_takes_its_place(house: Harness) -> None:
    run = await house.start("steps: [{kind: hitl, name: a, message: A}, {kind: hitl, name: b, message: B}]")
    await house.answered(run, "yes")
    second = await house.one(run)

    async def replaced() -> bool:
        return (await listed(house, run)).questions == [second.id]

    await until(replaced)


def test_more_than_twenty_ids_are_many() -> None:
    assert listed_ids([f"{n:02}" for n in range(20)]) == [f"{n:02}" for n in range(20)]
    assert listed_ids([f"{n:02}" for n in range(21)]) == [MANY]


@pytest.mark.slow
async def test_an_iteration_costs_an_upsert_of_what_is_new_in_it(house: Harness) -> None:
    run = await house.start(LOOP)
    await house.answered(run, "yes", "yes", "yes")
    await house.result(run)
    loop = (await house.histories(run))[1]
    first, *later = upserts(list(loop.events))
    assert written(first) == {WAITING_ATTRIBUTE, QUESTIONS_ATTRIBUTE, SINCE_ATTRIBUTE}
    assert [written(event) for event in later] == [{QUESTIONS_ATTRIBUTE}] * 2


async def test_workflows_are_found_by_blueprint_in_loops_too(house: Harness) -> None:
    run = await house.start(LOOP.replace("agents", "name: other\nagents"))
    await house.one(run)
    assert (await listed(house, run, blueprint="other")).owner == f"{run}/loop:l"
    assert await rows(house, run, blueprint="test") == []


async def test_workflows_are_found_by_the_time_of_asking(house: Harness) -> None:
    run = await house.start(ASK)
    question = await house.one(run)
    await listed(house, run, since=question.asked_at)
    assert await rows(house, run, since=question.asked_at - timedelta(seconds=1)) == []


async def test_workflows_are_found_by_their_deadline(house: Harness) -> None:
    run = await house.start(ASK)
    question = await house.one(run)
    await listed(house, run, deadline=question.deadline)
    assert await rows(house, run, deadline=datetime.now(UTC) + timedelta(hours=1)) == []


@pytest.mark.parametrize("microseconds", [0, 120_000, 119_001, 119_500])
async def test_a_deadline_is_found_by_itself_whatever_its_digits(house: Harness, microseconds: int) -> None:
    deadline = datetime(2040, 1, 1, 12, 0, 0, microseconds, UTC)
    values = [SearchAttributePair(DEADLINE_KEY, deadline), SearchAttributePair(WAITING_KEY, ["user:ana"])]
    options = {"id": f"digits-{uuid4()}", "task_queue": "nobody", "search_attributes": TypedSearchAttributes(values)}
    handle = await house.client.start_workflow("Nobody", **options)
    try:
        await listed(house, handle.id, deadline=deadline)
        assert await rows(house, handle.id, deadline=deadline - timedelta(milliseconds=3)) == []
    finally:
        await handle.terminate()


def test_a_time_without_a_zone_is_local() -> None:
    local = datetime(2030, 1, 1, 12)
    assert WaitingFilter(since=local).query == WaitingFilter(since=local.astimezone(UTC)).query

"""Runs that a schedule starts."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from holdfast.client.schedules import ScheduleRow, Schedules, Times
from holdfast.runtime.errors import BadInput
from tests.conftest import Harness, until

ASKS = "inputs: {type: string}\nsteps: [{kind: hitl, name: ask, message: 'Well, {{ input }}?'}]"
DAILY = Times(cron=("0 9 * * 1-5",), time_zone="Europe/Paris")


@pytest.fixture
def schedules(house: Harness) -> Schedules:
    return Schedules(house.runs)


@pytest_asyncio.fixture
async def daily(house: Harness, schedules: Schedules) -> AsyncIterator[str]:
    name = f"daily-{uuid.uuid4().hex[:8]}"
    await schedules.create(name, house.load(ASKS), DAILY, "Ana", started_by="user:eve")
    yield name
    await schedules.delete(name)


async def row(schedules: Schedules, name: str) -> ScheduleRow | None:
    return next((row for row in await schedules.list() if row.name == name), None)


async def triggered(house: Harness, schedules: Schedules, name: str) -> str:
    """Trigger a schedule and return the id of the run that it starts."""
    await schedules.trigger(name)

    async def started() -> str | None:
        return next((listed.run for listed in await house.runs.lists.all() if listed.run.startswith(f"{name}-")), None)

    run: str = await until(started, "the run")
    house.started.append(run)
    return run


async def test_a_run_of_a_schedule_is_answered_like_any_other(house: Harness, schedules: Schedules, daily: str) -> None:
    run = await triggered(house, schedules, daily)
    question = await house.one(run)
    assert (question.run, question.owner, question.message) == (run, run, "Well, Ana?")
    await house.answer(run, "yes", question)
    assert await house.output(run) == "yes"


async def test_a_loop_in_a_run_of_a_schedule_has_an_id_below_it(house: Harness, schedules: Schedules) -> None:
    name = f"loops-{uuid.uuid4().hex[:8]}"
    body = "{max_loops: 1, body: [{kind: hitl, name: ask, message: Go?}]}"
    await schedules.create(name, house.load(f"steps: [{{kind: loop, name: l, loop: {body}}}]"), DAILY)
    run = await triggered(house, schedules, name)
    question = await house.one(run)
    assert question.owner == f"{run}/loop:l"
    await house.answer(run, "yes", question)
    assert await house.output(run) == "yes"
    await schedules.delete(name)


async def test_a_list_has_the_times_of_a_schedule_and_its_last_run(
    house: Harness, schedules: Schedules, daily: str
) -> None:
    run = await triggered(house, schedules, daily)

    async def listed() -> bool:
        shown = await row(schedules, daily)
        return shown is not None and shown.last_run == run

    await until(listed, "the run in the list")
    shown = await row(schedules, daily)
    assert shown is not None and (shown.blueprint, shown.is_paused, shown.next is not None) == ("test", False, True)
    await house.answer(run, "yes", await house.one(run))
    await house.output(run)


async def test_a_paused_schedule_is_listed_as_such_until_it_is_resumed(schedules: Schedules, daily: str) -> None:
    async def paused(state: bool) -> bool:
        shown = await row(schedules, daily)
        return shown is not None and shown.is_paused is state

    await schedules.pause(daily)
    await until(lambda: paused(True), "the pause")
    await schedules.resume(daily)
    await until(lambda: paused(False), "its end")


@pytest.mark.parametrize(
    ("name", "times", "input", "message"),
    [
        ("n", Times(), "Ana", "a schedule needs a time"),
        ("n", Times(cron=("not cron",)), "Ana", "the server does not take schedule 'n'"),
        ("n", Times(every=3600, time_zone="Mars/Base"), "Ana", "the server does not take schedule 'n'"),
        ("n", DAILY, 3, "the input does not fit"),
        ("a/b", DAILY, "Ana", "no '/'"),
        ("n" * 90, DAILY, "Ana", "at most 100 bytes"),
    ],
)
async def test_what_cannot_be_scheduled_is_refused(
    house: Harness, schedules: Schedules, name: str, times: Times, input: object, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        await schedules.create(name, house.load(ASKS), times, input)


async def test_a_name_is_taken_once(house: Harness, schedules: Schedules, daily: str) -> None:
    with pytest.raises(BadInput, match=f"exists; remove it first: holdfast schedule delete {daily}"):
        await schedules.create(daily, house.load(ASKS), DAILY, "Ana")


async def test_a_schedule_that_is_not_there_is_named(schedules: Schedules) -> None:
    with pytest.raises(BadInput, match="no schedule 'gone'"):
        await schedules.trigger("gone")

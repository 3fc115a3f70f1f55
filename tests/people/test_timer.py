"""The step kind `timer`, on a server that skips time."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from holdfast.protocol.events import Event
from holdfast.workflows import loop
from tests.conftest import Harness, until, worker_for

TIMER = "steps: [{kind: timer, name: rest, %s}, {name: end, input: '{{ previous_step }} went on'}]"
ROUNDS = """
steps:
  - kind: loop
    name: polls
    loop: {max_loops: 3, checkpoint_every: 1, body: [{kind: timer, name: rest, for: 1d}]}
"""
IDLE = "steps: [{kind: loop, name: polls, loop: {exit_expression: iteration == 4, body: [{kind: timer, name: t, %s}]}}]"


async def begun(house: Harness, run: str) -> list[Event]:
    return [event for event in await house.runs.watch.events(run) if event.type == "timer.started"]


async def resting(house: Harness, run: str) -> datetime:
    """Wait until a timer runs; return when it is over."""

    async def timers() -> list[tuple[datetime, str]]:
        return (await house.runs.state(run)).timers

    [[moment, _]] = await until(timers, "a timer")
    return moment


async def test_a_timer_waits_so_long_and_passes_its_input_on(later: Harness) -> None:
    run = await later.start(TIMER % "for: 3d", "it")
    assert await later.output(run) == "it went on"
    events = await later.runs.watch.events(run)
    [started] = await begun(later, run)
    assert events[-1].time - started.time >= timedelta(days=3)
    assert started.data.until == started.time + timedelta(days=3)


async def test_a_timer_waits_until_a_time_that_the_input_says(later: Harness) -> None:
    run = await later.start(TIMER % "until: '{{ input.due }}'", {"due": "2100-01-01T09:00:00+01:00"})
    await later.output(run)
    assert (await later.runs.watch.events(run))[-1].time >= datetime.fromisoformat("2100-01-01T08:00:00+00:00")


@pytest.mark.parametrize("due", ["2020-01-01T09:00Z", "2020-01-01 09:00:00.5+02:00"])
async def test_a_time_that_has_passed_is_over(house: Harness, due: str) -> None:
    assert await house.output(await house.start(TIMER % f"until: '{due}'", "it")) == "it went on"


@pytest.mark.first_row
@pytest.mark.parametrize(("key", "value"), [("for", "soon"), ("for", [1]), ("until", "2026-12-01"), ("until", None)])
async def test_what_is_no_time_fails_the_step_with_the_key_and_the_value(
    house: Harness, key: str, value: object
) -> None:
    run = await house.start(TIMER % f"{key}: '{{{{ input.due }}}}', on_error: continue", {"due": value})
    await house.output(run)
    [failed] = [event for event in await house.runs.watch.events(run) if event.type == "step.failed"]
    assert failed.data.error == "bad_time"
    assert f"'{key}' of rest: {value!r}" in failed.data.message


@pytest.mark.slow
async def test_a_timer_of_each_iteration_survives_a_continue_as_new(later: Harness) -> None:
    run = await later.start(ROUNDS)
    await later.output(run)
    moments = [event.data.until for event in await begun(later, run)]
    assert len(moments) == 3
    assert all(after - before >= timedelta(days=1) for before, after in zip(moments, moments[1:], strict=False))


async def test_a_loop_that_waits_for_a_timer_makes_progress(later: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MOST_IDLE_ITERATIONS", 2)
    assert (await later.result(await later.start(IDLE % "for: 1h"))).status == "completed"


@pytest.mark.slow
async def test_a_timer_ends_while_the_run_is_paused_and_the_next_step_waits(house: Harness) -> None:
    run = await house.start(TIMER % "for: 10s", "it")
    await resting(house, run)
    await house.runs.control.pause(run)

    async def over() -> bool:
        return not (await house.runs.state(run)).timers

    await until(over, "the timer's end")
    assert (await house.runs.state(run)).status == "paused"
    assert (await house.types(run)).count("step.started") == 1
    await house.runs.control.resume(run)
    assert await house.output(run) == "it went on"


@pytest.mark.slow
async def test_a_cancel_ends_a_timer_in_a_loop_after_a_continue_as_new(house: Harness) -> None:
    text = ROUNDS.replace("for: 1d", 'for: \'{{ "1ms" if iteration < 3 else "1d" }}\'')
    run = await house.start(text)
    await resting(house, run)
    await house.runs.control.cancel(run)
    assert (await house.result(run)).status == "cancelled"


@pytest.mark.slow
async def test_a_timer_goes_on_with_another_worker(house: Harness) -> None:
    text = TIMER % "for: 3s"
    other = Harness(house.client, f"{house.runs.tree.task_queue}-other", house.folder)
    async with worker_for(house.client, other.runs.tree.task_queue):
        run = await other.start(text, "it")
        moment = await resting(other, run)
    async with worker_for(house.client, other.runs.tree.task_queue):
        assert await other.output(run) == "it went on"
        assert (await other.runs.watch.events(run))[-1].time >= moment


@pytest.mark.slow
async def test_a_running_timer_stands_in_the_trace_with_its_end(house: Harness) -> None:
    run = await house.start(TIMER % "for: 1d")
    moment = await resting(house, run)
    trace = await house.runs.watch.trace(await house.runs.state(run), None)
    assert (trace.steps[0].status, trace.steps[0].to_json()["until"]) == ("running", moment.isoformat())
    await house.runs.control.cancel(run)

"""Local calls, which are made in the workflow's own task: what they cost, and what follows one that fails."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType

import tests.workers.tools  # noqa: F401 registers the tools
from holdfast.activities import tool
from holdfast.worker import create_worker
from holdfast.workflows import calls as workflow_calls
from tests.boundaries.conftest import away
from tests.conftest import Harness, until, worker_for
from tests.past.runs import fail, mend, retry
from tests.tools import calls

__all__ = ["away"]

EVENTS = {
    EventType.EVENT_TYPE_MARKER_RECORDED: "local",
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: "ordinary",
}


def write_step(tool: str, folder: Path, more: str = "") -> str:
    return f'steps: [{{name: call, uses: {tool}, input: {{folder: "{folder}", name: call}}{more}}}]'


async def count_calls(house: Harness, workflow: str) -> Counter[str]:
    """Count the calls of a workflow by how they were made."""
    history = await house.client.get_workflow_handle(workflow).fetch_history()
    return Counter(EVENTS[event.event_type] for event in history.events if event.event_type in EVENTS)


async def test_a_local_tool_is_called_in_the_task(house: Harness) -> None:
    run = await house.start(write_step("counts_locally", house.folder), check=True)
    assert await house.output(run) == "call 1"
    assert await count_calls(house, run) == {"local": 1}


@pytest.mark.slow
async def test_an_iteration_with_a_local_tool_and_an_answer_has_seven_events(house: Harness) -> None:
    body = (
        f'[{{name: c, uses: counts_locally, input: {{folder: "{house.folder}", name: call}}}}, {{kind: hitl, name: h}}]'
    )
    text = f"steps: [{{kind: loop, name: l, loop: {{max_loops: 4, body: {body}}}}}]"
    run = await house.start(text, check=True)
    lengths = []
    for _ in range(3):
        question = await house.one(run)
        history = await house.client.get_workflow_handle(question.owner).fetch_history()
        lengths.append(len(history.events))
        await house.answer(run, "go on", question)
    await house.runs.control.cancel(run)
    assert lengths[2] - lengths[1] <= 7


async def test_a_local_call_that_fails_is_made_again_as_an_ordinary_one(house: Harness) -> None:
    step = write_step("fails_locally", house.folder, ", retry: {attempts: 3, backoff: 0.01s}")
    run = await house.start(step, check=True)
    assert await house.output(run) == "done"
    assert (await count_calls(house, run), calls(house.folder, "call")) == ({"local": 1, "ordinary": 1}, 3)


async def test_a_failure_of_a_local_call_counts(house: Harness) -> None:
    run = await house.start(write_step("fails_locally", house.folder, ", retry: {attempts: 1}"), check=True)
    outcome = await house.result(run)
    assert outcome.error is not None and outcome.error.type == "tool_error"
    assert (await count_calls(house, run), calls(house.folder, "call")) == ({"local": 1}, 1)


@pytest.mark.slow
async def test_a_local_call_that_takes_long_is_made_again_as_an_ordinary_one(house: Harness, monkeypatch) -> None:
    """On a busy machine the time is over before the tool has begun: what counts is that the call is made again."""
    monkeypatch.setattr(workflow_calls, "LOCAL_SECONDS", 0.2)
    (house.folder / "hang").touch()
    run = await house.start(write_step("hangs_locally", house.folder), check=True)

    async def is_called_again() -> bool:
        return (await count_calls(house, run))["ordinary"] == 1 and calls(house.folder, "call") > 0

    await until(is_called_again, "the ordinary call")
    (house.folder / "hang").unlink()
    assert await house.output(run) == "done"
    assert await count_calls(house, run) == {"local": 1, "ordinary": 1}


@pytest.mark.slow
async def test_after_a_hundred_local_calls_an_ordinary_one_ends_their_task(house: Harness) -> None:
    body = "[{name: one, agent: a}, {name: two, agent: a}, {name: three, agent: a}]"
    loop = f"{{max_loops: 35, body: {body}}}"
    run = await house.start(f"agents: {{a: {{model: echo}}}}\nsteps: [{{kind: loop, name: l, loop: {loop}}}]", "x")
    assert await house.output(run) == "x"
    assert await count_calls(house, f"{run}/loop:l") == {"local": 104, "ordinary": 1}


async def test_a_tool_that_is_local_no_more_is_called_as_all_others(house: Harness, monkeypatch) -> None:
    step = write_step("counted", house.folder)
    checked = await house.runs.look_up(house.load(step))
    assert checked.local == []
    monkeypatch.setattr("holdfast.activities.tools.ToolActivities.is_local", lambda self, name: True)
    run = await house.start(step, check=True)
    assert await house.output(run) == "call 1"
    assert await count_calls(house, run) == {"local": 1, "ordinary": 1}


async def test_a_step_that_forbids_a_second_call_is_not_local(house: Harness) -> None:
    run = await house.start(write_step("counts_locally", house.folder, ", idempotent: false"), check=True)
    assert await house.output(run) == "call 1"
    assert await count_calls(house, run) == {"ordinary": 1}


async def test_a_local_call_on_a_worker_on_hold_waits_for_another_worker(away: Harness) -> None:
    async with create_worker(away.client, task_queue=away.runs.task_queue, activities=[]):
        run = await away.start("agents: {a: {model: echo}}\nsteps: [{name: one, agent: a, input: x}]")

        async def waits() -> bool:
            described = await away.client.get_workflow_handle(run).describe()
            return len(described.raw_description.pending_activities) == 1

        await until(waits, "the call")
    async with worker_for(away.client, away.runs.task_queue):
        assert await away.output(run) == "x"


async def test_a_retried_run_meets_what_was_called_locally(house: Harness) -> None:
    first = {"name": "call", "uses": "counts_locally", "input": {"folder": str(house.folder), "name": "call"}}
    run = await fail(house, [first, mend(house.folder)], check=True)
    new = await retry(house, run)
    assert await house.output(new) == "mended 1"
    assert calls(house.folder, "call") == 1


def test_a_tool_that_may_not_run_twice_cannot_be_local() -> None:
    with pytest.raises(ValueError, match="may run twice: add idempotent=True"):
        tool(local=True)(write_step)

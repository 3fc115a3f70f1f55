"""The ids of activities: of their place in a run, so that a replay that makes calls in another order is refused."""

from __future__ import annotations

import json

import pytest
from temporalio.client import WorkflowHistory

import tests.tools  # noqa: F401 registers the tools
from tests.conftest import Harness, replayed

WORKS = pytest.mark.parametrize("work", ["uses: stringy", "agent: a"], ids=["activity", "local"])
ECHO = "agents: {a: {model: echo}}\n"


def write_parallel(work: str, *branches: str) -> str:
    steps = ", ".join(f"{name}: [{{name: {name}, {work}}}]" for name in branches)
    return f"{ECHO}steps: [{{kind: parallel, name: p, branches: {{{steps}}}}}]"


def write_loop(work: str) -> str:
    body = f"[{{name: work, {work}}}, {{name: more, {work}}}]"
    return f"{ECHO}steps: [{{kind: loop, name: again, loop: {{max_loops: 3, body: {body}}}}}]"


def list_ids(history: WorkflowHistory) -> list[str]:
    """The ids of the activities, of local ones from their markers."""
    ids = []
    for event in history.events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            ids.append(event.activity_task_scheduled_event_attributes.activity_id)
        if event.HasField("marker_recorded_event_attributes"):
            [data] = event.marker_recorded_event_attributes.details["data"].payloads
            ids.append(json.loads(data.data)["activity_id"])
    return ids


@WORKS
async def test_ids_are_distinct_over_iterations_and_branches(house: Harness, work: str) -> None:
    runs = [
        await house.start(write_loop(work), "x"),
        await house.start(write_parallel(work, "left", "right"), "x"),
    ]
    for run in runs:
        await house.output(run)
    found = [list_ids(history) for run in runs for history in await house.histories(run)]
    assert [len(ids) for ids in found] == [0, 6, 2]
    assert all(len(ids) == len(set(ids)) for ids in found)


@WORKS
async def test_a_replay_that_makes_calls_in_another_order_is_refused(house: Harness, work: str) -> None:
    histories = []
    for branches in (("left", "right"), ("right", "left")):
        run = await house.start(write_parallel(work, *branches), "x")
        await house.output(run)
        histories += await house.histories(run)
    first, second = histories
    # As if the right branch had come first, where each call would get the other's result.
    second.events[0].CopyFrom(first.events[0])
    [failure] = (await replayed([second])).values()
    assert "TMPRL1100" in str(failure)

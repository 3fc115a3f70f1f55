"""The ids of activities: of their place in a run, so that a replay that makes calls in another order is refused."""

from __future__ import annotations

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory

from tests.conftest import Harness, replayed

ECHO = "agents: {a: {model: echo}}\n"
LEFT, RIGHT = "left: [{name: one, agent: a}]", "right: [{name: two, agent: a}]"
PARALLEL = (
    ECHO
    + f"""
steps:
  - {{kind: parallel, name: p, branches: {{{LEFT}, {RIGHT}}}}}
"""
)
LOOP = (
    ECHO
    + """
steps:
  - {kind: loop, name: again, loop: {max_loops: 3, body: [{name: work, agent: a}, {name: more, agent: a}]}}
"""
)


def scheduled(history: WorkflowHistory) -> list[HistoryEvent]:
    return [event for event in history.events if event.HasField("activity_task_scheduled_event_attributes")]


def ids(history: WorkflowHistory) -> list[str]:
    return [event.activity_task_scheduled_event_attributes.activity_id for event in scheduled(history)]


async def test_ids_are_distinct_over_iterations_and_branches(house: Harness) -> None:
    runs = [await house.start(LOOP, "x"), await house.start(PARALLEL, "x")]
    for run in runs:
        await house.output(run)
    for history in [history for run in runs for history in await house.histories(run)]:
        assert len(ids(history)) == len(set(ids(history)))


async def test_a_replay_that_makes_calls_in_another_order_is_refused(house: Harness) -> None:
    histories = []
    for text in (PARALLEL, PARALLEL.replace(f"{LEFT}, {RIGHT}", f"{RIGHT}, {LEFT}")):
        run = await house.start(text, "x")
        await house.output(run)
        histories += await house.histories(run)
    first, second = histories
    # As if the right branch had come first, where each call would get the other's result.
    second.events[0].CopyFrom(first.events[0])
    [failure] = (await replayed([second])).values()
    assert "TMPRL1100" in str(failure)

"""Runs are replayed at the end of their module, and a run that does not replay names its test."""

from __future__ import annotations

from temporalio.client import WorkflowHistory

from tests.conftest import Harness, Replays

ASK = "steps: [{kind: loop, name: l, loop: {max_loops: 2, body: [{name: a}]}}]"


async def test_a_run_that_does_not_replay_names_its_test(house: Harness) -> None:
    run = await house.start(ASK, "x")
    await house.output(run)
    replays = Replays()
    good, child = await house.recorded()
    broken = WorkflowHistory.from_json("broken", good.to_json().replace("loop:l", "loop:other"))
    replays.add("test_good", [child])
    replays.add("test_broken", [broken])
    [failure] = await replays.failures()
    assert failure.startswith("a run of test_broken does not replay: ")

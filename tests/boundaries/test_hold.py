"""A worker on hold takes answers and calls nothing (`[worker] hold`), and what Temporal's UI shows of children."""

from __future__ import annotations

from holdfast.worker import create_worker
from tests.boundaries.conftest import away
from tests.conftest import Harness, until, worker_for
from tests.flows import ASK, counting, repeat, written
from tests.tools import calls

__all__ = ["away"]


async def test_a_worker_on_hold_takes_an_answer_and_calls_no_tool(away: Harness) -> None:
    async with create_worker(away.client, task_queue=away.runs.task_queue, activities=[]):
        run = await away.start(written(ASK, counting(away)))
        await away.answered(run, "yes")

        async def waits() -> bool:
            described = await away.client.get_workflow_handle(run).describe()
            return len(described.raw_description.pending_activities) == 1

        await until(waits, "the tool")
        assert (await away.runs.state(run)).questions == []
        assert calls(away.folder, "calls") == 0
    async with worker_for(away.client, away.runs.task_queue):
        await away.output(run)
    assert calls(away.folder, "calls") == 1


async def test_the_details_of_a_run_name_its_children_and_claim_no_status_for_them(house: Harness) -> None:
    run = await house.start(written(repeat(ASK)))
    await house.one(run)
    details = await house.client.get_workflow_handle(run).query("__temporal_workflow_metadata")
    text = str(details)
    assert f"holdfast questions {run}" in text
    assert f"{run}/loop:l" in text
    assert "running" not in text and "waiting" not in text
    await house.runs.control.cancel(run)

"""A worker on hold takes answers and calls nothing (`[worker] hold`), and what Temporal's UI shows of children."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.client.workers import OnHold, check_hold
from holdfast.worker import create_worker
from tests.boundaries.test_cancel import ASK, counting, repeat, written
from tests.boundaries.test_stopping import away
from tests.conftest import Harness, until, worker_for
from tests.crash.machines import Machines, asked
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
        assert (await away.runs.standing(run)).questions == []
        assert calls(away.folder, "calls") == 0
    async with worker_for(away.client, away.runs.task_queue):
        await away.output(run)
    assert calls(away.folder, "calls") == 1


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    made.start_server()
    yield made
    made.stop()


@pytest.mark.slow
async def test_workers_on_hold_take_answers_and_nothing_is_called_or_started(machines: Machines) -> None:
    machines.start_worker()
    house = await machines.house()
    run = await house.start(written(ASK, counting(house)))
    question = await asked(house, run, "")
    machines.kill("worker")
    machines.start_worker(HOLDFAST_HOLD="true")
    await until(lambda: on_hold(house), "the worker on hold")
    await house.answer(run, "yes", question)
    with pytest.raises(OnHold):
        await house.start(written(ASK))
    assert calls(machines.folder, "calls") == 0
    machines.kill("worker")
    machines.start_worker()
    await house.output(run)
    assert calls(machines.folder, "calls") == 1
    assert await house.start(written(ASK))


async def on_hold(house: Harness) -> bool:
    try:
        await check_hold(house.client, house.runs.task_queue)
    except OnHold:
        return True
    return False


async def test_the_details_of_a_run_name_its_children_and_claim_no_status_for_them(house: Harness) -> None:
    run = await house.start(written(repeat(ASK)))
    await house.one(run)
    details = await house.client.get_workflow_handle(run).query("__temporal_workflow_metadata")
    text = str(details)
    assert f"holdfast questions {run}" in text
    assert f"{run}/loop:l" in text
    assert "running" not in text and "waiting" not in text
    await house.runs.cancel(run)

"""Processes on hold (`[worker] hold`): answers are taken, nothing outside is called, and clients start nothing."""

from __future__ import annotations

import pytest

from holdfast.runtime.workers import OnHold, check_hold
from tests.conftest import Harness, until
from tests.crash.machines import Machines, asked
from tests.flows import ASK, counting, written
from tests.tools import calls

pytestmark = pytest.mark.slow


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

"""A router forgets the connections of a worker and of a client, and tells nobody: keep-alive finds it out."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from temporalio.client import Client

from drills.disturbances import Processes
from drills.network import HOST, Link
from holdfast.client.runs import Runs
from holdfast.runtime.converters import DATA_CONVERTER
from tests.conftest import until
from tests.crash.machines import asked
from tests.serve.failing import wired

pytestmark = pytest.mark.slow

SEARCH = "{name: search, uses: search, input: {key: there}}"
ERRAND = f"{{name: errand, steps: [{{kind: hitl, name: ask, message: Go?}}, {SEARCH}]}}"


async def test_worker_and_waiting_client_outlive_a_router_that_forgets(tmp_path: Path) -> None:
    processes, dice = Processes(tmp_path), random.Random(1)
    try:
        await processes.begin(dice)
        house = await processes.house()
        processes.links["client"] = link = Link(processes.port, dice)
        await link.begin()
        run = await house.start(ERRAND)
        question = await asked(house, run, "Go?")  # its worker is still starting
        client, wire = wired(await Client.connect(f"{HOST}:{link.port}", data_converter=DATA_CONVERTER))
        waiting = asyncio.create_task(Runs(client, "holdfast").result(run))

        async def waits() -> bool:
            return wire.calls["get_workflow_execution_history"] > 0

        await until(waits, "the wait for the end")
        for one in processes.links.values():
            one.set("forgotten")
        other = await house.start(f"{{name: other, steps: [{SEARCH}]}}")
        assert (await house.runs.result(other)).output == "found there"
        await house.answer(run, "Go", question)
        assert (await waiting).output == "found there"
    finally:
        processes.stop()

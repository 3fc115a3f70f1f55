"""Kill -9 of a worker while a `timer`, a `wait` or a `workflow` waits: each goes on once, nothing runs twice."""

from __future__ import annotations

from contextlib import suppress

import pytest
from temporalio.worker import Worker

from holdfast.runtime.workers import NoWorker
from tests.conftest import Harness, until
from tests.crash.machines import Machines
from tests.own_workflows import ShipOrder
from tests.tools import calls

pytestmark = pytest.mark.slow

AROUND = """
steps:
  - {{name: before, uses: counted, input: {{folder: "{folder}", name: before-{kind}}}}}
  - {waits}
  - {{name: after, uses: counted, input: {{folder: "{folder}", name: after-{kind}}}}}
"""


WAITS = {
    "timer": "{kind: timer, name: rest, for: 20s}",
    "wait": "{kind: wait, name: paid, for: payment.received, key: A-1}",
    "workflow": "{kind: workflow, name: ship, workflow: {name: ShipOrder, task_queue: theirs, input: paid}}",
}


async def test_what_waits_goes_on_once(machines: Machines) -> None:
    house = await machines.house()
    machines.start_worker()
    async with Worker(house.client, task_queue="theirs", workflows=[ShipOrder]):
        runs = {
            kind: await house.start(AROUND.format(folder=machines.folder, kind=kind, waits=WAITS[kind]))
            for kind in WAITS
        }
        await until(lambda: all_wait(house, runs), "the steps that wait")
        machines.restart_worker()
        await until(lambda: all_wait(house, runs), "the same of another worker")
        for _ in range(2):
            await house.runs.external_events.send(runs["wait"], "payment.received", "A-1", {"amount": 12}, id="e1")
        await until(lambda: find_shipping(house, runs["workflow"]), "their workflow")
        await house.client.get_workflow_handle(f"{runs['workflow']}/workflow:ship").signal("paid", 1)
        for kind, run in runs.items():
            assert await house.output(run) == f"after-{kind} 1"
            assert [calls(house.folder, f"{name}-{kind}") for name in ("before", "after")] == [1, 1]
        assert len(await find_shipping(house, runs["workflow"])) == 1
    await house.replay()


async def all_wait(house: Harness, runs: dict[str, str]) -> bool:
    return all([await waits(house, run) for run in runs.values()])


async def waits(house: Harness, run: str) -> bool:
    with suppress(NoWorker):
        begun = [event.type for event in await house.runs.watch.events(run)].count("step.started")
        return begun >= 2 and not any(view.moving for view in (await house.runs.state(run)).views)
    return False


async def find_shipping(house: Harness, run: str) -> list[str]:
    """Return the histories of their workflow, by Temporal's run ids."""
    return [execution.run_id async for execution in house.client.list_workflows(f"WorkflowId = '{run}/workflow:ship'")]

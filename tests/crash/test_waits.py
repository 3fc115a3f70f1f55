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
  - {{name: before, uses: counted, input: {{folder: "{folder}", name: before}}}}
  - {waits}
  - {{name: after, uses: counted, input: {{folder: "{folder}", name: after}}}}
"""


async def killed_while_it_waits(machines: Machines, waits: str) -> tuple[Harness, str]:
    """A run whose worker was killed while a step waited, with another worker."""
    house = await machines.house()
    machines.start_worker()
    run = await house.start(AROUND.format(folder=machines.folder, waits=waits))

    async def waits_for_it() -> bool:
        with suppress(NoWorker):
            begun = [event.type for event in await house.runs.watch.events(run)].count("step.started")
            return begun >= 2 and not any(view.moving for view in (await house.runs.state(run)).views)
        return False

    await until(waits_for_it, "the step that waits")
    machines.restart_worker()
    await until(waits_for_it, "the same of another worker")
    return house, run


async def went_on_once(house: Harness, run: str) -> None:
    assert await house.output(run) == "after 1"
    assert [calls(house.folder, name) for name in ("before", "after")] == [1, 1]
    await house.replay()


async def test_a_timer_goes_on_once(machines: Machines) -> None:
    house, run = await killed_while_it_waits(machines, "{kind: timer, name: rest, for: 20s}")
    await went_on_once(house, run)


async def test_an_event_is_taken_once(machines: Machines) -> None:
    house, run = await killed_while_it_waits(machines, "{kind: wait, name: paid, for: payment.received, key: A-1}")
    for _ in range(2):
        await house.runs.external_events.send(run, "payment.received", "A-1", {"amount": 12}, id="e1")
    await went_on_once(house, run)


async def test_a_workflow_of_somebody_elses_is_started_once(machines: Machines) -> None:
    client = await machines.client()
    async with Worker(client, task_queue="theirs", workflows=[ShipOrder]):
        block = "{name: ShipOrder, task_queue: theirs, input: paid}"
        house, run = await killed_while_it_waits(machines, f"{{kind: workflow, name: ship, workflow: {block}}}")
        theirs = client.get_workflow_handle(f"{run}/workflow:ship")
        await until(lambda: _runs(house, theirs.id), "their workflow")
        await theirs.signal("paid", 1)
        await went_on_once(house, run)
        started = [execution async for execution in client.list_workflows(f"WorkflowId = '{theirs.id}'")]
        assert len(started) == 1


async def _runs(house: Harness, workflow: str) -> bool:
    return [execution.id async for execution in house.client.list_workflows(f"WorkflowId = '{workflow}'")] == [workflow]

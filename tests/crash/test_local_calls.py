"""Workers killed in the middle of a local call: it is made again, with all others of its task, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType

from holdfast.blueprint.kinds import Blueprint
from holdfast.cli.doctor.findings import Finding
from holdfast.cli.doctor.runs import check_runs
from holdfast.cli.doctor.server import Deployment
from holdfast.client.obstacles import MOST_LOSSES
from holdfast.protocol.answers import Answer
from holdfast.protocol.runs import LossPolicy
from holdfast.runtime.config import load_config
from holdfast.runtime.workers import NoWorker
from tests.conftest import Harness, until
from tests.crash.machines import Machines, asked
from tests.tools import calls

pytestmark = pytest.mark.slow

TEXT = """
steps:
  - {{kind: hitl, name: first, message: Go?}}
  - kind: parallel
    name: p
    branches:
      one:
        - {{name: before, uses: counts_locally, input: {{folder: "{folder}", name: before}}}}
        - {{name: call, uses: kills_its_worker, arguments: {{folder: "{folder}", name: call, times: {times}}}}}
        - {{kind: hitl, name: ask, message: "{{{{ previous_step }}}}?"}}
      other:
        - {{name: ordinary, uses: counted, input: {{folder: "{folder}", name: ordinary}}}}
"""
SHORT_TASKS = 'history.defaultWorkflowTaskTimeout="5s"'
"""A task whose worker was killed is given to another one after this time, in place of ten seconds."""


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    made.start_server(SHORT_TASKS)
    yield made
    made.stop()


def start_worker(machines: Machines) -> None:
    machines.start_worker(HOLDFAST_IMPORTS="tests.tools,tests.workers.tools")


async def begin(machines: Machines, times: int, losses: LossPolicy | None = None) -> tuple[Harness, str]:
    """A run whose next local call kills its worker so many times."""
    house = await machines.house()
    start_worker(machines)
    text = TEXT.format(folder=machines.folder, times=times)
    await until(lambda: knows_local(house, house.load(text)), "a worker that says which tools are local")
    run = await house.start(text, check=True, loss_policy=losses or LossPolicy())
    question = await asked(house, run, "Go?")
    await house.runs.answer(run, [Answer(question=question.id, content="go")], signal=True)
    return house, run


async def knows_local(house: Harness, blueprint: Blueprint) -> bool:
    with suppress(NoWorker):
        return "kills_its_worker" in (await house.runs.look_up(blueprint)).local
    return False


async def lose(machines: Machines, times: int) -> None:
    """Start a worker after each one that the call has killed."""
    for _ in range(times):
        assert await machines.ended("worker") < 0
        start_worker(machines)


async def test_a_worker_killed_in_a_local_call_makes_all_of_its_task_again(machines: Machines) -> None:
    house, run = await begin(machines, 1)
    await lose(machines, 1)
    question = await asked(house, run, "call 2?")
    await house.answer(run, "yes", question)
    assert await house.output(run) == {"one": "yes", "other": "ordinary 1"}
    assert [calls(machines.folder, name) for name in ("before", "call", "ordinary")] == [2, 2, 1]
    await house.replay()
    [history] = await house.histories(run)
    assert [event.event_type for event in history.events].count(EventType.EVENT_TYPE_MARKER_RECORDED) == 2


LOST_LOCALLY = 2
"""Workers that a local call can end: the one that has the run in its cache, and another one."""


async def was_called(machines: Machines, name: str) -> bool:
    """Ask the tool, as the worker may have been killed again before it can answer a query."""
    return calls(machines.folder, name) == 1


async def test_a_local_call_that_kills_its_workers_becomes_an_ordinary_one_and_is_named(machines: Machines) -> None:
    losses = LOST_LOCALLY + MOST_LOSSES + 2
    house, run = await begin(machines, losses, LossPolicy(heartbeat=4, backoff=0.05, factor=1))
    await lose(machines, LOST_LOCALLY)
    await until(lambda: was_called(machines, "ordinary"), "the other branch, which goes on meanwhile")
    await lose(machines, losses - LOST_LOCALLY - 1)
    assert calls(machines.folder, "before") == LOST_LOCALLY + 1

    async def find() -> list[Finding]:
        return [one for one in await check_runs(Deployment(house.client, load_config(), embedded=False)) if one.remedy]

    [finding] = await until(find, "the finding")
    assert f"{run}: the call 'call' (call_tool) has lost its worker " in finding.message
    await lose(machines, 1)
    await asked(house, run, f"call {losses + 1}?")
    await house.runs.control.cancel(run)
    await house.replay()

"""`holdfast worker --processes N`: several processes that look like one to an operator."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import Harness, until
from tests.crash.machines import Machines, asked, find_free_port
from tests.tools import calls

pytestmark = pytest.mark.slow

TOOLS = "tests.tools,tests.workers.tools"
MEETS = 'steps: [{{name: call, uses: meets, input: {{folder: "{folder}", others: 2}}}}]'
HANGS = """
steps:
  - {{name: tool, uses: hangs_once, input: {{folder: "{folder}", name: tool}}}}
"""


TWO = ("--processes", "2")


class Set:
    """A supervisor and its processes."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.health, self.metrics = find_free_port(), find_free_port()

    def start(self, *arguments: str, **environment: str) -> None:
        ports = {"HOLDFAST_HEALTH_PORT": str(self.health), "HOLDFAST_METRICS_PORT": str(self.metrics)}
        self.machines.start_worker(*arguments, **{"HOLDFAST_IMPORTS": TOOLS, **ports, **environment})

    async def status(self, path: str) -> int:
        try:
            async with httpx.AsyncClient() as client:
                return (await client.get(f"http://127.0.0.1:{self.health}{path}", timeout=30)).status_code
        except httpx.HTTPError:
            return 0

    async def ready(self) -> None:
        async def is_ready() -> bool:
            return await self.status("/readyz") == 200

        await until(is_ready, "all processes")

    def processes(self) -> list[psutil.Process]:
        return psutil.Process(self.machines.pid("worker")).children()

    def signal(self, number: int) -> None:
        os.kill(self.machines.pid("worker"), number)


@pytest.fixture
def workers(machines: Machines) -> Set:
    return Set(machines)


async def called(machines: Machines, name: str, times: int = 1) -> None:
    async def is_called() -> bool:
        return calls(machines.folder, name) >= times

    await until(is_called, name)


async def test_health_is_well_only_while_every_process_is(workers: Set) -> None:
    (workers.machines.folder / "holdfast.toml").write_text("[worker]\nprocesses = 2\n")
    workers.start()
    await workers.ready()
    assert len(workers.processes()) == 2
    stopped = workers.processes()[0]
    stopped.suspend()
    assert [await workers.status(path) for path in ("/healthz", "/readyz")] == [503, 503]
    stopped.resume()
    await workers.ready()
    assert await workers.status("/healthz") == 200


async def test_readiness_tells_of_a_server_that_is_gone(with_server: Machines) -> None:
    workers = Set(with_server)
    workers.start(HOLDFAST_PROCESSES="2")
    await workers.ready()
    assert len(workers.processes()) == 2
    workers.machines.kill("server")
    assert await workers.status("/readyz") == 503
    assert await workers.status("/healthz") == 200


async def test_a_run_moves_when_its_process_is_killed_and_another_takes_its_place(workers: Set) -> None:
    machines = workers.machines
    house = await machines.house()
    workers.start(*TWO)
    await workers.ready()
    (machines.folder / "hang").touch()
    run = await house.start(HANGS.format(folder=machines.folder))
    await called(machines, "tool")
    killed = await holder(machines, house, run)
    (machines.folder / "hang").unlink()
    os.kill(killed, signal.SIGKILL)
    question = await asked(house, run, "The result of hangs_once was lost")
    await house.answer(run, {"outcome": "retry"}, question)
    assert await house.output(run) == "done"
    await workers.ready()
    assert killed not in [process.pid for process in workers.processes()]
    assert "ended with signal SIGKILL; it starts again in 1 s" in machines.log("worker")


async def holder(machines: Machines, house: Harness, run: str) -> int:
    """The process that runs the activity of a run."""

    async def identity() -> str:
        described = await house.client.get_workflow_handle(run).describe()
        return next((one.last_worker_identity for one in described.raw_description.pending_activities), "")

    return int((await until(identity, "the activity")).partition("@")[0])


async def test_the_metrics_of_two_processes_add_up(workers: Set) -> None:
    house = await workers.machines.house()
    # A process that has one call leaves the other to the other process.
    workers.start(*TWO, HOLDFAST_MAX_ACTIVITIES="1")
    await workers.ready()
    runs = [await house.start(MEETS.format(folder=workers.machines.folder)) for _ in range(2)]
    assert [await house.output(run) for run in runs] == ["met", "met"]
    text = httpx.get(f"http://127.0.0.1:{workers.metrics}/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    calls_ = {one.labels["process"]: one.value for one in families["holdfast_tool_calls"].samples}
    assert calls_ == {"1": 1, "2": 1}
    assert [one.value for one in families["holdfast_worker_processes"].samples] == [2]
    assert sum(one.value for one in families["holdfast_worker_restarts"].samples) == 0
    assert len(families) == len({line for line in text.splitlines() if line.startswith("# TYPE ")})


async def test_on_sigterm_a_call_ends_within_the_grace_and_then_the_processes(workers: Set) -> None:
    machines = workers.machines
    house = await machines.house()
    workers.start(*TWO, HOLDFAST_GRACE="60")
    await workers.ready()
    (machines.folder / "hang").touch()
    run = await house.start(HANGS.format(folder=machines.folder))
    await called(machines, "tool")
    workers.signal(signal.SIGTERM)

    async def is_told() -> bool:
        return "shutting down 2 processes" in machines.log("worker")

    await until(is_told, "the shutdown")
    processes = workers.processes()
    (machines.folder / "hang").unlink()
    assert await machines.ended("worker") == 0
    assert not any(process.is_running() for process in processes)
    machines.start_worker()
    assert await house.output(run) == "done"
    assert calls(machines.folder, "tool") == 1


async def test_a_second_signal_ends_all_at_once(workers: Set) -> None:
    machines = workers.machines
    house = await machines.house()
    workers.start(*TWO, HOLDFAST_GRACE="600")
    await workers.ready()
    (machines.folder / "hang").touch()
    await house.start(HANGS.format(folder=machines.folder))
    await called(machines, "tool")
    processes = workers.processes()
    workers.signal(signal.SIGINT)
    workers.signal(signal.SIGTERM)
    assert await machines.ended("worker") in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    await until(lambda: _gone(processes), "the processes")


async def _gone(processes: list[psutil.Process]) -> bool:
    with suppress(psutil.NoSuchProcess):
        return all(not one.is_running() or one.status() == psutil.STATUS_ZOMBIE for one in processes)
    return True


async def test_processes_end_when_their_supervisor_is_killed(workers: Set) -> None:
    workers.start(*TWO)
    await workers.ready()
    processes = workers.processes()
    workers.machines.kill("worker")
    await until(lambda: _gone(processes), "the processes")


async def test_what_keeps_the_first_process_from_starting_ends_the_supervisor_with_its_code(workers: Set) -> None:
    workers.start(*TWO, HOLDFAST_IMPORTS="no_such_module")
    assert await workers.machines.ended("worker") == 2
    assert workers.machines.log("worker").count("'no_such_module' cannot be imported") == 1


async def test_without_a_server_it_ends_with_5(workers: Set) -> None:
    workers.machines.address = f"127.0.0.1:{find_free_port()}"
    workers.start(*TWO, HOLDFAST_CONNECT_SECONDS="0")
    assert await workers.machines.ended("worker") == 5

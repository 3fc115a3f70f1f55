"""Kill -9 of the worker in the middle of a graph: finished nodes do not run again, the one that was cut off does."""

from __future__ import annotations

import pytest

from holdfast.runtime.payloads.checkpoints import list_threads
from holdfast.runtime.payloads.collection import collect_garbage
from tests.conftest import Harness, until
from tests.crash.machines import Machines, asked
from tests.tools import calls

pytestmark = pytest.mark.slow


async def hanging(machines: Machines, graph: str) -> tuple[Harness, str]:
    """A run of a graph whose node hangs, after another that is finished."""
    house = await machines.house()
    (machines.folder / "hang").touch()
    machines.start_worker(HOLDFAST_IMPORTS="tests", HOLDFAST_PAYLOADS=f"dir:{machines.folder / 'payloads'}")
    text = f"""steps: [{{name: g, uses: "tests.graphs:{graph}", input: {{folder: "{machines.folder}", log: []}}}}]"""
    run = await house.start(text)

    async def hangs() -> bool:
        kept = [record.read_bytes() for record in (machines.folder / "payloads").glob("checkpoints/*/*/*")]
        return calls(machines.folder, "hangs") == 1 and any(b"__pregel_pull, first" in record for record in kept)

    await until(hangs, "the node")
    return house, run


def restart(machines: Machines) -> None:
    machines.kill("worker")
    (machines.folder / "hang").unlink(missing_ok=True)
    machines.start_worker(HOLDFAST_IMPORTS="tests", HOLDFAST_PAYLOADS=f"dir:{machines.folder / 'payloads'}")


async def test_a_graph_goes_on_after_kills_between_nodes_and_while_it_asks(machines: Machines) -> None:
    house, run = await hanging(machines, "hanging")
    restart(machines)
    await asked(house, run, "Which way?")
    restart(machines)
    await house.answer(run, "left")
    assert (await house.output(run))["log"] == ["first", "hangs", "answer left", "last"]
    assert [calls(machines.folder, name) for name in ("first", "hangs", "last")] == [1, 2, 1]
    await house.replay()


async def test_of_parallel_nodes_only_the_one_that_was_cut_off_runs_again(machines: Machines) -> None:
    house, run = await hanging(machines, "side_by_side")
    restart(machines)
    assert sorted((await house.output(run))["log"]) == ["first", "hangs", "last"]
    assert [calls(machines.folder, name) for name in ("first", "hangs", "last")] == [1, 2, 1]
    await house.replay()


async def test_gc_keeps_the_checkpoints_of_a_run_that_waits(with_server: Machines) -> None:
    machines = with_server
    house, run = await hanging(machines, "hanging")
    restart(machines)
    await asked(house, run, "Which way?")
    payloads = machines.folder / "payloads"
    await collect_garbage(house.client, payloads, age=-1)
    assert list(list_threads(payloads))
    await house.answer(run, "left")
    await house.output(run)

"""What a run costs that asks a question and waits, against a workflow written by hand.

`python -m benchmarks.parked [RUNS]`. Each kind has a worker process of its own, and neither runs in Temporal's sandbox.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from temporalio.client import Client, WorkflowHandle

from benchmarks.by_hand import ByHand, Work
from benchmarks.ground import has_open_task, read_history, server
from benchmarks.hand_worker import HAND_QUEUE
from benchmarks.table import compare, print_table
from benchmarks.worker_process import WorkerProcess, run_hand_worker, run_holdfast_worker
from holdfast.blueprint.load import loads
from holdfast.client.runs import Runs

RUNS = 500
TOGETHER = 50
BLUEPRINT = "name: parked\nsteps: [{kind: hitl, name: ask, message: Go on?}]\n"

Start = Callable[[int], Awaitable[WorkflowHandle[Any, Any]]]


class Cost(NamedTuple):
    """What a run costs its worker until it waits."""

    milliseconds: float
    """Of processor time."""
    kilobytes: float


async def measure(process: WorkerProcess, start: Start, count: int) -> Cost:
    """Measure so many runs, after some that pay for what is loaded once."""
    await park(start, range(TOGETHER))
    memory, used = process.kilobytes(), process.seconds()
    for first in range(TOGETHER, TOGETHER + count, TOGETHER):
        await park(start, range(first, first + TOGETHER))
    return Cost(1000 * (process.seconds() - used) / count, (process.kilobytes() - memory) / count)


async def park(start: Start, numbers: range) -> None:
    """Start runs at once, and wait until each of them waits."""
    for handle in await asyncio.gather(*map(start, numbers)):
        while not (events := await read_history(handle)) or has_open_task(events):
            await asyncio.sleep(0.02)


async def by_hand(client: Client, folder: Path, count: int) -> Cost:
    async def start(number: int) -> WorkflowHandle[Any, Any]:
        work = Work(iterations=1, thinks="no")
        return await client.start_workflow(ByHand.run, work, id=f"hand-{number}", task_queue=HAND_QUEUE)

    with run_hand_worker(client, folder) as process:
        return await measure(process, start, count)


async def by_holdfast(client: Client, folder: Path, count: int) -> Cost:
    blueprint, runs = loads(BLUEPRINT, name="parked"), Runs(client)

    async def start(number: int) -> WorkflowHandle[Any, Any]:
        return client.get_workflow_handle(await runs.start(blueprint, run=f"ours-{number}"))

    with run_holdfast_worker(client, folder) as process:
        return await measure(process, start, count)


async def main(count: int) -> None:
    """Measure both, and print them."""
    async with server() as client:
        with tempfile.TemporaryDirectory() as folder:
            hand, ours = await by_hand(client, Path(folder), count), await by_holdfast(client, Path(folder), count)
    rows = [
        compare("processor time of the worker, ms", hand.milliseconds, ours.milliseconds),
        compare("memory of the worker, kB", hand.kilobytes, ours.kilobytes, 0),
    ]
    print_table(f"{count} runs that wait for an answer, each", ("", "by hand", "Holdfast", "ratio"), rows)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS))
    sys.stdout.flush()
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit

"""What lists and answers take while ever more runs are parked, on a server whose state stays in a folder.

    python -m benchmarks.growth FOLDER [RUNS [BATCHES]] [--cluster BUILT]

Parks RUNS more (1,000) in each of BATCHES (1), and prints a row after each. Another run of it on the same folder goes
on from there, so that 100,000 can be parked over several days. Temporal's server is the development server with its
database in the folder; with `--cluster` the processes of `drills.cluster` on PostgreSQL, built into BUILT, and the
record is on the same PostgreSQL.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from pathlib import Path
from statistics import median, quantiles

from temporalio.client import Client

from benchmarks.inbox import processor_seconds
from benchmarks.scale import Place, count_waiting, deployment, park
from benchmarks.table import Cell, print_table
from drills.cluster import make_cluster
from drills.disturbances import Processes
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer

ANSWERS = 10
"""Runs that are answered after each batch, any of them: of many most are not in the worker's cache."""
LOOKS = 20
"""How often each first page is got."""
HEAD = (
    "parked runs",
    "parked in",
    "memory of the worker",
    "of serve",
    "answer to next question",
    "first page of runs, p50 and p95",
    "of serve's processor",
    "first page of questions",
    "of serve's processor",
    "load",
)


async def time_answers(client: Client, count: int) -> float:
    """Answer some of so many runs, and return the median of the seconds from an answer to the next question."""
    runs, times = Runs(client), []
    for number in random.sample(range(count), min(ANSWERS, count)):
        [question] = await runs.questions(f"parked-{number}")
        before = time.perf_counter()
        await runs.answer(question.run, [Answer(question=question.id, content="yes")])
        while [question] == await runs.questions(question.run):
            await asyncio.sleep(0.005)
        times.append(time.perf_counter() - before)
    return median(times)


async def time_page(place: Place, path: str) -> tuple[str, str]:
    """Get the first page of a list some times; return its time, and the processor time of `serve` for each."""
    times, used = [], processor_seconds(place.serve)
    for _ in range(LOOKS):
        before = time.perf_counter()
        (await place.api.get(path)).raise_for_status()
        times.append(1000 * (time.perf_counter() - before))
    used = 1000 * (processor_seconds(place.serve) - used) / LOOKS
    return f"{median(times):.0f} and {quantiles(times, n=20)[-1]:.0f} ms", f"{used:.0f} ms"


async def measure(place: Place, client: Client, seconds: float) -> list[Cell]:
    """Return the row of a batch that was parked in so many seconds."""
    count = await count_waiting(client)
    memory = [f"{one.memory_info().rss / 1e6:.0f} MB" for one in (place.worker, place.serve)]
    answer = f"{1000 * await time_answers(client, count):.0f} ms"
    lists = [*await time_page(place, "runs"), *await time_page(place, "questions")]
    return [f"{count:,}", f"{seconds:.0f} s", *memory, answer, *lists, f"{os.getloadavg()[0]:.0f}"]


async def main(folder: Path, size: int, batches: int, built: Path | None) -> None:
    """Park batch after batch, and print a row after each."""
    folder.mkdir(parents=True, exist_ok=True)
    processes = Processes(folder) if built is None else make_cluster(folder, built)
    (folder / "holdfast.toml").write_text(f"[record]\n{processes.record}\n")
    try:
        await processes.begin_server()
        client = await processes.client()
        async with deployment(client, folder, processes.environment) as place:
            for _ in range(batches):
                before = time.perf_counter()
                await park(client, await count_waiting(client) + size)
                row = await measure(place, client, time.perf_counter() - before)
                print_table(f"{size:,} more runs", HEAD, [row])
    finally:
        processes.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth")
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", type=int, nargs="?", default=1_000)
    parser.add_argument("batches", type=int, nargs="?", default=1)
    parser.add_argument("--cluster", type=Path)
    options = parser.parse_args()
    cluster = options.cluster and options.cluster.resolve()
    asyncio.run(main(options.folder.resolve(), options.runs, options.batches, cluster))
    sys.stdout.flush()
    os._exit(0)

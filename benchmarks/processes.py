"""A benchmark of `holdfast worker --processes`: short runs with 1, 2 and 4 processes, as ratios to one.

`python -m benchmarks.processes [RUNS]`. The server shares the machine's processors with the workers, so the ratios say
what this machine has left. On Linux and macOS.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psutil
from temporalio.client import Client

from benchmarks.ground import server
from benchmarks.table import Cell, print_table
from holdfast.activities import tool
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.load import loads
from holdfast.client.runs import Runs
from holdfast.runtime.distribution import WORKER

HOME = Path(__file__).parent.parent
COUNTS = (1, 2, 4)
ROUNDS = 3
STEPS = 10

WORK = {
    "steps of an agent": "\n".join(f"  - {{name: s{n}, agent: echo, input: Hi}}" for n in range(STEPS)),
    "a tool that computes": "  - {name: work, uses: computes, input: {rounds: 150000}}",
}
HEAD = "agents: {echo: {model: echo}}\nsteps:\n"


@tool(idempotent=True)
def computes(rounds: int) -> str:
    """Occupy the interpreter for some tenth of a second."""
    digest = b""
    for _ in range(rounds):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()


class Set:
    """A supervisor with its processes, also of one."""

    def __init__(self, process: subprocess.Popen[bytes], count: int) -> None:
        self.count, self._root = count, psutil.Process(process.pid)

    def memory(self) -> tuple[float, float]:
        """Return the MB of the supervisor, and the median of its processes."""
        children = self._root.children()
        return _mb(self._root), statistics.median(map(_mb, children)) if children else _mb(self._root)


def _mb(process: psutil.Process) -> float:
    return process.memory_info().rss / 1e6


@asynccontextmanager
async def workers(client: Client, count: int) -> AsyncIterator[Set]:
    """Run so many processes; yield once all are ready."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "TEMPORAL_ADDRESS": client.service_client.config.target_host,
        "HOLDFAST_HEALTH_PORT": str(port),
        "HOLDFAST_IMPORTS": "benchmarks.processes",
        "HOLDFAST_LOG_LEVEL": "error",
        "PYTHONPATH": str(HOME),
    }
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *WORKER, "--processes", str(count)]
        process = subprocess.Popen(command, env=environment, cwd=folder)
        try:
            await _ready(port)
            yield Set(process, count)
        finally:
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait)


async def _ready(port: int) -> None:
    async with httpx.AsyncClient() as client:
        while True:
            try:
                if (await client.get(f"http://127.0.0.1:{port}/readyz", timeout=10)).status_code == 200:
                    return
            except httpx.HTTPError:
                pass  # it has not begun to listen
            await asyncio.sleep(0.1)


async def seconds(runs: Runs, blueprint: Blueprint, count: int) -> float:
    """Return how long so many runs at once take."""
    started = time.perf_counter()
    ids = await asyncio.gather(*(runs.start(blueprint) for _ in range(count)))
    outcomes = await asyncio.gather(*(runs.result(run) for run in ids))
    assert all(outcome.status == "completed" for outcome in outcomes)
    return time.perf_counter() - started


async def main(count: int) -> None:
    """Measure each number of processes in turn, several times, and print medians."""
    blueprints = {name: loads(HEAD + steps, name="bench") for name, steps in WORK.items()}
    taken: dict[tuple[str, int], list[float]] = {}
    memory: dict[int, tuple[float, float]] = {}
    async with server() as client:
        runs = Runs(client)
        for _ in range(ROUNDS):
            for processes in COUNTS:
                async with workers(client, processes) as running:
                    for name, blueprint in blueprints.items():
                        await seconds(runs, blueprint, processes * 2)  # imports and connections
                        taken.setdefault((name, processes), []).append(await seconds(runs, blueprint, count))
                    memory[processes] = running.memory()
    rows: list[list[Cell]] = []
    for name in WORK:
        medians = [statistics.median(taken[name, processes]) for processes in COUNTS]
        rows.append([f"{name}: runs a second", *(f"{count / each:.1f} ({medians[0] / each:.2f})" for each in medians)])
    rows.append(["MB of each process", *(f"{memory[processes][1]:.0f}" for processes in COUNTS)])
    rows.append(["MB of the supervisor", *(f"{memory[processes][0]:.0f}" for processes in COUNTS)])
    print_table(f"{count} runs at once, by number of processes", ("", *map(str, COUNTS)), rows)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 60))

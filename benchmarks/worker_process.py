"""Workers in processes of their own, Holdfast's and that of the handwritten workflows, and what they use.

Reads a process's memory and processor time from /proc, so it runs on Linux alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from temporalio.client import Client

HOME = Path(__file__).parent.parent
DEADLOCK = "TMPRL1101"


class WorkerProcess:
    """A worker in a process of its own."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], log: Path) -> None:
        self._log = log
        environment = {**os.environ, **environment}
        with log.open("w") as file:
            self._popen = subprocess.Popen(
                [sys.executable, *command], env=environment, cwd=HOME, stdout=file, stderr=file
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def seconds(self) -> float:
        """Return the processor time so far, in seconds."""
        fields = self._read("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kilobytes(self) -> int:
        """Return the resident memory, in kB."""
        [line] = [line for line in self._read("status").splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1])

    def count_deadlocks(self) -> int:
        """Return how often the worker took a workflow task for a deadlock."""
        return self._log.read_text().count(DEADLOCK)

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait()

    def _read(self, name: str) -> str:
        return Path(f"/proc/{self._popen.pid}/{name}").read_text()


@contextmanager
def run_hand_worker(client: Client, folder: Path) -> Iterator[WorkerProcess]:
    """Run the worker of the handwritten workflows, see `benchmarks.hand_worker`."""
    command = ["-m", "benchmarks.hand_worker", client.service_client.config.target_host]
    yield from _run(WorkerProcess(command, {}, folder / "hand.log"))


@contextmanager
def run_holdfast_worker(client: Client, folder: Path) -> Iterator[WorkerProcess]:
    """Run Holdfast's worker, with the tools of `tests.tools` and `benchmarks.tools`."""
    environment = {
        "TEMPORAL_ADDRESS": client.service_client.config.target_host,
        "HOLDFAST_IMPORTS": "tests.tools,benchmarks.tools",
    }
    yield from _run(WorkerProcess(["worker.py"], environment, folder / "holdfast.log"))


def _run(process: WorkerProcess) -> Iterator[WorkerProcess]:
    try:
        yield process
    finally:
        process.kill()

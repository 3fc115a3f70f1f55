"""What each command costs: its processor time beside that of importing Temporal's client and typer.

    python -m benchmarks.commands [TIMES]

Commands that connect are run against a local server, in a folder of their own, with one run that waits. Printed is the
median of the rounds (each round runs the imports and every command once) and the ratio to the imports.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

IMPORTS = [sys.executable, "-c", "import temporalio.client, typer"]
HOLDFAST = [sys.executable, "-m", "holdfast"]
BLUEPRINT = "name: ask\nsteps: [{kind: hitl, name: go, message: Go on?}]\n"
ALONE = ["--help", "validate ask.yaml --no-check", "explain ask.yaml", "graph ask.yaml", "schema", "create"]
CONNECTED = [
    "runs",
    "questions",
    "questions one",
    "show one",
    "result one",
    "history one",
    "start ask.yaml --no-check",
    "run ask.yaml --no-check",
    "answer one nothing yes",
    "pause one",
    "resume one",
]
GOAL = 1.6
"""The most that a command should cost, in times of the imports."""


def measure_command(command: list[str], folder: str) -> float:
    """Return the seconds of processor time that a process takes."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "HOLDFAST_"))}
    environment["PYTHONPATH"] = str(Path(__file__).parent.parent)
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=quiet, stdout=quiet, stderr=quiet)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


def main(times: int) -> None:
    """Measure and print every command."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ask.yaml").write_text(BLUEPRINT)
        measure_command([*HOLDFAST, "run", "ask.yaml", "--id", "one"], folder)
        commands = {"(imports)": IMPORTS, **{words: [*HOLDFAST, *words.split()] for words in (*ALONE, *CONNECTED)}}
        taken: dict[str, list[float]] = {name: [] for name in commands}
        try:
            for _ in range(times):
                for name, command in commands.items():
                    taken[name].append(measure_command(command, folder))
        finally:
            measure_command([*HOLDFAST, "down"], folder)
    imports = statistics.median(taken["(imports)"])
    for name, seconds in taken.items():
        ratio = statistics.median(seconds) / imports
        print(f"{name:30}{statistics.median(seconds):7.2f} s {ratio:6.2f}{'  over' if ratio > GOAL else ''}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)

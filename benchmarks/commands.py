"""What each command costs: its processor time beside that of importing Temporal's client and typer.

    python -m benchmarks.commands [TIMES]

Bytecode is kept in that folder, as an installed package has it: without it most of the time would be its compiler's.
Commands that connect are run against a local server, in a folder of their own, with one run that waits. Printed are
the median of the rounds of each command (each round runs the imports beside it) and its ratio to the imports: two
rounds of all take a minute or two.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.table import Cell, print_table

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
    environment["PYTHONPYCACHEPREFIX"] = str(Path(folder, "bytecode"))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=quiet, stdout=quiet, stderr=quiet)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


def main(times: int) -> None:
    """Measure every command, and print them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ask.yaml").write_text(BLUEPRINT)
        measure_command([*HOLDFAST, "run", "ask.yaml", "--id", "one"], folder)
        try:
            for words in (*ALONE, *CONNECTED):  # writes the bytecode
                measure_command([*HOLDFAST, *words.split()], folder)
            rows = [measure_ratio(words, times, folder) for words in (*ALONE, *CONNECTED)]
        finally:
            measure_command([*HOLDFAST, "down"], folder)
    print_table(f"Commands beside the imports; aim: {GOAL}", ("holdfast …", "processor time", "ratio", ""), rows)


def measure_ratio(words: str, times: int, folder: str) -> list[Cell]:
    """Measure a command beside the imports, and return its row."""
    command = [*HOLDFAST, *words.split()]
    pairs = [(measure_command(IMPORTS, folder), measure_command(command, folder)) for _ in range(times)]
    imports, seconds = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = seconds / imports
    return [f"`{words}`", f"{seconds:.2f} s", ratio, "over" if ratio > GOAL else ""]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)

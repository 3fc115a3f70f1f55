"""What each command costs: its processor time beside that of importing Temporal's client and typer.

    python -m benchmarks.commands [TIMES]

Bytecode is kept in that folder, as an installed package has it: without it most of the time would be its compiler's.
Commands that connect are run against a local server, in a folder of their own: on a run that waits, on one that has
failed, and those that end something on a run of each round. Printed are the median of the rounds of each command (each
round runs the imports beside it), its ratio to the imports, and its exit code: two rounds of all take some minutes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.table import Cell, print_table

IMPORTS = [sys.executable, "-c", "import temporalio.client, typer"]
HOLDFAST = [sys.executable, "-m", "holdfast"]
ASK = "name: ask\nsteps: [{kind: hitl, name: go, message: Go on?}]\n"
WAIT = """\
name: wait
steps:
- {kind: wait, name: paid, for: paid, key: INV-7}
- {name: sum, agent: {model: echo}, input: "{{ context.nothing }}"}
"""
FILES = {"ask.yaml": ASK, "wait.yaml": WAIT, "mended.yaml": WAIT.replace("{{ context.nothing }}", "all")}
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
    "pause one",
    "resume one",
    "retry failed --blueprint mended.yaml",
    "fork failed --at pipeline:wait;agent:sum --blueprint mended.yaml",
    "answer asks-{n} go yes",
    "cancel ends-{n}",
    "send waits-{n} paid INV-7",
    "create new-{n} --template revise_text",
]
PREPARE = [
    "start ask.yaml --no-check --id asks-{n}",
    "start ask.yaml --no-check --id ends-{n}",
    "start wait.yaml --no-check --id waits-{n}",
]
"""What each round needs before."""
FAIL = ["start wait.yaml --no-check --id failed", "send failed paid INV-7"]
GOAL = 1.6
"""The most that a command should cost, in times of the imports."""


@dataclass(frozen=True)
class Measured:
    """What a process took, in seconds of processor time, and its exit code."""

    seconds: float
    code: int


def measure_command(command: list[str], folder: str) -> Measured:
    """Run a process to its end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "HOLDFAST_"))}
    environment["PYTHONPATH"] = str(Path(__file__).parent.parent)
    environment["PYTHONPYCACHEPREFIX"] = str(Path(folder, "bytecode"))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=quiet, stdout=quiet, stderr=quiet)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Measured(used.ru_utime + used.ru_stime, process.returncode)


def main(times: int) -> None:
    """Measure every command, and print them."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            Path(folder, name).write_text(text)
        run("run ask.yaml --id one", 0, folder)
        try:
            for words in (*FAIL, *(words for number in range(times + 1) for words in _number(PREPARE, number))):
                run(words, 0, folder)
            for words in (*ALONE, *CONNECTED):  # writes the bytecode
                run(words, 0, folder)
            rows = [measure_ratio(words, times, folder) for words in (*ALONE, *CONNECTED)]
        finally:
            run("down", 0, folder)
    head = ("holdfast …", "processor time", "ratio", "", "exit code")
    print_table(f"Commands beside the imports; aim: {GOAL}", head, rows)


def _number(words: list[str], number: int) -> list[str]:
    return [text.format(n=number) for text in words]


def run(words: str, number: int, folder: str) -> Measured:
    """Run a command of this round."""
    return measure_command([*HOLDFAST, *words.format(n=number).split()], folder)


def measure_ratio(words: str, times: int, folder: str) -> list[Cell]:
    """Measure a command beside the imports, and return its row."""
    pairs = [(measure_command(IMPORTS, folder), run(words, number, folder)) for number in range(1, times + 1)]
    imports = statistics.median(one.seconds for one, _ in pairs)
    seconds = statistics.median(one.seconds for _, one in pairs)
    ratio = seconds / imports
    codes = ", ".join(str(code) for code in sorted({one.code for _, one in pairs}))
    return [f"`{words}`", f"{seconds:.2f} s", ratio, "over" if ratio > GOAL else "", codes]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)

"""The time a person waits: for `holdfast --help`, and from nothing to the first question of a run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.table import print_table

ROUNDS = 5
HOME = Path(__file__).parent.parent
HOLDFAST = [sys.executable, "-m", "holdfast"]


def seconds(command: list[str], environment: dict[str, str], code: int = 0) -> float:
    before = time.perf_counter()
    done = subprocess.run(command, env=environment, cwd=HOME, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return time.perf_counter() - before


def first_question() -> float:
    """Return the seconds of `holdfast run` with an empty home, until it stops with the question printed."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HOLDFAST_HOME": folder}
        try:
            command = [*HOLDFAST, "run", "examples/agree_on_brief/agree_on_brief.yaml", "--input", "a poem"]
            return seconds(command, environment, code=3)
        finally:
            seconds([*HOLDFAST, "down"], environment)


if __name__ == "__main__":
    help_ = median(seconds([*HOLDFAST, "--help"], dict(os.environ)) for _ in range(ROUNDS))
    asked = median(first_question() for _ in range(ROUNDS))
    rows = [
        ("`holdfast --help`", f"{help_ * 1000:.0f} ms", "300 ms"),
        ("`holdfast run`, from nothing to the first question", f"{asked:.1f} s", "5 s"),
    ]
    print_table("What a person waits for", ("", "time", "aim"), rows)

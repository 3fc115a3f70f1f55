"""Ends what a test run has started once the run is over, however it ended: servers and workers outlive their commands.

Whatever a test starts inherits an environment variable. The watcher waits for the end of its standard input, which
comes when the test run is gone, killed or not, and then ends every process that carries the variable's value.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import psutil

MARK = "TEST_RUN_MARK"


def watched() -> subprocess.Popen[bytes] | None:
    """Mark this process and what it will start, and have them watched; None if it is marked already."""
    if MARK in os.environ:
        return None
    os.environ[MARK] = uuid.uuid4().hex
    command = [sys.executable, str(Path(__file__)), os.environ[MARK], str(os.getpid())]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def marked(value: str) -> list[int]:
    """Return the processes that carry the mark."""
    return [process.pid for process in _marked(value)]


def _marked(value: str) -> list[psutil.Process]:
    processes = psutil.process_iter(["environ"])
    return [process for process in processes if (process.info["environ"] or {}).get(MARK) == value]


def end(value: str, spared: set[int]) -> None:
    """Kill the processes that carry the mark, and what these have started meanwhile, until there are none."""
    while processes := [process for process in _marked(value) if process.pid not in spared]:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end(sys.argv[1], {os.getpid(), int(sys.argv[2])})

"""Ends what a test run has started once the run is over, however it ended: servers and workers outlive their commands.

Whatever a test starts inherits an environment variable. The watcher waits for the end of its standard input, which
comes when the test run is gone, killed or not, and then ends every process that carries the variable's value.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

MARK = "TEST_RUN_MARK"


def watched() -> subprocess.Popen[bytes] | None:
    """Mark this process and what it will start, and have them watched; None if it is marked, or cannot be."""
    if MARK in os.environ or not Path("/proc/self/environ").exists():
        return None
    os.environ[MARK] = uuid.uuid4().hex
    command = [sys.executable, str(Path(__file__)), os.environ[MARK], str(os.getpid())]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def marked(value: str) -> list[int]:
    """Return the processes that carry the mark."""
    wanted = f"{MARK}={value}".encode()
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if wanted in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                found.append(int(entry))
        except OSError:  # it ended meanwhile, or is another user's
            continue
    return found


def end(value: str, spared: set[int]) -> None:
    for pid in marked(value):
        if pid not in spared:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end(sys.argv[1], {os.getpid(), int(sys.argv[2])})

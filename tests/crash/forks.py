"""Python programs in processes that are forked from one that has imported what a worker imports.

A worker imports for most of two seconds of processor time, and the tests that kill workers start hundreds.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(["holdfast.worker"])


class ForkedProgram:
    """A program that runs as `python` would run it, given its words (a file, or `-m` and a module, and arguments)."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> None:
        self._process = FORKING.Process(target=_run, args=(list(words), dict(environment), folder, log))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Return its exit code once it has ended: less than 0 for a signal, as `subprocess` tells it."""
        return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        """Return its exit code at its end. Raises `TimeoutError`."""
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise TimeoutError(f"process {self.pid} has not ended after {seconds} s")
        return self._process.exitcode

    def kill(self) -> None:
        """End it at once, if it still runs."""
        self._process.kill()


def _run(words: list[str], environment: dict[str, str], folder: Path, log: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    is_module = words[0] == "-m"
    sys.argv = words[1:] if is_module else words
    if is_module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")

"""What ended a process of the test run that crashed: its signal, and what each of its Python threads was at."""

from __future__ import annotations

import faulthandler
import signal
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 10
"""Seconds in which the system tells how a process that has closed its pipes ended."""


def note_threads(folder: Path) -> None:
    """Have this process write its threads' stacks to a file of the folder if it crashes; the file stays open."""
    faulthandler.enable(file=(folder / "threads").open("w"))


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(report: Any) -> None:
    """Add to pytest-xdist's report of a crash, which names the test, how the process ended and its threads' stacks."""
    node = report.node
    code = node.gateway._io.popen.wait(PATIENCE)
    threads = Path(node.config._tmp_path_factory.getbasetemp(), f"popen-{node.gateway.id}", "threads")
    report.longrepr = f"{report.longrepr}\n{ending(code)}\n{threads.read_text() if threads.exists() else ''}"


def ending(code: int) -> str:
    """Return in words how a process ended, from its exit code as `subprocess` tells it."""
    if code >= 0:
        return f"It ended itself with exit code {code}."
    return f"It was ended by {signal.Signals(-code).name}."

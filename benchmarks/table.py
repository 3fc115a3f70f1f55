"""The table that every benchmark prints, with the machine it ran on and what else that machine did."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version

Cell = str | int | float


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print rows as a Markdown table below a title, and below it machine, versions and load."""
    print(f"\n{title}\n", flush=True)
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(map(_write, row))} |")
    print(f"\n{describe_machine()}", flush=True)


def describe_machine() -> str:
    """Return the processors, the versions, the day, and the load of the last minute."""
    versions = f"Python {platform.python_version()}, temporalio {version('temporalio')}"
    return f"{os.cpu_count()} processors, {versions}, {date.today()}, load {os.getloadavg()[0]:.1f}"


def compare(label: str, hand: float, ours: float, digits: int = 1) -> tuple[Cell, ...]:
    """Return a row of two figures and their ratio."""
    return label, f"{hand:,.{digits}f}", f"{ours:,.{digits}f}", f"{ours / hand:.2f}"


def _write(cell: Cell) -> str:
    return f"{cell:,.2f}" if isinstance(cell, float) else str(cell)

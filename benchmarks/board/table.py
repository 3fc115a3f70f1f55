"""The rows of the board, and how they are printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Row(NamedTuple):
    """What came of one part of a suite."""

    suite: str
    """Its name and version."""
    part: str
    cases: int
    """How many cases there are."""
    outcome: str


def print_table(rows: Iterable[Row]) -> None:
    """Print the rows as a table in Markdown."""
    print("| suite | part | cases | what came of them |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row.suite} | {row.part} | {row.cases} | {row.outcome} |")

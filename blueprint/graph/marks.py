"""Where a run stands, in terms of its blueprint: what a graph of it is coloured by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Path = tuple[str, ...]
"""The names on the way to a place: of steps, branches, tools; without iterations and items."""
State = Literal["done", "running", "waiting", "failed", "skipped"]


@dataclass(frozen=True)
class Marks:
    """Of every loop its last iteration counts. The empty path is the run itself."""

    states: Mapping[Path, State] = field(default_factory=dict)
    rounds: Mapping[Path, int] = field(default_factory=dict)
    """The last iteration of each loop."""
    waiting: frozenset[Path] = frozenset()
    """Where questions are open; one that has no place of its own waits at the nearest above."""
    stops: frozenset[Path] = frozenset()
    """The run, loops and imports that have stopped before or after one of their steps."""

"""The state of a run in terms of its blueprint, by which a graph is coloured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Path = tuple[str, ...]
"""The names on the way to a step, branch or tool, without iterations and items."""
State = Literal["done", "running", "waiting", "failed", "skipped"]


@dataclass(frozen=True)
class RunOverlay:
    """The state of each path in a run; of a loop, that of its last iteration. The empty path is the run."""

    states: Mapping[Path, State] = field(default_factory=dict)
    rounds: Mapping[Path, int] = field(default_factory=dict)
    """The last iteration of each loop."""
    waiting: frozenset[Path] = frozenset()
    """Paths with open questions; one that is not drawn marks its nearest ancestor."""


def path_of_stop(step: Path, position: str) -> Path:
    """Return the path of the stop `before` or `after` a step: that of a step beside it, with a name that none has."""
    return (*step[:-1], f"{position} {step[-1]}")

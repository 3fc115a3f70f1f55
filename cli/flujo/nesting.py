"""The lists of steps in a document for Flujo, and the steps inside steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.blueprint.source import PlacedDict, PlacedList


def find_steps(definition: Any) -> PlacedList | None:
    """Return the list of steps that stands under a key, also of `{steps: […]}`; None if there is none."""
    if isinstance(definition, PlacedDict):
        definition = definition.get("steps")
    return definition if isinstance(definition, PlacedList) else None


def list_steps(steps: PlacedList) -> Iterator[PlacedDict]:
    """Yield the steps of a list, and those inside them."""
    for step in steps:
        if isinstance(step, PlacedDict):
            yield step
            for inner in list_inner(step):
                yield from list_steps(inner)


def list_inner(step: PlacedDict) -> Iterator[PlacedList]:
    """Yield the lists of steps inside a step."""
    holders = [step, *(block for key in ("loop", "map", "parallel") if isinstance(block := step.get(key), PlacedDict))]
    for holder in holders:
        for key in ("body", "default_branch", "steps"):
            if (steps := find_steps(holder.get(key))) is not None:
                yield steps
        for key in ("branches", "states"):
            branches = holder.get(key)
            for branch in branches.values() if isinstance(branches, PlacedDict) else ():
                if (steps := find_steps(branch)) is not None:
                    yield steps

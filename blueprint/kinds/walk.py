"""Walks over steps and those inside them, through the blocks that every kind names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.blueprint.kinds.base import Fallback
from holdfast.blueprint.questions import Asked

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep


def steps_within(steps: Iterable[AnyStep]) -> Iterator[AnyStep]:
    """Yield the steps, and those inside them."""
    for _, step in placed_steps(steps, ""):
        yield step


def placed_steps(steps: Iterable[AnyStep], path: str) -> Iterator[tuple[str, AnyStep]]:
    """Yield the steps, and those inside them, each with its path."""
    for index, step in enumerate(steps):
        yield from placed_within(step, f"{path}[{index}]")


def placed_within(step: AnyStep, path: str) -> Iterator[tuple[str, AnyStep]]:
    """Yield a step, and those inside it, each with its path."""
    yield path, step
    for key, block in step.blocks().items():
        yield from placed_steps(block.steps, f"{path}.{key}")
    if isinstance(step.on_error, Fallback):
        yield from placed_within(step.on_error.fallback, f"{path}.on_error.fallback")


def lists_within(steps: Sequence[AnyStep]) -> Iterator[Sequence[AnyStep]]:
    """Yield every list of steps: this one, and those inside its steps."""
    yield steps
    for step in steps:
        for block in step.blocks().values():
            yield from lists_within(block.steps)


def answers_in(steps: Sequence[AnyStep]) -> dict[str, Asked]:
    """Return the steps at any depth whose output is a person's answer, with the question they ask."""
    asking: dict[str, Asked] = {}
    for step in steps:
        if step.answered_question is not None:
            asking[step.name] = step.answered_question
        for block in step.blocks().values():
            asking |= answers_in(block.steps)
    return asking

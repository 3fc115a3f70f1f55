"""Changes to a blueprint for one run: another model, stops before and after steps."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from blueprint.expressions.error import did_you_mean
from blueprint.grammar import Agent, Blueprint, Step
from blueprint.grammar.base import Part


class UnknownStep(LookupError):
    """No step of that name."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        hint = did_you_mean(name, sorted(known)) or f"steps: {', '.join(sorted(known))}"
        super().__init__(f"no step {name!r} ({hint})")


def with_model(blueprint: Blueprint, model: str) -> Blueprint:
    """The blueprint with every agent asking this model."""

    def change(part: Part) -> Part:
        return part.model_copy(update={"model": model}) if isinstance(part, Agent) else part

    return _changed(blueprint, change)


def with_stops(blueprint: Blueprint, before: Collection[str], after: Collection[str]) -> Blueprint:
    """The blueprint with a stop before and after the steps of these names. Raises `UnknownStep`."""
    known: set[str] = set()

    def change(part: Part) -> Part:
        if not isinstance(part, Step):
            return part
        known.add(part.name)
        stops = {
            "interrupt_before": part.interrupt_before or part.name in before,
            "interrupt_after": part.interrupt_after or part.name in after,
        }
        return part.model_copy(update=stops)

    changed = _changed(blueprint, change)
    for name in [*before, *after]:
        if name not in known:
            raise UnknownStep(name, known)
    return changed


def _changed(blueprint: Blueprint, change: Callable[[Part], Part]) -> Blueprint:
    """The blueprint with every part of it changed, the innermost first; an author's own values are no parts."""
    changed = _walked(blueprint, change)
    assert isinstance(changed, Blueprint)
    return changed


def _walked(value: Any, change: Callable[[Part], Part]) -> Any:
    match value:
        case Part():
            fields = {name: _walked(inner, change) for name, inner in value.__dict__.items()}
            return change(value.model_copy(update=fields))
        case dict() if any(isinstance(inner, Part | list) for inner in value.values()):
            return {name: _walked(inner, change) for name, inner in value.items()}
        case list() if any(isinstance(inner, Part) for inner in value):
            return [_walked(inner, change) for inner in value]
    return value

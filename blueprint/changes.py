"""Changes to a blueprint for one run: another model, stops before and after steps."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from blueprint.expressions.error import did_you_mean
from blueprint.grammar import KINDS, Agent, Blueprint


class UnknownStep(LookupError):
    """No step of that name."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        hint = did_you_mean(name, sorted(known)) or f"steps: {', '.join(sorted(known))}"
        super().__init__(f"no step {name!r} ({hint})")


def with_model(blueprint: Blueprint, model: str) -> Blueprint:
    """The blueprint with every agent asking this model."""

    def change(part: dict[str, Any]) -> None:
        if "model" in part and part.keys() <= Agent.model_fields.keys():
            part["model"] = model

    return _changed(blueprint, change)


def with_stops(blueprint: Blueprint, before: Collection[str], after: Collection[str]) -> Blueprint:
    """The blueprint with a stop before and after the steps of these names. Raises `UnknownStep`."""
    known: set[str] = set()

    def change(part: dict[str, Any]) -> None:
        if part.get("kind") in KINDS and "name" in part:
            known.add(part["name"])
            part["interrupt_before"] |= part["name"] in before
            part["interrupt_after"] |= part["name"] in after

    changed = _changed(blueprint, change)
    for name in [*before, *after]:
        if name not in known:
            raise UnknownStep(name, known)
    return changed


def _changed(blueprint: Blueprint, change: Any) -> Blueprint:
    tree = blueprint.model_dump()
    _walk(tree, change)
    return Blueprint.model_validate(tree)


def _walk(value: Any, change: Any) -> None:
    match value:
        case dict():
            change(value)
            for inner in value.values():
                _walk(inner, change)
        case list():
            for inner in value:
                _walk(inner, change)

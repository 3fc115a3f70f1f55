"""Changes to a blueprint for one run: another model, stops before and after steps."""

from __future__ import annotations

from collections.abc import Callable, Collection

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Agent, Blueprint, Step, WorkflowBlock
from holdfast.blueprint.parts import Part


class UnknownStep(LookupError):
    """A step name that the blueprint does not have."""

    def __init__(self, name: str, names: Collection[str]) -> None:
        hint = did_you_mean(name, sorted(names)) or f"steps: {', '.join(sorted(names))}"
        super().__init__(f"no step {name!r} ({hint})")


def with_model(blueprint: Blueprint, model: str) -> Blueprint:
    """Return the blueprint with every agent asking this model."""

    def change(part: Part) -> Part:
        return part.model_copy(update={"model": model}) if isinstance(part, Agent) else part

    return _change_parts(blueprint, change)


def with_workflows(blueprint: Blueprint, task_queue: str, signalled: str) -> Blueprint:
    """Return the blueprint with its author's own workflows on one task queue, and all signals sent to one workflow."""

    def change(part: Part) -> Part:
        if not isinstance(part, WorkflowBlock):
            return part
        started = {"task_queue": task_queue, "id": None}
        return part.model_copy(update=started if part.signal is None else {"id": signalled})

    return _change_parts(blueprint, change)


def with_stops(blueprint: Blueprint, before: Collection[str], after: Collection[str]) -> Blueprint:
    """Return the blueprint with a stop before and after the steps of these names. Raises `UnknownStep`."""
    names: set[str] = set()

    def change(part: Part) -> Part:
        if not isinstance(part, Step):
            return part
        names.add(part.name)
        stops = {
            "interrupt_before": part.interrupt_before or part.name in before,
            "interrupt_after": part.interrupt_after or part.name in after,
        }
        return part.model_copy(update=stops)

    changed = _change_parts(blueprint, change)
    for name in [*before, *after]:
        if name not in names:
            raise UnknownStep(name, names)
    return changed


def _change_parts(blueprint: Blueprint, change: Callable[[Part], Part]) -> Blueprint:
    """Return the blueprint with `change` applied to every part, innermost first; the author's own values stay."""
    changed = _change_value(blueprint, change)
    assert isinstance(changed, Blueprint)
    return changed


def _change_value(value: object, change: Callable[[Part], Part]) -> JSON:
    match value:
        case Part():
            fields = {name: _change_value(inner, change) for name, inner in value.__dict__.items()}
            return change(value.model_copy(update=fields))
        case dict() if any(isinstance(inner, Part | list) for inner in value.values()):
            return {name: _change_value(inner, change) for name, inner in value.items()}
        case list() if any(isinstance(inner, Part) for inner in value):
            return [_change_value(inner, change) for inner in value]
    return value

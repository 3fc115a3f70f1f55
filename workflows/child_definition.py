"""The definition of a step's child workflow: the step alone, with only what it reads of the run around it."""

from __future__ import annotations

from typing import Any

from holdfast.blueprint.dependencies import reach_of
from holdfast.blueprint.expressions import names_in, names_in_expression
from holdfast.blueprint.kinds import AnyStep, Block, Blueprint, Fallback
from holdfast.workflows.frame import Frame


def alone(step: AnyStep, frame: Frame) -> dict[str, Any]:
    """Return the fields of a child's definition: the step in a blueprint of its own, its address, what it reads."""
    lone = _lone(step, frame.host.identity.blueprint, frame.blueprint)
    reads = reads_of(step) | names_in([agent.instructions for agent in lone.agents.values()])
    seen = frame.visible()
    steps = {path[1] if len(path) > 1 else "*" for path in reads if path[0] == "steps"}
    names = {path[0] for path in reads}
    return {
        "blueprint": lone,
        **frame.host.identity.shared,
        "address": frame.address,
        "label": frame.label,
        "people": frame.people,
        "input": frame.names.get("input") if "input" in names else None,
        "steps": {name: record for name, record in seen["steps"].items() if name in steps or "*" in steps},
        "names": {name: value for name, value in frame.names.items() if name in names and name not in _OWN},
    }


_OWN = {"input", "history"}
"""Names that the child makes itself, or gets in a field of their own."""


def _lone(step: AnyStep, name: str, blueprint: Blueprint) -> Blueprint:
    """Return a blueprint of this one step, under the run's name."""
    reach = reach_of([step], blueprint)
    return Blueprint(
        name=name,
        context_schema=blueprint.context_schema,
        agents=reach.agents,
        imports=reach.imports,
        steps=[step],
    )


def reads_of(step: AnyStep) -> set[tuple[str, ...]]:
    """Return every name that the step, or anything inside it, reads of the run around it."""
    names: set[tuple[str, ...]] = names_in(dict(step.reads()))
    for expression in step.conditions().values():
        names |= names_in_expression(expression)
    for block in _blocks(step):
        inside = names_in(dict(block.reads))
        for expression in block.conditions.values():
            inside |= names_in_expression(expression)
        for inner in block.steps:
            inside |= reads_of(inner)
        # The history is part of the context, so it is read from outside even where a loop gives it a name.
        names |= {path for path in inside if path[0] not in block.names - {"history"}}
    return names


def _blocks(step: AnyStep) -> list[Block]:
    fallback = [Block((step.on_error.fallback,))] if isinstance(step.on_error, Fallback) else []
    return [*step.blocks().values(), *fallback]

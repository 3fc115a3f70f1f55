"""Running an imported blueprint: from a step, or as an agent's tool."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from blueprint.grammar import Blueprint
from blueprint.jsonschemas import misfit
from workflows.failures import failure
from workflows.frame import Frame, Scope, Store


async def run_import(child: Blueprint, given: Any, frame: Frame) -> tuple[Any, dict[str, Any]]:
    """The blueprint's output, and its context at the end. It has names, a context and a conversation of its own."""
    if child.inputs is not None and (wrong := misfit(child.inputs, given)):
        raise failure("input_invalid", f"the input of {child.name} does not fit: {wrong}", frame.address)
    inside = replace(
        frame,
        blueprint=child,
        store=Store(child.context, child.context_schema),
        scope=Scope(),
        names={"input": given},
        conversing=False,
        turn_source=None,
    )
    output = await frame.run_steps(child.steps, inside, given)
    if child.output is not None:
        output = inside.after(output).render(child.output)
    return output, inside.store.value

"""Imported blueprints, run from a step or as an agent's tool."""

from __future__ import annotations

from dataclasses import replace

from holdfast.blueprint.defaults import complete_input
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.people import EVERYBODY
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import ContextStore, Frame, read_history


async def run_import(alias: str, value: JSON, frame: Frame) -> tuple[JSON, JSONObject]:
    """Run an import; return its output and its final context. It has names, context and conversation of its own."""
    child = frame.blueprint.imports[alias]
    value, wrong = complete_input(child.inputs, value)
    if wrong:
        raise failure("input_invalid", f"the input of {child.name} does not fit: {wrong}", frame.address)
    began = read_history(child.context)
    frame.host.speakers.note_written(began, began)
    inside = replace(
        frame,
        blueprint=child,
        store=ContextStore(child.context, child.context_schema),
        scope=frame.scope.detach(),
        names={"input": value},
        reads_run_input=False,
        request_counts=frame.request_counts.within(alias),
        conversing=False,
        turn_source=None,
        people=EVERYBODY,  # its own steps say whom they ask
    )
    output = await frame.run_steps(child.steps, inside, value, child.max_parallel)
    if child.output is not None:
        output = inside.after(output).render(child.output)
    return output, inside.store.value

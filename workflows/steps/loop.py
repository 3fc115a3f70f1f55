"""The `loop` kind: a child workflow, started once; its iterations run in it."""

from __future__ import annotations

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Loop, States
from holdfast.protocol.runs import LoopDefinition, LoopResult, LoopState
from holdfast.workflows.children import define_child
from holdfast.workflows.frame import Frame


async def run_loop(step: Loop | States, frame: Frame) -> JSON:
    """Run a loop, or a machine, whose visits are its iterations."""
    definition = LoopDefinition(**define_child(step, frame))
    result: LoopResult = await frame.run_child(definition, _first_state(step, frame))
    frame.write(result.context)
    if result.heard:
        frame.scope.take_answer(result.resume_input)
    return result.output


def _first_state(step: Loop | States, frame: Frame) -> LoopState:
    return LoopState(
        context=frame.store.value,
        input=frame.read_input(step),
        resume_input=frame.scope.resume_input,
    )

"""The `loop` kind: a child workflow, started once; its iterations run in it."""

from __future__ import annotations

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Loop, States
from holdfast.protocol.children import LoopDefinition, LoopResult, LoopState
from holdfast.workflows.children import define_child
from holdfast.workflows.deadlines import FINISHED, run_until_deadline
from holdfast.workflows.frame import Frame


async def run_loop(step: Loop | States, frame: Frame) -> JSON:
    """Run a loop, or a machine, whose visits are its iterations."""
    definition = LoopDefinition(**define_child(step, frame))
    first = _first_state(step, frame)
    work = frame.run_child(definition, first)
    block = step.loop
    result = await run_until_deadline(work, block.deadline, block.on_deadline, frame.after(first.input), step.name)
    return None if result is FINISHED else _take_result(result, frame)


def _take_result(result: LoopResult, frame: Frame) -> JSON:
    """Take over what the loop wrote and heard; return its output."""
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

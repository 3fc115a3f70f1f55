"""The `loop` kind: a child workflow, started once; its iterations run in it."""

from __future__ import annotations

from typing import Any

from blueprint.expressions import names_in, names_in_expression
from blueprint.grammar import AnyStep, Block, Blueprint, Fallback, Loop
from blueprint.reach import reach_of
from protocol.runs import LoopDefinition, LoopState
from workflows.frame import Frame


async def run_loop(step: Loop, frame: Frame) -> Any:
    result = await frame.host.run_loop(definition_of(step, frame), _first_state(step, frame))
    frame.write(result.context)
    return result.output


def _first_state(step: Loop, frame: Frame) -> LoopState:
    return LoopState(
        context=frame.store.value,
        input=frame.input_of(step),
        resume_input=frame.scope.resume_input,
        paused=frame.host.paused,
        permits=frame.host.permits,
    )


def definition_of(step: Loop, frame: Frame) -> LoopDefinition:
    """The loop with what it reads of the world around it: agents, imports, names; not all of them."""
    lone = _lone(step, frame.host.blueprint_name, frame.blueprint)
    reads = _reads(step) | names_in([agent.instructions for agent in lone.agents.values()])
    seen = frame.visible()
    steps = {path[1] if len(path) > 1 else "*" for path in reads if path[0] == "steps"}
    names = {path[0] for path in reads}
    return LoopDefinition(
        blueprint=lone,
        run=frame.host.run_id,
        guarded=frame.host.guarded,
        address=frame.address,
        input=frame.names.get("input") if "input" in names else None,
        steps={name: record for name, record in seen["steps"].items() if name in steps or "*" in steps},
        names={name: value for name, value in frame.names.items() if name in names and name not in _OWN},
    )


_OWN = {"input", "iteration", "history"}
"""Names that a loop gives itself, or gets as a field of their own."""


def _lone(step: Loop, name: str, blueprint: Blueprint) -> Blueprint:
    """A blueprint of this one loop, by the run's name."""
    reach = reach_of([step], blueprint)
    return Blueprint(
        name=name,
        context_schema=blueprint.context_schema,
        agents=reach.agents,
        imports=reach.imports,
        steps=[step],
    )


def _reads(step: AnyStep) -> set[tuple[str, ...]]:
    """Every name that the step or anything inside it reads."""
    found: set[tuple[str, ...]] = names_in(dict(step.reads()))
    for expression in step.conditions().values():
        found |= names_in_expression(expression)
    for block in _blocks(step):
        found |= names_in(dict(block.reads))
        for expression in block.conditions.values():
            found |= names_in_expression(expression)
        for inner in block.steps:
            found |= _reads(inner)
    return found


def _blocks(step: AnyStep) -> list[Block]:
    fallback = [Block((step.on_error.fallback,))] if isinstance(step.on_error, Fallback) else []
    return [*step.blocks().values(), *fallback]

"""Blueprints from Python: what authors import; see docs/python.md."""

from holdfast.blueprint.build import (
    NamedAgent,
    Pipeline,
    StepResult,
    ValueReference,
    add,
    agent,
    ask,
    choose,
    context,
    each,
    loop,
    output,
    parallel,
    previous,
    states,
    step,
)

__all__ = [
    "NamedAgent",
    "Pipeline",
    "ValueReference",
    "StepResult",
    "add",
    "agent",
    "ask",
    "choose",
    "context",
    "each",
    "loop",
    "output",
    "parallel",
    "previous",
    "states",
    "step",
]

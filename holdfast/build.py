"""Blueprints from Python: what authors import; see docs/python.md."""

from holdfast.blueprint.build.agents import NamedAgent, agent
from holdfast.blueprint.build.blocks import block, choose, each, loop, parallel, states
from holdfast.blueprint.build.pipeline import Pipeline
from holdfast.blueprint.build.references import StepResult, ValueReference, context, output, previous
from holdfast.blueprint.build.steps import add, ask, step

__all__ = [
    "NamedAgent",
    "Pipeline",
    "ValueReference",
    "StepResult",
    "add",
    "agent",
    "ask",
    "block",
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

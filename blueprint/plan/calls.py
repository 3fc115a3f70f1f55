"""A step of a plan whose arguments are known, as the ordinary step that calls its tool."""

from __future__ import annotations

from holdfast.blueprint.kinds import PlainStep
from holdfast.blueprint.plan.layout import Layout, StepUnit
from holdfast.blueprint.plan.tools import TOOL_ERRORS_AS_WRITTEN


def compile_call(unit: StepUnit, layout: Layout) -> PlainStep:
    """Return the ordinary step that calls a step's only tool with the arguments in the plan."""
    step = unit.step
    return PlainStep.model_construct(  # its parts were checked with the plan
        kind="step",
        name=unit.id,
        uses=step.tools[0],
        arguments=layout.write_template(step.arguments, unit),
        tool_errors=TOOL_ERRORS_AS_WRITTEN,
    )

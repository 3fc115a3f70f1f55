"""The work of a plan's step as the ordinary step that does it: by an agent, or by a call of a tool."""

from __future__ import annotations

from typing import Literal

from holdfast.blueprint.kinds import Agent, PlainStep
from holdfast.blueprint.kinds.plan_body import DEFAULT_MODEL, PlanBody, PlanStep
from holdfast.blueprint.plan.layout import Layout, StepUnit
from holdfast.blueprint.plan.tools import make_tool_errors


class PlanWork(PlainStep):
    """The step that does what a step of a plan says."""

    kind: Literal["step"] = "step"
    title: str

    @property
    def shown_title(self) -> str:
        return self.title

    @property
    def segment(self) -> str:
        """See base class: the same for an agent and a tool, as who works on a step may change with the plan."""
        return "step"


def compile_work(unit: StepUnit, plan: PlanBody, layout: Layout) -> PlanWork:
    """Return the ordinary step that does the work of a step of a plan.

    It calls the only tool where the plan gives the arguments. Else an agent works on it, which ends with the tools of
    the step, or, where it has none, with its output.
    """
    step, is_call = unit.step, unit.step.arguments is not None
    return PlanWork.model_construct(  # its parts were checked with the plan
        name=unit.id,
        title=unit.description,
        on_error="continue",
        uses=step.tools[0] if is_call else None,
        arguments=layout.write_template(step.arguments, unit) if is_call else None,
        agent=None if is_call else choose_agent(step, plan),
        input=layout.write_template(step.instruction, unit),
        ends_with_tool=bool(step.tools) and not is_call,
        tool_errors=make_tool_errors(by_model=not is_call) if step.tools or is_call else None,
    )


def choose_agent(step: PlanStep, plan: PlanBody) -> str | Agent:
    """Return the agent that works on a step: the step's own, the plan's, or the default model."""
    agent = plan.agent if step.agent is None else step.agent
    return Agent(model=DEFAULT_MODEL) if agent is None else agent

"""Control tools that change the plan: its steps, and the tools of a step that lacks one."""

from __future__ import annotations

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds import PlanStep
from holdfast.blueprint.plan.layout import StepUnit
from holdfast.protocol.answers import Refusal
from holdfast.workflows.bounded_tools import find_replacement
from holdfast.workflows.plan.catalogue import list_plan_tools
from holdfast.workflows.plan.navigation import (
    ControlCall,
    ControlError,
    next_units,
    what_is_next,
)
from holdfast.workflows.plan.step_run import StepRun


async def update_plan(at: ControlCall, new_plan: JSONObject, reason: str) -> JSONObject:
    before = list_plan_tools(at.context.plan)
    try:
        revision = await at.change(new_plan, reason)
    except Refusal as refusal:
        raise ControlError("plan_refused", refusal.message) from None
    at.state.settle()
    tools = at.context.catalogue.describe_names(tool for tool in list_plan_tools(at.context.plan) if tool not in before)
    return {
        "success": True,
        "revision": revision,
        **({"tools": tools} if tools else {}),
        "to_do": what_is_next(at.state),
    }


async def find_tool(at: ControlCall, instruction: str, service: str | None = None) -> JSONObject:
    lacking = _step_without_tool(at)
    # For a step the plan's words count: by words of its own a model could bring any tool into it.
    step = PlanStep(id="plan", instruction=instruction) if lacking is None else lacking.unit.step
    bounds = at.context.bounds(step.model_copy(update={"service": step.service or service}))
    frame = at.state.root.frame
    missing = step.tools[0] if step.tools else ""
    spec = await find_replacement(bounds, missing, frame.host.activities, frame.address)
    if spec is None:
        raise ControlError("missing", "no tool does that; finish what can be done without, or skip the step")
    name = spec.reference
    at.context.catalogue.specs[name] = spec
    if lacking is not None:
        replacements = at.state.replacements[lacking.key]
        at.state.replacements[lacking.key] = list(dict.fromkeys([*replacements, name]))
    return {"tool_name": name, **at.context.catalogue.describe_names([name])[name]}


def _step_without_tool(at: ControlCall) -> StepRun | None:
    """Return the step that lacked a tool last, of those that may be worked on."""
    runs = [StepRun(unit, scope) for unit, scope in next_units(at.state) if isinstance(unit, StepUnit)]
    by_key = {run.key: run for run in runs}
    return next((by_key[key] for key in reversed(at.state.replacements) if key in by_key), None)

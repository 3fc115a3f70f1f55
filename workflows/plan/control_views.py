"""Control tools that look: at the state of the plan, and at the result of a step."""

from __future__ import annotations

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.plan.layout import StepUnit
from holdfast.protocol.plans import UnitResult, count_progress
from holdfast.workflows.plan.catalogue import list_plan_tools
from holdfast.workflows.plan.navigation import (
    ControlCall,
    current_id,
    current_results,
    describe_position,
    step_named,
    what_is_next,
)


async def get_state(at: ControlCall, key: str) -> JSONObject:
    layout, results = at.context.layout, current_results(at.state)
    match key:
        case "steps":
            steps = {
                unit.id: {**_short(results[unit.id]), "instruction": unit.step.instruction} for unit in layout.steps()
            }
            return {"steps": steps}
        case "results":
            return {"results": {id_: unit.value for id_, unit in results.items() if unit.status == "completed"}}
        case "tools":
            return {"tools": at.context.catalogue.describe_names(list_plan_tools(at.context.plan))}
        case "active_loops":
            return {"active_loops": {id_: describe_position(scope) for id_, scope in at.state.active.items()}}
        case "progress":
            return {"progress": {**count_progress(results), "current_step": current_id(at.state)}}
    statuses = {id_: result.status for id_, result in results.items()}
    return {"goal": at.context.plan.goal, "statuses": statuses, "to_do": what_is_next(at.state), "vars": at.state.vars}


async def get_step_result(at: ControlCall, step_id: str) -> JSONObject:
    unit = at.context.layout.find(step_id)
    if not isinstance(unit, StepUnit):
        return {"step_id": step_id, **step_named(at.state, step_id).result.to_output()}
    return {"step_id": step_id, **current_results(at.state)[unit.id].to_output()}


def _short(result: UnitResult) -> JSONObject:
    error = {} if result.error is None else {"error": result.error}
    return {"status": result.status, **error, **({} if result.reason is None else {"reason": result.reason})}

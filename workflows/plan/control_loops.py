"""Control tools of loops: begin one, go to its next item, and see where it stands."""

from __future__ import annotations

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.plan.layout import LoopUnit
from holdfast.protocol.plans import UnitResult
from holdfast.workflows.plan.items import after_item, begin_loop
from holdfast.workflows.plan.navigation import (
    ControlCall,
    ControlError,
    describe_position,
    loop_named,
    scope_around,
    what_is_next,
)


async def get_loop_context(at: ControlCall, loop_id: str = "") -> JSONObject:
    active = at.state.active
    if not loop_id.strip():
        if not active:
            raise ControlError("no_active_loop", "no loop is active: call start_loop")
        return describe_position(list(active.values())[-1])
    unit = loop_named(at.state, loop_id)
    return describe_position(active[unit.id]) if unit.id in active else _ended_loop(at, unit)


async def start_loop(at: ControlCall, loop_id: str) -> JSONObject:
    unit = loop_named(at.state, loop_id)
    if unit.id in at.state.active:
        return describe_position(at.state.active[unit.id], already_started=True)
    scope = scope_around(at.state, unit.id)
    if scope.is_over(unit.id):
        return _report_end(unit, scope.result(unit.id))
    if scope.readiness(unit) != "run":
        missing = [id_ for id_ in unit.waits if not scope.is_over(id_)]
        text = f"the loop {unit.id!r} waits for {', '.join(missing)}; {what_is_next(at.state)}"
        raise ControlError("dependency_not_completed", text, missing=missing)
    if items := await begin_loop(unit, scope):
        return describe_position(at.state.begin_item(scope.item_scope(unit, items, 0)))
    at.state.settle()
    end = scope.result(unit.id)
    if end.status == "completed":
        return {**_report_end(unit, end), "current_item": None, "to_do": what_is_next(at.state)}
    error = end.error or {"type": "cancelled", "message": f"a person cancelled the question of {unit.id}"}
    return {"loop_id": unit.id, "should_continue": False, "error": error, "to_do": what_is_next(at.state)}


async def advance_loop(at: ControlCall, loop_id: str, expected_iteration: int | None = None) -> JSONObject:
    unit = loop_named(at.state, loop_id)
    scope = at.state.active.get(unit.id)
    if scope is None:
        return _ended_loop(at, unit)
    index = scope.item.index
    if expected_iteration not in (None, index):
        return describe_position(scope, note=f"the loop is at iteration {index}; nothing has changed")
    missing = [inner.id for inner in unit.body if not scope.is_over(inner.id)]
    if missing:
        text = f"iteration {index} of {unit.id!r} is not complete: {', '.join(missing)} to be finished"
        raise ControlError("iteration_incomplete", text, missing=missing)
    over = await after_item(scope)
    if over is None:
        at.state.begin_item(scope)
        return describe_position(scope, note=f"a person wants this item to run again; {what_is_next(at.state)}")
    after = at.state.advance(scope, over)
    if isinstance(after, UnitResult):
        return {**_report_end(unit, after), "to_do": what_is_next(at.state)}
    return describe_position(after)


def _ended_loop(at: ControlCall, unit: LoopUnit) -> JSONObject:
    """Return the end of a loop. Raises `ControlError` for one that has not begun."""
    scope = scope_around(at.state, unit.id)
    if scope.is_over(unit.id):
        return _report_end(unit, scope.result(unit.id))
    raise ControlError("loop_not_started", f"the loop {unit.id!r} has not begun: call start_loop")


def _report_end(unit: LoopUnit, result: UnitResult) -> JSONObject:
    """Return the end of a loop, as the control tools report it."""
    end: JSONObject = {"loop_id": unit.id, "should_continue": False, "completed": True, "status": result.status}
    reason = {} if result.reason is None else {"reason": result.reason}
    return {**end, "total_iterations": len(result.iterations or []), **reason}

"""Names in control calls, and what is next: for the agent that drives a plan."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.plan.layout import Layout, LoopUnit, StepUnit, Unit, with_bodies
from holdfast.protocol.plans import UnitResult
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.scope import ItemScope, PlanScope
from holdfast.workflows.plan.state import PlanState
from holdfast.workflows.plan.step_run import StepRun

# Lazy, so that of nested loops the outer one is split off first.
_KEY = re.compile(r"(?P<loop>[A-Za-z0-9_]+?)_iter_(?P<index>\d+)_(?P<rest>.+)")


class ControlError(Exception):
    """A control call that cannot be done: the problem, and what to do instead."""

    def __init__(self, type_: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.content = {"type": type_, "message": message, **more}


@dataclass(frozen=True)
class ControlCall:
    """A control call: the plan that it works on, and where it stands."""

    state: PlanState
    frame: Frame
    change: Callable[[Any, str], Awaitable[int]]
    """Asks for another plan in place of this one, with a reason; returns its number. Raises `Refusal`."""

    @property
    def context(self) -> PlanContext:
        return self.state.context


def loop_named(state: PlanState, name: str) -> LoopUnit:
    """Return the loop of this id. Raises `ControlError`."""
    layout = state.context.layout
    unit = layout.find(name)
    if not isinstance(unit, LoopUnit):
        ids = ", ".join(loop.id for loop in layout.loops()) or "none"
        raise ControlError("unknown_loop", f"there is no loop {name!r}; loops: {ids}")
    return unit


def step_named(state: PlanState, name: str) -> StepRun:
    """Return the step of this id in its current iteration; `events_iter_0_step_4` is one of that iteration.

    Raises `ControlError`.
    """
    id_, indices = _split(name, state.context.layout)
    unit = _step_named(state, name, id_)
    scope = scope_around(state, unit.id)
    for loop, index in indices:
        active = state.active.get(loop_named(state, loop).id)
        if active is None or active.item.index != index:
            now = "not active" if active is None else f"at iteration {active.item.index}"
            text = f"{name!r}: the loop {loop!r} is {now}; only that iteration can be worked on"
            raise ControlError("other_iteration", text)
    return StepRun(unit, scope)


def _split(name: str, layout: Layout) -> tuple[str, list[tuple[str, int]]]:
    """Return an id, and the iterations before it: `outer_iter_0_inner_iter_1_step_4`."""
    indices: list[tuple[str, int]] = []
    while layout.find(name) is None and (match := _KEY.fullmatch(name)) is not None:
        indices.append((match["loop"], int(match["index"])))
        name = match["rest"]
    return name, indices


def _step_named(state: PlanState, name: str, id_: str) -> StepUnit:
    unit = state.context.layout.find(id_)
    if isinstance(unit, LoopUnit):
        text = f"{name!r} is a loop: start_loop begins it, advance_loop goes to its next item and ends it"
        raise ControlError("not_a_step", text)
    if not isinstance(unit, StepUnit):
        ids = ", ".join(step.id for step in state.context.layout.steps())
        raise ControlError("unknown_step", f"there is no step {name!r}; steps: {ids}")
    return unit


def scope_around(state: PlanState, id_: str) -> PlanScope:
    """Return the scope that a unit stands in now. Raises `ControlError` where a loop around it is not active."""
    scope = state.root
    for loop in state.context.layout.list_loops(id_):
        if scope.is_over(loop):
            text = f"the loop {loop!r} has ended ({scope.result(loop).status}), and {id_!r} with it"
            raise ControlError("loop_over", text)
        if loop not in state.active:
            text = f"{id_!r} stands in the loop {loop!r}, which is not active: call start_loop first"
            raise ControlError("loop_not_active", text, loop_id=loop)
        scope = state.active[loop]
    return scope


# What is next


def next_units(state: PlanState) -> list[tuple[Unit, PlanScope]]:
    """Return the units that may be worked on now, of the innermost scope first, in the order of the plan."""
    return [
        (unit, scope)
        for scope in reversed(list(state.scopes()))
        for unit in scope.units
        if (isinstance(unit, StepUnit) and scope.result(unit.id).status in ("running", "waiting_input"))
        or (unit.id not in scope.results and scope.readiness(unit) == "run")
    ]


def current_id(state: PlanState) -> str | None:
    """Return the step that is running, else the step or loop that is next; None if there is none."""
    units = next_units(state)
    begun = [unit.id for unit, scope in units if unit.id in scope.results]
    return next(iter(begun or [unit.id for unit, _ in units]), None)


def what_is_next(state: PlanState) -> str:
    """Return what to do next, in words for the agent."""
    complete = [id_ for id_, scope in state.active.items() if scope.all_over()]
    if complete:
        return f"call advance_loop for {complete[-1]}"
    names = [
        f"start_loop {unit.id}" if isinstance(unit, LoopUnit) else f"step {unit.id}" for unit, _ in next_units(state)
    ]
    return f"next: {', '.join(names)}" if names else "nothing is left"


def current_results(state: PlanState) -> dict[str, UnitResult]:
    """Return the result of every step; of one in an active loop that of the current iteration."""
    results = state.root.all_steps()
    for scope in state.active.values():
        inside = (unit.id for unit in with_bodies(scope.units) if isinstance(unit, StepUnit))
        results |= {id_: scope.step_result(id_) for id_ in inside}
    return results


def describe_position(scope: ItemScope, **more: Any) -> JSONObject:
    """Return the current item of a loop, as the control tools report it."""
    return {
        "loop_id": scope.loop.id,
        "total_iterations": len(scope.items),
        "current_iteration": scope.item.index,
        "current_item": scope.item.item,
        "should_continue": True,
        "items_remaining": len(scope.items) - scope.item.index - 1,
        **more,
    }

"""Where a workflow of a plan stands: its frame, and what it is told by the workflow above."""

from __future__ import annotations

from typing import Any

from holdfast.blueprint.kinds import Plan, PlanBody
from holdfast.blueprint.plan import Layout, LoopUnit, laid_out
from holdfast.protocol.plans import PlanDefinition, PlanLoopDefinition, PlanLoopState
from holdfast.workflows.base import BaseWorkflow
from holdfast.workflows.frame import ContextStore, Frame, Scope
from holdfast.workflows.interpreter import run_steps
from holdfast.workflows.limits import Meter
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.scope import needed_outside


def frame_of(host: BaseWorkflow, definition: PlanDefinition, meter: Meter) -> Frame:
    """The frame of a plan, or of a loop of one, as its own workflow has it."""
    return Frame(
        host=host,
        address=definition.address,
        blueprint=definition.blueprint,
        store=ContextStore(definition.context),
        scope=Scope(dict(definition.steps)),
        run_steps=run_steps,
        names={**definition.names, "input": definition.input},
        previous=definition.previous,
        iteration=definition.iteration,
        place=definition.place,
        meter=meter,
        request_counts=host.request_counts,
    )


def author_of(definition: PlanDefinition) -> PlanBody:
    """What the step of the blueprint says."""
    [step] = (step for step in definition.blueprint.steps if isinstance(step, Plan))
    return step.plan


def layout_of(plan: PlanBody) -> Layout:
    """The layout of a plan that was found sound before."""
    layout, faults = laid_out(plan)
    assert not faults, faults
    return layout


def define_loop(
    definition: PlanDefinition, unit: LoopUnit, desk: PlanContext, items: list[Any]
) -> tuple[PlanLoopDefinition, PlanLoopState]:
    """What a loop's own workflow is told; the desk's frame stands at the loop."""
    own = {"given", "planner", "address", "place", "plan", "loop", "items", "known", "around"}
    above = definition.model_dump(exclude=own)
    child = PlanLoopDefinition(
        **above,
        address=desk.frame.address,
        place=desk.frame.place,
        plan=desk.plan,
        loop=unit.id,
        items=items,
        known=needed_outside(unit, desk.scope),
        around=list(desk.scope.around),
    )
    host = desk.frame.host
    state = PlanLoopState(paused=host.paused, permits=host.permits, budgets=desk.frame.meter.budgets)
    return child, state

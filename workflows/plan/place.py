"""Where a workflow of a plan stands: its frame, and what it is told by the workflow above."""

from __future__ import annotations

from typing import Any

from blueprint.grammar import Plan, PlanBody
from blueprint.plan import Layout, LoopUnit, laid_out
from protocol.plans import PlanDefinition, PlanLoopDefinition, PlanLoopState
from workflows.frame import Frame, Scope, Store
from workflows.host import Host
from workflows.interpreter import run_steps
from workflows.limits import Meter
from workflows.plan.desk import Desk
from workflows.plan.scope import needed_outside


def frame_of(host: Host, definition: PlanDefinition, meter: Meter) -> Frame:
    """The frame of a plan, or of a loop of one, as its own workflow has it."""
    return Frame(
        host=host,
        address=definition.address,
        blueprint=definition.blueprint,
        store=Store(definition.context),
        scope=Scope(dict(definition.steps)),
        run_steps=run_steps,
        names={**definition.names, "input": definition.input},
        previous=definition.previous,
        n=definition.n,
        iteration=definition.iteration,
        place=definition.place,
        meter=meter,
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
    definition: PlanDefinition, unit: LoopUnit, desk: Desk, items: list[Any]
) -> tuple[PlanLoopDefinition, PlanLoopState]:
    """What a loop's own workflow is told; the desk's frame stands at the loop."""
    above = definition.model_dump(exclude={"given", "address", "place", "plan", "loop", "items", "known", "around"})
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

"""Frames of the workflows of a plan, and the definition of a loop's child workflow."""

from __future__ import annotations

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Plan, PlanBody
from holdfast.blueprint.plan import LoopUnit
from holdfast.protocol.plans import PlanDefinition, PlanLoopDefinition, PlanLoopState, PlanOrigin
from holdfast.workflows.chain import ChildWorkflow
from holdfast.workflows.frame import ContextStore, Frame, Scope
from holdfast.workflows.plan.items import needed_outside
from holdfast.workflows.plan.scope import PlanScope


def frame_of(host: ChildWorkflow, definition: PlanDefinition) -> Frame:
    """Return the frame of a plan, or of a loop of one, in its own workflow."""
    return host.frame(
        ContextStore(definition.context),
        Scope(dict(definition.steps)),
        {**definition.names, "input": definition.input},
        previous=definition.previous,
        iteration=definition.iteration,
        place=definition.place,
    )


def author_of(definition: PlanDefinition) -> PlanBody:
    """Return the plan as the step of the blueprint has it."""
    [step] = (step for step in definition.blueprint.steps if isinstance(step, Plan))
    return step.plan


def define_loop(
    definition: PlanDefinition, unit: LoopUnit, scope: PlanScope, items: list[JSON]
) -> tuple[PlanLoopDefinition, PlanLoopState]:
    """Return the definition and the first state of a loop's own workflow."""
    here = scope.at(unit)
    own = {"origin", "address", "place", "plan", "loop", "items", "known", "around"}
    child = PlanLoopDefinition(
        **definition.model_dump(exclude=own),
        origin=PlanOrigin(task=definition.origin.task),
        address=here.address,
        place=here.place,
        plan=scope.context.plan,
        loop=unit.id,
        items=items,
        known=needed_outside(unit, scope),
        around=list(scope.around),
    )
    return child, PlanLoopState()

"""Frames of the workflows of a plan, and the definition of a loop's child workflow."""

from __future__ import annotations

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.plan.layout import LoopUnit, with_bodies
from holdfast.protocol.plans import PlanDefinition, PlanLoopDefinition, PlanLoopState, PlanOrigin, UnitResult
from holdfast.workflows.frame import ContextStore, Frame, Scope
from holdfast.workflows.plan.scope import PlanScope
from holdfast.workflows.run import RunWorkflow


def make_frame(host: RunWorkflow, definition: PlanDefinition) -> Frame:
    """Return the frame of a plan, or of a loop of one, in its own workflow."""
    return host.frame(
        ContextStore(definition.context),
        Scope(dict(definition.steps)),
        {**definition.names, "input": definition.input},
        previous=definition.previous,
        iteration=definition.iteration,
        place=definition.place,
    )


def define_loop(
    definition: PlanDefinition, unit: LoopUnit, scope: PlanScope, items: list[JSON]
) -> tuple[PlanLoopDefinition, PlanLoopState]:
    """Return the definition and the first state of a loop's own workflow."""
    frame = scope.at(unit)
    own = {"origin", "address", "place", "plan", "approved", "loop", "items", "known", "around"}
    child = PlanLoopDefinition(
        **definition.model_dump(exclude=own),
        origin=PlanOrigin(task=definition.origin.task),
        address=frame.address,
        place=frame.place,
        plan=None if scope.context.plan == scope.context.author else scope.context.plan,
        approved=scope.context.approved,
        loop=unit.id,
        items=items,
        known=_known_inside(unit, scope),
        around=list(scope.around),
    )
    return child, PlanLoopState()


def _known_inside(loop: LoopUnit, scope: PlanScope) -> dict[str, UnitResult]:
    """Return the results of the units outside a loop that it refers to, with no more than a reference sees."""
    units = list(with_bodies(loop.body))
    inside = {loop.id, *(unit.id for unit in units)}
    needed = {id_ for unit in units for id_ in unit.needs} - inside
    results = {id_: scope.lookup(id_) for id_ in sorted(needed)}
    return {id_: UnitResult(status=result.status, data=result.value) for id_, result in results.items()}

"""The output of a plan at its end, and its view while it runs."""

from __future__ import annotations

from collections.abc import Mapping

from temporalio import workflow

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.load.plans import plain_plan
from holdfast.blueprint.plan.answers import asks
from holdfast.protocol.ledger import tell_ledger
from holdfast.protocol.plans import Iteration, PlanSnapshot, UnitResult, outputs
from holdfast.workflows.handlers import Host
from holdfast.workflows.journal import preview
from holdfast.workflows.plan.ledger import collect_ledger
from holdfast.workflows.plan.results import may_have_acted
from holdfast.workflows.plan.scope import PlanScope
from holdfast.workflows.plan.state import PlanState


def make_output(scope: PlanScope, ended: str | None = None) -> JSONObject:
    """Return the output of a plan: its status, every step, every loop, and a note if it did nothing.

    `ended`: the status of a plan that ended before its steps did.
    """
    note = write_note(scope)
    return {
        "status": ended or (scope.plan_status() if scope.all_over() else "running"),
        "steps": outputs(scope.all_steps())[0],
        "loops": outputs(scope.results)[1],
        **({} if note is None else {"note": note}),
        **_tell_ledger(scope, ended),
    }


def _tell_ledger(scope: PlanScope, ended: str | None) -> JSONObject:
    """Return the calls that were made, for whoever plans what is left; none of a plan that has reached its goal."""
    if ended is None and scope.plan_status() == "completed":
        return {}
    entries = collect_ledger(scope)
    return {"ledger": tell_ledger(entries)} if entries else {}


def write_note(scope: PlanScope) -> str | None:
    """Return a note on a plan that ended with every acting step skipped, or None if one of them ran.

    Acting are the steps with tools; in a plan without tools all steps that do not ask a person. That nothing was called
    is said where it is known: not of a loop that was broken off without handing over what it did.
    """
    steps = scope.layout.steps()
    with_tools = [unit.id for unit in steps if unit.step.tools]
    acting = with_tools or [unit.id for unit in steps if not asks(unit.step)]
    results = scope.all_steps()
    if not scope.all_over() or not acting or any(results[id_].status != "skipped" for id_ in acting):
        return None
    if any(map(may_have_acted, scope.results.values())):
        return None
    skipped = ", ".join(f"{id_} ({results[id_].reason or 'not needed'})" for id_ in acting)
    return f"{'no tool was called' if with_tools else 'nothing was done'}; skipped: {skipped}"


def make_view(host: Host, state: PlanState | None, proposed: PlanBody, *, holds: bool) -> PlanSnapshot:
    """Return the answer to the query `plan`; `proposed`: the plan if it has not begun."""
    plan = proposed if state is None else state.context.plan
    steps, results = ({}, {}) if state is None else (state.root.all_steps(), state.root.results)
    loops = {id_: result for id_, result in results.items() if result.iterations is not None}
    return PlanSnapshot(
        workflow=workflow.info().workflow_id,
        address=host.identity.address,
        goal=plan.goal,
        driver=plan.driver,
        plan=plain_plan(plan),
        steps=in_short(steps),
        loops=in_short(loops),
        revision=1 if state is None else state.revision,
        revisions=[] if state is None else state.revisions,
        status=host.progress.ended or ("waiting" if state is None else "running"),
        note=None if state is None else write_note(state.root),
        holds=holds,
    )


def in_short(results: Mapping[str, UnitResult]) -> dict[str, UnitResult]:
    """Return results as a view has them: large values by their beginning, loops without their items."""
    return {id_: _in_short(result) for id_, result in results.items()}


def _in_short(result: UnitResult) -> UnitResult:
    items: list[Iteration] | None = None if result.iterations is None else []
    values = {"response": preview(result.response), "data": preview(result.data)}
    return result.model_copy(update={**values, "iterations": items, "tool_results": [], "tries": {}})

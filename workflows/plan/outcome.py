"""What is told of a plan: what it gives at its end, and where it stands before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio import workflow

from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.load.plans import plain_plan
from holdfast.blueprint.plan import LoopUnit
from holdfast.protocol.plans import LoopOutcome, PlanView, StepResult, nothing_done
from holdfast.workflows.base import BaseWorkflow
from holdfast.workflows.journal import preview
from holdfast.workflows.plan.scope import PlanScope


def output_of(scope: PlanScope, ended: str | None = None) -> dict[str, Any]:
    """Return what a plan gives: how it ended, every step, every loop; of one that did nothing, that it did.

    `ended`: how it ended, where it did before its steps did.
    """
    note = note_of(scope)
    return {
        "status": ended or (scope.whole_status() if scope.all_over() else "running"),
        "steps": _told_steps(scope),
        "loops": {id_: outcome.told() for id_, outcome in scope.loops.items()},
        **({} if note is None else {"note": note}),
    }


def note_of(scope: PlanScope) -> str | None:
    """Return that a plan which is over did nothing, if so it is."""
    return nothing_done(scope.layout, _told_steps(scope)) if scope.all_over() else None


def _told_steps(scope: PlanScope) -> dict[str, dict[str, Any]]:
    return {id_: result.told() for id_, result in scope.told_steps().items()}


def shown_of(scope: PlanScope) -> dict[str, Any]:
    """Where a plan stands, in short, as a context shows it."""
    return {id_: _in_short(result) for id_, result in scope.told_steps().items()}


def view_of(host: BaseWorkflow, plan: PlanBody, scope: PlanScope, running: Sequence[str], **more: Any) -> PlanView:
    steps = {id_: _in_short(result) for id_, result in scope.told_steps().items()}
    for id_ in running:
        steps.setdefault(id_, {})["status"] = "running"
    loops = {id_: _loop_in_short(outcome) for id_, outcome in scope.loops.items()}
    loops |= {id_: {"status": "running"} for id_ in running if isinstance(scope.layout.units_by_id[id_], LoopUnit)}
    return PlanView(
        workflow=workflow.info().workflow_id,
        address=host.address,
        goal=plan.goal,
        driver=plan.driver,
        plan=plain_plan(plan),
        steps={id_: told for id_, told in steps.items() if id_ not in loops},
        loops=loops,
        status=host.ended or ("running" if scope.units else "waiting"),
        **more,
    )


def _in_short(result: StepResult) -> dict[str, Any]:
    """A result as a view shows it: large values by their beginning."""
    told = result.told()
    told.pop("tool_results", None)
    return {**told, "response": preview(result.response), "data": preview(result.data)}


def _loop_in_short(outcome: LoopOutcome) -> dict[str, Any]:
    return {key: value for key, value in outcome.told().items() if key != "iteration_results"}

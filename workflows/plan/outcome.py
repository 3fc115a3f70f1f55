"""The output of a plan at its end, and its view while it runs."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.load.plans import plain_plan
from holdfast.blueprint.plan import LoopUnit
from holdfast.protocol.plans import LoopOutcome, PlanView, StepResult, nothing_done
from holdfast.workflows.base import BaseWorkflow
from holdfast.workflows.journal import preview
from holdfast.workflows.plan.state import PlanScope, PlanState


def output_of(scope: PlanScope, ended: str | None = None) -> dict[str, Any]:
    """Return the output of a plan: its status, every step, every loop, and a note if it did nothing.

    `ended`: the status of a plan that ended before its steps did.
    """
    note = note_of(scope)
    return {
        "status": ended or (scope.plan_status() if scope.all_over() else "running"),
        "steps": _outputs(scope),
        "loops": {id_: outcome.to_output() for id_, outcome in scope.loops.items()},
        **({} if note is None else {"note": note}),
    }


def note_of(scope: PlanScope) -> str | None:
    """Return the note on a plan that ended and did nothing, or None."""
    return nothing_done(scope.layout, _outputs(scope)) if scope.all_over() else None


def _outputs(scope: PlanScope) -> dict[str, dict[str, Any]]:
    return {id_: result.to_output() for id_, result in scope.results().items()}


def view_of(host: BaseWorkflow, state: PlanState | None, author: PlanBody, *, holds: bool) -> PlanView:
    """Return the answer to the query `plan`; of a plan that has not begun, the author's."""
    plan = author if state is None else state.context.plan
    steps, loops = ({}, {}) if state is None else _statuses(state.root)
    return PlanView(
        workflow=workflow.info().workflow_id,
        address=host.address,
        goal=plan.goal,
        driver=plan.driver,
        plan=plain_plan(plan),
        steps=steps,
        loops=loops,
        revision=1 if state is None else state.revision,
        revisions=[] if state is None else state.revisions,
        status=host.ended or ("waiting" if state is None else "running"),
        holds=holds,
    )


def _statuses(scope: PlanScope) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the steps and the loops of a plan in short, also those that are running."""
    steps, loops = results_in_short(scope), {id_: _loop_in_short(outcome) for id_, outcome in scope.loops.items()}
    for id_ in sorted(scope.under_way):
        if isinstance(scope.layout.units_by_id[id_], LoopUnit):
            loops[id_] = {"status": "running"}
        else:
            steps[id_]["status"] = "running"
    return {id_: step for id_, step in steps.items() if id_ not in loops}, loops


def results_in_short(scope: PlanScope) -> dict[str, Any]:
    """Return the results of a plan, large values by their beginning."""
    return {id_: _in_short(result) for id_, result in scope.results().items()}


def _in_short(result: StepResult) -> dict[str, Any]:
    output = result.to_output()
    output.pop("tool_results", None)
    return {**output, "response": preview(result.response), "data": preview(result.data)}


def _loop_in_short(outcome: LoopOutcome) -> dict[str, Any]:
    return {key: value for key, value in outcome.to_output().items() if key != "iteration_results"}

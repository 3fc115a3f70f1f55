"""The output of a plan at its end, and its view while it runs."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.load.plans import plain_plan
from holdfast.protocol.plans import PlanView, UnitResult, nothing_done, outputs
from holdfast.workflows.base import BaseWorkflow
from holdfast.workflows.journal import preview
from holdfast.workflows.plan.scope import PlanScope
from holdfast.workflows.plan.state import PlanState


def output_of(scope: PlanScope, ended: str | None = None) -> dict[str, Any]:
    """Return the output of a plan: its status, every step, every loop, and a note if it did nothing.

    `ended`: the status of a plan that ended before its steps did.
    """
    note = note_of(scope)
    return {
        "status": ended or (scope.plan_status() if scope.all_over() else "running"),
        "steps": outputs(scope.all_steps())[0],
        "loops": outputs(scope.results)[1],
        **({} if note is None else {"note": note}),
    }


def note_of(scope: PlanScope) -> str | None:
    """Return the note on a plan that ended and did nothing, or None."""
    return nothing_done(scope.layout, outputs(scope.all_steps())[0]) if scope.all_over() else None


def view_of(host: BaseWorkflow, state: PlanState | None, author: PlanBody, *, holds: bool) -> PlanView:
    """Return the answer to the query `plan`; of a plan that has not begun, the author's."""
    plan = author if state is None else state.context.plan
    steps = {} if state is None else results_in_short(state.root)
    loops = {} if state is None else _in_short({id_: state.root.results[id_] for id_ in _loops_of(state.root)})
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


def results_in_short(scope: PlanScope) -> dict[str, Any]:
    """Return the results of a plan's steps, large values by their beginning."""
    return _in_short(scope.all_steps())


def _loops_of(scope: PlanScope) -> list[str]:
    return [id_ for id_, result in scope.results.items() if result.iterations is not None]


def _in_short(results: dict[str, UnitResult]) -> dict[str, Any]:
    return {id_: _result_in_short(result) for id_, result in results.items()}


def _result_in_short(result: UnitResult) -> dict[str, Any]:
    left_out = ("tool_results", "iteration_results")
    output = {key: value for key, value in result.to_output().items() if key not in left_out}
    return output | {key: preview(output[key]) for key in ("response", "data") if key in output}

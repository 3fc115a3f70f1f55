"""The tools of a plan's steps, within the bounds of the plan: for both drivers."""

from __future__ import annotations

from functools import partial

from holdfast.blueprint.parts import ToolErrors
from holdfast.workflows.bounded_tools import BoundedTools
from holdfast.workflows.plan.step_run import StepRun


def bound_tools(run: StepRun, rules: ToolErrors | None, *, by_model: bool = False) -> BoundedTools:
    """Return the tools of a step. Its record counts the calls and the errors, and goes on from those so far.

    Args:
        run: The step.
        rules: What follows errors.
        by_model: True if a model calls again after an error.
    """
    context, frame, before = run.scope.context, run.beside("step", run.id), run.result
    return BoundedTools(
        context.bounds(run.step),
        rules,
        frame,
        context.catalogue.specs,
        partial(context.find_lack, run.step, address=frame.address),
        by_model=by_model,
        tries=before.tries,
        made=before.made,
        keep=run.mark,
    )

"""The questions of a plan's steps to people: the ordinary `hitl` step asks them, for both drivers."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.blueprint.expressions.fields import DECLINED
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import PlanStep
from holdfast.blueprint.plan import compile_question, wants_a_yes
from holdfast.protocol.plans import UnitResult
from holdfast.workflows.plan.results import cancelled, skipped
from holdfast.workflows.plan.step_run import StepRun
from holdfast.workflows.steps.hitl import run_hitl


async def ask(run: StepRun, note: str = "", suggestions: Sequence[str] = ()) -> UnitResult:
    """Ask a step's question; return the step's result. A step with tools is skipped after a no.

    Args:
        run: The step.
        note: What a model says beside the plan's words.
        suggestions: Answers that a model suggests where the plan names none.

    Raises:
        ApplicationError: As the `hitl` step fails: nobody answered in time, no option is left.
    """
    scope = run.scope
    step = compile_question(
        run.unit,
        scope.context.plan,
        scope.layout,
        assignees=run.frame.people.assignees,
        note=note,
        suggestions=suggestions,
    )
    await run.frame.host.until_resumed()
    frame = scope.inside(run.unit)
    output = await run_hitl(step, frame)
    return _read_result(run.step, output, frame.scope.replies[step.name]["action"])


def _read_result(step: PlanStep, output: JSON, action: str) -> UnitResult:
    """Return the result of a question whose reply ended so."""
    match action:
        case "cancel":
            return cancelled()
        case "expire":
            return skipped("timeout")
    if step.tools and not _lets_tools_run(step, output["outcome"]):
        return skipped(DECLINED, response=output["response"])
    return UnitResult(status="completed", response=output["response"], data=output)


def _lets_tools_run(step: PlanStep, outcome: str) -> bool:
    """Return whether a question's tools may run: after a yes, where it asks for one; else unless it was declined."""
    return outcome == "confirmed" if wants_a_yes(step) else outcome != "cancelled"

"""How a plan that fails or is cancelled before its end leaves its steps; one that called a tool was not cancelled."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Literal, NamedTuple

from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.plan import LoopUnit
from holdfast.protocol.address import Address
from holdfast.protocol.plans import LONGEST_KEPT, UNFINISHED, Iteration, LoopOutcome, StepResult
from holdfast.protocol.runs import Failure
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import failure_of
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.scope import PlanScope
from holdfast.workflows.plan.telling import segment_of, tell

_OUTCOME = "loop_outcome"


class Ending(NamedTuple):
    """How a plan ended before its steps did."""

    status: Literal["failed", "cancelled"]
    why: str

    @staticmethod
    def of(error: BaseException, address: Address) -> Ending:
        if is_cancelled(error):
            return Ending("cancelled", "the run was cancelled")
        return Ending("failed", failure_of(error, address).message)

    @property
    def reason(self) -> str:
        """Why what had not begun was skipped."""
        return f"plan_{self.status}"


def break_off(scope: PlanScope, frame: Frame, ending: Ending, under_way: Container[str]) -> None:
    """End every unit of a list: what had begun is unfinished, the rest is skipped. `under_way`: loops that had begun.

    Only what failed has an event: where a run has ended, the trace tells all else as cancelled or not begun.
    """
    for unit in scope.units:
        kind, id_ = segment_of(unit)
        if scope.is_over(id_):
            continue
        if isinstance(unit, LoopUnit) and id_ in under_way:
            scope.loops[id_] = loop_broken_off(unit, ending, [])
        elif unit in scope.pending():
            scope.skip(unit, ending.reason)
        else:
            scope.steps[id_] = result = unfinished(scope.steps[id_], ending)
            if result.status == "failed":
                tell(frame.at(kind, id_), id_, kind, result)


def unfinished(before: StepResult, ending: Ending) -> StepResult:
    """Return how a step ended that was under way."""
    called = before.called
    if ending.status == "cancelled" and not called:
        return StepResult(status="cancelled", reason="cancelled")
    what = f"{', '.join(called)} {'was' if len(called) == 1 else 'were'} called; " if called else ""
    return StepResult(
        status="failed",
        response=before.response,
        data=before.tool_results[-1]["data"] if before.tool_results else before.data,
        error={"type": UNFINISHED, "message": f"{what}the step was not finished: {ending.why}"},
        tool_results=[{"tool": one["tool"], "data": one["data"]} for one in before.tool_results],
        called=called,
    )


def loop_broken_off(loop: LoopUnit, ending: Ending, done: list[Iteration]) -> LoopOutcome:
    """Return how a loop ended that was under way, with what is known of its items."""
    if ending.status == "cancelled":
        return LoopOutcome(status="cancelled", iterations=done, reason=ending.reason)
    error = {"type": UNFINISHED, "message": f"{loop.id} was not finished: {ending.why}"}
    return LoopOutcome(status="failed", iterations=done, error=error)


def kept_of_loop(outcome: LoopOutcome) -> dict[str, Any]:
    """Return what the failure of a loop's workflow carries, for the plan that it belongs to."""
    told = outcome.model_dump(mode="json")
    if len(text_of(told)) > LONGEST_KEPT:
        told = outcome.model_copy(update={"iterations": []}).model_dump(mode="json")
    return {"output": {_OUTCOME: told}}


def outcome_kept(what: Failure) -> LoopOutcome | None:
    """Return how the loop ended whose workflow failed so, if it told."""
    match what.output:
        case {"loop_outcome": dict(told)}:
            return LoopOutcome.model_validate(told)
    return None

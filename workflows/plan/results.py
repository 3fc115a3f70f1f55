"""How steps, items and loops of a plan ended: summaries of results, and results of what was interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.plan import Layout, LoopUnit, StepUnit, Unit
from holdfast.protocol.address import Address
from holdfast.protocol.plans import (
    ITEMS_FAILED,
    LONGEST_KEPT,
    UNFINISHED,
    EndedEarly,
    Iteration,
    LoopOutcome,
    LoopStatus,
    PlanProgress,
    StepResult,
    StepStatus,
)
from holdfast.protocol.runs import Failure
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import failure_of

EMPTY_LOOP = "empty_loop"
_OUTCOME = "loop_outcome"


def failed(type_: str, message: str, **more: Any) -> StepResult:
    """Return the result of a step that failed; a question that a person cancelled leaves it cancelled."""
    if type_ == "cancelled":
        return StepResult(status="cancelled", reason="cancelled")
    return StepResult(status="failed", error={"type": type_, "message": message}, **more)


# Loops


def outcome_of(done: list[Iteration], ended: EndedEarly = "", total: int | None = None) -> LoopOutcome:
    """Return how a loop ended.

    Args:
        done: Its iterations.
        ended: How one of them ended the loop before the others.
        total: The number of its items; by default all of them are done.
    """
    bad = [iteration for iteration in done if iteration.status == "failed"]
    status: LoopStatus = "completed"
    if ended == "failed" or (bad and len(bad) == len(done)):
        status = "failed"
    elif any(map(_has_errors, done)):
        status = "completed_with_errors"
    error = None
    if status == "failed":
        error = {"type": ITEMS_FAILED, "message": f"{_counted(len(bad), len(done), total)}: {first_error(bad)}"}
    reason = None if done else EMPTY_LOOP
    return LoopOutcome(status=ended or status, iterations=done, error=error, reason=reason)


def _counted(bad: int, done: int, total: int | None) -> str:
    rest = (total or done) - done
    text = f"{bad} of {done + rest} items failed"
    return text if not rest else f"{text}; {rest} {'was' if rest == 1 else 'were'} not begun"


def _has_errors(iteration: Iteration) -> bool:
    """Return whether anything failed for an item, optional or not."""
    return any(result.status == "failed" for result in iteration.steps.values()) or any(
        outcome.status in ("completed_with_errors", "failed") for outcome in iteration.loops.values()
    )


def completed_part(iteration: Iteration) -> PlanProgress:
    """Return the part of an item that a retry does not repeat: the steps and loops that completed."""
    return PlanProgress(
        steps={id_: result for id_, result in iteration.steps.items() if result.status == "completed"},
        loops={id_: outcome for id_, outcome in iteration.loops.items() if outcome.status == "completed"},
    )


def first_error(bad: list[Iteration]) -> str:
    for iteration in bad:
        for id_, result in iteration.steps.items():
            if result.error is not None:
                return f"item {iteration.index}, step {id_}: {result.error['message']}"
        for loop, outcome in iteration.loops.items():
            if outcome.error is not None:
                return f"item {iteration.index}, loop {loop}: {outcome.error['message']}"
    return "see its items"


# A step of a loop, seen from outside


def values_of(outcome: LoopOutcome, id_: str, layout: Layout) -> list[Any]:
    """Return the value of a step or loop for each item; None where it has none. A loop around it gives lists."""
    values: list[Any] = []
    for iteration in outcome.iterations:
        if id_ in iteration.steps:
            values.append(iteration.steps[id_].value)
        elif id_ in iteration.loops:
            values.append([inner.to_output() for inner in iteration.loops[id_].iterations])
        else:
            loop = next((loop for loop in layout.loops_of(id_) if loop in iteration.loops), None)
            values.append(None if loop is None else values_of(iteration.loops[loop], id_, layout))
    return values


def over_items(outcome: LoopOutcome, id_: str, layout: Layout) -> StepResult:
    """Return one result for a step that ran once for each item."""
    statuses = set(_statuses(outcome, id_, layout))
    data = values_of(outcome, id_, layout)
    if "cancelled" in statuses:
        return StepResult(status="cancelled", data=data)
    if "completed" in statuses:
        return StepResult(status="completed", data=data)
    if "failed" in statuses:
        return failed(ITEMS_FAILED, f"{id_} failed for every item that it ran for", data=data)
    ended = {"failed": "loop_failed", "cancelled": "plan_cancelled"}.get(outcome.status)
    return StepResult(status="skipped", reason=outcome.reason or ended or ("items_skipped" if data else EMPTY_LOOP))


def _statuses(outcome: LoopOutcome, id_: str, layout: Layout) -> Iterator[StepStatus]:
    for iteration in outcome.iterations:
        if id_ in iteration.steps:
            yield iteration.steps[id_].status
        for loop in layout.loops_of(id_):
            if loop in iteration.loops:
                yield from _statuses(iteration.loops[loop], id_, layout)


def as_step(status: LoopStatus) -> StepStatus:
    """Return the status of a loop as that of a dependency."""
    return "completed" if status == "completed_with_errors" else status


def is_optional(unit: Unit) -> bool:
    """Return whether a unit may fail: an optional step, or a loop of nothing else."""
    if isinstance(unit, LoopUnit):
        return all(map(is_optional, unit.body))
    return isinstance(unit, StepUnit) and unit.step.optional


# What was interrupted


class Ending(NamedTuple):
    """How a plan ended before its steps did."""

    status: Literal["failed", "cancelled"]
    message: str

    @staticmethod
    def of(error: BaseException, address: Address) -> Ending:
        if is_cancelled(error):
            return Ending("cancelled", "the run was cancelled")
        return Ending("failed", failure_of(error, address).message)

    @property
    def reason(self) -> str:
        """Return the reason for which steps that had not begun are skipped."""
        return f"plan_{self.status}"


def unfinished(before: StepResult, ending: Ending) -> StepResult:
    """Return the result of a step that was running: a step that has called a tool was not cancelled, but failed."""
    called = before.called
    if ending.status == "cancelled" and not called:
        return StepResult(status="cancelled", reason="cancelled")
    calls = f"{', '.join(called)} {'was' if len(called) == 1 else 'were'} called; " if called else ""
    data = before.tool_results[-1]["data"] if before.tool_results else before.data
    return failed(
        UNFINISHED, f"{calls}the step was not finished: {ending.message}", response=before.response, data=data
    )


def unfinished_loop(loop: LoopUnit, ending: Ending, done: list[Iteration]) -> LoopOutcome:
    """Return the outcome of a loop that was running, with its known items."""
    if ending.status == "cancelled":
        return LoopOutcome(status="cancelled", iterations=done, reason=ending.reason)
    error = {"type": UNFINISHED, "message": f"{loop.id} was not finished: {ending.message}"}
    return LoopOutcome(status="failed", iterations=done, error=error)


def failure_output(outcome: LoopOutcome) -> dict[str, Any]:
    """Return the output that the failure of a loop's workflow carries to its plan."""
    value = outcome.model_dump(mode="json")
    if len(text_of(value)) > LONGEST_KEPT:
        value = outcome.model_copy(update={"iterations": []}).model_dump(mode="json")
    return {_OUTCOME: value}


def outcome_in(cause: Failure) -> LoopOutcome | None:
    """Return the outcome of a loop whose workflow failed, if its failure carries it."""
    match cause.output:
        case {"loop_outcome": dict(value)}:
            return LoopOutcome.model_validate(value)
    return None

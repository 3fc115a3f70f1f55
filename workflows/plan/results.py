"""Results of loops, items and interrupted steps of a plan, made of the results of their parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import PlanStep
from holdfast.blueprint.plan.layout import Layout, LoopUnit, StepUnit, Unit, with_bodies
from holdfast.protocol.address import Address
from holdfast.protocol.agents import MadeCall, add_calls, name_tools
from holdfast.protocol.children import Failure
from holdfast.protocol.ledger import LONGEST_LEDGER
from holdfast.protocol.plans import (
    ITEMS_FAILED,
    LONGEST_BARE,
    LONGEST_KEPT,
    UNFINISHED,
    Iteration,
    UnitResult,
    UnitStatus,
)
from holdfast.protocol.tool_errors import kind_of_failure
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import find_failure

EMPTY_LOOP = "empty_loop"
ITEMS_UNKNOWN = "items_unknown"
"""Why a loop, and what is in it, has no results: its workflow has not handed over what it did."""
VALUES_LEFT_OUT = "values_left_out"
"""Why the items of a loop have no values: with them, what its workflow hands over would be too large."""
CALLS_UNKNOWN = "calls_unknown"
"""Why a step that failed names no calls of its tools: its agent's workflow has not handed over which it made."""


class Ended(Exception):
    """The end of a step or a loop, from within its work."""

    def __init__(self, result: UnitResult) -> None:
        super().__init__(result.status)
        self.result = result


def make_failed(type_: str, message: str, raised_at: str | None = None, **more: Any) -> UnitResult:
    """Return the result of a step or loop that failed; a question that a person cancelled leaves it cancelled."""
    if type_ == "cancelled":
        return make_cancelled(**more)
    return UnitResult(status="failed", error=describe_error(type_, message, raised_at), **more)


def describe_error(type_: str, message: str, raised_at: str | None) -> JSONObject:
    """Return an error as the output of a plan has it."""
    return {"type": type_, "message": message, **({} if raised_at is None else {"raised_at": raised_at})}


def name_error(cause: Failure) -> str:
    """Return the kind of an error of a tool; its own type if it is of no kind."""
    return kind_of_failure(cause.type, cause.message) or cause.type


def end_by_error(kind: str, cause: Failure, step: PlanStep) -> UnitResult:
    """Return the result of a step that ends by an error of its tool; a timeout skips one that is optional."""
    if kind == "timeout" and step.optional:
        return make_skipped("timeout", error=describe_error(kind, cause.message, cause.raised_at))
    return make_cancelled() if kind == "question_cancelled" else make_failed(kind, cause.message, cause.raised_at)


def make_cancelled(**more: Any) -> UnitResult:
    return UnitResult(status="cancelled", reason="cancelled", **more)


def make_skipped(reason: str, **more: Any) -> UnitResult:
    return UnitResult(status="skipped", reason=reason, **more)


# Loops


def ended_early(loop: LoopUnit, iterations: Iterable[Iteration]) -> Literal["", "failed", "cancelled"]:
    """Return how one of these iterations ended its loop, before the other items; empty: none did."""
    statuses = {iteration.status for iteration in iterations}
    if "cancelled" in statuses:
        return "cancelled"
    return "failed" if "failed" in statuses and loop.block.on_item_error != "continue" else ""


def loop_result(loop: LoopUnit, done: list[Iteration], total: int) -> UnitResult:
    """Return the result of a loop, of whose items, `total` in number, these are done."""
    ended = ended_early(loop, done)
    if ended == "cancelled":
        return UnitResult(status="cancelled", iterations=done)
    bad = [iteration for iteration in done if iteration.status == "failed"]
    if ended == "failed" or len(bad) == len(done):
        message = f"{_count_bad(len(bad), len(done), total)}: {first_error(bad)}"
        return make_failed(ITEMS_FAILED, message, _find_first_raise(bad), iterations=done)
    results = [result for iteration in done for result in iteration.results.values()]
    errors = any(result.status in ("completed_with_errors", "failed") for result in results)
    return UnitResult(status="completed_with_errors" if errors else "completed", iterations=done)


def _count_bad(bad: int, done: int, total: int) -> str:
    rest = total - done
    text = f"{bad} of {total} items failed"
    return text if not rest else f"{text}; {rest} {'was' if rest == 1 else 'were'} not begun"


def first_error(bad: list[Iteration]) -> str:
    for iteration in bad:
        for id_, result in iteration.results.items():
            if result.error is not None:
                kind = "step" if result.iterations is None else "loop"
                return f"item {iteration.index + 1}, {kind} {id_}: {result.error['message']}"
    return "see its items"


def _find_first_raise(bad: list[Iteration]) -> str | None:
    """Return where the first error was raised, if an author's code raised it."""
    errors = (result.error for iteration in bad for result in iteration.results.values() if result.error is not None)
    return next((error.get("raised_at") for error in errors), None)


# A step of a loop, seen from outside


def list_values(outcome: UnitResult, id_: str, layout: Layout) -> list[JSON]:
    """Return the value of a step or loop for each item; None where it has none. A loop around it gives lists."""
    values: list[JSON] = []
    for iteration in outcome.iterations or []:
        inner = _loop_around(id_, iteration, layout)
        if id_ in iteration.results:
            values.append(iteration.results[id_].value)
        else:
            values.append(None if inner is None else list_values(inner, id_, layout))
    return values


def over_items(loop: UnitResult, id_: str, layout: Layout) -> UnitResult:
    """Return one result for a step that ran once for each item."""
    statuses = set(_statuses(loop, id_, layout))
    data = list_values(loop, id_, layout)
    if loop.reason == ITEMS_UNKNOWN:
        return loop.model_copy(update={"iterations": None, "data": data})
    if "cancelled" in statuses:
        return UnitResult(status="cancelled", data=data)
    if "completed" in statuses:
        return UnitResult(status="completed", data=data)
    if "failed" in statuses:
        return make_failed(ITEMS_FAILED, f"{id_} failed for every item that it ran for", data=data)
    ended = {"failed": "loop_failed", "cancelled": "plan_cancelled"}.get(loop.status)
    return make_skipped(loop.reason or ended or ("items_skipped" if data else EMPTY_LOOP))


def _statuses(loop: UnitResult, id_: str, layout: Layout) -> Iterator[UnitStatus]:
    for iteration in loop.iterations or []:
        if id_ in iteration.results:
            yield iteration.results[id_].status
        elif (inner := _loop_around(id_, iteration, layout)) is not None:
            yield from _statuses(inner, id_, layout)


def _loop_around(id_: str, iteration: Iteration, layout: Layout) -> UnitResult | None:
    return next((iteration.results[loop] for loop in layout.list_loops(id_) if loop in iteration.results), None)


def is_optional(unit: Unit) -> bool:
    """Return whether a unit may fail: an optional step, or a loop of nothing else."""
    return all(part.step.optional for part in with_bodies([unit]) if isinstance(part, StepUnit))


# What was interrupted


class Ending(NamedTuple):
    """The end of a plan before that of its steps."""

    status: Literal["failed", "cancelled"]
    message: str

    @staticmethod
    def of_cancel() -> Ending:
        return Ending("cancelled", "the run was cancelled")

    @staticmethod
    def of(error: BaseException, address: Address) -> Ending:
        if is_cancelled(error):
            return Ending.of_cancel()
        return Ending("failed", find_failure(error, address).message)

    @property
    def reason(self) -> str:
        """Return the reason for which steps that had not begun are skipped."""
        return f"plan_{self.status}"


def make_unfinished(before: UnitResult, ending: Ending) -> UnitResult:
    """Return the result of a step that was running: a step that has called a tool was not cancelled, but failed."""
    called, unsure = before.called, name_tools(call for call in before.made if call.outcome == "begun")
    if ending.status == "cancelled" and not called:
        return make_cancelled()
    calls = f"{', '.join(called)} {'was' if len(called) == 1 else 'were'} called; " if called else ""
    calls += f"how {', '.join(unsure)} ended is not known; " if unsure else ""
    data = before.tool_results[-1]["data"] if before.tool_results else before.data
    message = f"{calls}the step was not finished: {ending.message}"
    return make_failed(UNFINISHED, message, response=before.response, data=data)


def unfinished_loop(loop: LoopUnit, ending: Ending, done: list[Iteration], *, are_known: bool = True) -> UnitResult:
    """Return the result of a loop that was running, with its items so far, or the remark that they are not known."""
    unknown = None if are_known else ITEMS_UNKNOWN
    if ending.status == "cancelled":
        return UnitResult(status="cancelled", iterations=done, reason=unknown or ending.reason)
    return make_failed(UNFINISHED, f"{loop.id} was not finished: {ending.message}", iterations=done, reason=unknown)


def may_have_acted(result: UnitResult) -> bool:
    """Return whether a tool was called for a unit, in any of its items; True as well where that is not known."""
    inner = (part for iteration in result.iterations or [] for part in iteration.results.values())
    unknown = result.reason in (ITEMS_UNKNOWN, CALLS_UNKNOWN)
    return bool(result.made) or unknown or any(map(may_have_acted, inner))


def collect_calls(result: UnitResult) -> list[MadeCall]:
    """Return the calls that were made for a unit, in any of its items."""
    inner = (part for iteration in result.iterations or [] for part in iteration.results.values())
    return add_calls(result.made, (call for part in inner for call in collect_calls(part)))


def failure_output(result: UnitResult) -> JSONObject:
    """Return the output that the failure of a loop's workflow carries to its plan; of many items without the values."""
    for told, longest in ((result, LONGEST_KEPT), (drop_values(result), LONGEST_BARE)):
        value = told.model_dump(mode="json", exclude_defaults=True)
        if len(write_text(value)) <= longest:
            return {"loop_result": value}
    unknown = result.model_copy(update={"iterations": [], "reason": ITEMS_UNKNOWN})
    return {"loop_result": unknown.model_dump(mode="json")}


def drop_values(loop: UnitResult) -> UnitResult:
    """Return the result of a loop with how each of its steps ended, and which tools it called, and no values.

    >>> step = UnitResult(status="completed", data="long", made=[MadeCall(tool="send", args="1f", output="long")])
    >>> item = Iteration(index=0, item="long", status="completed", results={"1": step})
    >>> bare = drop_values(UnitResult(status="completed", iterations=[item]))
    >>> "long" in bare.model_dump_json(), bare.iterations[0].results["1"].made[0].args
    (False, '1f')
    """
    iterations = [
        iteration.model_copy(
            update={"item": None, "results": {id_: _keep_end(r) for id_, r in iteration.results.items()}}
        )
        for iteration in loop.iterations or []
    ]
    return loop.model_copy(update={"iterations": iterations, "reason": VALUES_LEFT_OUT})


def _keep_end(result: UnitResult) -> UnitResult:
    if result.iterations is not None:
        return drop_values(result)
    return UnitResult(status=result.status, error=result.error, reason=result.reason, made=_drop_call_values(result))


def shorten_calls(done: list[Iteration]) -> list[Iteration]:
    """Return items of a loop without what their calls got and returned, where a ledger would leave that out as well.

    The loop carries its items from history to history, and this was two fifths of them.
    """
    calls = [call for iteration in done for result in iteration.results.values() for call in collect_calls(result)]
    values = {(call.tool, call.args): write_text([call.arguments, call.output]) for call in calls}
    if sum(map(len, values.values())) <= LONGEST_LEDGER:
        return done
    return [_shorten_item(iteration) for iteration in done]


def _shorten_item(iteration: Iteration) -> Iteration:
    results: dict[str, UnitResult] = {}
    for id_, result in iteration.results.items():
        inner = None if result.iterations is None else [_shorten_item(one) for one in result.iterations]
        results[id_] = result.model_copy(update={"iterations": inner, "made": _drop_call_values(result)})
    return iteration.model_copy(update={"results": results})


def _drop_call_values(result: UnitResult) -> list[MadeCall]:
    return [call.model_copy(update={"arguments": None, "output": None}) for call in result.made]


def result_in(cause: Failure) -> UnitResult | None:
    """Return the result of a loop whose workflow failed, if its failure carries it."""
    match cause.output:
        case {"loop_result": dict(value)}:
            return UnitResult.model_validate(value)
    return None

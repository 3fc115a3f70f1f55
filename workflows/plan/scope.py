"""The steps and loops of one list of a plan, their results, and the verbs that change them; see `PlanState`.

Each verb notes its own events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from holdfast.blueprint.expressions.comparisons import is_answer
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.fields import CONDITION_FALSE, DECLINED, DEPENDENCY_FAILED
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import PlanStep
from holdfast.blueprint.people import canonical_name
from holdfast.blueprint.plan.answers import asks, informs
from holdfast.blueprint.plan.layout import Layout, LoopUnit, StepUnit, Unit
from holdfast.protocol.agents import MadeCall, add_calls
from holdfast.protocol.events import LoopIteration, StepCompleted, StepFailed, StepSkipped, StepStarted
from holdfast.protocol.people import People
from holdfast.protocol.plans import ItemOf, Iteration, IterationStatus, PlanStatus, UnitResult
from holdfast.workflows.dependents import find_skip_reason
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.results import (
    EMPTY_LOOP,
    Ending,
    collect_calls,
    is_optional,
    list_values,
    make_failed,
    make_skipped,
    make_unfinished,
    over_items,
    unfinished_loop,
)

PENDING = UnitResult(status="pending")


@dataclass
class PlanScope:
    """The steps and loops of one list, with their results: of the whole plan, or as `ItemScope` of a loop's body."""

    context: PlanContext
    frame: Frame
    """At the plan, or at the item."""
    around: list[ItemOf] = field(default_factory=list)
    """The current items of the loops around, outermost first."""
    outer: PlanScope | None = None
    results: dict[str, UnitResult] = field(default_factory=dict)
    """By id, of the steps and loops that have begun; around the loop of a workflow of its own, those that it reads."""
    made_before: dict[str, list[MadeCall]] = field(default_factory=dict)
    """By id, the calls that were made before the item was begun anew."""

    @property
    def layout(self) -> Layout:
        return self.context.layout

    @property
    def units(self) -> tuple[Unit, ...]:
        return self.layout.units

    def at(self, unit: Unit) -> Frame:
        """Return the frame of a unit."""
        frame = self.frame.at(choose_segment(unit), unit.id)
        return replace(frame, people=choose_people(unit.step, frame)) if isinstance(unit, StepUnit) else frame

    def item_scope(self, loop: LoopUnit, items: list[JSON], index: int, done: Sequence[Iteration] = ()) -> ItemScope:
        """Return a scope for one item of a loop; its address counts iterations from 1, as in every loop."""
        frame = self.frame.at("loop", loop.id, index + 1)
        frame = replace(frame, iteration=index + 1, place=f"{loop.id} {index + 1}")
        around = [*self.around, ItemOf(loop=loop.id, item=items[index], index=index)]
        return ItemScope(self.context, frame, around, self, items=items, done=list(done))

    # What a unit reads

    def lookup(self, id_: str) -> UnitResult:
        """Return the result of a step or loop anywhere; of one in another loop with a value for each item."""
        if id_ in self.results:
            return self.results[id_]
        for loop in self.layout.list_loops(id_):
            if self.is_over(loop):
                result = self.results[loop]
                return UnitResult(status=result.status, data=list_values(result, id_, self.layout))
        return PENDING if self.outer is None else self.outer.lookup(id_)

    def inside(self, unit: Unit, ids: Iterable[str] | None = None) -> Frame:
        """Return the frame of a unit with the names in its templates and its condition (`Layout.write_template`).

        Args:
            unit: The unit.
            ids: The steps and loops that it sees; None: all that it needs.
        """
        scope = self.frame.scope.nest()
        scope.steps = {id_: self._describe(id_) for id_ in (unit.needs if ids is None else ids)}
        frame = replace(self.at(unit), scope=scope)
        if not self.around:
            return frame
        names = {item.loop: {"item": item.item, "index": item.index} for item in self.around}
        return frame.with_names(**names[self.around[-1].loop], loops=names)

    def _describe(self, id_: str) -> JSONObject:
        """Return a step or a loop as expressions read it.

        The output is null where it was skipped or failed. Of a question it is the words; by its `answer` conditions
        judge: where it asks for information it is the words, too, as they are neither a yes nor a no.
        """
        unit, result = self.layout.units_by_id[id_], self.lookup(id_)
        entry = {"output": result.value, "status": result.status, "reason": result.reason, "error": result.error}
        if isinstance(unit, StepUnit) and asks(unit.step):
            answer = _words(result.value, "other") if informs(unit.step) else result.value
            entry |= {"output": _words(result.value), "answer": answer}
        return entry

    # What may run

    def result(self, id_: str) -> UnitResult:
        return self.results.get(id_, PENDING)

    def is_over(self, id_: str) -> bool:
        return self.result(id_).is_over

    def list_pending(self) -> list[Unit]:
        """Return the units that have not begun."""
        return [unit for unit in self.units if unit.id not in self.results]

    def all_over(self) -> bool:
        return all(self.is_over(unit.id) for unit in self.units)

    def readiness(self, unit: Unit) -> Literal["wait", "run"] | UnitResult:
        """Return whether a unit may run now or has to wait; the result of one that never runs."""
        if any(not self.is_over(id_) for id_ in unit.waits):
            return "wait"
        needs = {id_: self.lookup(id_) for id_ in unit.needs}
        condition = unit.condition
        asked = condition.left.name if condition is not None and condition.left.kind == "result" else None
        # What the condition asks about, it judges itself. A loop over what was skipped has an empty list.
        source = unit.source if isinstance(unit, LoopUnit) else None
        statuses = [
            need.status
            for id_, need in needs.items()
            if not (id_ == asked and not need.succeeded) and not (id_ == source and need.status == "skipped")
        ]
        reason = find_skip_reason(statuses)
        if reason == DEPENDENCY_FAILED:
            return make_skipped(reason)
        if (unmet := self._unmet_condition(unit, needs.get(asked or ""))) is not None:
            return unmet
        if any(self._is_declined(id_) for id_ in self.layout.list_gates(unit)):
            return make_skipped(DECLINED)
        return "run" if reason is None else make_skipped(reason)

    def _is_declined(self, id_: str) -> bool:
        """Return whether a person did not say yes to a confirmation."""
        answer = self.lookup(id_).data
        return is_answer(answer) and answer["outcome"] != "confirmed"

    def _unmet_condition(self, unit: Unit, need: UnitResult | None) -> UnitResult | None:
        """Return the result of a unit whose condition keeps it from running; None if it does not."""
        condition = unit.condition
        if condition is None:
            return None
        missing_allowed = need is not None and need.status == "skipped" and condition.allows_missing
        if need is not None and not need.succeeded and not missing_allowed:
            return make_skipped("condition_unresolved")
        seen = [condition.left.name] if condition.left.kind == "result" and condition.left.name else []
        try:
            holds, _ = self.inside(unit, seen).holds(self.layout.write_condition(condition, unit))
        except ExpressionError as error:
            return make_failed("condition_type", f"{condition.text}: {error.message}")
        return None if holds else make_skipped(CONDITION_FALSE)

    # Verbs

    def mark(self, unit: Unit, **changes: Any) -> None:
        """Change the record of a unit that is under way."""
        self.close(unit, self.result(unit.id).model_copy(update={"status": "running", **changes}))

    def close(self, unit: Unit, result: UnitResult) -> None:
        """Set a unit's result, without an event. By its iterations a loop is known from a step."""
        if isinstance(unit, LoopUnit) and result.iterations is None:
            result = result.model_copy(update={"iterations": []})
        self.results[unit.id] = result
        self.context.changes += 1

    def start_loop(self, unit: LoopUnit) -> None:
        """Begin a loop."""
        self.mark(unit)
        self.at(unit).note(StepStarted(name=unit.id, kind="loop", title=unit.description))

    def record(self, unit: Unit, result: UnitResult) -> UnitResult:
        """Set the result with which a unit ends, without an event; return it with the results of a step's tools."""
        self.close(unit, self._with_calls(unit, result))
        return self.results[unit.id]

    def finish(self, unit: Unit, result: UnitResult) -> None:
        """End a unit with a result, to which the results of a step's tools are added."""
        result = self.record(unit, result)
        frame, kind, is_step = self.at(unit), choose_segment(unit), isinstance(unit, StepUnit)
        named = {"name": unit.id, "kind": kind, "title": unit.description}
        match result.status:
            case "skipped":
                frame.note(StepSkipped(**named, reason=result.reason))
            case "failed" | "cancelled" if is_step or result.error is not None:
                error = result.error or {"type": result.status, "message": f"{unit.id} was {result.status}"}
                place = error.get("raised_at") if is_step else None
                frame.note(StepFailed(**named, error=error["type"], message=error["message"], raised_at=place))
            case status:
                output = result.value if is_step else [] if result.reason == EMPTY_LOOP else status
                frame.note(StepCompleted(name=unit.id, kind=kind, output=output))

    def _with_calls(self, unit: Unit, result: UnitResult) -> UnitResult:
        before = self.result(unit.id)
        returned = [{"tool": call["tool"], "data": call["data"]} for call in before.tool_results]
        if result.succeeded and len(returned) == 1:  # its data is the step's: a loop carries both for each item
            returned = [{"tool": returned[0]["tool"]}]
        made = add_calls(self.made_before.get(unit.id, ()), before.made)
        return result.model_copy(update={"tool_results": returned, "made": made})

    def settle(self, stopped: str = "") -> None:
        """Skip or fail the units that cannot run any more, until nothing follows from it; `stopped`: skip all."""
        changed = True
        while changed:
            changed = False
            for unit in self.list_pending():
                end = make_skipped(stopped) if stopped else self.readiness(unit)
                if isinstance(end, UnitResult):
                    self.finish(unit, end)
                    changed = True

    def break_off(self, ending: Ending, unknown: Collection[str] = ()) -> None:
        """End every unit, as the plan has ended before them: what had begun is unfinished, the rest is skipped.

        Only a failed step has an event: where a run has ended, the trace shows all else as cancelled or not begun, and
        a loop's own workflow has noted its end.
        """
        for unit in self.units:
            result = self.result(unit.id)
            if result.status == "pending":
                self.close(unit, self._with_calls(unit, make_skipped(ending.reason)))
            elif not result.is_over and isinstance(unit, LoopUnit):
                self.close(unit, unfinished_loop(unit, ending, [], are_known=unit.id not in unknown))
            elif not result.is_over:
                end = make_unfinished(result, ending)
                (self.finish if end.status == "failed" else self.close)(unit, end)

    # Results

    def has_failed(self, unit: Unit) -> bool:
        """Return whether a unit has failed that is not optional."""
        return self.result(unit.id).status == "failed" and not is_optional(unit)

    def any_failed(self) -> bool:
        return any(map(self.has_failed, self.units))

    def was_cancelled(self) -> bool:
        """Return whether a person cancelled a question of this list, or of a loop in it."""
        return any(result.status == "cancelled" for result in self.results.values())

    def plan_status(self) -> PlanStatus:
        """Return how the plan ended."""
        if self.was_cancelled():
            return "cancelled"
        if self.any_failed():
            return "failed"
        errors = any(result.status in ("completed_with_errors", "failed") for result in self.results.values())
        return "completed_with_errors" if errors else "completed"

    def all_steps(self) -> dict[str, UnitResult]:
        """Return the result of every step of the plan in its order; of one in a loop, over all items."""
        return {unit.id: self.step_result(unit.id) for unit in self.layout.steps()}

    def step_result(self, id_: str) -> UnitResult:
        """Return the result of a step of this list, or of a loop in it."""
        loop = next((loop for loop in self.layout.list_loops(id_) if self.is_over(loop)), None)
        if id_ in self.results or loop is None:
            return self.result(id_)
        return over_items(self.results[loop], id_, self.layout)


@dataclass
class ItemScope(PlanScope):
    """The body of a loop, for one of the loop's items."""

    items: list[JSON] = field(default_factory=list)
    """All items of the loop."""
    done: list[Iteration] = field(default_factory=list)
    """The iterations before this one, where the items run one by one in this workflow."""

    @property
    def loop(self) -> LoopUnit:
        return self.context.loop(self.item.loop)

    @property
    def item(self) -> ItemOf:
        return self.around[-1]

    @property
    def units(self) -> tuple[Unit, ...]:
        """See base class."""
        return self.loop.body

    @property
    def outside(self) -> PlanScope:
        """Return the scope that the loop stands in."""
        assert self.outer is not None
        return self.outer

    def begin(self) -> None:
        """Begin the item, or begin it anew."""
        self.context.changes += 1
        self.frame.note(LoopIteration(iteration=self.item.index + 1, item=self.item.item))

    def restart(self, item: object, done: dict[str, UnitResult]) -> None:
        """Forget the results but for these, and perhaps take another value for the item."""
        index = self.item.index
        self.items = [*self.items[:index], item, *self.items[index + 1 :]]
        self.around = [*self.around[:-1], self.item.model_copy(update={"item": item})]
        self.made_before |= {id_: collect_calls(result) for id_, result in self.results.items() if id_ not in done}
        self.results = dict(done)

    def iteration(self, ended: IterationStatus | None = None) -> Iteration:
        """Return the results of this item; `ended`: how the plan ended during it."""
        status: IterationStatus = "failed" if self.any_failed() else "completed"
        status = ended or ("cancelled" if self.was_cancelled() else status)
        results = {unit.id: self.results[unit.id] for unit in self.units if unit.id in self.results}
        return Iteration(index=self.item.index, item=self.item.item, status=status, results=results)


def choose_people(step: PlanStep, frame: Frame) -> People:
    """Return who may answer what a step asks: those whom it names, else those of the plan."""
    if not step.assignees:
        return frame.people
    return People(assignees=list(dict.fromkeys(map(canonical_name, step.assignees))))


def choose_segment(unit: Unit) -> str:
    """Return the type of a unit's address segment."""
    if isinstance(unit, StepUnit):
        return "hitl" if asks(unit.step) else "step"
    return "loop"


def _words(answer: JSON, outcome: str | None = None) -> JSON:
    """Return the words of an answer without its outcome; with an outcome, only of answers that have it."""
    if isinstance(answer, list):
        return [_words(part, outcome) for part in answer]
    return answer["response"] if is_answer(answer) and outcome in (None, answer["outcome"]) else answer

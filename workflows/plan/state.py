"""The state of a plan: which steps and loops are over, which may run, and the verbs that change it.

The scheduler and the control tools of a driving agent both use these verbs; each verb notes its own events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from holdfast.blueprint.expressions import ExpressionError
from holdfast.blueprint.expressions.comparisons import is_answer
from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.plan import (
    Layout,
    LoopUnit,
    Reference,
    StepUnit,
    Unit,
    asks,
    filled,
    informs,
    known_id,
)
from holdfast.protocol.agents import Usage
from holdfast.protocol.events import (
    LoopCompleted,
    LoopIteration,
    PlanRevised,
    StepCompleted,
    StepFailed,
    StepSkipped,
    StepStarted,
)
from holdfast.protocol.plans import (
    OVER,
    ActiveLoop,
    EndedEarly,
    ItemOf,
    Iteration,
    IterationStatus,
    LoopOutcome,
    OutsideResult,
    PlanProgress,
    PlanStatus,
    Revision,
    StepResult,
)
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.results import (
    EMPTY_LOOP,
    Ending,
    as_step,
    failed,
    is_optional,
    outcome_of,
    over_items,
    unfinished,
    unfinished_loop,
    values_of,
)

PENDING = StepResult(status="pending")


class Skip(NamedTuple):
    """A unit that is not to run, and the reason."""

    reason: str


class Fail(NamedTuple):
    """A unit that cannot run."""

    type: str
    message: str


Readiness = Literal["wait", "run"] | Skip | Fail


@dataclass
class PlanScope:
    """The steps and loops of one list, with their results: the whole plan's, or those of a loop's body for one item."""

    context: PlanContext
    frame: Frame
    """At the plan, or at the item."""
    around: list[ItemOf] = field(default_factory=list)
    """The current items of the loops around, outermost first; the last loop is the one whose body this is."""
    outer: PlanScope | None = None
    outside: Mapping[str, OutsideResult] = field(default_factory=dict)
    """Results from another workflow, where this one runs a loop of the plan."""
    steps: dict[str, StepResult] = field(default_factory=dict)
    loops: dict[str, LoopOutcome] = field(default_factory=dict)
    under_way: set[str] = field(default_factory=set)
    """Steps of the scheduler that have begun, and loops."""

    @property
    def layout(self) -> Layout:
        return self.context.layout

    @property
    def units(self) -> tuple[Unit, ...]:
        return self.context.loop(self.around[-1].loop).body if self.around else self.layout.units

    def at(self, unit: Unit) -> Frame:
        """Return the frame of a unit."""
        return self.frame.at(*segment_of(unit))

    def item_scope(self, loop: LoopUnit, item: Any, index: int) -> PlanScope:
        """Return a scope for one item of a loop; its address counts iterations from 1, as in every loop."""
        here = self.frame.at("loop", loop.id, index + 1)
        frame = replace(here, iteration=index + 1, place=f"{loop.id} {index + 1}")
        return PlanScope(self.context, frame, [*self.around, ItemOf(loop=loop.id, item=item, index=index)], self)

    # References

    def lookup(self, id_: str) -> OutsideResult:
        """Return the status and value of a step or loop, wherever it stands."""
        if id_ in self.steps:
            result = self.steps[id_]
            return OutsideResult(status=result.status, value=result.value)
        if id_ in self.loops:
            outcome = self.loops[id_]
            value: Any = [iteration.to_output() for iteration in outcome.iterations]
            return OutsideResult(status=as_step(outcome.status), value=value)
        for loop in self.layout.loops_of(id_):
            if loop in self.loops:
                outcome = self.loops[loop]
                return OutsideResult(status=as_step(outcome.status), value=values_of(outcome, id_, self.layout))
        if id_ in self.outside:
            return self.outside[id_]
        return OutsideResult(status="pending") if self.outer is None else self.outer.lookup(id_)

    def value_of(self, reference: Reference) -> Any:
        """Return the value of a reference: of a question the words; None for a step that was skipped or failed."""
        if reference.kind == "result":
            unit, value = self._referred(reference)
            return _words(value) if isinstance(unit, StepUnit) and asks(unit.step) else value
        item = self._item_of(reference.name)
        if item is None:
            return None
        return item.item if reference.kind == "item" else item.index

    def _referred(self, reference: Reference) -> tuple[Unit | None, Any]:
        unit = self.layout.find(reference.name or "")
        return unit, None if unit is None else self.lookup(unit.id).value

    def _item_of(self, loop: str | None) -> ItemOf | None:
        """Return the current item of a loop around; of the innermost, if none is named."""
        if not self.around:
            return None
        if loop is None:
            return self.around[-1]
        id_ = known_id(loop, [item.loop for item in self.around])
        return next((item for item in self.around if item.loop == id_), None)

    def fill(self, value: Any) -> Any:
        """Return a text, or a value with texts in it, with the references filled in; values are not read again."""
        match value:
            case str():
                return filled(value, self.value_of)
            case list():
                return [self.fill(part) for part in value]
            case dict():
                return {key: self.fill(part) for key, part in value.items()}
        return value

    # What may run

    def result(self, id_: str) -> StepResult:
        return self.steps.get(id_, PENDING)

    def is_over(self, id_: str) -> bool:
        return self.result(id_).status in OVER or id_ in self.loops

    def pending(self) -> list[Unit]:
        """Return the units that have not begun."""
        begun = self.begun()
        return [unit for unit in self.units if unit.id not in begun]

    def begun(self) -> set[str]:
        """Return the ids of the units that are over or under way."""
        return {*self.loops, *self.under_way, *(id_ for id_, one in self.steps.items() if one.status != "pending")}

    def all_over(self) -> bool:
        return all(self.is_over(unit.id) for unit in self.units)

    def readiness(self, unit: Unit) -> Readiness:
        """Return whether a unit may run now, has to wait, or never runs."""
        if any(not self.is_over(id_) for id_ in unit.waits):
            return "wait"
        needs = {id_: self.lookup(id_) for id_ in unit.needs}
        condition = unit.condition
        asked = condition.left.name if condition is not None and condition.left.kind == "result" else None
        if any(need.status in ("failed", "cancelled") for id_, need in needs.items() if id_ != asked):
            return Skip("dependency_failed")
        if (unmet := self._unmet_condition(unit, needs.get(asked or ""))) is not None:
            return unmet
        # A skipped step is no reason to skip this one, if this one asks whether there is a result, or loops over it:
        # nothing is an empty list.
        excused = {asked} if condition is not None and condition.allows_missing else set()
        if isinstance(unit, LoopUnit):
            excused |= {
                id_ for id_, need in needs.items() if need.status == "skipped" and self.layout.goes_through(unit, id_)
            }
        statuses = [need.status for id_, need in needs.items() if id_ not in excused]
        if statuses and all(status == "skipped" for status in statuses):
            return Skip("dependency_skipped")
        return "run"

    def _unmet_condition(self, unit: Unit, need: OutsideResult | None) -> Skip | Fail | None:
        """Return why a unit's condition keeps it from running; None if it does not."""
        condition = unit.condition
        if condition is None:
            return None
        accepted = ("completed", "skipped") if condition.allows_missing else ("completed",)
        if need is not None and need.status not in accepted:
            return Skip("condition_unresolved")
        try:
            holds = condition.holds(self._compared(condition.left))
        except ExpressionError as error:
            return Fail("condition_type", f"{condition.text}: {error.message}")
        return None if holds else Skip("condition_false")

    def _compared(self, left: Reference) -> Any:
        """Return the value that a condition compares: of what a person told, the words, which are no yes and no no."""
        if left.kind != "result":
            return self.value_of(left)
        unit, value = self._referred(left)
        return _words(value, "other") if isinstance(unit, StepUnit) and informs(unit.step) else value

    # Verbs

    async def start(self, unit: StepUnit) -> None:
        """Begin a step, if the limits allow one more."""
        here, (kind, id_) = self.at(unit), segment_of(unit)
        here.note(StepStarted(name=id_, kind=kind, title=unit.step.title))
        self.record(unit)
        await here.within_limits()
        here.meter.count(Usage(steps=1))
        here.host.count(Usage(steps=1))

    def record(self, unit: StepUnit, **changes: Any) -> None:
        """Change the record of a running step."""
        self.steps[unit.id] = self.result(unit.id).model_copy(update={"status": "running", **changes})
        self.context.changes += 1

    def finish(self, unit: StepUnit, result: StepResult) -> None:
        """End a step with a result, to which what its tools returned is added."""
        result = self._with_calls(unit, result)
        self._end_step(unit, result)
        here, (kind, id_) = self.at(unit), segment_of(unit)
        match result.status:
            case "completed":
                here.note(StepCompleted(name=id_, kind=kind, output=result.value))
            case "skipped":
                here.note(StepSkipped(name=id_, kind=kind, reason=result.reason))
            case _:
                error = result.error or {"type": result.status, "message": f"{id_} was {result.status}"}
                here.note(StepFailed(name=id_, kind=kind, error=error["type"], message=error["message"]))

    def _with_calls(self, unit: StepUnit, result: StepResult) -> StepResult:
        before = self.result(unit.id)
        returned = [{"tool": call["tool"], "data": call["data"]} for call in before.tool_results]
        called = [] if result.status == "completed" else before.called
        return result.model_copy(update={"tool_results": returned, "called": called})

    def _end_step(self, unit: StepUnit, result: StepResult) -> None:
        self.steps[unit.id] = result
        self.under_way.discard(unit.id)
        self.context.changes += 1

    def start_loop(self, unit: LoopUnit) -> None:
        """Begin a loop."""
        self.under_way.add(unit.id)
        self.context.changes += 1
        self.at(unit).note(StepStarted(name=unit.id, kind="loop"))

    def finish_loop(self, unit: LoopUnit, outcome: LoopOutcome) -> None:
        """End a loop."""
        self.close_loop(unit, outcome)
        here = self.at(unit)
        if outcome.status == "failed" and (error := outcome.error) is not None:
            here.note(StepFailed(name=unit.id, kind="loop", error=error["type"], message=error["message"]))
        else:
            output: Any = [] if outcome.reason == EMPTY_LOOP else outcome.status
            here.note(StepCompleted(name=unit.id, kind="loop", output=output))

    def close_loop(self, unit: LoopUnit, outcome: LoopOutcome) -> None:
        """End a loop without an event."""
        self.loops[unit.id] = outcome
        self.under_way.discard(unit.id)
        self.context.changes += 1

    def skip(self, unit: Unit, reason: str) -> None:
        """Skip a unit, with everything in it."""
        self._set_skipped(unit, reason)
        kind, id_ = segment_of(unit)
        self.at(unit).note(StepSkipped(name=id_, kind=kind, reason=reason))

    def _set_skipped(self, unit: Unit, reason: str) -> None:
        if isinstance(unit, LoopUnit):
            self.close_loop(unit, LoopOutcome(status="skipped", reason=reason))
        elif isinstance(unit, StepUnit):
            self._end_step(unit, StepResult(status="skipped", reason=reason))

    def fail(self, unit: Unit, type_: str, message: str) -> None:
        """Fail a unit that has not begun."""
        if isinstance(unit, LoopUnit):
            self.finish_loop(unit, LoopOutcome(status="failed", error={"type": type_, "message": message}))
        elif isinstance(unit, StepUnit):
            self.finish(unit, failed(type_, message))

    def settle(self, stopped: str = "") -> None:
        """Skip or fail the units that cannot run any more, until nothing follows from it; `stopped`: skip all."""
        changed = True
        while changed:
            changed = False
            for unit in self.pending():
                match Skip(stopped) if stopped else self.readiness(unit):
                    case Skip(reason=reason):
                        self.skip(unit, reason)
                    case Fail(type=type_, message=message):
                        self.fail(unit, type_, message)
                    case _:
                        continue
                changed = True

    def break_off(self, ending: Ending) -> None:
        """End every unit, as the plan has ended before them: what had begun is unfinished, the rest is skipped.

        Only what failed has an event: where a run has ended, the trace shows all else as cancelled or not begun.
        """
        for unit in self.units:
            if self.is_over(unit.id):
                continue
            if isinstance(unit, LoopUnit) and unit.id in self.under_way:
                self.close_loop(unit, unfinished_loop(unit, ending, []))  # its own workflow has noted it
            elif isinstance(unit, StepUnit) and self.result(unit.id).status != "pending":
                self._break_off_step(unit, unfinished(self.result(unit.id), ending))
            else:
                self._set_skipped(unit, ending.reason)

    def _break_off_step(self, unit: StepUnit, result: StepResult) -> None:
        if result.status == "failed":
            self.finish(unit, result)
        else:
            self._end_step(unit, result)

    def begin_item(self) -> None:
        """Begin the item."""
        self.context.changes += 1
        self.frame.note(LoopIteration(iteration=self.around[-1].index + 1, item=self.around[-1].item))

    def restart(self, item: Any, done: PlanProgress) -> None:
        """Forget the item's results but for what is done, and perhaps take another value in its place."""
        self.around = [*self.around[:-1], self.around[-1].model_copy(update={"item": item})]
        self.steps, self.loops = dict(done.steps), dict(done.loops)
        self.under_way.clear()

    # Results

    def has_failed(self, unit: Unit) -> bool:
        """Return whether a unit has failed that is not optional."""
        status = self.loops[unit.id].status if unit.id in self.loops else self.result(unit.id).status
        return status == "failed" and not is_optional(unit)

    def any_failed(self) -> bool:
        return any(map(self.has_failed, self.units))

    def was_cancelled(self) -> bool:
        """Return whether a person cancelled a question of this list, or of a loop in it."""
        statuses = [one.status for one in self.steps.values()] + [one.status for one in self.loops.values()]
        return "cancelled" in statuses

    def iteration(self, ended: IterationStatus | None = None) -> Iteration:
        """Return the results of this item; `ended`: how the plan ended during it."""
        status: IterationStatus = "failed" if self.any_failed() else "completed"
        status = ended or ("cancelled" if self.was_cancelled() else status)
        item = self.around[-1]
        steps = {unit.id: self.steps[unit.id] for unit in self.units if unit.id in self.steps}
        loops = {unit.id: self.loops[unit.id] for unit in self.units if unit.id in self.loops}
        return Iteration(index=item.index, item=item.item, status=status, steps=steps, loops=loops)

    def plan_status(self) -> PlanStatus:
        """Return how the plan ended."""
        if self.was_cancelled():
            return "cancelled"
        if self.any_failed():
            return "failed"
        errors = any(result.status == "failed" for result in self.steps.values())
        errors = errors or any(one.status in ("completed_with_errors", "failed") for one in self.loops.values())
        return "completed_with_errors" if errors else "completed"

    def results(self) -> dict[str, StepResult]:
        """Return the result of every step of the plan in its order; of one in a loop, over all items."""
        return {unit.id: self.result_anywhere(unit.id) for unit in self.layout.steps()}

    def result_anywhere(self, id_: str) -> StepResult:
        """Return the result of a step of this list, or of a loop in it."""
        loop = next((loop for loop in self.layout.loops_of(id_) if loop in self.loops), None)
        if id_ in self.steps or loop is None:
            return self.result(id_)
        return over_items(self.loops[loop], id_, self.layout)


def _words(answer: Any, outcome: str | None = None) -> Any:
    """Return the words of an answer without its outcome; with an outcome, only of answers that have it."""
    if isinstance(answer, list):
        return [_words(part, outcome) for part in answer]
    return answer["response"] if is_answer(answer) and outcome in (None, answer["outcome"]) else answer


def segment_of(unit: Unit) -> tuple[str, str]:
    """Return the type and id of a unit's address segment."""
    if isinstance(unit, StepUnit):
        return ("hitl" if asks(unit.step) else "step"), unit.id
    return "loop", unit.id


@dataclass
class LoopRun:
    """A loop that an agent has started, and its current item."""

    id: str
    items: list[Any]
    index: int
    done: list[Iteration]
    scope: PlanScope

    @property
    def unit(self) -> LoopUnit:
        return self.scope.context.loop(self.id)

    @property
    def item(self) -> Any:
        return self.items[self.index]


class PlanState:
    """A plan in one workflow: its scopes, the loops that an agent has started, and its revisions."""

    def __init__(self, root: PlanScope, progress: PlanProgress | None = None) -> None:
        progress = progress or PlanProgress()
        self.root, self.context = root, root.context
        self.revisions = list(progress.revisions)
        self.vars, self.found, self.missing = dict(progress.vars), list(progress.found), list(progress.missing)
        self.active: dict[str, LoopRun] = {}
        root.steps, root.loops = {**root.steps, **progress.steps}, {**root.loops, **progress.loops}
        for id_, loop in progress.active.items():
            run = self._activate(id_, self._scope_around(id_), loop.items, loop.index, list(loop.done))
            run.scope.steps, run.scope.loops = dict(loop.steps), dict(loop.loops)

    def _scope_around(self, id_: str) -> PlanScope:
        loops = self.context.layout.loops_of(id_)
        return self.active[loops[-1]].scope if loops else self.root

    def progress(self) -> PlanProgress:
        """Return the state as another workflow can take it up."""
        active = {
            id_: ActiveLoop(
                items=run.items,
                index=run.index,
                done=run.done,
                steps=dict(run.scope.steps),
                loops=dict(run.scope.loops),
            )
            for id_, run in self.active.items()
        }
        return PlanProgress(
            plan=self.context.plan,
            revisions=self.revisions,
            steps=dict(self.root.steps),
            loops=dict(self.root.loops),
            active=active,
            vars=self.vars,
            found=self.found,
            missing=self.missing,
        )

    @property
    def revision(self) -> int:
        return len(self.revisions) + 1

    def revise(self, plan: PlanBody, by: str | None, reason: str) -> int:
        """Go on with another plan; return its number."""
        self.context.revise(plan)
        revision = Revision(revision=self.revision + 1, by=by, reason=reason)
        self.revisions = [*self.revisions, revision]
        self.root.frame.note(PlanRevised(revision=self.revision, by=by, reason=reason or None))
        return self.revision

    def scopes(self) -> Iterator[PlanScope]:
        """Yield every scope that is under way, innermost last."""
        yield self.root
        for run in sorted(self.active.values(), key=lambda run: len(run.scope.around)):
            yield run.scope

    def stopped(self, scope: PlanScope) -> str:
        """Return why nothing more is started in a scope; empty: it goes on. `fail_fast` stops nothing in a loop."""
        if any(each.was_cancelled() for each in self.scopes()):
            return "plan_cancelled"
        return "fail_fast" if self.context.plan.fail_fast and not scope.around and scope.any_failed() else ""

    def settle(self) -> None:
        """Skip or fail what cannot run any more, in every scope."""
        for scope in self.scopes():
            scope.settle(self.stopped(scope))

    def break_off(self, ending: Ending) -> None:
        """End everything that has begun, innermost first, as the plan has ended before it."""
        for scope in reversed(list(self.scopes())):
            scope.break_off(ending)
            run = next((run for run in self.active.values() if run.scope is scope), None)
            if run is not None:
                done = [*run.done, scope.iteration(ending.status)]
                outcome = unfinished_loop(run.unit, ending, done)
                outer = self._leave(run)
                end_loop = outer.finish_loop if outcome.status == "failed" else outer.close_loop
                end_loop(run.unit, outcome)

    # Loops of a driving agent

    def begin_items(self, unit: LoopUnit, scope: PlanScope, items: list[Any]) -> LoopRun:
        """Begin the first item of a loop that has started."""
        run = self._activate(unit.id, scope, items)
        self._begin_item(run)
        return run

    def _activate(
        self, id_: str, outer: PlanScope, items: list[Any], index: int = 0, done: list[Iteration] | None = None
    ) -> LoopRun:
        scope = outer.item_scope(self.context.loop(id_), items[index], index)
        run = self.active[id_] = LoopRun(id_, items, index, done or [], scope)
        outer.under_way.add(id_)
        return run

    def _begin_item(self, run: LoopRun) -> None:
        run.scope.begin_item()
        self.settle()

    def repeat_item(self, run: LoopRun, item: Any, done: PlanProgress) -> None:
        """Do the current item of a loop once more, perhaps as another value."""
        run.items = [*run.items[: run.index], item, *run.items[run.index + 1 :]]
        run.scope.restart(item, done)
        self._begin_item(run)

    def advance(self, run: LoopRun, iteration: Iteration, ended: EndedEarly = "") -> LoopOutcome | None:
        """Close the current item of a loop and begin the next; after the last end the loop, and return its outcome."""
        run.done = [*run.done, iteration]
        if run.index + 1 == len(run.items) or ended:
            outcome = outcome_of(run.done, ended, len(run.items))
            outer = self._leave(run)
            outer.at(run.unit).note(LoopCompleted(reason=outcome.status, iterations=len(outcome.iterations)))
            outer.finish_loop(run.unit, outcome)
            self.settle()
            return outcome
        run.index += 1
        assert run.scope.outer is not None
        run.scope = run.scope.outer.item_scope(run.unit, run.item, run.index)
        self._begin_item(run)
        return None

    def _leave(self, run: LoopRun) -> PlanScope:
        """Forget an active loop; return the scope that it stands in."""
        del self.active[run.id]
        assert run.scope.outer is not None
        return run.scope.outer

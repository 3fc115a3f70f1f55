"""Where a plan stands, and what follows from it: what may run, what is skipped, what a reference gives. No engine."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from holdfast.blueprint.expressions import ExpressionError
from holdfast.blueprint.expressions.comparisons import is_answer, only_list
from holdfast.blueprint.expressions.texts import read_structure
from holdfast.blueprint.plan import (
    Layout,
    LoopUnit,
    Reference,
    StepUnit,
    Unit,
    asks,
    filled,
    informs,
    spelled_id,
)
from holdfast.blueprint.plan.lists import list_in, spoken_items
from holdfast.blueprint.plan.references import whole_reference
from holdfast.protocol.plans import (
    ITEMS_FAILED,
    OVER,
    ItemOf,
    Iteration,
    IterationStatus,
    LoopOutcome,
    LoopStatus,
    OutsideResult,
    PlanProgress,
    PlanStatus,
    StepResult,
    StepStatus,
)

PENDING = OutsideResult(status="pending")


NO_LIST = "loop_over_text"
"""The error of a text that is no list."""


class OverError(ValueError):
    """What a loop goes through is no list, and cannot be taken for one."""

    def __init__(self, type_: str, message: str) -> None:
        super().__init__(message)
        self.type = type_


class Skip(NamedTuple):
    """A unit that is not to run, and why."""

    reason: str


class Fail(NamedTuple):
    """A unit that cannot run."""

    type: str
    message: str


Verdict = Literal["wait", "run"] | Skip | Fail


@dataclass
class PlanScope:
    """The units of one list, top of the plan or body of a loop, with what became of them so far."""

    layout: Layout
    units: tuple[Unit, ...]
    known: Mapping[str, OutsideResult] = field(default_factory=dict)
    """What stands outside, as far as the units need it."""
    around: list[ItemOf] = field(default_factory=list)
    """The loops around, the outermost first; the last is the one whose body this is."""
    steps: dict[str, StepResult] = field(default_factory=dict)
    loops: dict[str, LoopOutcome] = field(default_factory=dict)
    outer: PlanScope | None = None

    # What is known

    def known_of(self, id_: str) -> OutsideResult:
        """How a step or loop ended, and what it gave, wherever it stands."""
        if id_ in self.steps:
            result = self.steps[id_]
            return OutsideResult(status=result.status, value=result.value)
        if id_ in self.loops:
            outcome = self.loops[id_]
            return OutsideResult(status=_as_step(outcome.status), value=[one.told() for one in outcome.iterations])
        for loop in self.layout.loops_of(id_):
            if loop in self.loops:
                outcome = self.loops[loop]
                return OutsideResult(status=_as_step(outcome.status), value=gathered(outcome, id_, self.layout))
        if id_ in self.known:
            return self.known[id_]
        return self.outer.known_of(id_) if self.outer is not None else PENDING

    def value_of(self, reference: Reference) -> Any:
        """What a reference gives here, of a question the words; null for what was skipped or has failed."""
        if reference.kind == "result":
            unit, value = self._found(reference)
            return _words(value) if isinstance(unit, StepUnit) and asks(unit.step) else value
        at = self.item_of(reference.name)
        if at is None:
            return None
        return at.item if reference.kind == "item" else at.index

    def _found(self, reference: Reference) -> tuple[Unit | None, Any]:
        unit = self.layout.find(reference.name or "")
        return unit, None if unit is None else self.known_of(unit.id).value

    def item_of(self, loop: str | None) -> ItemOf | None:
        """Where the loop around stands; the innermost, if none is named."""
        if not self.around:
            return None
        if loop is None:
            return self.around[-1]
        id_ = spelled_id(loop, [one.loop for one in self.around])
        return next((one for one in self.around if one.loop == id_), None)

    def fill(self, value: Any) -> Any:
        """A text, or the texts in a list, with references filled in; values are never read again."""
        match value:
            case str():
                return filled(value, self.value_of)
            case list():
                return [self.fill(part) for part in value]
            case dict():
                return {key: self.fill(part) for key, part in value.items()}
        return value

    # What follows

    def is_over(self, id_: str) -> bool:
        return (id_ in self.steps and self.steps[id_].status in OVER) or id_ in self.loops

    def verdict(self, unit: Unit) -> Verdict:
        """Whether a unit may run now, or never."""
        if any(not self.is_over(id_) for id_ in unit.waits):
            return "wait"
        known = {id_: self.known_of(id_) for id_ in unit.needs}
        asked = unit.condition.left.name if unit.condition and unit.condition.left.kind == "result" else None
        if any(one.status in ("failed", "cancelled") for id_, one in known.items() if id_ != asked):
            return Skip("dependency_failed")
        spoken_of: set[str] = set()
        if unit.condition is not None:
            told = self._condition_told(unit, known.get(asked or ""))
            if told is not None:
                return told
            spoken_of = {asked} if asked and unit.condition.allows_missing else set()
        if isinstance(unit, LoopUnit):
            spoken_of |= {id_ for id_, one in known.items() if one.status == "skipped" and self._is_over_of(unit, id_)}
        judged = [one.status for id_, one in known.items() if id_ not in spoken_of]
        if judged and all(status == "skipped" for status in judged):
            return Skip("dependency_skipped")
        return "run"

    def _is_over_of(self, loop: LoopUnit, id_: str) -> bool:
        """Whether the loop goes through what the unit gave: one that was skipped gave nothing, an empty list."""
        if not isinstance(loop.over, str):
            return False
        found = self.layout.find(loop.over.strip().removeprefix("RESULT_FROM_"))
        return found is not None and found.id == id_

    def _condition_told(self, unit: Unit, known: OutsideResult | None) -> Verdict | None:
        """What the condition says against the unit; None if nothing."""
        condition = unit.condition
        assert condition is not None
        if (
            known is not None
            and known.status != "completed"
            and not (known.status == "skipped" and condition.allows_missing)
        ):
            return Skip("condition_unresolved")
        try:
            holds = condition.holds(self._compared(condition.left))
        except ExpressionError as error:
            return Fail("condition_type", f"{condition.text}: {error.message}")
        return None if holds else Skip("condition_false")

    def _compared(self, left: Reference) -> Any:
        """What a condition looks at: of what a person was asked to tell, the words, which are no yes and no no."""
        if left.kind != "result":
            return self.value_of(left)
        unit, value = self._found(left)
        return _words(value, "other") if isinstance(unit, StepUnit) and informs(unit.step) else value

    def skip(self, unit: Unit, reason: str) -> None:
        """Take the unit as skipped, with all that stands in it."""
        if isinstance(unit, LoopUnit):
            self.loops[unit.id] = LoopOutcome(status="skipped", reason=reason)
        else:
            self.steps[unit.id] = StepResult(status="skipped", reason=reason)

    def note_call(self, id_: str, tool: str) -> None:
        """Remember that a tool is being called for a step."""
        before = self.steps.get(id_, StepResult(status="running"))
        self.steps[id_] = before.model_copy(update={"called": list(dict.fromkeys([*before.called, tool]))})

    def fail(self, unit: Unit, type_: str, message: str) -> None:
        error = {"type": type_, "message": message}
        if isinstance(unit, LoopUnit):
            self.loops[unit.id] = LoopOutcome(status="failed", error=error)
        else:
            self.steps[unit.id] = StepResult(status="failed", error=error)

    def settle(self, stopped: str = "", under_way: Container[str] = ()) -> Iterator[tuple[Unit, Skip | Fail]]:
        """Take as skipped or failed what cannot run any more, until nothing more follows; each is told once."""
        changed = True
        while changed:
            changed = False
            for unit in self.pending():
                if unit.id in under_way:
                    continue
                verdict = Skip(stopped) if stopped else self.verdict(unit)
                match verdict:
                    case Skip(reason=reason):
                        self.skip(unit, reason)
                    case Fail(type=type_, message=message):
                        self.fail(unit, type_, message)
                    case _:
                        continue
                changed = True
                yield unit, verdict

    def pending(self) -> list[Unit]:
        return [unit for unit in self.units if unit.id not in self.loops and not self._has_begun(unit.id)]

    def _has_begun(self, id_: str) -> bool:
        return id_ in self.steps and self.steps[id_].status != "pending"

    def all_over(self) -> bool:
        return all(self.is_over(unit.id) for unit in self.units)

    # How it came out

    def failed_units(self) -> list[Unit]:
        """What failed and may not: steps that are not optional, and loops."""
        return [unit for unit in self.units if self.has_failed(unit)]

    def has_failed(self, unit: Unit) -> bool:
        """Whether a unit that is over failed, and may not."""
        if isinstance(unit, StepUnit):
            return self.steps[unit.id].status == "failed" and not unit.step.optional
        return self.loops[unit.id].status == "failed" and not _only_optional(unit)

    def iteration(self, ended: IterationStatus | None = None) -> Iteration:
        """What this iteration gave; `ended`: how the plan ended that was in it."""
        at = self.around[-1]
        status: IterationStatus = "failed" if self.failed_units() else "completed"
        if self.was_cancelled():
            status = "cancelled"
        status = ended or status
        return Iteration(
            index=at.index,
            item=at.item,
            status=status,
            steps=self._in_order(self.steps),
            loops=self._in_order(self.loops),
        )

    def _in_order(self, results: dict[str, Any]) -> dict[str, Any]:
        return {unit.id: results[unit.id] for unit in self.units if unit.id in results}

    def whole_status(self) -> PlanStatus:
        """How the plan ended."""
        if self.was_cancelled():
            return "cancelled"
        if self.failed_units():
            return "failed"
        erred = any(result.status == "failed" for result in self.steps.values())
        erred = erred or any(one.status in ("completed_with_errors", "failed") for one in self.loops.values())
        return "completed_with_errors" if erred else "completed"

    def was_cancelled(self) -> bool:
        """Whether a person cancelled a question of this list, or of a loop in it."""
        return any(one.status == "cancelled" for one in self.steps.values()) or any(
            one.status == "cancelled" for one in self.loops.values()
        )

    def told_steps(self) -> dict[str, StepResult]:
        """Every step of the plan by its id, in the plan's order; one in a loop with what it gave for each item."""
        return {unit.id: self.told_step(unit.id) for unit in self.layout.steps()}

    def told_step(self, id_: str) -> StepResult:
        if id_ in self.steps:
            return self.steps[id_]
        loop = next((loop for loop in self.layout.loops_of(id_) if loop in self.loops), None)
        if loop is None:
            return StepResult(status="pending")
        return _over_items(self.loops[loop], id_, self.layout)


def _words(answer: Any, outcome: str | None = None) -> Any:
    """What was said, without how it came out; with an outcome, only of what came out so."""
    if isinstance(answer, list):
        return [_words(one, outcome) for one in answer]
    return answer["response"] if is_answer(answer) and outcome in (None, answer["outcome"]) else answer


def _as_step(status: LoopStatus) -> StepStatus:
    return "completed" if status == "completed_with_errors" else status


def gathered(outcome: LoopOutcome, id_: str, layout: Layout) -> list[Any]:
    """What a step in a loop gave for each item; null where it gave nothing. A loop in it gives lists."""
    found = []
    for iteration in outcome.iterations:
        if id_ in iteration.steps:
            found.append(iteration.steps[id_].value)
        elif id_ in iteration.loops:
            found.append([one.told() for one in iteration.loops[id_].iterations])
        else:
            inner = next((loop for loop in layout.loops_of(id_) if loop in iteration.loops), None)
            found.append(None if inner is None else gathered(iteration.loops[inner], id_, layout))
    return found


def _over_items(outcome: LoopOutcome, id_: str, layout: Layout) -> StepResult:
    """One line for a step that ran once an item."""
    statuses = set(_statuses(outcome, id_, layout))
    data = gathered(outcome, id_, layout)
    if "cancelled" in statuses:
        return StepResult(status="cancelled", data=data)
    if "completed" in statuses:
        return StepResult(status="completed", data=data)
    if "failed" in statuses:
        error = {"type": ITEMS_FAILED, "message": f"{id_} failed for every item that it ran for"}
        return StepResult(status="failed", data=data, error=error)
    ended = {"failed": "loop_failed", "cancelled": "plan_cancelled"}.get(outcome.status)
    return StepResult(status="skipped", reason=outcome.reason or ended or ("items_skipped" if data else "empty_loop"))


def _statuses(outcome: LoopOutcome, id_: str, layout: Layout) -> Iterable[str]:
    for iteration in outcome.iterations:
        if id_ in iteration.steps:
            yield iteration.steps[id_].status
        for loop in layout.loops_of(id_):
            if loop in iteration.loops:
                yield from _statuses(iteration.loops[loop], id_, layout)


def _only_optional(loop: Unit) -> bool:
    """Whether nothing in a loop must succeed."""
    return isinstance(loop, LoopUnit) and all(
        unit.step.optional if isinstance(unit, StepUnit) else _only_optional(unit) for unit in loop.body
    )


def outcome_of(iterations: list[Iteration], failed: bool = False, total: int | None = None) -> LoopOutcome:
    """How a loop ended whose items gave this; `failed`: it was ended by a failing item, of `total` ones."""
    bad = [one for one in iterations if one.status == "failed"]
    status: LoopStatus = "completed"
    if failed or (bad and len(bad) == len(iterations)):
        status = "failed"
    elif any(_erred(one) for one in iterations):
        status = "completed_with_errors"
    error = None
    if status == "failed":
        error = {"type": ITEMS_FAILED, "message": f"{_counted(bad, iterations, total)}: {first_error(bad)}"}
    reason = None if iterations else "empty_loop"
    return LoopOutcome(status=status, iterations=iterations, error=error, reason=reason)


def _counted(bad: list[Iteration], iterations: list[Iteration], total: int | None) -> str:
    """How many items failed, and how many were not begun."""
    left = (total or len(iterations)) - len(iterations)
    told = f"{len(bad)} of {len(iterations) + left} items failed"
    return told if not left else f"{told}; {left} {'was' if left == 1 else 'were'} not begun"


def _erred(iteration: Iteration) -> bool:
    """Whether anything failed for an item, be it optional."""
    return any(one.status == "failed" for one in iteration.steps.values()) or any(
        one.status in ("completed_with_errors", "failed") for one in iteration.loops.values()
    )


def done_of(iteration: Iteration) -> PlanProgress:
    """What of an item need not be done once more: the steps and loops that gave what they were to give."""
    return PlanProgress(
        steps={id_: one for id_, one in iteration.steps.items() if one.status == "completed"},
        loops={id_: one for id_, one in iteration.loops.items() if one.status == "completed"},
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


def items_of(loop: LoopUnit, scope: PlanScope) -> list[Any]:
    """What the loop goes through: a list as it is, the only list of an object, one thing by itself, nothing of null.

    A text is read as a list, or is an error: it is never one item, but where a person said it in a word.
    """
    value = scope.fill(loop.over)
    if isinstance(value, str) and value.strip():
        value = _listed(loop, value, scope)
    match value:
        case list():
            items = value
        case None:
            items = []
        case str() if not value.strip():
            items = []
        case dict() if (inner := only_list(value)) is not None:
            items = inner
        case dict() if any(isinstance(one, list) for one in value.values()):
            lists = ", ".join(repr(key) for key, one in value.items() if isinstance(one, list))
            raise OverError("loop_over_ambiguous", f"{loop.id} could go through {lists}; give it one list")
        case _:
            items = [value]
    return checked_items(loop, items)


def _listed(loop: LoopUnit, text: str, scope: PlanScope) -> Any:
    """What a text lists. Raises `OverError` for prose."""
    structure = read_structure(text)
    if not isinstance(structure, str):
        return structure
    reference = whole_reference(loop.over) if isinstance(loop.over, str) else None
    unit = scope.layout.find(reference.name or "") if reference is not None and reference.kind == "result" else None
    spoken = isinstance(unit, StepUnit) and asks(unit.step) and not unit.step.tools
    found = spoken_items(text) if spoken else list_in(text)
    if found is None:
        shown = text if len(text) <= 200 else f"{text[:200]}…"
        raise OverError(NO_LIST, f"{loop.id} goes through a list, and this is none: {shown!r}")
    return found


def checked_items(loop: LoopUnit, items: list[Any]) -> list[Any]:
    """Return the items, if there are not too many."""
    if len(items) > loop.max_items:
        text = (
            f"{loop.id} would go through {len(items):,} items, and at most {loop.max_items:,} are allowed (max_items)"
        )
        raise OverError("loop_too_large", text)
    return items


def needed_outside(loop: LoopUnit, scope: PlanScope) -> dict[str, OutsideResult]:
    """What the steps of a loop need to know of what stands outside."""
    inside = {unit.id for unit in _all_in(loop)}
    needed = {id_ for unit in _all_in(loop) for id_ in unit.needs if id_ not in inside and id_ != loop.id}
    return {id_: scope.known_of(id_) for id_ in sorted(needed)}


def _all_in(loop: LoopUnit) -> Iterable[Unit]:
    for unit in loop.body:
        yield unit
        if isinstance(unit, LoopUnit):
            yield from _all_in(unit)

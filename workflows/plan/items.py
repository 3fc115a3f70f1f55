"""The items of a loop of a plan: which they are, and what follows when one of them is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.expressions.comparisons import only_list
from holdfast.blueprint.expressions.texts import read_structure
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import PlanStep
from holdfast.blueprint.plan import LoopUnit, StepUnit, Unit, asks
from holdfast.blueprint.plan.lists import list_in, spoken_items
from holdfast.blueprint.plan.references import whole_reference
from holdfast.protocol.plans import EndedEarly, Iteration, UnitResult
from holdfast.protocol.questions import Input
from holdfast.protocol.runs import Failure
from holdfast.workflows.failure_review import judged
from holdfast.workflows.plan.results import EMPTY_LOOP, failed, first_error
from holdfast.workflows.plan.scope import PlanScope

NO_LIST = "loop_over_text"
"""Error type of a loop over a text that is no list."""
CANCELLED = "cancelled"
LONGEST_SHOWN, LONGEST_QUOTED = 2_000, 200


class NotAList(ValueError):
    """The value that a loop goes through is no list, and cannot be read as one."""

    def __init__(self, type_: str, message: str) -> None:
        super().__init__(message)
        self.type = type_


async def start_loop(unit: LoopUnit, scope: PlanScope) -> list[JSON] | None:
    """Begin a loop; return its items, or None if it ends at once, as there are none, or no list of them."""
    scope.start_loop(unit)
    try:
        items = await _items_for(unit, scope)
    except NotAList as error:
        scope.finish(unit, failed(error.type, str(error), iterations=[]))
        return None
    if not items:
        scope.finish(unit, UnitResult(status="completed", reason=EMPTY_LOOP, iterations=[]))
    return items or None


async def _items_for(unit: LoopUnit, scope: PlanScope) -> list[JSON]:
    """Return the items; of a text that is no list as a person gives them. Raises `NotAList`."""
    try:
        return items_of(unit, scope)
    except NotAList as error:
        if error.type != NO_LIST or not _may_ask(unit, scope):
            raise
        problem = error
    text = _shortened(text_of(scope.fill(unit.over)), LONGEST_SHOWN)
    asked = Input(
        message=f'{unit.id} goes through a list, and this is none: “{text}”. Give its items: ["first", "second"]',
        form={"type": "array"},
        info={"loop": unit.id, "text": text},
    )
    async with scope.context.one_question:
        await scope.frame.host.until_resumed()
        reply = await scope.at(unit).at("hitl", f"{unit.id}-items").ask(asked)
    if reply.status == CANCELLED:
        raise NotAList(CANCELLED, f"a person cancelled the question about the items of {unit.id}")
    if reply.status != "answered":
        raise problem
    return _checked(unit, reply.content)


def _may_ask(unit: LoopUnit, scope: PlanScope) -> bool:
    """Return whether the plan asks people anything, or its agent may."""
    context = scope.context
    if any(map(asks, context.plan.steps)) or unit.on_item_error == "ask":
        return True
    return "ask" in context.agent_call(PlanStep(id=unit.id)).agent.human


def items_of(loop: LoopUnit, scope: PlanScope) -> list[JSON]:
    """Return the items of a loop: a list itself, the only list of an object, nothing for null, else the value alone.

    A text is read as a list: taken as a single item, a tool would act on all of it at once. Raises `NotAList`.
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
        case dict() if any(isinstance(part, list) for part in value.values()):
            lists = ", ".join(repr(key) for key, part in value.items() if isinstance(part, list))
            raise NotAList("loop_over_ambiguous", f"{loop.id} could go through {lists}; give it one list")
        case _:
            items = [value]
    return _checked(loop, items)


def _listed(loop: LoopUnit, text: str, scope: PlanScope) -> JSON:
    """Return the list in a text. Raises `NotAList` for prose."""
    structure = read_structure(text)
    if not isinstance(structure, str):
        return structure
    reference = whole_reference(loop.over) if isinstance(loop.over, str) else None
    unit = scope.layout.find(reference.name or "") if reference is not None and reference.kind == "result" else None
    spoken = isinstance(unit, StepUnit) and asks(unit.step) and not unit.step.tools
    items = spoken_items(text) if spoken else list_in(text)
    if items is None:
        quoted = _shortened(text, LONGEST_QUOTED)
        raise NotAList(NO_LIST, f"{loop.id} goes through a list, and this is none: {quoted!r}")
    return items


def _checked(loop: LoopUnit, items: list[JSON]) -> list[JSON]:
    if len(items) > loop.max_items:
        raise NotAList(
            "loop_too_large",
            f"{loop.id} would go through {len(items):,} items, and at most {loop.max_items:,} are allowed (max_items)",
        )
    return items


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


# After an item


class ItemDone(NamedTuple):
    """An item that is over; `ended`: the loop ends with it."""

    iteration: Iteration
    ended: EndedEarly = ""


class Repeat(NamedTuple):
    """An item that is done once more, perhaps as another value."""

    item: JSON
    done: dict[str, UnitResult]
    """Results that stay."""


async def after_item(unit: LoopUnit, scope: PlanScope) -> ItemDone | Repeat:
    """Return what follows when an item is over: if it failed, the loop's rule decides, or a person."""
    iteration = scope.iteration()
    if scope.was_cancelled():
        return ItemDone(iteration, "cancelled")
    if iteration.status != "failed" or unit.on_item_error == "continue":
        return ItemDone(iteration)
    if unit.on_item_error == "fail":
        return ItemDone(iteration, "failed")
    cause = Failure(type="item_failed", message=first_error([iteration]), address=scope.frame.address)
    decision = await judged(cause, iteration.item, scope.frame, takes_value=False)
    match decision.action:
        case "retry":
            done = {id_: result for id_, result in iteration.results.items() if result.status == "completed"}
            return Repeat(iteration.item, done)
        case "edit":
            return Repeat(decision.content, {})
        case "skip":
            return ItemDone(iteration.model_copy(update={"status": "skipped"}))
    return ItemDone(iteration, "failed")


# For a workflow of the loop's own


def needed_outside(loop: LoopUnit, scope: PlanScope) -> dict[str, UnitResult]:
    """Return the results of the steps outside a loop that its steps refer to, with no more than a reference sees."""
    inside = {unit.id for unit in _units_in(loop)}
    needed = {id_ for unit in _units_in(loop) for id_ in unit.needs if id_ not in inside and id_ != loop.id}
    results = {id_: scope.lookup(id_) for id_ in sorted(needed)}
    return {id_: UnitResult(status=result.status, data=result.value) for id_, result in results.items()}


def _units_in(loop: LoopUnit) -> Iterator[Unit]:
    for unit in loop.body:
        yield unit
        if isinstance(unit, LoopUnit):
            yield from _units_in(unit)

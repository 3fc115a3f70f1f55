"""The items of a loop of a plan: which they are, and what follows when one of them is done."""

from __future__ import annotations

from holdfast.blueprint.expressions.comparisons import only_list
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.lists import list_in, spoken_items
from holdfast.blueprint.expressions.texts import read_structure
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import PlanStep
from holdfast.blueprint.plan.answers import asks
from holdfast.blueprint.plan.layout import LoopUnit, StepUnit
from holdfast.blueprint.plan.work import choose_agent
from holdfast.blueprint.questions import Input
from holdfast.protocol.children import Failure
from holdfast.protocol.plans import Iteration, UnitResult
from holdfast.workflows.failure_review import ask_decision
from holdfast.workflows.failures import find_failure
from holdfast.workflows.items import describe_excess
from holdfast.workflows.plan.ledger import guard_item
from holdfast.workflows.plan.results import EMPTY_LOOP, Ended, first_error, make_cancelled, make_failed
from holdfast.workflows.plan.scope import ItemScope, PlanScope

LONGEST_SHOWN, LONGEST_QUOTED = 2_000, 200
_FORM: JSONObject = {
    "type": "array",
    "x-widget": "lines",
    "x-hint": "one a line, or in one line with commas between; a single one with a dash in front, or as JSON",
}
"""The form of the items that a person gives."""


async def begin_loop(unit: LoopUnit, scope: PlanScope) -> list[JSON]:
    """Begin a loop; return its items, or none if it has ended at once, as there are none, or no list of them."""
    scope.start_loop(unit)
    end = UnitResult(status="completed", reason=EMPTY_LOOP)
    try:
        if items := await _items_for(unit, scope):
            return items
    except Ended as error:
        end = error.result
    except ExpressionError as error:  # as of a step: by its list the loop fails, not the plan
        cause = find_failure(error, scope.frame.address)
        end = make_failed(cause.type, cause.message)
    scope.finish(unit, end)
    return []


async def _items_for(unit: LoopUnit, scope: PlanScope) -> list[JSON]:
    """Return the items; of a text that is no list as a person gives them. Raises `Ended`."""
    value = _render_list(unit, scope)
    items = read_items(value, unit, scope)
    if items is None:
        items = await _items_of_person(write_text(value), unit, scope)
    if (excess := describe_excess(unit.id, len(items), unit.block.max_items)) is not None:
        raise Ended(make_failed("loop_too_large", excess))
    return items


def _render_list(unit: LoopUnit, scope: PlanScope) -> JSON:
    return scope.inside(unit).render(scope.layout.write_template(unit.block.over, unit))


async def _items_of_person(text: str, unit: LoopUnit, scope: PlanScope) -> list[JSON]:
    """Return the items that a person gives in place of a text. Raises `Ended` without an answer."""
    no_list = f"{unit.id} needs a list, and this is not one"
    problem = make_failed("loop_over_text", f"{no_list}: {_shorten(text, LONGEST_QUOTED)!r}")
    if not _may_ask(unit, scope):
        raise Ended(problem)
    text = _shorten(text, LONGEST_SHOWN)
    asked = Input(
        message=f"{no_list}: “{text}”. Give its items, one a line.",
        form=_FORM,
        info={"loop": unit.id, "text": text},
    )
    await scope.frame.host.until_resumed()
    reply = await scope.at(unit).at("hitl", f"{unit.id}-items").ask(asked)
    if reply.status != "answered":
        raise Ended(make_cancelled() if reply.status == "cancelled" else problem)
    items: list[JSON] = reply.content
    return items


def _may_ask(unit: LoopUnit, scope: PlanScope) -> bool:
    """Return whether the plan asks people anything, or its agent may."""
    context = scope.context
    if any(map(asks, context.plan.steps)) or unit.block.on_item_error == "ask":
        return True
    return "ask" in context.call_agent(choose_agent(PlanStep(id=unit.id), context.plan), unit.id).agent.human


def read_items(value: JSON, loop: LoopUnit, scope: PlanScope) -> list[JSON] | None:
    """Return the items of a loop: a list itself, the only list of an object, nothing for null, else the value alone.

    A text is read as a list, None if it is none: taken as a single item, a tool would act on all of it at once. Raises
    `Ended` for an object with several lists.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return []
    if isinstance(value, str) and (value := _read_list(loop, value, scope)) is None:
        return None
    match value:
        case list():
            return value
        case dict() if (inner := only_list(value)) is not None:
            return inner
        case dict() if any(isinstance(part, list) for part in value.values()):
            lists = ", ".join(repr(key) for key, part in value.items() if isinstance(part, list))
            raise Ended(make_failed("loop_over_ambiguous", f"{loop.id} could iterate over {lists}; give it one list"))
    return [value]


def _read_list(loop: LoopUnit, text: str, scope: PlanScope) -> JSON:
    """Return the list in a text, or the object; None for prose."""
    structure = read_structure(text)
    if not isinstance(structure, str):
        return structure
    unit = scope.layout.units_by_id.get(loop.source or "")
    spoken = isinstance(unit, StepUnit) and asks(unit.step) and not unit.step.tools
    return spoken_items(text) if spoken else list_in(text)


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


async def after_item(scope: ItemScope) -> Iteration | None:
    """Return the results of an item that is over; None if it is done once more, perhaps as another value.

    If it failed, a person decides where the loop's rule says so.
    """
    over = await _decide(scope)
    if over is None:
        guard_item(scope)
    else:
        scope.frame.host.ledgers.clear_item(scope.frame.address)
    return over


async def _decide(scope: ItemScope) -> Iteration | None:
    iteration = scope.iteration()
    if iteration.status != "failed" or scope.loop.block.on_item_error != "ask":
        return iteration
    cause = Failure(type="item_failed", message=first_error([iteration]), address=scope.frame.address)
    decision = await ask_decision(cause, iteration.item, scope.frame, takes_value=False)
    match decision.action:
        case "retry":
            completed = {id_: result for id_, result in iteration.results.items() if result.status == "completed"}
            scope.restart(iteration.item, completed)
            return None
        case "edit":
            scope.restart(decision.content, {})
            return None
        case "skip":
            return iteration.model_copy(update={"status": "skipped"})
    return iteration

"""The ledger of one plan, made of the results of its steps, its loops and their items."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.blueprint.kinds.references import AGENT
from holdfast.blueprint.plan.layout import Layout, LoopUnit, StepUnit, Unit, with_bodies
from holdfast.blueprint.words.repeats import RepeatWords, choose_repeat_words
from holdfast.protocol.address import within
from holdfast.protocol.ledger import LedgerEntry, add_entries, make_entry
from holdfast.protocol.plans import Iteration, UnitResult
from holdfast.workflows.plan.results import CALLS_UNKNOWN, ITEMS_UNKNOWN
from holdfast.workflows.plan.scope import ItemScope, PlanScope, choose_segment


def collect_ledger(scope: PlanScope) -> list[LedgerEntry]:
    """Return the calls of a plan in the order of its steps, each once."""
    language = scope.context.plan.spoken_language
    words = choose_repeat_words(language)
    found = (entry for unit in scope.layout.units for entry in _list_entries(unit, scope.result(unit.id), None, words))
    return add_entries([], (entry.model_copy(update={"language": language}) for entry in found))


def guard_changes(scope: PlanScope, before: Layout) -> None:
    """Have a person asked before a step that a change of the plan has brought in makes a call that was made before.

    Args:
        scope: The whole plan, as it is now.
        before: Its steps and loops before the change.
    """
    done = [entry for entry in collect_ledger(scope) if entry.may_have_acted]
    for unit in scope.layout.units_by_id.values():
        if isinstance(unit, StepUnit) and not _is_same(unit, before):
            place = scope.frame.address
            for around in unit.around:
                place = within(place, "loop", around)
            tools = unit.step.tools
            own = [entry for entry in done if entry.tool in tools or any(tool.startswith(AGENT) for tool in tools)]
            scope.frame.host.ledgers.add(within(place, choose_segment(unit), unit.id), own)


def guard_item(scope: ItemScope) -> None:
    """Have a person asked before an item that is begun anew makes a call that was made for it before."""
    language = scope.context.plan.spoken_language
    item = choose_repeat_words(language).item.format(scope.item.index + 1, scope.loop.id)
    made = ((id_, call) for id_, calls in scope.made_before.items() for call in calls)
    entries = (make_entry(call, id_, item).model_copy(update={"language": language}) for id_, call in made)
    scope.frame.host.ledgers.add_item(scope.frame.address, entries)


def _is_same(unit: StepUnit, before: Layout) -> bool:
    old = before.units_by_id.get(unit.id)
    return isinstance(old, StepUnit) and old.step == unit.step


def _list_entries(unit: Unit, result: UnitResult, item: str | None, words: RepeatWords) -> Iterator[LedgerEntry]:
    if isinstance(unit, StepUnit):
        yield from (make_entry(call, unit.id, item) for call in result.made)
        if result.reason == CALLS_UNKNOWN:
            yield from _list_unknown(unit, item)
    elif isinstance(unit, LoopUnit):
        for iteration in result.iterations or []:
            yield from _list_of_item(unit, iteration, item, words)
        if result.reason == ITEMS_UNKNOWN:
            for inner in with_bodies([unit]):
                yield from _list_unknown(inner, words.some_item.format(unit.id))


def _list_of_item(loop: LoopUnit, iteration: Iteration, outer: str | None, words: RepeatWords) -> Iterator[LedgerEntry]:
    own = words.item.format(iteration.index + 1, loop.id)
    for unit in loop.body:
        if unit.id in iteration.results:
            yield from _list_entries(
                unit, iteration.results[unit.id], own if outer is None else f"{own}, {outer}", words
            )


def _list_unknown(unit: Unit, item: str | None) -> Iterator[LedgerEntry]:
    """Yield an entry for each tool that a step may have called, with no arguments: nobody has told them."""
    if isinstance(unit, StepUnit):
        yield from (LedgerEntry(step=unit.id, item=item, tool=tool, status="unknown") for tool in unit.step.tools)

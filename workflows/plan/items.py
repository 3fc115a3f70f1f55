"""What a loop of a plan goes through: the list itself, or, where a text is none, what a person says that it is."""

from __future__ import annotations

from typing import Any

from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.kinds import PlanStep
from holdfast.blueprint.plan import LoopUnit, asks
from holdfast.protocol.questions import Input
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.scope import NO_LIST, OverError, checked_items, items_of

CANCELLED = "cancelled"
LONGEST_SHOWN = 2_000


async def items_for(unit: LoopUnit, desk: PlanContext, here: Frame) -> list[Any]:
    """Return the items. Raises `OverError`, of the type `cancelled` if a person cancels the question about them."""
    try:
        return items_of(unit, desk.scope)
    except OverError as error:
        if error.type != NO_LIST or not _may_ask(unit, desk):
            raise
        problem = error
    written = text_of(desk.scope.fill(unit.over))
    shown = written if len(written) <= LONGEST_SHOWN else f"{written[:LONGEST_SHOWN]}…"
    asked = Input(
        message=f'{unit.id} goes through a list, and this is none: “{shown}”. Give its items: ["first", "second"]',
        form={"type": "array"},
        info={"loop": unit.id, "text": shown},
    )
    async with desk.one_question:
        await here.host.until_resumed()
        reply = await here.at("hitl", f"{unit.id}-items").ask(asked)
    if reply.status == CANCELLED:
        raise OverError(CANCELLED, f"a person cancelled the question about the items of {unit.id}")
    if reply.status != "answered":
        raise problem
    return checked_items(unit, reply.content)


def _may_ask(unit: LoopUnit, desk: PlanContext) -> bool:
    """Return whether the plan asks people anything, or its agent may."""
    if any(asks(step) for step in desk.plan.steps) or unit.on_item_error == "ask":
        return True
    return "ask" in desk.asking(PlanStep(id=unit.id)).agent.human

"""The seed's example of a plan: two steps for each event."""

from __future__ import annotations

from typing import Any

from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import (
    Plans,
    advance,
    begin,
    finish,
    loop,
    step,
)

EVENTS = [{"id": "evt_1"}, {"id": "evt_2"}]
Json = dict[str, Any]


def events_plan(**more: Any) -> Json:
    """The seed's example: two steps for each event."""
    steps = [
        step("1", "List the events", tools=["plan_list"]),
        step("4", "Update CURRENT_ITEM", tools=["plan_update"], dependencies=["1"]),
        step("5", "Tell of RESULT_FROM_4", tools=["plan_send"], dependencies=["4"]),
    ]
    return {"steps": steps, "loop_blocks": {"loop_events": loop("RESULT_FROM_1", "4", "5", id="loop_events")}, **more}


def events_turns(plans: Plans, events: list[Any]) -> list[Any]:
    turns = [plans.runs("1", "plan_list", events=events), finish("1"), begin("loop_events")]
    for event in events:
        turns += [plans.runs("step_4", "plan_update", event=event), finish("step_4")]
        turns += [plans.runs("5", "plan_send", to=event), finish("5"), advance("loop_events")]
    return turns

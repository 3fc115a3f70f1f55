"""Short forms of plans: ids as numbers, options as texts, and empty values that planners write for none."""

from __future__ import annotations

import json
from typing import Any

from holdfast.blueprint.source import PlacedDict, PlacedList, Position
from holdfast.blueprint.sugar.agents import agent_at
from holdfast.blueprint.sugar.report import ExpansionReport

_IDS = ("dependencies", "steps")
_KEPT = ("id", "goal", "over", "from")
"""Keys whose emptiness is a mistake of the author."""


def plan_core(definition: PlacedDict, path: str, report: ExpansionReport) -> PlacedDict:
    """Return the plan in core form. A `null` or an empty text counts as no key."""
    plan = _without_empty(definition)
    agent_at(plan, "agent", path, report)
    if isinstance(plan.get("steps"), PlacedList):
        plan["steps"] = _each(plan["steps"], lambda step, n: _step(step, f"{path}.steps[{n}]", report))
    if isinstance(plan.get("loop_blocks"), PlacedDict):
        blocks = plan["loop_blocks"] = plan["loop_blocks"].copy()
        for key, block in blocks.items():
            blocks[key] = _with_ids(_without_empty(block)) if isinstance(block, PlacedDict) else block
    return plan


def _step(definition: Any, path: str, report: ExpansionReport) -> Any:
    if not isinstance(definition, PlacedDict):
        return definition
    step = _with_ids(_without_empty(definition))
    agent_at(step, "agent", path, report)
    if isinstance(step.get("options"), PlacedList):
        options = step["options"]
        step["options"] = _each(options, lambda option, n: _option(option, options.places[n]))
    return step


def _option(value: Any, place: Position) -> Any:
    if not isinstance(value, str):
        return value
    option = PlacedDict(place)
    option.put("text", value, place)
    return option


def _with_ids(holder: PlacedDict) -> PlacedDict:
    """Replace numbers by texts where an id is expected."""
    for key in ("id", "start_step"):
        if key in holder:
            holder[key] = _id(holder[key])
    for key in _IDS:
        if isinstance(holder.get(key), PlacedList):
            holder[key] = _each(holder[key], lambda item, _: _id(item))
    return holder


def _id(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _without_empty(mapping: PlacedDict) -> PlacedDict:
    core = mapping.copy()
    for key, value in mapping.items():
        if key not in _KEPT and (value is None or value == ""):
            core.take(key)
    return core


def _each(items: PlacedList, change: Any) -> PlacedList:
    changed = PlacedList(items.place)
    for index, (value, place) in enumerate(zip(items, items.places, strict=True)):
        changed.add(change(value, index), place)
    return changed

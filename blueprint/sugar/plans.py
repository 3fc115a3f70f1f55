"""Short forms of plans: ids that are numbers, options that are texts, and all that planners write to say nothing."""

from __future__ import annotations

import json
from typing import Any

from blueprint.source import Place, PlacedDict, PlacedList
from blueprint.sugar.agents import agent_at
from blueprint.sugar.notes import Notes

_IDS = ("dependencies", "steps")
_KEPT = ("id", "goal", "over", "from")
"""Keys whose emptiness is a mistake of the author."""


def plan_core(written: PlacedDict, path: str, notes: Notes) -> PlacedDict:
    """The plan as the grammar has it. A `null` or an empty text is as good as no key."""
    plan = _without_nothing(written)
    agent_at(plan, "agent", path, notes)
    if isinstance(plan.get("steps"), PlacedList):
        plan["steps"] = _each(plan["steps"], lambda step, n: _step(step, f"{path}.steps[{n}]", notes))
    if isinstance(plan.get("loop_blocks"), PlacedDict):
        blocks = plan["loop_blocks"] = plan["loop_blocks"].copy()
        for key, block in blocks.items():
            blocks[key] = _with_ids(_without_nothing(block)) if isinstance(block, PlacedDict) else block
    return plan


def _step(written: Any, path: str, notes: Notes) -> Any:
    if not isinstance(written, PlacedDict):
        return written
    step = _with_ids(_without_nothing(written))
    agent_at(step, "agent", path, notes)
    if isinstance(step.get("options"), PlacedList):
        options = step["options"]
        step["options"] = _each(options, lambda option, n: _option(option, options.places[n]))
    return step


def _option(written: Any, place: Place) -> Any:
    if not isinstance(written, str):
        return written
    option = PlacedDict(place)
    option.put("text", written, place)
    return option


def _with_ids(holder: PlacedDict) -> PlacedDict:
    """A number where an id is wanted is that id."""
    for key in ("id", "start_step"):
        if key in holder:
            holder[key] = _id(holder[key])
    for key in _IDS:
        if isinstance(holder.get(key), PlacedList):
            holder[key] = _each(holder[key], lambda one, _: _id(one))
    return holder


def _id(written: Any) -> Any:
    return json.dumps(written) if isinstance(written, int) and not isinstance(written, bool) else written


def _without_nothing(written: PlacedDict) -> PlacedDict:
    core = written.copy()
    for key, value in written.items():
        if key not in _KEPT and (value is None or value == ""):
            core.take(key)
    return core


def _each(written: PlacedList, change: Any) -> PlacedList:
    changed = PlacedList(written.place)
    for index, (value, place) in enumerate(zip(written, written.places, strict=True)):
        changed.add(change(value, index), place)
    return changed

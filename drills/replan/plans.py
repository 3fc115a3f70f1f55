"""The plans under drill: the first ones fail, and each begins with all that those before have done."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]
SHAPES = ("line", "loop", "agent", "helper", "driven")
ITEMS = ("a", "b", "c")
FAILURES = 2
"""Plans that fail by themselves, before one that need not."""
MOST_REPLANS = 9


def list_items(shape: str) -> tuple[str, ...]:
    """Return what is paid for: a helper is told the same each time, so that two of its calls would be one."""
    return ITEMS[:1] if shape == "helper" else ITEMS


def make_plan(shape: str, pay: str, arguments: Json, stop: Json | None) -> Json:
    """Return a plan that pays for each item, and then perhaps fails.

    Args:
        shape: What makes the calls: steps with arguments, items of a loop, an agent, one that is a tool, a driver.
        pay: The tool.
        arguments: Its arguments, with `ITEM` for the item.
        stop: The step that fails; None: there is none.
    """
    steps: list[Json] = []
    more: Json = {}
    if shape == "loop":
        steps = [{"id": "each", "instruction": "Pay", "tools": [pay], "arguments": fill(arguments, "CURRENT_ITEM")}]
        more = {"loop_blocks": {"all": {"over": list(ITEMS), "steps": ["each"], "max_parallel": 2}}}
        last = "all"
    else:
        steps = [
            {"id": item, "instruction": "Pay", **_work(shape, pay, fill(arguments, item))} for item in list_items(shape)
        ]
        last = steps[-1]["id"]
    if stop is not None:
        steps.append({"id": "stop", "instruction": "Go on", "dependencies": [last], **stop})
    return {"goal": "Pay for everything", "steps": steps, **more}


def _work(shape: str, pay: str, arguments: Json) -> Json:
    if shape == "helper":
        return {"tools": ["agent:helper"]}
    return {"tools": [pay], **({"arguments": arguments} if shape == "line" else {})}


def fill(arguments: Json, item: str) -> Json:
    """Return the arguments for an item."""
    return {key: value.replace("ITEM", item) for key, value in arguments.items()}


def make_blueprint(shape: str, model: str, tools: list[str]) -> str:
    """Return the blueprint of a planner and of its plan."""
    agents = {
        "planner": {"model": model, "instructions": "Plan it", "output_schema": "plan"},
        "clerk": {"model": model, "tools": [*tools, "agent:helper"], "retry": {"attempts": 3}},
        "helper": {"model": model, "tools": tools[:1], "description": "Pays"},
    }
    driver = "agent" if shape == "driven" else "engine"
    plan = {"from": "{{ steps.think.output }}", "agent": "clerk", "driver": driver, "max_replans": MOST_REPLANS}
    steps = [
        {"name": "think", "uses": "agents.planner", "input": "Pay"},
        {"kind": "plan", "name": "work", "plan": plan},
    ]
    return json.dumps({"name": "replan", "agents": agents, "steps": steps})

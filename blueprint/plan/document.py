"""Files that hold a plan: each means a blueprint of one step. Used by `load` and by `create --from`."""

from __future__ import annotations

import re
from typing import Any

from holdfast.blueprint.source import PlacedDict, PlacedList

NAME = "plan"
INSIDE = f"steps[0].{NAME}"
"""The path of the plan in the blueprint that it becomes."""
DEFAULT_MODEL = "default"
_FENCED = re.compile(r"\s*```[a-zA-Z]*[ \t]*\n(?P<inside>.*)\n[ \t]*```\s*", re.DOTALL)


def is_plan(document: PlacedDict) -> bool:
    """Return whether a document is a plan: it has a goal or loops, or its steps have instructions."""
    steps = document.get("steps")
    instructed = isinstance(steps, list) and any(isinstance(step, dict) and "instruction" in step for step in steps)
    return "goal" in document or "loop_blocks" in document or instructed


def unfenced(text: str) -> str:
    """Return a text without the fences of Markdown around it; every character keeps its line and column."""
    fenced = _FENCED.fullmatch(text)
    if fenced is None:
        return text
    begin, end = fenced.span("inside")
    return re.sub(r"[^\n]", " ", text[:begin]) + text[begin:end]


def plan_inside(document: PlacedDict) -> PlacedDict:
    """Return the plan under the key `plan` of a document that has no steps of its own; else the document."""
    inner = document.get("plan")
    if "steps" in document or not isinstance(inner, PlacedDict):
        return document
    inner = plan_inside(inner)
    return inner if is_plan(inner) else document


def blueprint_of(document: PlacedDict) -> PlacedDict:
    """Return the blueprint that runs a plan. A text for an agent in a file's plan is the name of a model."""
    plan = document.copy()
    _with_model(plan)
    if isinstance(plan.get("steps"), PlacedList):
        steps = plan["steps"]
        plan["steps"] = PlacedList(steps.place)
        for step, place in zip(steps, steps.places, strict=True):
            if isinstance(step, PlacedDict):
                step = step.copy()
                _with_model(step)
            plan["steps"].add(step, place)
    return _object(document, steps=_list(document, _object(document, kind="plan", name=NAME, plan=plan)))


def path_in_plan(path: str) -> str:
    """Return a path in the blueprint as a path in the plan.

    >>> path_in_plan("steps[0].plan.steps[2].id"), path_in_plan("steps[0].plan")
    ('steps[2].id', '')
    """
    return path.removeprefix(INSIDE).removeprefix(".") if path.startswith(INSIDE) else path


def _with_model(holder: PlacedDict) -> None:
    if isinstance(holder.get("agent"), str) and holder["agent"]:
        model, places = holder.take("agent")
        agent = PlacedDict(places[1])
        agent.put("model", model, places)
        holder.put("agent", agent, places)


def _object(around: PlacedDict, **keys: Any) -> PlacedDict:
    built = PlacedDict(around.place)
    for key, value in keys.items():
        built.put(key, value, around.place)
    return built


def _list(around: PlacedDict, value: object) -> PlacedList:
    built = PlacedList(around.place)
    built.add(value, around.place)
    return built

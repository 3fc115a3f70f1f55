"""A file that is a plan: the blueprint of one step that it means."""

from __future__ import annotations

import re
from typing import Any

from holdfast.blueprint.source import PlacedDict, PlacedList

NAME = "plan"
INSIDE = f"steps[0].{NAME}"
"""Where the plan stands in the blueprint that it becomes."""
DEFAULT_MODEL = "default"
_FENCED = re.compile(r"\s*```[a-zA-Z]*[ \t]*\n(?P<inside>.*)\n[ \t]*```\s*", re.DOTALL)


def is_plan(document: PlacedDict) -> bool:
    """Whether a document is a plan: it has a goal or loops, or its steps have instructions. No blueprint has."""
    steps = document.get("steps")
    instructed = isinstance(steps, list) and any(isinstance(step, dict) and "instruction" in step for step in steps)
    return "goal" in document or "loop_blocks" in document or instructed


def unfenced(text: str) -> str:
    """A text that is one block of Markdown, without its fences; what is left stands where it stood."""
    fenced = _FENCED.fullmatch(text)
    if fenced is None:
        return text
    begin, end = fenced.span("inside")
    return re.sub(r"[^\n]", " ", text[:begin]) + text[begin:end]


def plan_inside(document: PlacedDict) -> PlacedDict:
    """The plan that stands under the key `plan` of a document which has no steps of its own; else the document."""
    inner = document.get("plan")
    if "steps" in document or not isinstance(inner, PlacedDict):
        return document
    inner = plan_inside(inner)
    return inner if is_plan(inner) else document


def blueprint_of(document: PlacedDict) -> PlacedDict:
    """The blueprint that runs the plan. Where a plan of a file names an agent by a text, that is a model."""
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
    """A path in the blueprint as one in the plan.

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
    made = PlacedDict(around.place)
    for key, value in keys.items():
        made.put(key, value, around.place)
    return made


def _list(around: PlacedDict, value: Any) -> PlacedList:
    made = PlacedList(around.place)
    made.add(value, around.place)
    return made

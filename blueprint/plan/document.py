"""Files that hold a plan: each means a blueprint of one step. Used by `load` and by `create --from`."""

from __future__ import annotations

import re
from typing import Any

from holdfast.blueprint.plan.recovery import without_envelope
from holdfast.blueprint.source import PlacedDict, PlacedList

NAME = "plan"
ASSIGNEES = "assignees"
STEP = "steps[0]."
INSIDE = f"{STEP}{NAME}"
"""The path of the plan in the blueprint that it becomes."""
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
    inner = without_envelope(document)
    return inner if isinstance(inner, PlacedDict) and is_plan(inner) else document


def blueprint_of(document: PlacedDict) -> PlacedDict:
    """Return the blueprint that runs a plan. A text for an agent in a file's plan is the name of a model.

    Who is asked is said of the step that runs the plan, as of any other step.
    """
    plan = _with_model(document)
    if isinstance(plan.get("steps"), PlacedList):
        plan["steps"] = plan["steps"].each(lambda step, *_: _with_model(step))
    place = document.place
    step = PlacedDict.at(place, kind="plan", name=NAME, plan=plan)
    if ASSIGNEES in plan:
        step.put(ASSIGNEES, *plan.take(ASSIGNEES))
    return PlacedDict.at(place, steps=PlacedList.at(place, step))


def path_in_plan(path: str) -> str:
    """Return a path in the blueprint as a path in the plan.

    >>> path_in_plan("steps[0].plan.steps[2].id"), path_in_plan("steps[0].plan"), path_in_plan("steps[0].assignees[1]")
    ('steps[2].id', '', 'assignees[1]')
    """
    if path.startswith(f"{STEP}{ASSIGNEES}"):
        return path.removeprefix(STEP)
    return path.removeprefix(INSIDE).removeprefix(".") if path.startswith(INSIDE) else path


def _with_model(holder: Any) -> Any:
    if not isinstance(holder, PlacedDict):
        return holder
    holder = holder.copy()
    if isinstance(holder.get("agent"), str) and holder["agent"]:
        model, places = holder.take("agent")
        agent = PlacedDict(places[1])
        agent.put("model", model, places)
        holder.put("agent", agent, places)
    return holder

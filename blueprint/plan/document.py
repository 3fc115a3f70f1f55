"""Files that hold a plan: each means a blueprint of one step. Used by `load` and by `create --from`."""

from __future__ import annotations

import re
from typing import Any

from holdfast.blueprint.plan.recovery import without_envelope
from holdfast.blueprint.plan.text_lists import plan_in_line, read_instructions
from holdfast.blueprint.source import PlacedDict, PlacedList, Position

NAME = "plan"
ASSIGNEES = "assignees"
STEP = "steps[0]."
INSIDE = f"{STEP}{NAME}"
"""The path of the plan in the blueprint that it becomes."""
_FENCED = re.compile(r"\s*```[a-zA-Z]*[ \t]*\n(?P<inside>.*)\n[ \t]*```\s*", re.DOTALL)


def is_plan(document: PlacedDict) -> bool:
    """Return whether a document is a plan: it has a goal or loops, or its steps are texts or have instructions."""
    steps = document.get("steps")
    instructed = isinstance(steps, list) and any(isinstance(step, dict) and "instruction" in step for step in steps)
    return "goal" in document or "loop_blocks" in document or instructed or read_instructions(steps) is not None


def strip_fences(text: str) -> str:
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


def wrap_plan(document: PlacedDict) -> PlacedDict:
    """Return the blueprint that runs a plan. A text for an agent in a file's plan is the name of a model.

    Who is asked is said of the step that runs the plan, as of any other step.
    """
    plan = _with_model(_written_out(document))
    if isinstance(plan.get("steps"), PlacedList):
        plan["steps"] = plan["steps"].each(lambda step, place, _: _with_id(_with_model(step), place))
    place = document.place
    step = PlacedDict.at(place, kind="plan", name=NAME, plan=plan)
    if ASSIGNEES in plan:
        step.put(ASSIGNEES, *plan.take(ASSIGNEES))
    return PlacedDict.at(place, steps=PlacedList.at(place, step))


def _written_out(document: PlacedDict) -> PlacedDict:
    """Return a plan whose steps are texts with the steps that they mean, each at the place of its text."""
    steps = document.get("steps")
    instructions = read_instructions(steps)
    if instructions is None or not isinstance(steps, PlacedList):
        return document
    written = plan_in_line(instructions)
    plan = document.copy()
    _, places = plan.take("steps")
    plan.put("steps", steps.each(lambda _, place, index: PlacedDict.at(place, **written["steps"][index])), places)
    if "goal" not in plan:
        plan.put("goal", written["goal"], plan.place)
    return plan


def path_in_plan(path: str) -> str:
    """Return a path in the blueprint as a path in the plan.

    >>> path_in_plan("steps[0].plan.steps[2].id"), path_in_plan("steps[0].plan"), path_in_plan("steps[0].assignees[1]")
    ('steps[2].id', '', 'assignees[1]')
    """
    if path.startswith(f"{STEP}{ASSIGNEES}"):
        return path.removeprefix(STEP)
    return path.removeprefix(INSIDE).removeprefix(".") if path.startswith(INSIDE) else path


def _with_id(step: Any, place: Position) -> Any:
    """Return a step with an id, empty if it has none: left out, it would hide what is wrong with the others."""
    if isinstance(step, PlacedDict) and "id" not in step:
        step = step.copy()
        step.put("id", "", place)
    return step


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

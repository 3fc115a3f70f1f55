"""Plans as models write them: fenced, in prose, in an envelope, with notes of their own; read without guessing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from holdfast.blueprint.expressions.texts import NoJson, fenced, json_from, read_json
from holdfast.blueprint.json_values import JSON, JSONObject

NOTES = "notes"
_COMMON = (
    *("plan_id", "name", "status", "state", "priority", "description", "version", "created_at", "updated_at", "author"),
    *("owner", "comment", "comments", "note", "rationale", "reason", "reasoning", "thought", "thoughts", "explanation"),
    *("estimated_time", "estimated_duration", "duration", "complexity", "category", "tags", "metadata", "confidence"),
    *("summary", "result", "results", "output", "progress", "assigned_to"),
)
OF_PLAN = (*_COMMON, "id", "title", "objective", "context", "total_steps", "current_step", "assumptions", "risks")
OF_STEP = (*_COMMON, "step", "step_number", "number", "order", "index", "type")
OF_LOOP = (*_COMMON, "title", "type")
"""Keys that planners add and that nothing runs by; what would change the meaning (`depends_on`) is none of them."""


def from_text(text: str) -> JSON:
    """Return the JSON of a text, which may stand in a fence or in prose. Raises `NoJson`.

    >>> from_text('Here: {"goal": "x"} as you asked'), from_text("```json\\n[1]\\n```")
    ({'goal': 'x'}, [1])
    """
    try:
        return read_json(text)
    except NoJson as error:
        problem = error
    if fences := fenced(text):
        return read_json(fences[0])
    for begin in re.finditer(r"[{\[]", text):
        if (value := json_from(text, begin.start())) is not None:
            return value[0]
    raise problem


def without_envelope(value: object) -> JSON:
    """Return the plan that stands under the key `plan`, where an object has no steps of its own.

    >>> without_envelope({"plan": {"goal": "x", "steps": []}}), without_envelope({"goal": "x", "plan": [1]})
    ({'goal': 'x', 'steps': []}, {'goal': 'x', 'steps': [1]})
    """
    if not isinstance(value, dict) or "steps" in value:
        return value
    match value.get("plan"):
        case dict() as inner:
            return without_envelope(inner)
        case list() as steps:
            return {**{key: part for key, part in value.items() if key != "plan"}, "steps": steps}
    return value


def recovered(value: object, goal: str) -> JSON:
    """Return the plan that a model intended: a list is its steps, and its notes are kept under `notes`."""
    plan = without_envelope(value)
    if isinstance(plan, list) and all(isinstance(step, dict) for step in plan):
        plan = {"goal": goal, "steps": plan}
    if not isinstance(plan, dict):
        return plan
    plan = _noted(plan, OF_PLAN)
    if "goal" not in plan and goal:
        plan["goal"] = goal
    if isinstance(plan.get("steps"), list):
        plan["steps"] = [_each(step, _step) for step in plan["steps"]]
    if isinstance(plan.get("loop_blocks"), dict):
        plan["loop_blocks"] = {key: _each(block, _loop) for key, block in plan["loop_blocks"].items()}
    if isinstance(plan.get("language"), str):  # a region says nothing of the words: fr-CA
        plan["language"] = re.split(r"[-_]", plan["language"].strip().lower())[0]
    return plan


def _step(step: JSONObject) -> JSONObject:
    if not step.get("instruction") and isinstance(step.get("description"), str):
        step = {**step, "instruction": step["description"]}
        del step["description"]
    return _noted(step, OF_STEP)


def _loop(block: JSONObject) -> JSONObject:
    return _noted(block, OF_LOOP)


def _each(value: object, change: Callable[[dict[str, Any]], dict[str, Any]]) -> JSON:
    return change(value) if isinstance(value, dict) else value


def _noted(holder: JSONObject, notes: tuple[str, ...]) -> JSONObject:
    """Return the object with its notes under one key."""
    own = {key: value for key, value in holder.items() if key in notes}
    before = holder.get(NOTES)
    kept = before if isinstance(before, dict) else {} if before is None else {NOTES: before}
    rest = {key: value for key, value in holder.items() if key not in (*notes, NOTES)}
    return {**rest, NOTES: {**kept, **own}} if kept or own else rest

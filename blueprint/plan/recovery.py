"""Plans as models write them: fenced, in prose, in an envelope, with notes of their own; read without guessing.

What would change the meaning is no note: a step for a person is a question, and what is marked as done, or says in
words of its own what kind of step it is, goes back to the planner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from holdfast.blueprint.expressions.texts import NoJson, json_from, list_fenced, read_json
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.plan.text_lists import plan_in_line, read_instructions

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
_FOR_WORK = {"task", "tool", "action", "agent"}
_FOR_YES = {"approval", "approve", "confirm", "confirmation", "permission", "consent", "signoff"}
_FOR_PERSON = {*_FOR_YES, "human", "ask", "question", "person", "user", "hitl"}
"""Words in the `type` of a step: of one that is done, of one that waits for a yes, of any question to a person."""
_WHO = ("assigned_to", "owner")
_PEOPLE = {"human", "person", "user"}
_DONE = {"done", "complete", "completed", "finished", "success", "succeeded"}
_RESULTS = ("result", "results", "output")
_MARKED = re.compile(r"\W*(CONFIRM_ACTION|ASK_INFO)\b", re.IGNORECASE)
_STEPS = ("tasks", "subtasks", "actions", "todos")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


class Mistake(NamedTuple):
    """What a planner wrote in a step that no reader may guess at: path, message and hint."""

    path: str
    message: str
    hint: str


def from_text(text: str) -> JSON:
    """Return the JSON of a text, which may stand in a fence or in prose. Raises `NoJson`.

    >>> from_text('Here: {"goal": "x"} as you asked'), from_text("```json\\n[1]\\n```")
    ({'goal': 'x'}, [1])
    """
    try:
        return read_json(text)
    except NoJson as error:
        problem = error
    if fences := list_fenced(text):
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


def recover_plan(value: object, goal: str) -> JSON:
    """Return the plan that a model intended: a list is its steps, and its notes are kept under `notes`."""
    plan = without_envelope(value)
    steps = plan.get("steps") if isinstance(plan, dict) else plan
    if (instructions := read_instructions(steps)) is not None:
        written = plan_in_line(instructions, goal)
        plan = {**written, **plan, "steps": written["steps"]} if isinstance(plan, dict) else written
    if isinstance(plan, list) and all(isinstance(step, dict) for step in plan):
        plan = {"goal": goal, "steps": plan}
    if not isinstance(plan, dict):
        return plan
    plan = _keep_notes(plan, OF_PLAN)
    if "steps" not in plan and (key := next((key for key in _STEPS if isinstance(plan.get(key), list)), "")):
        plan["steps"] = plan[key]  # the key is a problem; what is in it is looked at all the same
    if "goal" not in plan and goal:
        plan["goal"] = goal
    if isinstance(plan.get("steps"), list):
        plan["steps"] = [_each(step, _step) for step in plan["steps"]]
    if isinstance(plan.get("loop_blocks"), dict):
        plan["loop_blocks"] = {key: _each(block, _loop) for key, block in plan["loop_blocks"].items()}
    if isinstance(plan.get("language"), str):  # a region says nothing of the words: fr-CA
        plan["language"] = re.split(r"[-_]", plan["language"].strip().lower())[0]
    return plan


def mistakes_in(plan: JSONObject) -> Iterator[Mistake]:
    """Yield what a recovered plan says in notes that are none: kinds of steps that there are not, and what is done."""
    steps = plan.get("steps")
    steps = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    for index, step in enumerate(steps):
        notes = step.get(NOTES)
        if isinstance(notes, dict):
            yield from _mistakes_in_notes(notes, f"steps[{index}]")
        if _is_approval(step) and not _decides(step, steps[:index] + steps[index + 1 :]):
            message = "nothing waits for this approval, so that it would decide nothing"
            yield Mistake(f"steps[{index}].type", message, "name it in the `dependencies` of the steps that it is for")


def _mistakes_in_notes(notes: JSONObject, path: str) -> Iterator[Mistake]:
    type_ = notes.get("type")
    if isinstance(type_, str) and not (_words(type_) & _FOR_PERSON or _words(type_) <= _FOR_WORK):
        hint = "a step has no `type`: give it `tools`, or `pause_for_response: true` for a question to a person"
        yield Mistake(f"{path}.type", f"{type_[:60]!r} is no kind of step", hint)
    hint = (
        "leave out what is done, and write its result into the instructions that need it;"
        " what a step should give is its `expected_result`"
    )
    for key in ("status", "state"):
        if _words(notes.get(key)) & _DONE:
            yield Mistake(f"{path}.{key}", f"the step is marked as {str(notes[key])[:60]!r}", hint)
    for key in _RESULTS:
        if notes.get(key):
            yield Mistake(f"{path}.{key}", f"{key!r} says that the step has been done", hint)


def _is_approval(step: JSONObject) -> bool:
    notes = step.get(NOTES)
    return isinstance(notes, dict) and bool(_words(notes.get("type")) & _FOR_YES)


def _decides(approval: JSONObject, others: list[JSONObject]) -> bool:
    """Return whether an approval has tools, or a step waits for it; or none is left that it could be for."""
    id_ = str(approval.get("id"))
    waiting = re.compile(rf"RESULT_FROM_{re.escape(id_)}(?![A-Za-z0-9_])")
    return (
        bool(approval.get("tools"))
        or not any(other.get("tools") for other in others)
        or any(id_ in map(str, _read_list(other.get("dependencies"))) for other in others)
        or any(waiting.search(str(other.get("condition") or "")) for other in others)
    )


def _read_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _words(value: object) -> set[str]:
    """Return the words of a name, however it is spelled: `human_approval`, `HumanApproval`, `HUMAN-APPROVAL`."""
    return {word.lower() for word in _WORD.findall(value)} if isinstance(value, str) else set()


def _step(step: JSONObject) -> JSONObject:
    if not step.get("instruction") and isinstance(step.get("description"), str):
        step = {**step, "instruction": step["description"]}
        del step["description"]
    return _keep_notes(_read_question(step), OF_STEP)


def _read_question(step: JSONObject) -> JSONObject:
    """Return a step that is for a person as a question to one; an approval is one that a yes or a no answers."""
    words = _words(step.get("type"))
    is_for_person = words & _FOR_PERSON or any(_words(step.get(key)) & _PEOPLE for key in _WHO)
    if not is_for_person:
        return step
    step = {**step, "pause_for_response": True}
    instruction = step.get("instruction")
    if words & _FOR_YES and isinstance(instruction, str) and not _MARKED.match(instruction):
        step["instruction"] = f"CONFIRM_ACTION: {instruction}"
    return step


def _loop(block: JSONObject) -> JSONObject:
    return _keep_notes(block, OF_LOOP)


def _each(value: object, change: Callable[[dict[str, Any]], dict[str, Any]]) -> JSON:
    return change(value) if isinstance(value, dict) else value


def _keep_notes(holder: JSONObject, notes: tuple[str, ...]) -> JSONObject:
    """Return the object with its notes under one key."""
    own = {key: value for key, value in holder.items() if key in notes}
    before = holder.get(NOTES)
    kept = before if isinstance(before, dict) else {} if before is None else {NOTES: before}
    rest = {key: value for key, value in holder.items() if key not in (*notes, NOTES)}
    return {**rest, NOTES: {**kept, **own}} if kept or own else rest

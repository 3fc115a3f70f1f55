"""The output schema of an agent that writes plans, written `output_schema: plan`."""

from __future__ import annotations

from typing import Any

from holdfast.blueprint.kinds import PlanBody, PlanLoop, PlanStep
from holdfast.blueprint.parts import Part
from holdfast.blueprint.questions.agreement import TABLES

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_FLAG: Schema = {"type": "boolean"}
_OPTION: Schema = {
    "anyOf": [
        _TEXT,
        {"type": "object", "required": ["text"], "properties": {"text": _TEXT, "type": {"enum": [0, 1, 2]}}},
    ]
}
_STEP_FORMS: dict[str, Schema] = {
    "id": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_]*$"},
    "instruction": {"type": "string", "minLength": 1},
    "service": _TEXT,
    "tools": _TEXTS,
    "arguments": {"type": "object"},
    "dependencies": _TEXTS,
    "condition": _TEXT,
    "pause_for_response": _FLAG,
    "options": {"type": "array", "items": _OPTION},
    "title": _TEXT,
    "expected_result": _TEXT,
    "optional": _FLAG,
}
_LOOP_FORMS: dict[str, Schema] = {
    "over": {"anyOf": [_TEXT, {"type": "array", "items": {}}]},
    "steps": {**_TEXTS, "minItems": 1},
    "dependencies": _TEXTS,
    "condition": _TEXT,
}


def _describe_fields(model: type[Part], forms: dict[str, Schema]) -> dict[str, Schema]:
    return {key: {**form, "description": str(model.model_fields[key].description)} for key, form in forms.items()}


_STEP: Schema = {
    "type": "object",
    "required": ["id", "instruction"],
    "properties": _describe_fields(PlanStep, _STEP_FORMS),
}
_LOOP: Schema = {"type": "object", "required": ["over", "steps"], "properties": _describe_fields(PlanLoop, _LOOP_FORMS)}
PLAN_OUTPUT: Schema = {
    "type": "object",
    "required": ["goal", "steps"],
    "properties": _describe_fields(
        PlanBody,
        {
            "goal": {"type": "string", "minLength": 1},
            "steps": {"type": "array", "minItems": 1, "items": _STEP},
            "language": {"enum": list(TABLES)},
            "loop_blocks": {"type": "object", "additionalProperties": _LOOP},
        },
    ),
}
"""Open: a planner may add notes of its own. What a schema cannot say of a plan is checked when the plan is read."""

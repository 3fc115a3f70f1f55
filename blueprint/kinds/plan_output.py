"""The JSON Schema of what a plan gives where it completes: its status, its steps and its loops."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds.plan_body import PlanBody

_ENDED = ("completed", "completed_with_errors")
"""How a plan may end that does not fail its step."""
_ENDS: JSONObject = {"enum": [*_ENDED, "skipped", "failed", "cancelled"]}
_ERROR: JSONObject = {"type": ["object", "null"], "required": ["type", "message"]}
_STEP: JSONObject = {
    "type": "object",
    "required": ["status", "response", "data", "error"],
    "properties": {
        "status": _ENDS,
        "response": {},
        "data": {},
        "error": _ERROR,
        "reason": {"type": "string"},
        "called": {"type": "array", "items": {"type": "string"}},
        "tool_results": {"type": "array", "items": {"type": "object"}},
    },
    "additionalProperties": False,
}
_ITEM: JSONObject = {
    "type": "object",
    "required": ["index", "item", "status", "steps"],
    "properties": {
        "index": {"type": "integer", "minimum": 0},
        "item": {},
        "status": _ENDS,
        "steps": {"type": "object", "additionalProperties": _STEP},
        "loops": {"type": "object"},
    },
    "additionalProperties": False,
}
_LOOP: JSONObject = {
    "type": "object",
    "required": ["status", "iteration_results"],
    "properties": {
        "status": _ENDS,
        "iteration_results": {"type": "array", "items": _ITEM},
        "error": _ERROR,
        "reason": {"type": "string"},
    },
    "additionalProperties": False,
}


def describe_output(plan: PlanBody) -> JSONObject:
    """Return the JSON Schema of the output of a plan; of one that is read from a value no step is known before.

    A person may add steps while the plan runs, so that none is surely not there.
    """
    return {
        "type": "object",
        "required": ["status", "steps", "loops"],
        "properties": {
            "status": {"enum": list(_ENDED)},
            "steps": _list(_STEP, (step.id for step in plan.steps)),
            "loops": _list(_LOOP, () if any(step.loopover for step in plan.steps) else plan.loop_blocks),
            "note": {"type": "string"},
            "ledger": {"type": "array", "items": {"type": "object"}},
        },
        "additionalProperties": False,
    }


def _list(part: JSONObject, ids: Iterable[str]) -> JSONObject:
    return {"type": "object", "properties": dict.fromkeys(ids, part)}

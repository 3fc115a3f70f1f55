"""The control tools as the model that drives a plan sees them: names, descriptions and parameters."""

from __future__ import annotations

from typing import Any

from holdfast.protocol.agents import ToolSpec

STATE_KEYS = ("steps", "results", "active_loops", "progress", "summary", "tools")
_TEXT = {"type": "string", "minLength": 1}
_STEP = {**_TEXT, "description": "A step's id; in a loop that of the current iteration."}
_LOOP = {**_TEXT, "description": "A loop's id."}


def _tool(name: str, description: str, required: list[str], **properties: Any) -> ToolSpec:
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ToolSpec(name=name, description=description, parameters=parameters, reference=f"plan:{name}")


CONTROL_TOOLS: tuple[ToolSpec, ...] = (
    _tool("get_state", "Return the state of the plan.", ["key"], key={"enum": list(STATE_KEYS)}),
    _tool("get_step_result", "Return the result of a step.", ["step_id"], step_id=_STEP),
    _tool(
        "execute_step_tool",
        "Call a tool for a step. Then call finish_step.",
        ["step_id", "tool_name", "parameters"],
        step_id=_STEP,
        tool_name=_TEXT,
        parameters={"type": "object"},
    ),
    _tool(
        "finish_step",
        "Mark a step as done: after each step, in loops for each item.",
        ["step_id", "result_summary"],
        step_id=_STEP,
        result_summary={"type": "string"},
        result={"type": "array", "items": {}, "description": "Of a step that a loop goes through: the list."},
    ),
    _tool("start_loop", "Start a loop, once; returns its first item.", ["loop_id"], loop_id=_LOOP),
    _tool(
        "advance_loop",
        "Go to a loop's next item, once every step of this one is finished; ends the loop after the last.",
        ["loop_id"],
        loop_id=_LOOP,
        expected_iteration={"type": "integer", "description": "The iteration that is done, as a check."},
    ),
    _tool("get_loop_context", "Return the position of a loop; changes nothing.", [], loop_id={"type": "string"}),
    _tool(
        "request_user_info",
        "Ask a person, and wait for the answer: for a step with pause_for_response, or when information is missing.",
        ["question"],
        question=_TEXT,
        options={"type": "array", "items": _TEXT},
        step_id={
            "type": "string",
            "description": "The step that asks; empty to ask something else. Default: the next.",
        },
    ),
    ToolSpec(
        name="update_state",
        description='Set a step\'s state, such as {"step_3_status": "skipped"}, or values of your own as vars.<name>.',
        parameters={"type": "object", "minProperties": 1},
        reference="plan:update_state",
    ),
    _tool(
        "update_plan",
        "Change the rest of the plan: steps that have ended or are running must stay as they are.",
        ["new_plan", "reason"],
        new_plan={"type": "object"},
        reason=_TEXT,
    ),
    _tool(
        "find_tool",
        "Find a tool that can replace a missing one.",
        ["instruction"],
        service={"type": ["string", "null"]},
        instruction=_TEXT,
    ),
)

"""The control tools: what the model that drives a plan sees of each, and the function that does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.agents import ToolSpec
from holdfast.workflows.plan.control_changes import find_tool, update_plan
from holdfast.workflows.plan.control_loops import advance_loop, get_loop_context, start_loop
from holdfast.workflows.plan.control_steps import execute_step_tool, finish_step, request_user_info, update_state
from holdfast.workflows.plan.control_views import get_state, get_step_result

STATE_KEYS = ("steps", "results", "active_loops", "progress", "summary", "tools")
_TEXT = {"type": "string", "minLength": 1}
_STEP = {**_TEXT, "description": "A step's id; in a loop that of the current iteration."}
_LOOP = {**_TEXT, "description": "A loop's id."}


Do = Callable[..., Awaitable[JSONObject]]


@dataclass(frozen=True)
class ControlTool:
    """A control tool: its description, and the function of its name, which takes the call and its arguments."""

    do: Do
    description: str
    parameters: JSONObject

    @property
    def spec(self) -> ToolSpec:
        name = self.do.__name__
        return ToolSpec(name=name, description=self.description, parameters=self.parameters, reference=f"plan:{name}")


def _tool(do: Do, description: str, required: list[str], **properties: Any) -> ControlTool:
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ControlTool(do, description, parameters)


_CONTROL_TOOLS = (
    _tool(get_state, "Return the state of the plan.", ["key"], key={"enum": list(STATE_KEYS)}),
    _tool(get_step_result, "Return the result of a step.", ["step_id"], step_id=_STEP),
    _tool(
        execute_step_tool,
        "Call a tool for a step. Then call finish_step.",
        ["step_id", "tool_name", "parameters"],
        step_id=_STEP,
        tool_name=_TEXT,
        parameters={"type": "object"},
    ),
    _tool(
        finish_step,
        "Mark a step as done: after each step, in loops for each item.",
        ["step_id", "result_summary"],
        step_id=_STEP,
        result_summary={"type": "string"},
        result={"type": "array", "items": {}, "description": "Of a step that a loop goes through: the list."},
    ),
    _tool(start_loop, "Start a loop, once; returns its first item.", ["loop_id"], loop_id=_LOOP),
    _tool(
        advance_loop,
        "Go to a loop's next item, once every step of this one is finished; ends the loop after the last.",
        ["loop_id"],
        loop_id=_LOOP,
        expected_iteration={"type": "integer", "description": "The iteration that is done, as a check."},
    ),
    _tool(get_loop_context, "Return the position of a loop; changes nothing.", [], loop_id={"type": "string"}),
    _tool(
        request_user_info,
        "Ask a person, and wait for the answer: for a step with pause_for_response, or when information is missing.",
        ["question"],
        question=_TEXT,
        options={"type": "array", "items": _TEXT},
        step_id={
            "type": "string",
            "description": "The step that asks; empty to ask something else. Default: the next.",
        },
    ),
    ControlTool(
        update_state,
        'Set a step\'s state, such as {"step_3_status": "skipped"}, or values of your own as vars.<name>.',
        {"type": "object", "minProperties": 1},
    ),
    _tool(
        update_plan,
        "Change the rest of the plan: steps that have ended or are running must stay as they are.",
        ["new_plan", "reason"],
        new_plan={"type": "object"},
        reason=_TEXT,
    ),
    _tool(
        find_tool,
        "Find a tool that can replace a missing one.",
        ["instruction"],
        service={"type": ["string", "null"]},
        instruction=_TEXT,
    ),
)
CONTROL_TOOLS = {tool.spec.name: tool for tool in _CONTROL_TOOLS}
"""By the name that the model calls it by."""

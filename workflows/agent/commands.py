"""The commands of an agentic loop's planner: run_agent, ask_human, finish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocol.agents import ToolCall, ToolSpec

RUN_AGENT, ASK_HUMAN, FINISH = "run_agent", "ask_human", "finish"


def commands_for(registry: Sequence[ToolSpec]) -> list[ToolSpec]:
    """The commands as tools; `run_agent` names what it may run."""
    known = "\n".join(f"- {spec.name}: {spec.description}" for spec in registry)
    run = {
        "agent": {"enum": [spec.name for spec in registry]},
        "input": {"description": "A text for an agent; for a tool an object of its arguments."},
    }
    ask = {"question": {"type": "string", "minLength": 1}, "options": {"type": "array", "items": {"type": "string"}}}
    running = [_command(RUN_AGENT, f"Run one of these, and get its result:\n{known}", run)] if registry else []
    return [
        *running,
        _command(ASK_HUMAN, "Ask a person, and wait for the answer.", ask, ["question"]),
        _command(FINISH, "End with this output.", {"output": {}}),
    ]


def _command(name: str, description: str, properties: dict[str, Any], required: list[str] | None = None) -> ToolSpec:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description=description, parameters=parameters, reference=f"command:{name}")


def meant(call: ToolCall) -> ToolCall:
    """The call of a registered tool that a `run_agent` means."""
    given = call.args["input"]
    return ToolCall(id=call.id, name=call.args["agent"], args=given if isinstance(given, dict) else {"input": given})

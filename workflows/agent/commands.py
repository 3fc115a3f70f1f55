"""The commands of an agentic loop's planner (run_agent, ask_human, finish), offered to its model as tools."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.agents import ToolCall, ToolSpec

RUN_AGENT, ASK_HUMAN, FINISH = "run_agent", "ask_human", "finish"
LONGEST_LOGGED = 2_000


def list_commands(registry: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Return the commands as tools; `run_agent` lists what it may run."""
    choices = "\n".join(f"- {spec.name}: {spec.description}" for spec in registry)
    run = {
        "agent": {"enum": [spec.name for spec in registry]},
        "input": {"description": "A text for an agent; for a tool an object of its arguments."},
    }
    ask = {"question": {"type": "string", "minLength": 1}, "options": {"type": "array", "items": {"type": "string"}}}
    running = [_make_command(RUN_AGENT, f"Run one of these, and get its result:\n{choices}", run)] if registry else []
    return [
        *running,
        _make_command(ASK_HUMAN, "Ask a person, and wait for the answer.", ask, ["question"]),
        _make_command(FINISH, "End with this output.", {"output": {}}),
    ]


def _make_command(name: str, description: str, properties: JSONObject, required: list[str] | None = None) -> ToolSpec:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description=description, parameters=parameters, reference=f"command:{name}")


def make_inner_call(call: ToolCall) -> ToolCall:
    """Return the tool call that a `run_agent` command stands for."""
    value = call.args["input"]
    return ToolCall(id=call.id, name=call.args["agent"], args=value if isinstance(value, dict) else {"input": value})


def shorten_value(value: object) -> JSON:
    """Return a value as the log keeps it: shortened, as the log is part of the state that continue-as-new carries."""
    text = write_text(value)
    return value if len(text) <= LONGEST_LOGGED else f"{text[:LONGEST_LOGGED]}… ({len(text)} characters)"

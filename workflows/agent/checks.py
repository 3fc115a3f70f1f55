"""Checks of a model's tool calls, before anything is done about them."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.jsonschemas import BadSchema, misfit
from holdfast.protocol.agents import ToolCall, ToolSpec


class BadCall(Exception):
    """A call that cannot be made; the message is for the model."""


@dataclass(frozen=True)
class Result:
    """The result of one tool call, as the model receives it."""

    content: JSON
    bad: bool = False
    """True if the call could not be made at all."""


def checked(call: ToolCall, spec: ToolSpec | None, names: list[str]) -> ToolSpec:
    """Return the tool of a call. Raises `BadCall` if there is none, or if the arguments do not fit its schema."""
    if spec is None:
        raise BadCall(f"there is no tool {call.name!r}; there are: {', '.join(names) or 'none'}")
    if call.unreadable is not None:
        raise BadCall(f"the arguments of {call.name} cannot be read: {call.unreadable}")
    try:
        wrong = misfit(spec.parameters, call.args)
    except BadSchema as error:
        raise BadCall(f"{call.name} cannot be called: its arguments have no valid schema ({error})") from None
    if wrong:
        raise BadCall(f"the arguments of {call.name} do not fit: {wrong}")
    return spec


def check_question(call: ToolCall) -> None:
    if not call.args["question"].strip():
        raise BadCall(f"the arguments of {call.name} do not fit: question is empty")

"""What a person says of a failure: try again, perhaps with another input; take this value instead; give up."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from protocol.questions import Input
from protocol.runs import Failure
from workflows.frame import Frame

_VALUE = {"value": {"description": "The value that skip gives; default: null."}}
_FORM: dict[str, Any] = {
    "type": "object",
    "required": ["action"],
    "properties": {
        "action": {"enum": ["retry", "edit", "skip", "abort"], "description": "edit: retry with another input"},
        "input": {"description": "The other input, as JSON."},
        **_VALUE,
    },
    "additionalProperties": False,
    "if": {"properties": {"action": {"const": "edit"}}},
    "then": {"required": ["input"]},
}


class Verdict(NamedTuple):
    """What is to be done, and with what: the other input, or the value."""

    action: Literal["retry", "edit", "skip", "abort"]
    content: Any = None


async def judged(what: Failure, given: Any, frame: Frame, *, takes_value: bool = True) -> Verdict:
    """Ask a person about a failure; one who declines gives up. `takes_value`: whether skipping may give one."""
    properties = {key: field for key, field in _FORM["properties"].items() if takes_value or key not in _VALUE}
    skip = "skip with a value" if takes_value else "skip"
    asked = Input(
        message=f"{what.message}. What now: retry, edit the input and retry, {skip}, or abort?",
        form={**_FORM, "properties": properties},
        info={"error": what.type, "message": what.message, "at": what.address, "input": given},
    )
    reply = await frame.ask(asked)
    if reply.status != "answered":
        return Verdict("abort")
    action = reply.content["action"]
    return Verdict(action, reply.content.get("input") if action == "edit" else reply.content.get("value"))

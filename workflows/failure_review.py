"""Review of a failed step or item by a person: retry, perhaps with another input; take a value instead; or abort."""

from __future__ import annotations

from typing import Literal, NamedTuple

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.questions import Judgement
from holdfast.protocol.children import Failure
from holdfast.protocol.people import People
from holdfast.workflows.frame import Frame
from holdfast.workflows.journal import preview

_VALUE = {"value": {"description": "The value that skip gives, null if there is none."}}
_FORM: JSONObject = {
    "type": "object",
    "required": ["action"],
    "properties": {
        "action": {"enum": ["retry", "edit", "skip", "abort"], "description": "edit: retry with the new input"},
        "input": {"description": "The new input, for edit."},
        **_VALUE,
    },
    "additionalProperties": False,
    "if": {"properties": {"action": {"const": "edit"}}},
    "then": {"required": ["input"]},
}


class FailureDecision(NamedTuple):
    """The decision of a person, with its content: the other input for `edit`, the value for `skip`."""

    action: Literal["retry", "edit", "skip", "abort"]
    content: JSON = None


def _describe_done(cause: Failure) -> JSONObject:
    """Return what was done before the failure, for whoever decides whether it is done again."""
    return {} if cause.output is None else {"done": preview(cause.output)}


async def ask_decision(
    cause: Failure, value: object, frame: Frame, *, takes_value: bool = True, people: People | None = None
) -> FailureDecision:
    """Ask a person about a failure; declining means abort.

    Args:
        cause: The failure.
        value: The input, to be edited.
        frame: Where the question is asked.
        takes_value: Whether skipping may give a value.
        people: Who may decide; None: those of the frame.
    """
    properties = {key: field for key, field in _FORM["properties"].items() if takes_value or key not in _VALUE}
    skip = "skip with a value" if takes_value else "skip"
    asked = Judgement(
        message=f"{cause.message}. What now: retry, edit the input and retry, {skip}, or abort?",
        form={**_FORM, "properties": properties},
        info={
            "error": cause.type,
            "message": cause.message,
            "at": cause.address,
            "input": value,
            **_describe_done(cause),
        },
    )
    reply = await frame.ask(asked, people=people)
    if reply.status != "answered":
        return FailureDecision("abort")
    action = reply.content["action"]
    return FailureDecision(action, reply.content.get("input") if action == "edit" else reply.content.get("value"))

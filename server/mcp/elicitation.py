"""Ask a person, through the assistant's client, for a consent: the flat form that MCP's elicitation allows."""

from __future__ import annotations

import json

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.client.proposals import describe_proposal
from holdfast.client.reading import BadUsage, from_json
from holdfast.protocol.questions import Question

REASON = {"type": "string", "title": "Reason"}
CHOICE, GO_ON = "choice", "go_on"
"""Fields of the form of a decision and of a stop."""


def message_for(question: Question) -> str:
    """Return all that the digest of a question covers, as text: a person must see what they consent to."""
    lines = [question.message]
    for option in question.options:
        fields = option.model_dump(exclude_defaults=True)
        details = [f"{name}: {value}" for name, value in fields.items() if name not in ("id", "label")]
        lines.append(f"- {option.label}" + (f" ({'; '.join(details)})" if details else ""))
    if (plan := describe_proposal(question)) is not None:
        lines.append(plan)
    if question.info is not None:
        lines.append(json.dumps(question.info, indent=2, ensure_ascii=False))
    lines.append(f"(run {question.run}, question {question.id})")
    return "\n".join(lines)


def form_for(question: Question) -> JSONObject:
    """Return the form of a question that needs a person: its fields hold texts, booleans and choices only."""
    asked = question.asked
    if asked.is_breakpoint:
        return _form({GO_ON: {"type": "boolean", "title": "Go on, with the context as it is"}}, GO_ON)
    if question.options:
        options = [{"const": option.id, "title": option.label} for option in question.options]
        if asked.most_choices == 1:
            return _form({CHOICE: {"type": "string", "title": "Choice", "oneOf": options}}, CHOICE)
        several = {"type": "array", "title": "Choices", "minItems": 1, "maxItems": asked.most_choices}
        return _form({CHOICE: {**several, "items": {"anyOf": options}}}, CHOICE)
    if asked.verdicts:
        payload = {"type": "string", "title": "Payload as JSON, where it was edited"}
        fields = {"verdict": {"type": "string", "enum": list(asked.verdicts)}, "payload": payload, "reason": REASON}
        return _form(fields, "verdict")
    scope = {"type": "string", "enum": list(asked.scopes), "default": next(iter(asked.scopes), "")}
    return _form({"granted": {"type": "boolean", "title": "Permit it"}, "scope": scope, "reason": REASON}, "granted")


def _form(fields: JSONObject, required: str) -> JSONObject:
    return {"type": "object", "properties": fields, "required": [required]}


def content_from(question: Question, filled: JSONObject) -> JSON:
    """Return the content of the answer that a filled form stands for. Raises `BadUsage` for a payload that is no JSON.

    The question checks the content: here only the shape of the form is undone.
    """
    if question.asked.is_breakpoint:
        return None
    if question.options:
        return filled.get(CHOICE)
    content = {name: value for name, value in filled.items() if value not in ("", None)}
    if "payload" in content:
        try:
            content["payload"] = from_json(str(content["payload"]))
        except ValueError as error:
            raise BadUsage(f"payload: this is not JSON: {error}") from None
    return content


def agrees_to_go_on(question: Question, filled: JSONObject) -> bool:
    """Return False for a stop at which the person did not say to go on: then nothing is sent."""
    return not question.asked.is_breakpoint or filled.get(GO_ON) is True

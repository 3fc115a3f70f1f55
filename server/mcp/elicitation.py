"""Ask a person, through the assistant's client, for a consent: the flat form that MCP's elicitation allows."""

from __future__ import annotations

import json
from collections.abc import Mapping

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.client.proposals import describe_proposal
from holdfast.client.reading import BadUsage, from_json
from holdfast.protocol.questions import Question

REASON = {"type": "string", "title": "Reason"}
CHOICE, GO_ON, ANSWER = "choice", "go_on", "answer"
"""Fields of the form of a decision, of a stop, and of a value that is no form."""


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
    if asked.scopes:
        scope = {"type": "string", "enum": list(asked.scopes), "default": asked.scopes[0]}
        granted = {"type": "boolean", "title": "Permit it"}
        return _form({"granted": granted, "scope": scope, "reason": REASON}, "granted")
    required = question.requestedSchema.get("required", []) if asked.fields else [ANSWER]
    fields = {name: form if _is_flat(form) else _as_json(name, form) for name, form in _value_fields(question).items()}
    return _form(fields, *required)


def _value_fields(question: Question) -> Mapping[str, JSONObject]:
    """Return the schemas of the fields of a form, or of the one field that holds any other value."""
    return question.asked.fields or {ANSWER: question.asked.value_schema}


def _form(fields: JSONObject, *required: str) -> JSONObject:
    return {"type": "object", "properties": fields, "required": list(required)}


def _is_flat(schema: Mapping[str, JSON]) -> bool:
    """Return whether elicitation may ask for the value: it knows no lists of objects, and no objects in objects."""
    return schema.get("type") in ("string", "number", "integer", "boolean") and "$ref" not in schema


def _as_json(name: str, schema: Mapping[str, JSON]) -> JSONObject:
    return {"type": "string", "title": f"{schema.get('title') or name}, as JSON"}


def content_from(question: Question, filled: JSONObject) -> JSON:
    """Return the content of the answer that a filled form stands for. Raises `BadUsage` for a payload that is no JSON.

    The question checks the content: here only the shape of the form is undone.
    """
    if question.asked.is_breakpoint:
        return None
    if question.options:
        return filled.get(CHOICE)
    asked = question.asked
    has_value = not (asked.scopes or asked.verdicts)
    written = (
        [name for name, form in _value_fields(question).items() if not _is_flat(form)] if has_value else ["payload"]
    )
    content = {name: value for name, value in filled.items() if value not in ("", None)}
    for name in content.keys() & (written if has_value else {"payload"}):
        try:
            content[name] = from_json(str(content[name]))
        except ValueError as error:
            raise BadUsage(f"{name}: this is not JSON: {error}") from None
    return content.get(ANSWER) if has_value and not asked.fields else content


def agrees_to_go_on(question: Question, filled: JSONObject) -> bool:
    """Return False for a stop at which the person did not say to go on: then nothing is sent."""
    return not question.asked.is_breakpoint or filled.get(GO_ON) is True

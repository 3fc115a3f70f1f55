"""An output that has a schema: how a model is asked for it, and whether what it gave fits."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import from_json

from blueprint.jsonschemas import misfit
from protocol.agents import ModelReply, ToolCall

FINAL_RESULT = "final_result"
"""The tool by whose arguments a model gives an output that has a schema."""
_RESULT = "result"
_COMPOSED = ("$ref", "allOf", "anyOf", "oneOf", "not", "if", "const", "enum")
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n\s*```\s*", re.DOTALL)

Schema = dict[str, Any]


def arguments_schema(schema: Schema) -> Schema:
    """The schema of `final_result`'s arguments; providers take plain objects only, so all else is put into one.

    >>> arguments_schema({"type": "integer"})["properties"]
    {'result': {'type': 'integer'}}
    """
    if not _is_wrapped(schema):
        return schema
    shared = {"$defs": _moved(schema["$defs"])} if "$defs" in schema else {}
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema", "$id")}
    return {"type": "object", "properties": {_RESULT: _moved(inner)}, "required": [_RESULT], **shared}


def settled(reply: ModelReply, schema: Schema | None) -> ModelReply:
    """The reply with its output checked; what does not fit is no failure, but a `problem` to tell the model.

    A model that calls `final_result` beside other tools has not seen their results yet: none of it is an output
    then, and all calls are given back, because each must get exactly one result in the conversation.
    """
    if schema is None:
        return reply
    results = [call for call in reply.tool_calls if call.name == FINAL_RESULT]
    if len(results) < len(reply.tool_calls):
        return reply
    output, problem = _given(results[0], schema) if results else fitted(reply.output, schema)
    if problem is None:
        return reply.model_copy(update={"output": output, "tool_calls": [], "problem": None})
    return reply.model_copy(update={"output": output, "problem": reply.problem or problem})


def fitted(output: Any, schema: Schema) -> tuple[Any, str | None]:
    """The output as its schema wants it, and why it does not fit; a text that holds JSON is read.

    >>> fitted('[1, 2]', {"type": "array"}), fitted("soon", {"type": "array"})
    (([1, 2], None), ('soon', 'the text is no JSON, and the value must be a list'))
    """
    why = misfit(schema, output)
    if why is None or not isinstance(output, str):
        return output, why
    fenced = _FENCED.fullmatch(output)
    try:
        value = from_json(fenced[1] if fenced else output, allow_inf_nan=False)
    except ValueError:
        return output, f"the text is no JSON, and {why.partition(', not ')[0]}"
    return value, misfit(schema, value)


def _given(call: ToolCall, schema: Schema) -> tuple[Any, str | None]:
    if call.unreadable is not None:
        return call.args, f"the arguments of {FINAL_RESULT} cannot be read: {call.unreadable}"
    if _is_wrapped(schema) and set(call.args) == {_RESULT}:
        return fitted(call.args[_RESULT], schema)
    return fitted(call.args, schema)


def _is_wrapped(schema: Schema) -> bool:
    return schema.get("type") != "object" or any(key in schema for key in _COMPOSED)


def _moved(part: Any) -> Any:
    """The part with its references following it into the object; `$defs` stay at the top."""
    match part:
        case dict():
            return {key: _reference(value) if key == "$ref" else _moved(value) for key, value in part.items()}
        case list():
            return [_moved(one) for one in part]
    return part


def _reference(target: Any) -> Any:
    if not isinstance(target, str) or target.startswith("#/$defs/"):
        return _moved(target)
    return f"#/properties/{_RESULT}{target.removeprefix('#')}"

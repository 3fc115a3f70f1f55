"""Outputs with a schema: the tool `final_result` by which a model gives one, and its validation."""

from __future__ import annotations

import re

from pydantic_core import from_json

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import misfit
from holdfast.protocol.agents import ModelReply, ToolCall

FINAL_RESULT = "final_result"
"""Name of the tool whose arguments are the output."""
_RESULT = "result"
_COMPOSED = ("$ref", "allOf", "anyOf", "oneOf", "not", "if", "const", "enum")
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL)

Schema = JSONObject


def arguments_schema(schema: Schema) -> Schema:
    """Return the schema of `final_result`'s arguments. Providers accept plain objects only, so others are wrapped.

    >>> arguments_schema({"type": "integer"})["properties"]
    {'result': {'type': 'integer'}}
    """
    if not _is_wrapped(schema):
        return schema
    shared = {"$defs": _move_references(schema["$defs"])} if "$defs" in schema else {}
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema", "$id")}
    return {"type": "object", "properties": {_RESULT: _move_references(inner)}, "required": [_RESULT], **shared}


def validate_reply(reply: ModelReply, schema: Schema | None) -> ModelReply:
    """Return the reply with its output checked. One that does not fit is no failure: its `problem` is for the model.

    A model that calls `final_result` beside other tools has not seen their results yet. Such a reply has no output, and
    keeps all calls: each must get exactly one result in the conversation.
    """
    # Checked here, as pydantic-ai is no help: its StructuredDict and Tool.from_schema send a schema, and let any value
    # pass.
    if schema is None or reply.finish != "finished":
        return reply
    results = [call for call in reply.tool_calls if call.name == FINAL_RESULT]
    if len(results) < len(reply.tool_calls):
        return reply
    output, problem = _read_output(results[0], schema) if results else _output_in(reply.output, schema)
    if problem is None:
        return reply.model_copy(update={"output": output, "tool_calls": [], "problem": None})
    return reply.model_copy(update={"output": output, "problem": reply.problem or problem})


def parse_output(output: object, schema: Schema) -> tuple[JSON, str | None]:
    """Return the output, and why it does not fit its schema or None. A text that does not fit is parsed as JSON.

    The JSON may stand in a code fence, with words around it.

    >>> parse_output('[1, 2]', {"type": "array"}), parse_output("soon", {"type": "array"})
    (([1, 2], None), ('soon', 'the text is not JSON, and the value must be a list'))
    """
    problem = misfit(schema, output)
    if problem is None or not isinstance(output, str):
        return output, problem
    fenced = _FENCED.findall(output)
    try:  # of several fences none is plainly the output
        value = from_json(fenced[0] if len(fenced) == 1 else output, allow_inf_nan=False)
    except ValueError:
        return output, f"the text is not JSON, and {problem.partition(', not ')[0]}"
    return value, misfit(schema, value)


def _output_in(text: JSON, schema: Schema) -> tuple[JSON, str | None]:
    """Return the output in a text; that of a provider's own format is wrapped as the arguments of the tool would be."""
    output, problem = parse_output(text, schema)
    if problem is not None and _is_wrapped(schema) and isinstance(output, dict) and set(output) == {_RESULT}:
        return parse_output(output[_RESULT], schema)
    return output, problem


def _read_output(call: ToolCall, schema: Schema) -> tuple[JSON, str | None]:
    if call.unreadable is not None:
        return call.args, f"the arguments of {FINAL_RESULT} cannot be read: {call.unreadable}"
    if _is_wrapped(schema) and set(call.args) == {_RESULT}:
        return parse_output(call.args[_RESULT], schema)
    return parse_output(call.args, schema)


def _is_wrapped(schema: Schema) -> bool:
    return schema.get("type") != "object" or any(key in schema for key in _COMPOSED)


def _move_references(part: object) -> JSON:
    """Return a part of the schema with references adapted to its place in the wrapper; `$defs` stay at the top."""
    match part:
        case dict():
            return {key: _reference(value) if key == "$ref" else _move_references(value) for key, value in part.items()}
        case list():
            return [_move_references(item) for item in part]
    return part


def _reference(target: object) -> JSON:
    if not isinstance(target, str) or target.startswith("#/$defs/"):
        return _move_references(target)
    return f"#/properties/{_RESULT}{target.removeprefix('#')}"

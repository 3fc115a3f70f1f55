"""Forms of the JSON Schema for editors: kinds allow with them what a key may be beside its core form."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
CONDITION: Schema = {"type": ["string", "boolean", "number", "null"]}
TOOLS: Schema = {"type": "array", "items": {"anyOf": [TEXT, {"$ref": "#/$defs/AgentTool"}]}}
_OPERATIONS: Schema = {"type": "array", "items": {"$ref": "#/$defs/Operation"}}
_ANNOTATIONS = ("description", "examples")


def describe_form(form: Schema, node: Schema) -> Schema:
    """Return the form with the description and examples of `node`."""
    return {**form, **{key: node[key] for key in _ANNOTATIONS if key in node}}


def set_form(definition: Schema, key: str, form: Schema) -> None:
    """Replace the form of a key; its description and examples stay."""
    definition["properties"][key] = {**describe_form({}, definition["properties"].get(key, {})), **form}


def annotate(definition: Schema, key: str, description: str, *examples: object) -> None:
    """Replace the description of a key, and its examples, if any are given."""
    annotations = {"description": description, **({"examples": [*examples]} if examples else {})}
    definition["properties"][key] = {**definition["properties"][key], **annotations}


def object_form(description: str, properties: Schema, required: list[str]) -> Schema:
    header = {"type": "object", "description": description}
    return {**header, "properties": properties, "required": required, "additionalProperties": False}


def short_writes(name: str) -> Schema:
    """Return the form of a list of writes, of one, and of the short form of that name."""
    return {"anyOf": [_OPERATIONS, {"$ref": f"#/$defs/{name}"}, {"$ref": "#/$defs/Operation"}]}

"""What each API takes as the schema of a tool's arguments; a problem is worded as the API words it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema_rs

_MAPS = ("properties", "$defs", "definitions", "patternProperties")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_ROOT_OPENAI = ("oneOf", "anyOf", "allOf", "enum", "not")
_ROOT_ANTHROPIC = ("oneOf", "allOf", "anyOf")
_STRICT_KEYWORDS = {
    *("type", "properties", "required", "additionalProperties", "items", "anyOf", "$ref", "$defs", "definitions"),
    *("enum", "const", "description", "title", "format", "pattern", "minLength", "maxLength"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems"),
}
_TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
MOST_PROPERTIES, MOST_LEVELS, MOST_CHARACTERS = 5_000, 10, 120_000

Schema = dict[str, Any]


def openai_problem(name: str, schema: Any, *, strict: bool) -> str | None:
    """OpenAI: any object; in strict mode the subset of structured outputs."""
    begin = f"Invalid schema for function '{name}':"
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return f"{begin} schema must be a JSON Schema of 'type: \"object\"', got {schema!r}."
    if any(key in schema for key in _ROOT_OPENAI):
        forbidden = "/".join(f"'{key}'" for key in _ROOT_OPENAI)
        return f"{begin} schema must have type 'object' and not have {forbidden} at the top level."
    if not jsonschema_rs.meta.is_valid(schema):
        return f"{begin} {schema!r} is not valid under any of the given schemas."
    problem = _reference_problem(schema) or (_strict_problem(schema) if strict else None)
    return f"{begin} {problem}" if problem else None


def _strict_problem(schema: Schema) -> str | None:
    nodes = list(_nodes(schema, ()))
    properties = [name for _, node in nodes if isinstance(node, dict) for name in node.get("properties", {})]
    if len(properties) > MOST_PROPERTIES or sum(map(len, properties)) > MOST_CHARACTERS:
        return "Expected at most 5000 object properties in the schema, and 120000 characters."
    if max(path.count("properties") for path, _ in nodes) > MOST_LEVELS:
        return "the schema has more than 10 levels of nesting."
    return next((told for path, node in nodes if (told := _node_problem(path, node))), None)


def _node_problem(path: tuple[str, ...], node: Any) -> str | None:
    context = f"In context={path!r},"
    if not isinstance(node, dict):
        return f"{context} {node!r} is not of type 'object'."
    if strange := sorted(node.keys() - _STRICT_KEYWORDS):
        return f"{context} '{strange[0]}' is not permitted."
    if not node.keys() & {"type", "anyOf", "$ref"}:
        return f"{context} schema must have a 'type' key."
    types = node.get("type") if isinstance(node.get("type"), list) else [node.get("type")]
    if "array" in types and not isinstance(node.get("items"), dict):
        return f"{context} array schema missing items."
    if "object" not in types:
        return None
    if node.get("additionalProperties") is not False:
        return f"{context} 'additionalProperties' is required to be supplied and to be false."
    required, properties = node.get("required"), node.get("properties", {})
    if not isinstance(required, list) or (missing := [key for key in properties if key not in required]):
        return f"{context} 'required' is required to be an array including every key in properties. Missing {missing}."
    extra = [key for key in required if key not in properties]
    return f"{context} 'required' has extra keys: Extra required key '{extra[0]}' supplied." if extra else None


def anthropic_problem(place: str, schema: Any) -> str | None:
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return f"{place}.input_schema.type: Field required"
    if any(key in schema for key in _ROOT_ANTHROPIC):
        return f"{place}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
    if not jsonschema_rs.meta.is_valid(schema) or _reference_problem(schema):
        return f"{place}.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"
    return None


def google_problem(place: str, schema: Any) -> str | None:
    """Gemini ignores keywords that it does not know; what it knows must make sense."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return f"{place}: schema should be of type OBJECT"
    if problem := _reference_problem(schema):
        return f"{place}: {problem}"
    for path, node in _nodes(schema, ()):
        where = ".".join((place, *path))
        if not isinstance(node, dict):
            continue
        types = node.get("type", []) if isinstance(node.get("type"), list) else [node.get("type", "string")]
        if not set(types) <= _TYPES:
            return f"{where}.type: unknown type {types}"
        if missing := [key for key in node.get("required", ()) if key not in node.get("properties", {})]:
            return f"{where}.required[0]: property is not defined: {missing[0]}"
        if "const" in node:
            return f'Invalid JSON payload received. Unknown name "const" at {where}'
        if "enum" in node and "type" not in node:
            return f"{where}.enum: only allowed for a type"
    return None


def _reference_problem(schema: Schema) -> str | None:
    for _, node in _nodes(schema, ()):
        reference = node.get("$ref") if isinstance(node, dict) else None
        if reference is None:
            continue
        target: Any = schema
        for part in reference.removeprefix("#").split("/")[1:]:
            target = target.get(part) if isinstance(target, dict) else None
        if not reference.startswith("#") or target is None:
            return f"reference to component '{reference}' which was not found in the schema."
    return None


def _nodes(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, node
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key in _MAPS and isinstance(value, dict):
            for name, part in value.items():
                yield from _nodes(part, (*path, key, name))
        elif key in _LISTS and isinstance(value, list):
            for index, part in enumerate(value):
                yield from _nodes(part, (*path, key, str(index)))
        elif (
            key in ("items", "not", "if", "then", "else", "contains")
            or key == "additionalProperties"
            and isinstance(value, dict)
        ):
            yield from _nodes(value, (*path, key))

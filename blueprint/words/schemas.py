"""JSON Schemas in plain words: "a form with city (text) and days (a whole number, at least 1)"."""

from __future__ import annotations

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.schema_messages import words_for_pattern
from holdfast.blueprint.schema_references import inline_references
from holdfast.blueprint.words.text import constant, enumerate_words, one_line

_TYPES = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "yes or no",
    "null": "nothing",
}
_DEEPEST = 3


def shape(schema: object, level: int = 0) -> str:
    """Return the description of the values that fit a schema. Below `_DEEPEST` levels only types are named.

    >>> shape({"type": "object", "required": ["a"], "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "array"}}})
    "an object with a ('x' or 'y') and b (a list; optional)"
    >>> shape({"required": ["a"], "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}})
    'an object with a (a whole number)'
    """
    if not isinstance(schema, dict) or not schema:
        return "anything"
    if not level:
        schema = inline_references(schema, _DEEPEST)
    text = _kind(schema, level) + _say_bounds(schema)
    described = schema.get("description")
    return f"{text}: {one_line(described, 80)}" if isinstance(described, str) and described and not level else text


def form(schema: JSONObject) -> str:
    """Return the description of a schema as a form to fill in.

    >>> form({"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}})
    'a form with city (text)'
    """
    text = shape(schema)
    return f"a form{text.removeprefix('an object')}" if text.startswith("an object with") else text


def fields(schema: JSONObject, level: int = 0) -> str:
    """Return the description of an object's properties; empty if there are none."""
    if not level:
        schema = inline_references(schema, _DEEPEST)
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return ""
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return enumerate_words([_field(name, property_, name in needed, level) for name, property_ in properties.items()])


def _field(name: str, schema: object, needed: bool, level: int) -> str:
    default = schema.get("default") if isinstance(schema, dict) else None
    without = [*([] if needed else ["optional"]), *([] if default is None else [f"default {constant(default)}"])]
    notes = [shape(schema, level + 1), *([", ".join(without)] if without else [])]
    return f"{one_line(name, 40)} ({'; '.join(note for note in notes if note != 'anything') or 'anything'})"


def _kind(schema: JSONObject, level: int) -> str:
    match schema:
        case {"const": fixed}:
            return constant(fixed)
        case {"enum": [_, *_] as choices}:
            return enumerate_words([constant(choice) for choice in choices], "or")
        case {"anyOf": [_, *_] as choices} | {"oneOf": [_, *_] as choices} if level < _DEEPEST:
            return enumerate_words([shape(choice, level + 1) for choice in choices], "or")
        case {"type": [_, *_] as types}:
            return enumerate_words([_TYPES.get(str(type_), str(type_)) for type_ in types], "or")
        case {"type": "array", "items": dict() as items} if items and level < _DEEPEST:
            return f"a list{_say_length(schema)}, each item {shape(items, level + 1)}"
        case {"type": "array"}:
            return f"a list{_say_length(schema)}"
        case {"properties": dict()} if level < _DEEPEST and (inside := fields(schema, level)):
            return f"an object with {inside}"
        case {"type": str(type_)}:
            return _TYPES.get(type_, type_)
    return "an object" if "properties" in schema else "anything"


def _say_length(schema: JSONObject) -> str:
    """Return how many items a list has, and that none is there twice.

    >>> _say_length({"minItems": 1, "maxItems": 3, "uniqueItems": True})
    ' of 1 to 3 items, all different'
    """
    different = ", all different" if schema.get("uniqueItems") is True else ""
    match schema.get("minItems") or None, schema.get("maxItems"):
        case int(least), int(most) if least != most:
            return f" of {least} to {say_count(most, 'item')}{different}"
        case int(least), int():
            return f" of {say_count(least, 'item')}{different}"
        case int(least), _:
            return f" of at least {say_count(least, 'item')}{different}"
        case _, int(most):
            return f" of at most {say_count(most, 'item')}{different}"
    return different


def _say_bounds(schema: JSONObject) -> str:
    """Return the bounds of a number, and the length, the form and the format of a text."""
    bounds = [
        f"{words} {constant(schema[key])}"
        for key, words in (
            ("minimum", "at least"),
            ("exclusiveMinimum", "more than"),
            ("maximum", "at most"),
            ("exclusiveMaximum", "less than"),
        )
        if isinstance(schema.get(key), int | float)
    ]
    least, most = schema.get("minLength"), schema.get("maxLength")
    if isinstance(least, int) and least:
        bounds.append("not empty" if least == 1 else f"at least {least:,} characters")
    if isinstance(most, int):
        bounds.append(f"at most {say_count(most, 'character')}")
    if isinstance(pattern := schema.get("pattern"), str):
        bounds.append(words_for_pattern(pattern) or f"of the form {one_line(pattern, 60)}")
    kept = schema.get("format")
    return "".join(f", {text}" for text in [*bounds, *([f"as {kept}"] if isinstance(kept, str) else [])])

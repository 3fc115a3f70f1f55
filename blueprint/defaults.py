"""Defaults of a JSON Schema for what a value leaves out; inputs of runs and imports are completed here."""

from __future__ import annotations

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema, list_misfits
from holdfast.blueprint.schema_references import find_reference

MOST_REFERENCES = 20
"""One after the other; a schema may refer to itself."""


def complete_input(schema: JSONObject | None, value: JSON) -> tuple[JSON, str]:
    """Return the input of a run or an import with the defaults of its schema, and what does not fit; "" if all fits.

    >>> complete_input({"properties": {"n": {"default": 2}}, "required": ["to"]}, {})
    ({'n': 2}, 'to is missing')
    """
    if schema is None:
        return value, ""
    filled = with_defaults(schema, value)
    return filled, "; ".join(f"{path or 'the input'} {reason}" for path, reason in list_misfits(schema, filled))


def with_defaults(schema: JSONObject, value: object) -> JSON:
    """Return the value with the defaults of the schema for the keys it leaves out, at any depth.

    Of `anyOf` and `oneOf`, the defaults of a form are used if the value fits that form alone.

    >>> order = {"properties": {"urgent": {"default": True}}}
    >>> with_defaults({"properties": {"m": {"$ref": "#/$defs/Order"}}, "$defs": {"Order": order}}, {"m": {}})
    {'m': {'urgent': True}}
    """
    return _fill(schema, value, schema)


def _fill(schema: object, value: object, root: JSONObject) -> JSON:
    if not isinstance(schema, dict) or not isinstance(value, dict | list):
        return value
    for part in _parts(schema, value, root):
        match value:
            case dict():
                value = _filled_object(part, value, root)
            case list():
                value = _filled_list(part, value, root)
    return value


def _filled_object(schema: JSONObject, value: JSONObject, root: JSONObject) -> JSONObject:
    properties = _object_at(schema, "properties")
    other = schema.get("additionalProperties")
    filled = {key: _fill(properties.get(key, other), inner, root) for key, inner in value.items()}
    return {**filled, **{key: made for key, made in _defaults(properties, root).items() if key not in filled}}


def _defaults(properties: JSONObject, root: JSONObject) -> JSONObject:
    defaults: JSONObject = {}
    for key, schema in properties.items():
        declared = [part["default"] for part in _follow_references(schema, root) if "default" in part]
        if declared:
            defaults[key] = declared[0]
    return defaults


def _filled_list(schema: JSONObject, value: list[JSON], root: JSONObject) -> list[JSON]:
    first = schema.get("prefixItems")
    firsts = first if isinstance(first, list) else []
    rest = schema.get("items")
    return [_fill(firsts[n] if n < len(firsts) else rest, inner, root) for n, inner in enumerate(value)]


def _parts(schema: JSONObject, value: object, root: JSONObject) -> list[JSONObject]:
    """Return the schemas that apply to the value: this one, those it refers to, and the only form that fits."""
    parts: list[JSONObject] = []
    waiting = [schema]
    while waiting and len(parts) < MOST_REFERENCES:
        for part in _follow_references(waiting.pop(0), root):
            parts.append(part)
            waiting += [inner for inner in _list_at(part, "allOf") if isinstance(inner, dict)]
            for forms in ("anyOf", "oneOf"):
                fitting = [inner for inner in _list_at(part, forms) if _fits(inner, value, root)]
                waiting += fitting if len(fitting) == 1 else []
    return parts


def _follow_references(schema: object, root: JSONObject) -> list[JSONObject]:
    """Return the schema, followed by those that it refers to, one after the other."""
    if not isinstance(schema, dict):
        return []
    chain = [schema]
    while len(chain) < MOST_REFERENCES and isinstance(reference := chain[-1].get("$ref"), str):
        target = find_reference(reference, root)
        if not isinstance(target, dict):
            break
        chain.append(target)
    return chain


def _fits(schema: object, value: object, root: JSONObject) -> bool:
    whole = {**_pick_shared(root), **schema} if isinstance(schema, dict) else {}
    try:
        return isinstance(schema, dict) and not list_misfits(whole, value)
    except BadSchema:
        return False


def _pick_shared(root: JSONObject) -> JSONObject:
    return {key: root[key] for key in ("$schema", "$defs", "definitions") if key in root}


def _object_at(schema: JSONObject, key: str) -> JSONObject:
    value = schema.get(key)
    return value if isinstance(value, dict) else {}


def _list_at(schema: JSONObject, key: str) -> list[JSON]:
    value = schema.get(key)
    return value if isinstance(value, list) else []

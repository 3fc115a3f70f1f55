"""References inside a JSON Schema, such as `#/$defs/Order`: what each leads to. Nothing outside is ever read."""

from __future__ import annotations

import json
from urllib.parse import unquote

from holdfast.blueprint.json_values import JSON, JSONObject


def find_reference(reference: str, root: JSON) -> JSON:
    """Return what a reference leads to in the whole schema; None for one that leads nowhere, or out of it.

    >>> find_reference("#/$defs/a~1b", {"$defs": {"a/b": {"type": "string"}}}), find_reference("#/x/1", {"x": [1, 2]})
    ({'type': 'string'}, 2)
    >>> find_reference("other.json#/x", {"x": 1}), find_reference("#name", {"name": 1}), find_reference("#", {"x": 1})
    (None, None, {'x': 1})
    """
    if reference != "#" and not reference.startswith("#/"):
        return None
    found = root
    for part in unquote(reference).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        match found:
            case dict():
                found = found.get(key)
            case list() if key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            case _:
                return None
    return found


def inline_references(schema: JSONObject, levels: int) -> JSONObject:
    """Return a whole schema with what its references lead to in their places, down to so many levels of properties.

    What stands beside a reference wins; a reference that leads nowhere, or round in a circle, allows anything.

    >>> inline_references({"properties": {"a": {"$ref": "#/$defs/t", "title": "A"}}, "$defs": {"t": {"type": "x"}}}, 2)
    {'properties': {'a': {'type': 'x', 'title': 'A'}}, '$defs': {'t': {'type': 'x'}}}
    """
    return _inline(schema, schema, levels, frozenset()) if "$ref" in json.dumps(schema, default=str) else schema


def _inline(schema: JSONObject, root: JSON, levels: int, inside: frozenset[str]) -> JSONObject:
    own: JSONObject = {key: value for key, value in schema.items() if key != "$ref"}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        target = None if levels < 0 or reference in inside else find_reference(reference, root)
        found = _inline(target, root, levels, inside | {reference}) if isinstance(target, dict) else {}
        return {**found, **_inline_parts(own, root, levels, inside)}
    return _inline_parts(own, root, levels, inside)


def _inline_parts(schema: JSONObject, root: JSON, levels: int, inside: frozenset[str]) -> JSONObject:
    kept: JSONObject = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            kept[key] = {name: _inline_any(part, root, levels - 1, inside) for name, part in value.items()}
        elif key in ("anyOf", "oneOf") and isinstance(value, list):
            kept[key] = [_inline_any(part, root, levels, inside) for part in value]
        elif key == "items":
            kept[key] = _inline_any(value, root, levels - 1, inside)
        else:
            kept[key] = value
    return kept


def _inline_any(schema: JSON, root: JSON, levels: int, inside: frozenset[str]) -> JSON:
    return _inline(schema, root, levels, inside) if isinstance(schema, dict) else schema

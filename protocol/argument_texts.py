"""The texts that a caller chose among the arguments of a tool: what the targets of rules are compared with.

A model chooses every text, and the keys of an object that may have any, as `{"notes/today": "…"}`. The names that the
tool's schema gives to properties are its owner's words, and are none of them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.schema_references import find_reference

_DOTS = re.compile(r"(^|[/\\])\.\.?([/\\]|$)")
"""A part of a path that means its folder or the one above."""


def list_texts(args: JSONObject, schema: JSONObject) -> list[str]:
    """Return the texts of the arguments; a path with `.` or `..` is followed by the path that it leads to.

    >>> schema = {"properties": {"files": {"additionalProperties": {"type": "string"}}}}
    >>> list_texts({"files": {"ok/../b": "x"}}, schema)
    ['ok/../b', 'b', 'x']
    """
    return [form for text in _find_texts(args, [schema], schema) for form in _list_forms(text)]


def _list_forms(text: str) -> list[str]:
    return [text, posixpath.normpath(text.replace("\\", "/"))] if _DOTS.search(text) else [text]


def _find_texts(value: object, schemas: Iterable[object], root: JSONObject) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            parts = _list_parts(schemas, root)
            for key, inner in value.items():
                named = [part["properties"][key] for part in parts if key in _properties(part)]
                if not named:
                    yield key
                others = [part.get("additionalProperties") for part in parts]
                yield from _find_texts(inner, named or others, root)
        case list():
            items = [one for part in _list_parts(schemas, root) for one in _list_items(part)]
            for inner in value:
                yield from _find_texts(inner, items, root)


def _list_parts(schemas: Iterable[object], root: JSONObject) -> list[JSONObject]:
    """Return the schemas, with all that they refer to or are made of: whether a value fits one does not matter here."""
    parts: list[JSONObject] = []
    waiting = list(schemas)
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, dict) or any(schema is part for part in parts):
            continue
        parts.append(schema)
        if isinstance(reference := schema.get("$ref"), str):
            waiting.append(find_reference(reference, root))
        for word in ("allOf", "anyOf", "oneOf"):
            if isinstance(forms := schema.get(word), list):
                waiting += forms
    return parts


def _properties(schema: JSONObject) -> JSONObject:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _list_items(schema: JSONObject) -> list[object]:
    first = schema.get("prefixItems")
    return [*(first if isinstance(first, list) else []), schema.get("items")]

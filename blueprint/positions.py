"""Positions: from a path such as `steps[2].loop.body[0].when` to its place in the text."""

import re

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.source import PlacedDict, PlacedList, Position

Parts = tuple[str | int, ...]


def path_text(parts: Parts) -> str:
    """Return a path as text.

    >>> path_text(("steps", 2, "branches", "a.b", 0))
    'steps[2].branches.a.b[0]'
    """
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def find_place(tree: PlacedDict, parts: Parts, *, key: bool = False) -> Position:
    """Return the position of a value (or of its key); for one that is not in the text, that of its nearest holder."""
    value: JSON = tree
    place = tree.place
    for part in parts:
        match value, part:
            case PlacedDict(), str() if part in value.places:
                place = value.places[part][0 if key else 1]
                value = value[part]
            case PlacedList(), int() if part < len(value):
                place, value = value.places[part], value[part]
            case _:
                return place
    return place


def split_path(tree: JSONObject, path: str) -> Parts:
    """Return the keys and indices of a path. The tree decides where a key ends, since a key may hold dots."""
    value: JSON = tree
    parts: Parts = ()
    while path:
        part, path = _first(value, path)
        parts = (*parts, part)
        value = inside(value, part)
    return parts


def _first(value: object, path: str) -> tuple[str | int, str]:
    if index := re.match(r"\[(\d+)\]\.?", path):
        return int(index.group(1)), path[index.end() :]
    keys = value if isinstance(value, dict) else {}
    for key in sorted(keys, key=len, reverse=True):
        rest = path.removeprefix(key)
        if path.startswith(key) and (not rest or rest[0] in ".["):
            return key, rest.removeprefix(".")
    name = re.match(r"[^.\[]*", path)
    assert name is not None
    return name.group() or path, path[name.end() :].removeprefix(".") if name.group() else ""


def inside(value: object, part: str | int) -> JSON:
    """Return the value at a key or an index; None if there is none."""
    match value, part:
        case dict(), str():
            return value.get(part)
        case list(), int() if part < len(value):
            return value[part]
    return None

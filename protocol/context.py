"""Writing to the context: a write copies its path and shares the rest. Values are replaced, never merged by guess."""

from __future__ import annotations

from typing import Any, Literal

Json = dict[str, Any]


class BadWrite(ValueError):
    """The value cannot be written there."""


def keys_of(path: str) -> list[str]:
    """
    >>> keys_of("context.stats.total"), keys_of("counter")
    (['stats', 'total'], ['counter'])
    """
    return path.removeprefix("context.").split(".")


def written(context: Json, path: str, value: Any) -> Json:
    """The context with the value at the path; missing objects on the way are made.

    >>> written({"a": {"b": 1}}, "a.c", [])
    {'a': {'b': 1, 'c': []}}
    """
    return _put(context, keys_of(path), value, path)


def read(context: Json, path: str, default: Any = None) -> Any:
    """
    >>> read({"a": {"b": 1}}, "context.a.b"), read({}, "a.b", "none")
    (1, 'none')
    """
    value: Any = context
    for key in keys_of(path):
        if not isinstance(value, dict) or key not in value:
            return default
        value = value[key]
    return value


def applied(context: Json, verb: Literal["set", "append", "merge"], path: str, value: Any) -> Json:
    """The context after one operation; appending to what is no list, or merging what is no object, is a `BadWrite`."""
    match verb:
        case "set":
            return written(context, path, value)
        case "append":
            items = read(context, path)
            if items is not None and not isinstance(items, list):
                raise BadWrite(f"cannot append to {path}: it holds no list")
            return written(context, path, [*(items or []), value])
        case "merge":
            return merged(context, path, value)


def merged(context: Json, path: str, value: Any) -> Json:
    if not isinstance(value, dict):
        raise BadWrite(f"cannot merge into {path}: the value is no object")
    found = read(context, path)
    if found is not None and not isinstance(found, dict):
        raise BadWrite(f"cannot merge into {path}: it holds no object")
    return written(context, path, {**(found or {}), **value})


def updated(context: Json, output: Json) -> Json:
    """The context with an output written key by key; `scratchpad` alone is merged one level.

    >>> updated({"n": 1, "scratchpad": {"a": 1}}, {"n": 2, "scratchpad": {"b": 2}})
    {'n': 2, 'scratchpad': {'a': 1, 'b': 2}}
    """
    pad, new = context.get("scratchpad"), output.get("scratchpad")
    both = {"scratchpad": {**pad, **new}} if isinstance(pad, dict) and isinstance(new, dict) else {}
    return {**context, **output, **both}


def _put(value: Any, keys: list[str], leaf: Any, path: str) -> Json:
    if not isinstance(value, dict):
        raise BadWrite(f"cannot write {path}: {keys[0]!r} would stand in something that is no object")
    key, *rest = keys
    below = _put({} if value.get(key) is None else value[key], rest, leaf, path) if rest else leaf
    return {**value, key: below}

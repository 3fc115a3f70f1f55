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


Path = tuple[str, ...]
GONE: Any = object()
"""Of a change: the key is no longer there."""


class Conflict(ValueError):
    """Two branches, or items, have changed one path, each in its own way."""

    def __init__(self, one: str, other: str, path: str) -> None:
        super().__init__(f"branches {one!r} and {other!r} both change {path}")
        self.one, self.other, self.path = one, other, path


def changes(before: Any, after: Any, path: Path = ()) -> dict[Path, Any]:
    """What has changed, by path; a list is one value.

    >>> changes({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 5}, "d": 3})
    {('a', 'c'): 5}
    """
    if before is after or before == after:
        return {}
    if not isinstance(before, dict) or not isinstance(after, dict):
        return {path: after}
    found: dict[Path, Any] = {}
    for key in [*before, *(key for key in after if key not in before)]:
        if key not in after:
            found[*path, key] = GONE
        elif key not in before and not (isinstance(after[key], dict) and after[key]):
            found[*path, key] = after[key]
        else:
            found |= changes(before.get(key, {}), after[key], (*path, key))  # a new object is what is new in it
    return found


def with_changes(context: Json, changed: dict[Path, Any]) -> Json:
    """The context with these paths changed."""
    for path, value in changed.items():
        context = _replaced(context, path, value)
    return context


def joined(context: Json, forks: dict[str, dict[Path, Any]], strategy: str) -> Json:
    """The context with the changes of every fork, in their order. Raises `Conflict`.

    >>> joined({"n": 1}, {"a": {("x",): 1}, "b": {("x",): 2}}, "overwrite")
    {'n': 1, 'x': 2}
    >>> joined({"n": 1}, {"a": {("x",): 1}, "b": {("x",): 2}}, "context_update")
    Traceback (most recent call last):
    protocol.context.Conflict: branches 'a' and 'b' both change x
    """
    taken: dict[Path, tuple[str, Any]] = {}
    for name, changed in forks.items():
        for path, value in changed.items():
            before = [other for other in taken if _overlap(other, path) and taken[other][0] != name]
            if before and strategy == "keep_first":
                continue
            for other in before:
                who, theirs = taken[other]
                same = other == path and theirs == value
                if strategy == "error_on_conflict" or (strategy == "context_update" and not same):
                    raise Conflict(who, name, ".".join(path))
            taken[path] = (name, value)
            context = _replaced(context, path, value)
    return context


def _overlap(one: Path, other: Path) -> bool:
    """Whether one path is the other, or stands inside it."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _replaced(value: Any, path: Path, leaf: Any) -> Json:
    inside = value if isinstance(value, dict) else {}
    key, *rest = path
    if rest:
        return {**inside, key: _replaced(inside.get(key), tuple(rest), leaf)}
    if leaf is GONE:
        return {name: kept for name, kept in inside.items() if name != key}
    return {**inside, key: leaf}

"""Pure writes to the context of a run: each returns a new context. Used by workflows, and by a client that edits one.

A write copies the objects on its path and shares the rest: a branch then costs what it changes, and changes are found
by identity. Values are replaced, never merged by guess.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.blueprint.expressions.texts import read_structure
from holdfast.blueprint.json_values import JSON, JSONObject, same
from holdfast.blueprint.reducers import NOT_REDUCED, reduce_change, split_keys
from holdfast.protocol.values import Value


class BadWrite(ValueError):
    """A value that cannot be written at its path."""


def with_value(context: JSONObject, path: str, value: object) -> JSONObject:
    """Return the context with the value at the path, and with missing objects on the way created.

    Raises `BadWrite` where something that is not an object stands in the way, and for a path with an empty key.

    >>> with_value({"a": {"b": 1}}, "a.c", [])
    {'a': {'b': 1, 'c': []}}
    """
    if not all(keys := split_keys(path)):
        raise BadWrite(f"cannot write {path!r}: a key in it is empty; write NAME or NAME.NAME")
    return _put(context, keys, value, path)


def read(context: JSONObject, path: str, default: object = None) -> JSON:
    """Return the value at the path, or the default.

    >>> read({"a": {"b": 1}}, "context.a.b"), read({}, "a.b", "none")
    (1, 'none')
    """
    value: JSON = context
    for key in split_keys(path):
        if not isinstance(value, dict) or key not in value:
            return default
        value = value[key]
    return value


def apply_operation(
    context: JSONObject, verb: Literal["set", "append", "merge"], path: str, value: object
) -> JSONObject:
    """Return the context after one operation.

    Raises `BadWrite` on appending to something other than a list, and on merging something other than objects.
    """
    match verb:
        case "set":
            return with_value(context, path, value)
        case "append":
            items = read(context, path)
            if items is not None and not isinstance(items, list):
                raise BadWrite(f"cannot append to {path}: it does not hold a list")
            return with_value(context, path, [*(items or []), value])
        case "merge":
            return merge_object(context, path, value)


def merge_object(context: JSONObject, path: str, value: object) -> JSONObject:
    """Return the context with an object, or a text that is one in JSON, merged one level deep into the path."""
    value = read_structure(value)
    if not isinstance(value, dict):
        raise BadWrite(f"cannot merge into {path}: the value is neither an object nor a text that is a JSON object")
    current = read(context, path)
    if current is not None and not isinstance(current, dict):
        raise BadWrite(f"cannot merge into {path}: it does not hold an object")
    return with_value(context, path, {**(current or {}), **value})


def update_keys(context: JSONObject, output: object) -> JSONObject:
    """Return the context with an output written key by key; `scratchpad` alone is merged one level.

    The output is an object or a text that is a JSON object; anything else is a `BadWrite`.

    >>> update_keys({"n": 1, "scratchpad": {"a": 1}}, '{"n": 2, "scratchpad": {"b": 2}}')
    {'n': 2, 'scratchpad': {'a': 1, 'b': 2}}
    """
    output = read_structure(output)
    if not isinstance(output, dict):
        raise BadWrite("it is neither an object nor a text that is a JSON object")
    pad, new = context.get("scratchpad"), output.get("scratchpad")
    both = {"scratchpad": {**pad, **new}} if isinstance(pad, dict) and isinstance(new, dict) else {}
    return {**context, **output, **both}


def _put(value: object, keys: Sequence[str], leaf: object, path: str) -> JSONObject:
    if not isinstance(value, dict):
        raise BadWrite(f"cannot write {path}: {keys[0]!r} would be inside something that is not an object")
    key, *rest = keys
    below = _put({} if value.get(key) is None else value[key], rest, leaf, path) if rest else leaf
    return {**value, key: below}


Path = tuple[str, ...]
GONE: Any = object()
"""Value of a change that removes its key."""


class Change(Value):
    """A change of the context as it crosses a process: an item of a map made it, or a cached step."""

    path: list[str]
    value: JSON = None
    gone: bool = False
    """True if the key was removed."""


def listed_changes(changed: Mapping[Path, JSON]) -> list[Change]:
    """Return changes by path as a list, which JSON can hold."""
    return [
        Change(path=list(path), gone=True) if value is GONE else Change(path=list(path), value=value)
        for path, value in changed.items()
    ]


def changes_by_path(listed: Sequence[Change]) -> dict[Path, JSON]:
    """Return a list of changes by path, as `with_changes` takes them.

    >>> changes_by_path(listed_changes({("a", "b"): 1, ("c",): GONE})) == {("a", "b"): 1, ("c",): GONE}
    True
    """
    return {tuple(change.path): GONE if change.gone else change.value for change in listed}


class Conflict(ValueError):
    """Two branches, or items of a map, that changed one path to different values."""

    def __init__(self, first: str, second: str, path: str) -> None:
        super().__init__(f"branches {first!r} and {second!r} both change {path}")
        self.one, self.other, self.path = first, second, path


def changes(before: object, after: object, path: Path = ()) -> dict[Path, JSON]:
    """Return the changed values by path, `GONE` for a removed key; a list counts as one value.

    >>> changes({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 5}, "d": 3})
    {('a', 'c'): 5}
    >>> changes({"n": 1}, {"n": True})
    {('n',): True}
    """
    # Identity first: forks share what none of them has touched, and to compare it would walk it all.
    if before is after or (before == after and same(before, after)):
        return {}
    if not isinstance(before, dict) or not isinstance(after, dict):
        return {path: after}
    result: dict[Path, JSON] = {}
    for key in [*before, *(key for key in after if key not in before)]:
        if key not in after:
            result[*path, key] = GONE
        elif key not in before and not (isinstance(after[key], dict) and after[key]):
            result[*path, key] = after[key]
        else:
            # A new object counts as its keys, so that two branches that create it do not conflict over the whole.
            result |= changes(before.get(key, {}), after[key], (*path, key))
    return result


def with_changes(context: JSONObject, changed: Mapping[Path, JSON]) -> JSONObject:
    """Return the context with the changes applied."""
    for path, value in changed.items():
        context = _replace_leaf(context, path, value)
    return context


@dataclass(frozen=True)
class _Taken:
    """A change that the joined context already contains."""

    by: str
    """Name of the fork."""
    path: Path
    value: JSON
    reduce_change: bool
    """True if a reducer wrote it."""


def join_forks(
    context: JSONObject,
    forks: Mapping[str, Mapping[Path, JSON]],
    strategy: str,
    reducers: Mapping[Path, str] | None = None,
    began: Mapping[str, JSONObject] | None = None,
    seen: Mapping[str, Collection[str]] | None = None,
) -> JSONObject:
    """Return the context with the changes of every fork, applied in their order. Raises `Conflict`.

    Args:
        context: The context that the changes are applied to.
        forks: By name of the fork, its changes as `changes` returns them.
        strategy: What happens if two forks change one path: `overwrite`, `keep_first`, `error_on_conflict` or
            `context_update` (equal values are no conflict). Reducers take precedence over it.
        reducers: By path, the reducer that combines values there.
        began: By name of the fork, the context that it began with, if that is not `context`.
        seen: By name of the fork, others before it whose changes that context had: it may change them again.

    >>> join_forks({"n": 1}, {"a": {("x",): 1}, "b": {("x",): 2}}, "overwrite")
    {'n': 1, 'x': 2}
    >>> join_forks({"n": 1}, {"a": {("x",): 1}, "b": {("x",): 2}}, "context_update")
    Traceback (most recent call last):
    holdfast.protocol.context.Conflict: branches 'a' and 'b' both change x
    >>> join_forks({"x": [1]}, {"a": {("x",): [1, 2]}, "b": {("x",): [1, 3]}}, "context_update", {("x",): "append"})
    {'x': [1, 2, 3]}
    """
    start = context
    taken: list[_Taken] = []
    for name, changed in forks.items():
        own = {name, *(seen or {}).get(name, ())}
        base = start if began is None else began[name]
        for path, value in changed.items():
            before = [other for other in taken if other.by not in own and _overlap(other.path, path)]
            result = NOT_REDUCED
            if reducers and all(other.reduce_change for other in before):
                first = all(other.path != path for other in before)
                result = _reduce(reducers, path, context, base, value, first=first)
            if result is NOT_REDUCED:
                if before and strategy == "keep_first":
                    continue
                _check_conflict(strategy, name, path, value, before)
            taken.append(_Taken(name, path, value, result is not NOT_REDUCED))
            context = _replace_leaf(context, path, value if result is NOT_REDUCED else result)
    return context


def _check_conflict(strategy: str, name: str, path: Path, value: object, before: Iterable[_Taken]) -> None:
    for theirs in before:
        is_equal = theirs.path == path and same(theirs.value, value)
        if strategy == "error_on_conflict" or (strategy == "context_update" and not is_equal):
            raise Conflict(theirs.by, name, ".".join(path))


def _reduce(
    reducers: Mapping[Path, str], path: Path, context: JSONObject, began: JSONObject, value: object, *, first: bool
) -> JSON:
    """Return the value that a reducer combines, or `NOT_REDUCED` where none applies or the values do not fit it."""
    current = _at(context, path)
    if (reducer := reducers.get(path)) not in (None, "merge"):
        return reduce_change(reducer or "", current, _at(began, path), value, first=first)
    if not any(reducers.get(path[:size]) == "merge" for size in range(1, len(path) + 1)):
        return NOT_REDUCED
    if path in reducers and not isinstance(value, dict):
        return NOT_REDUCED  # the object is replaced by something else, or removed
    return current if value == {} and isinstance(current, dict) else value


def _at(context: JSONObject, path: Path) -> JSON:
    value: JSON = context
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _overlap(first: Path, second: Path) -> bool:
    """Return whether the paths are equal, or one is inside the other."""
    shorter = min(len(first), len(second))
    return first[:shorter] == second[:shorter]


def _replace_leaf(value: object, path: Path, leaf: object) -> JSONObject:
    inside = value if isinstance(value, dict) else {}
    key, *rest = path
    if rest:
        return {**inside, key: _replace_leaf(inside.get(key), tuple(rest), leaf)}
    if leaf is GONE:
        return {name: kept for name, kept in inside.items() if name != key}
    return {**inside, key: leaf}

"""Reducers: `reduce` in a context schema, which joins a property that several branches or items changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.blueprint.json_values import JSON, JSONObject

REDUCERS = {"append": "array", "merge": "object", "sum": "number", "max": "number", "min": "number"}
"""Each reducer, with the JSON type of the values that it joins."""

Path = tuple[str, ...]
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
LARGEST = 2**63
"""The largest number of the language."""
_SEVERAL = ("anyOf", "allOf", "oneOf", "prefixItems")


def split_keys(path: str) -> Path:
    """Return the keys of a dotted path of the context; a leading `context.` is optional.

    >>> split_keys("context.stats.total"), split_keys("counter")
    (('stats', 'total'), ('counter',))
    """
    return tuple(path.removeprefix("context.").split("."))


def is_below(path: Path, places: Iterable[Path]) -> bool:
    """Return whether a path is one of several places, or below one of them."""
    return any(path[: len(place)] == place for place in places)


def find_reducers(schema: Mapping[str, JSON] | None) -> dict[Path, str]:
    """Return the reducers that a context schema declares, by the path of the property.

    >>> find_reducers({"properties": {"notes": {"reduce": "append"}, "a": {"properties": {"n": {"reduce": "sum"}}}}})
    {('notes',): 'append', ('a', 'n'): 'sum'}
    """
    return {
        path: prop["reduce"] for path, prop in iterate_properties(schema or {}) if isinstance(prop.get("reduce"), str)
    }


def iterate_properties(schema: Mapping[str, JSON], path: Path = ()) -> Iterator[tuple[Path, JSONObject]]:
    """Yield the properties of an object schema, those inside them too, with their paths."""
    properties = schema.get("properties")
    for name, prop in properties.items() if isinstance(properties, dict) else ():
        if isinstance(prop, dict):
            yield (*path, name), prop
            yield from iterate_properties(prop, (*path, name))


def iterate_misplaced(schema: JSON, *, allowed: bool = False, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of `reduce` keys that stand at no property of the context."""
    if not isinstance(schema, dict):
        return
    if "reduce" in schema and not allowed:
        yield (*path, "reduce")
    for key in _BY_NAME:
        for name, inner in schema[key].items() if isinstance(schema.get(key), dict) else ():
            yield from iterate_misplaced(
                inner, allowed=key == "properties" and (allowed or not path), path=(*path, key, name)
            )
    for key in _SINGLE:
        yield from iterate_misplaced(schema.get(key), path=(*path, key))
    for key in _SEVERAL:
        for index, inner in enumerate(schema[key]) if isinstance(schema.get(key), list) else ():
            yield from iterate_misplaced(inner, path=(*path, key, str(index)))


NOT_REDUCED: Any = object()
"""The result of a reducer for values that it cannot join."""


def reduce_change(reducer: str, now: JSON, began: JSON, after: JSON, *, first: bool) -> JSON:
    """Join a branch's change of a value with those of the branches before it.

    `now` is the value so far, `began` what the branch began with, `after` what it left; `first` says whether no branch
    before it has changed the value.

    >>> reduce_change("append", ["a", "b"], ["a"], ["a", "c"], first=False), reduce_change("sum", 3, 1, 6, first=False)
    (['a', 'b', 'c'], 8)
    """
    match reducer:
        case "append":
            return _append([] if now is None else now, [] if began is None else began, after)
        case "sum":
            return _sum(0 if now is None else now, 0 if began is None else began, after)
        case _ if first:
            return after if _numbers(after) else NOT_REDUCED
        case _:
            return (max if reducer == "max" else min)(now, after) if _numbers(now, after) else NOT_REDUCED


def _append(now: JSON, began: JSON, after: JSON) -> JSON:
    if not all(isinstance(value, list) for value in (now, began, after)) or after[: len(began)] != began:
        return NOT_REDUCED
    return [*now, *after[len(began) :]]


def _sum(now: JSON, began: JSON, after: JSON) -> JSON:
    if not _numbers(now, began, after):
        return NOT_REDUCED
    total = after if now == began else now + (after - began)  # the detour would round what one branch wrote alone
    return total if abs(total) <= LARGEST else NOT_REDUCED


def _numbers(*values: JSON) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)

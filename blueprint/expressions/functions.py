"""Functions and methods an expression may call; nothing else is callable."""

from collections.abc import Callable
from typing import Any

from holdfast.blueprint.expressions.bounds import MAX_ITEMS, Bounds
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.values import is_integer, kind, number
from holdfast.blueprint.json_values import JSON, JSONObject

MAX_RANGE = 1000
_MAX_STRIPPED = 100


def length(bounds: Bounds, value: JSON, /) -> int:
    if not isinstance(value, (str, list, dict)):
        raise ExpressionError(f"{kind(value)} has no length")
    return len(value)


def magnitude(bounds: Bounds, value: JSON, /) -> JSON:
    return number(abs(number(value)))


def numbers(bounds: Bounds, start: JSON, stop: JSON = None, step: JSON = 1, /) -> list[int]:
    if stop is None:
        start, stop = 0, start
    if not (is_integer(start) and is_integer(stop) and is_integer(step)):
        raise ExpressionError("range needs whole numbers")
    # A slice of a range builds nothing; the length of a range over 2^63 could not even be asked for.
    counted = range(start, stop, step)[: MAX_RANGE + 1]
    if len(counted) > MAX_RANGE:
        raise ExpressionError(f"range gives more than {MAX_RANGE:,} numbers")
    bounds.pay(len(counted))
    return list(counted)


def smallest(bounds: Bounds, first: JSON, /, *others: JSON) -> JSON:
    return min(_candidates(bounds, "min", first, others))


def largest(bounds: Bounds, first: JSON, /, *others: JSON) -> JSON:
    return max(_candidates(bounds, "max", first, others))


def _candidates(bounds: Bounds, name: str, first: JSON, others: tuple[JSON, ...]) -> list[JSON]:
    values = [first, *others] if others else bounds.elements(first)
    if not values:
        raise ExpressionError(f"{name} of nothing")
    return orderable(bounds, name, values)


def orderable(bounds: Bounds, name: str, values: list[JSON]) -> list[JSON]:
    """Return the values, which must be all numbers or all text; `name` is the caller's, for the message."""
    bounds.pay(len(values))
    if all(isinstance(value, str) for value in values):
        bounds.pay(sum(map(len, values)) >> 6)
    elif not all(isinstance(value, (int, float)) for value in values):
        kinds = ", ".join(dict.fromkeys(kind(value) for value in values))
        raise ExpressionError(f"{name} needs all numbers or all text, not {kinds}")
    return values


def get(bounds: Bounds, of: JSONObject, key: JSON, default: JSON = None, /) -> JSON:
    if not isinstance(key, str):
        raise ExpressionError(f"a key of an object is text, not {kind(key)}")
    return of.get(key, default)


def items(bounds: Bounds, of: JSONObject, /) -> list[JSON]:
    bounds.pay(len(of))
    return [[key, value] for key, value in of.items()]


def keys(bounds: Bounds, of: JSONObject, /) -> list[JSON]:
    bounds.room_for_items(len(of))
    return list(of)


def values(bounds: Bounds, of: JSONObject, /) -> list[JSON]:
    bounds.room_for_items(len(of))
    return list(of.values())


def lower(bounds: Bounds, of: str, /) -> str:
    return bounds.built_text(bounds.text(of).lower())


def upper(bounds: Bounds, of: str, /) -> str:
    return bounds.built_text(bounds.text(of).upper())


def strip(bounds: Bounds, of: str, chars: JSON = None, /) -> str:
    if chars is not None and len(bounds.text(chars)) > _MAX_STRIPPED:
        raise ExpressionError(f"strips at most {_MAX_STRIPPED} different characters")
    return bounds.built_text(bounds.text(of).strip(chars))


def split(bounds: Bounds, of: str, sep: JSON = None, maxsplit: JSON = -1, /) -> list[str]:
    if sep is not None and not bounds.text(sep):
        raise ExpressionError("split needs a separator that is not empty")
    if not is_integer(maxsplit):
        raise ExpressionError(f"split needs a whole number of splits, not {kind(maxsplit)}")
    most = MAX_ITEMS if maxsplit < 0 else min(maxsplit, MAX_ITEMS)
    parts = bounds.text(of).split(sep, most)
    bounds.room_for_items(len(parts))
    return parts


def startswith(bounds: Bounds, of: str, prefix: JSON, /) -> bool:
    return of.startswith(_one_or_several(bounds, prefix))


def endswith(bounds: Bounds, of: str, suffix: JSON, /) -> bool:
    return of.endswith(_one_or_several(bounds, suffix))


def _one_or_several(bounds: Bounds, parts: JSON) -> tuple[str, ...]:
    return tuple(bounds.text(part) for part in (bounds.elements(parts) if isinstance(parts, list) else [parts]))


def replace(bounds: Bounds, of: str, old: JSON, new: JSON, count: JSON = -1, /) -> str:
    for text in (of, old, new):
        bounds.text(text)
    if not is_integer(count):
        raise ExpressionError(f"replace needs a whole number of times, not {kind(count)}")
    times = of.count(old) if count < 0 else min(count, of.count(old))
    bounds.room_for_text(len(of) + times * (len(new) - len(old)))
    return of.replace(old, new, times)


def join(bounds: Bounds, of: str, parts: JSON, /) -> str:
    if not all(isinstance(part, str) for part in bounds.elements(parts)):
        raise ExpressionError(".join() needs a list of text", "`| join(', ')` joins any values")
    return join_texts(bounds, of, bounds.elements(parts))


def join_texts(bounds: Bounds, separator: str, parts: list[str]) -> str:
    bounds.pay(len(parts))
    bounds.room_for_text(sum(map(len, parts)) + len(separator) * max(len(parts) - 1, 0))
    return separator.join(parts)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": length,
    "min": smallest,
    "max": largest,
    "abs": magnitude,
    "range": numbers,
}

METHODS: dict[str, tuple[type, Callable[..., Any]]] = {
    "get": (dict, get),
    "items": (dict, items),
    "keys": (dict, keys),
    "values": (dict, values),
    "lower": (str, lower),
    "upper": (str, upper),
    "strip": (str, strip),
    "split": (str, split),
    "startswith": (str, startswith),
    "endswith": (str, endswith),
    "replace": (str, replace),
    "join": (str, join),
}

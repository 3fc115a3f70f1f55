"""The types of JSON values, and their equality, for every room.

To the type checker a JSON value is anything: it is checked where it enters (`protocol/size_limits.py`, schemas), not
where it is passed on. Use `object` for a parameter that takes any value and looks into none.
"""

from typing import Any, TypeAlias

from pydantic_core import to_jsonable_python

JSON: TypeAlias = Any
"""Null, a boolean, a number, text, a list or an object."""
JSONObject: TypeAlias = dict[str, Any]


def to_json(value: object) -> JSON:
    """Return the JSON value of what a program gives: models, dataclasses, times and so on as pydantic writes them.

    Fields that have their defaults are in it: left to the conversion of an argument, they would be missing.

    >>> from pydantic import BaseModel
    >>> Pay = type("Pay", (BaseModel,), {"__annotations__": {"to": str, "currency": str}, "currency": "USD"})
    >>> to_json([Pay(to="bob")])
    [{'to': 'bob', 'currency': 'USD'}]

    Raises `ValueError` for what has none.
    """
    return to_jsonable_python(value, by_alias=True)


def same(first: object, second: object) -> bool:
    """Return whether two JSON values are equal; 1 equals 1.0, but true is no number.

    >>> same({"a": [1, None]}, {"a": [1.0, None]}), same(True, 1), same([1], [1, 2])
    (True, False, False)
    """
    if first is second:
        return True
    match first, second:
        case dict(), dict():
            return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
        case list(), list():
            return len(first) == len(second) and all(map(same, first, second))
    # Python has True == 1, and JSON does not.
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)

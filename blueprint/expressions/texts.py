"""JSON in texts that people and models wrote: read as far as it is JSON, whatever else it is."""

from __future__ import annotations

import json
from typing import Any


class NoJson(ValueError):
    """The text is no JSON."""


def read_json(text: str) -> Any:
    """The value that a text says. Raises `NoJson`, also for what no JSON has: NaN, infinity, endless nesting.

    >>> read_json('{"a": [1]}')
    {'a': [1]}
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise NoJson("it is nested too deep") from None
    except ValueError as error:
        raise NoJson(str(error)) from None
    return value


def read_structure(value: Any) -> Any:
    """A text that is a JSON list or object as that; everything else as it is.

    >>> read_structure('["a"]'), read_structure("5")
    (['a'], '5')
    """
    if not isinstance(value, str) or value.strip()[:1] not in ("[", "{"):
        return value
    try:
        return read_json(value)
    except NoJson:
        return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large")
    return number

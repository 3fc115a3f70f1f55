"""Texts of people and models: JSON that they hold, and how they are compared."""

from __future__ import annotations

import json
import re
import unicodedata

from holdfast.blueprint.json_values import JSON

_FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\n(?P<inside>.*?)\n\s*```", re.DOTALL)
_DECODER = json.JSONDecoder()


class NoJson(ValueError):
    """The text is no JSON."""


def read_json(text: str) -> JSON:
    """Return the value in a text. Raises `NoJson`, also for what no JSON has: NaN, infinity, endless nesting.

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


def read_structure(value: object) -> JSON:
    """Return a text that is a JSON list or object as that; everything else as it is.

    >>> read_structure('["a"]'), read_structure("5")
    (['a'], '5')
    """
    if not isinstance(value, str) or not may_be_structure(value):
        return value
    try:
        return read_json(value)
    except NoJson:
        return value


def list_fenced(text: str) -> list[str]:
    r"""Return what stands between fences of Markdown in a text.

    >>> list_fenced("Here:\n```json\n[1]\n```\nand:\n```\nend\n```")
    ['[1]', 'end']
    """
    return [match["inside"] for match in _FENCE.finditer(text)]


def json_from(text: str, begin: int) -> tuple[JSON, int] | None:
    """Return the JSON value that begins there in a text, and its end; None if none does."""
    try:
        _, end = _DECODER.raw_decode(text, begin)
        return read_json(text[begin:end]), end
    except (ValueError, RecursionError):
        return None


def may_be_structure(text: str) -> bool:
    """Return whether a text begins as a JSON list or object does."""
    return text.lstrip()[:1] in ("[", "{")


def fold(text: str) -> str:
    """Return a text as it is compared: composed, without case, without outer space.

    >>> fold(" Cafe\\u0301 ") == fold("CAF\\u00c9")
    True
    """
    # Composed twice, as folding takes some characters apart: U+01F0 becomes j and a caron.
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).strip()


def _refuse(name: str) -> JSON:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large")
    return number

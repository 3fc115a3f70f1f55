"""JSON values in expressions: reading keys, undefined values, display."""

import json
import math
from collections.abc import Callable, Iterable
from typing import NoReturn

from holdfast.blueprint.expressions.error import ExpressionError, did_you_mean, shorten
from holdfast.blueprint.json_values import JSON

MAX_NUMBER = 2**63
_SHOWN = 40
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


class Undefined:
    """A missing key: false, equal only to another one, and may be looked into further."""

    __slots__ = ("keys", "missing", "path")

    def __init__(self, path: str, missing: str = "", keys: Iterable[str] = ()) -> None:
        self.path = path
        self.missing = missing
        self.keys = keys

    def __bool__(self) -> bool:
        return False

    def under(self, step: str) -> "Undefined":
        """Return the undefined value at `step` below this one."""
        return Undefined(self.path + step, self.missing or self.path)

    def refuse(self, line: int | None = None) -> NoReturn:
        broken = f"there is no {self.missing}" if self.missing else None
        hint = broken or did_you_mean(self.path.rpartition(".")[2], self.keys)
        raise ExpressionError(f"{self.path} is undefined", hint, line=line)


def require_defined(value: JSON) -> JSON:
    """Return the value. Raises `ExpressionError` if it is undefined."""
    if isinstance(value, Undefined):
        value.refuse()
    return value


def kind(value: JSON) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case Undefined():
            return "undefined"
    return type(value).__name__


def is_number(value: JSON) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_integer(value: JSON) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


Path = Callable[[], str]
"""Names what is read, in errors; asked for only then."""


def attribute(of: JSON, name: str, path: Path) -> JSON:
    """Return `of.name`: a key, never an attribute of a Python object."""
    match of:
        case dict():
            return of[name] if name in of else Undefined(path(), keys=of)
        case Undefined():
            return of.under(f".{name}")
        case None:
            return Undefined(path())
    raise ExpressionError(f"{path()}: {kind(of)} has no key {name!r}")


def item(of: JSON, key: JSON, path: Path) -> JSON:
    """Return `of[key]`: a key of an object, an index of a list or text."""
    match of:
        case Undefined():
            return of.under(f"[{shown_key(key)}]")
        case None:
            return Undefined(path())
        case dict() if isinstance(key, str):
            return of[key] if key in of else Undefined(path(), keys=of)
        case list() | str() if is_integer(key):
            return of[key] if -len(of) <= key < len(of) else Undefined(path())
        case list() | str():
            raise ExpressionError(f"{path()}: {kind(of)} is indexed by a whole number, not by {kind(key)}")
        case dict():
            raise ExpressionError(f"{path()}: a key of an object is text, not {kind(key)}")
    raise ExpressionError(f"{path()}: {kind(of)} cannot be indexed")


def shown_key(key: JSON) -> str:
    """Return a key for messages, shortened.

    >>> shown_key("name"), shown_key(0), shown_key([1, 2])
    ("'name'", '0', 'a list')
    """
    if isinstance(key, (list, dict)):
        return kind(key)
    return shorten(repr(key[:_SHOWN] if isinstance(key, str) else key), _SHOWN)


def by_path(of: JSON, path: str) -> JSON:
    """Return what `map(attribute='a.0.b')` reads: keys and indices, separated by dots."""

    def describe() -> str:
        return f"attribute {path}"

    for part in path.split("."):
        if isinstance(of, (list, str)) and part.isascii() and part.isdigit() and len(part) < 10:
            of = item(of, int(part), describe)
        else:
            of = attribute(of, part, describe)
    return of


def number(value: JSON) -> JSON:
    """Return the number, which must be finite, and at most 2^63 in magnitude if it is whole."""
    if isinstance(value, int):
        if not -MAX_NUMBER <= value <= MAX_NUMBER:
            raise ExpressionError("a number is over 2^63")
    elif not isinstance(value, float):
        raise ExpressionError(f"needs a number, not {kind(value)}")
    elif not math.isfinite(value):
        raise ExpressionError("a number is infinite or not a number")
    return value


def write_text(value: JSON) -> str:
    """Return the display form of a value: text as itself, else compact JSON.

    >>> write_text("Don't"), write_text({"a": [1, None, True]})
    ("Don't", '{"a":[1,null,true]}')
    """
    return value if isinstance(value, str) else to_json(value)


def to_json(value: JSON) -> str:
    try:
        return _COMPACT.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ExpressionError(f"cannot be shown as JSON: {error}") from None

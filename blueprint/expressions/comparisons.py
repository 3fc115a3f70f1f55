"""Comparisons of values as people write them: whatever the case, and however a number or a JSON value is written.

They are tests and a filter of every expression; the conditions of plans are compiled to them. An answer to a plan's
question is compared by its outcome as well as by its words: "No, not confirmed" does not contain `confirmed`.
"""

import math

from holdfast.blueprint.expressions.bounds import Bounds
from holdfast.blueprint.expressions.error import ExpressionError, shorten
from holdfast.blueprint.expressions.texts import NoJson, fold, may_be_structure, read_json, read_structure
from holdfast.blueprint.expressions.values import to_json
from holdfast.blueprint.json_values import JSON, JSONObject, same

_OUTCOMES = {"confirmed": "confirmed", "cancelled": "cancelled", "canceled": "cancelled"}
"""Words that ask of an answer how it came out, and nothing of what was said."""
_YES = ("true", "yes", "oui", "vrai")
_NO = ("false", "no", "non", "faux")


def contains(bounds: Bounds, value: JSON, wanted: JSON, /) -> bool:
    """Return whether a text holds another one, or a list or an object a value that does; keys are not searched.

    >>> contains(Bounds(), {"status": "Confirmed"}, "CONFIRMED"), contains(Bounds(), {"confirmed": 1}, "confirmed")
    (True, False)
    """
    return _contains(bounds, _structure(bounds, value), _Comparand(bounds, wanted))


def alike(bounds: Bounds, value: JSON, wanted: JSON, /) -> bool:
    """Return whether a value is the same as a text says.

    >>> [alike(Bounds(), *pair) for pair in ((5, "5.0"), (True, "oui"), ({"a": [1]}, '{"a": [1]}'), (None, "null"))]
    [True, True, True, True]
    """
    return _equals(bounds, _structure(bounds, value), _Comparand(bounds, wanted))


def empty(bounds: Bounds, value: JSON, /) -> bool:
    """Return whether a value is null, a text of spaces, or a list or an object without anything in it."""
    value = _structure(bounds, value)
    return value is None or (isinstance(value, str) and not value.strip()) or value in ([], {})


def size(bounds: Bounds, value: JSON, /) -> float:
    """Return a number, or the length of a list or of the only list in an object.

    >>> size(Bounds(), "2.5"), size(Bounds(), [1, 2]), size(Bounds(), {"count": 9, "events": [1]})
    (2.5, 2, 1)
    """
    value = _structure(bounds, value)
    match value:
        case bool() | None:
            pass
        case int() | float():
            return value
        case str() if (number := number_in(value)) is not None:
            return number
        case list():
            return len(value)
        case dict() if (inner := only_list(value)) is not None:
            return len(inner)
    raise ExpressionError(f"{shorten(to_json(value), 60)} is neither a number nor a list")


class _Comparand:
    """The text that values are compared with; its forms are made once, however many values there are."""

    def __init__(self, bounds: Bounds, text: JSON) -> None:
        self.fold = fold(bounds.text(text))
        self.outcome = _OUTCOMES.get(self.fold)
        """The outcome that it asks of an answer, if it asks for one."""
        self.number = number_in(text)
        try:
            self.json = read_json(text)
        except NoJson:
            self.json = _NO_JSON


_NO_JSON = object()


def _structure(bounds: Bounds, value: JSON) -> JSON:
    if not isinstance(value, str):
        return value
    if may_be_structure(bounds.text(value)):
        bounds.pay(len(value) >> 4)  # as `fromjson`: what is read is a list of up to half as many elements
    return read_structure(value)


def _contains(bounds: Bounds, value: JSON, wanted: _Comparand) -> bool:
    bounds.pay(1)
    match value:
        case str():
            return wanted.fold in fold(bounds.text(value))
        case dict() if is_answer(value):
            return _came_out(value, wanted) or (not wanted.outcome and _contains(bounds, value["response"], wanted))
        case {"response": _, "data": dict(answer)} if is_answer(answer):  # a question in the results of a loop
            return _contains(bounds, answer, wanted)
        case dict():
            bounds.pay(len(value) >> 4)
            return any(_contains(bounds, part, wanted) for part in value.values())
        case list():
            return any(_contains(bounds, part, wanted) for part in value) or _same_json(bounds, value, wanted)
        case None:
            return False
    return _equals(bounds, value, wanted)


def _equals(bounds: Bounds, value: JSON, wanted: _Comparand) -> bool:
    match value:
        case str():
            return fold(bounds.text(value)) == wanted.fold
        case bool():
            return wanted.fold in (_YES if value else _NO)
        case int() | float():
            return wanted.number == value
        case None:
            return wanted.fold in ("null", "none")
        case dict() if is_answer(value):
            return _came_out(value, wanted) or (not wanted.outcome and _equals(bounds, value["response"], wanted))
    return _same_json(bounds, value, wanted)


def _same_json(bounds: Bounds, value: JSON, wanted: _Comparand) -> bool:
    bounds.pay(bounds.weigh(value) >> 6)
    return bool(wanted.json == value) and same(wanted.json, value)  # Python's equality is quick, and takes true for 1


def _came_out(answer: JSONObject, wanted: _Comparand) -> bool:
    return bool(answer["outcome"] == (wanted.outcome or wanted.fold))


def is_answer(value: JSON) -> bool:
    """Return whether a value is the answer to a plan's question: the words, and how it came out."""
    return isinstance(value, dict) and value.keys() == {"response", "outcome", "option_index", "option_type"}


def asks_outcome(wanted: str) -> bool:
    """Return whether a word asks of an answer how it came out."""
    return fold(wanted) in _OUTCOMES


def only_list(value: JSONObject) -> list[JSON] | None:
    """Return the list of an object that holds exactly one."""
    lists = [part for part in value.values() if isinstance(part, list)]
    return lists[0] if len(lists) == 1 else None


def number_in(text: str) -> float | None:
    """Return the finite number that a text is, if it is one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None

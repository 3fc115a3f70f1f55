"""Conditions of a plan: `RESULT_FROM_<id> operator value`, told by the engine, never by a model."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from holdfast.blueprint.expressions.texts import NoJson, read_json, read_structure
from holdfast.blueprint.plan.references import BadText, Reference, leading_reference, references_in

OPERATORS = ("not_contains", "contains", "not_equals", "equals", "is not empty", "is empty", ">=", "<=", ">", "<")
_SPELLED = {
    "not_contains": r"not[_ ]contains\b",
    "contains": r"contains\b",
    "not_equals": r"not[_ ]equals\b",
    "equals": r"equals\b",
    "is not empty": r"is[_ ]not[_ ]empty\b",
    "is empty": r"is[_ ]empty\b",
    ">=": ">=",
    "<=": "<=",
    ">": ">",
    "<": "<",
}
_FOREIGN = {"==": "equals", "=": "equals", "!=": "not_equals", "in": "contains", "is": "equals"}
_NOTHING = re.compile(r"is\s+(?P<not>not\s+)?(none|null)", re.IGNORECASE)
_NOT = re.compile(r"NOT\s*\((?P<inner>.*)\)", re.IGNORECASE | re.DOTALL)
_JOINED = re.compile(
    r"\s(AND|OR|&&|\|\|)\s+"
    r"((NOT\s*\()?\s*(RESULT_FROM|CURRENT_ITEM|LOOP_INDEX)|(not[_ ])?(contains|equals)\s|[<>]=?\s)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_OUTCOMES = {"confirmed": "confirmed", "cancelled": "cancelled", "canceled": "cancelled"}
"""Words that, of an answer, speak of how it came out, and of nothing else that was said."""
_YES = ("true", "yes", "oui", "vrai")
_NO = ("false", "no", "non", "faux")
ORDERED = (">=", "<=", ">", "<")
_HINT = f"write RESULT_FROM_<id> and one of: {', '.join(OPERATORS)}"


class WrongType(ValueError):
    """A value that cannot be compared so."""


@dataclass(frozen=True)
class Condition:
    """One comparison, perhaps negated."""

    left: Reference
    operator: str
    value: str = ""
    negated: bool = False

    @property
    def asks_for_nothing(self) -> bool:
        """Whether it may hold of a result that is not there."""
        return self.operator in ("is empty", "is not empty")

    def holds(self, value: Any) -> bool:
        """Whether it holds of what stands at the left, where JSON in a text is what it says. Raises `WrongType`."""
        return _compared(self.operator, read_structure(value), self.value) is not self.negated


def parse_condition(text: str) -> Condition:
    """The condition that a text says. Raises `BadText`.

    >>> parse_condition("NOT(RESULT_FROM_1 Contains 'yes')")
    Condition(left=Reference(kind='result', name='1'), operator='contains', value='yes', negated=True)
    """
    text = text.strip()
    if (outer := _NOT.fullmatch(text)) is not None:
        inner = parse_condition(outer["inner"])
        return Condition(inner.left, inner.operator, inner.value, not inner.negated)
    references_in(text)  # tells of a misspelt one, and of one that looks into a value
    begin = leading_reference(text)
    if begin is None:
        raise BadText(f"{text[:60]!r} is no condition", _HINT)
    left, rest = begin
    if re.match(r"-\w", rest):
        raise BadText(f"{text.split()[0][:60]!r} is no reference", "an id has no hyphen: write it as the step does")
    if (more := _JOINED.search(_QUOTED.sub("", rest))) is not None:
        told = f"{more[1]} joins two conditions, and a condition is one comparison"
        raise BadText(told, "make two steps of it, the second depending on the first")
    operator, value = _operator(rest.strip())
    return Condition(left, operator, value)


def _operator(rest: str) -> tuple[str, str]:
    for operator in OPERATORS:
        if found := re.match(_SPELLED[operator], rest, re.IGNORECASE):
            return operator, _value(operator, rest[found.end() :])
    word = rest.split(maxsplit=1)[0] if rest else ""
    nothing = _NOTHING.fullmatch(rest)
    meant = _FOREIGN.get(word.casefold()) if nothing is None else f"is {'not ' if nothing['not'] else ''}empty"
    raise BadText(
        f"unknown operator {word!r}" if word else "the operator is missing", f"write {meant}" if meant else _HINT
    )


def _value(operator: str, written: str) -> str:
    value = written.strip()
    if operator in ("is empty", "is not empty"):
        if value:
            raise BadText(f"nothing can stand after {operator!r}, and here is {value[:40]!r}", "leave it out")
        return ""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    if not value.strip():
        raise BadText(f"the value after {operator!r} is missing", "is it `is empty` that is meant?")
    if references_in(value):
        raise BadText(f"{value!r} stands after {operator!r}", "a reference stands at the left only; let a step compare")
    if operator in ORDERED and _number(value) is None:
        raise BadText(f"{value[:40]!r} after {operator!r} is no number", "only numbers are compared so")
    return value


def _compared(operator: str, value: Any, wanted: str) -> bool:
    match operator:
        case "contains":
            return contains(value, wanted)
        case "not_contains":
            return not contains(value, wanted)
        case "equals":
            return equals(value, wanted)
        case "not_equals":
            return not equals(value, wanted)
        case "is empty":
            return is_empty(value)
        case "is not empty":
            return not is_empty(value)
    number, limit = _size(value), float(wanted)
    match operator:
        case ">":
            return number > limit
        case ">=":
            return number >= limit
        case "<":
            return number < limit
    return number <= limit


def contains(value: Any, wanted: str) -> bool:
    """Whether a text has it in it, or a list or object a value that has.

    >>> contains({"status": "Confirmed"}, "CONFIRMED"), contains({"confirmed": 1}, "confirmed"), contains([5], "5.0")
    (True, False, True)
    """
    match value:
        case str():
            return folded(wanted) in folded(value)
        case dict() if is_answer(value):
            return _answers(value, wanted) or (not speaks_of_outcome(wanted) and contains(value["response"], wanted))
        case {"response": _, "data": dict(answer)} if is_answer(answer):  # a question's line in the results of a loop
            return contains(answer, wanted)
        case dict():
            return any(contains(inner, wanted) for inner in value.values())
        case list():
            return any(contains(inner, wanted) for inner in value) or _same_json(value, wanted)
        case None:
            return False
    return equals(value, wanted)


def equals(value: Any, wanted: str) -> bool:
    """Whether it is the same, whatever the case and however a number is written; an answer also by its outcome.

    >>> equals(5, "5.0"), equals(True, "oui"), equals({"a": [1]}, '{"a": [1]}'), equals(None, "null")
    (True, True, True, True)
    """
    match value:
        case str():
            return folded(value) == folded(wanted)
        case bool():
            return folded(wanted) in (_YES if value else _NO)
        case int() | float():
            return _number(wanted) == value
        case None:
            return folded(wanted) in ("null", "none")
        case dict() if is_answer(value):
            return _answers(value, wanted) or (not speaks_of_outcome(wanted) and equals(value["response"], wanted))
    return _same_json(value, wanted)


def is_answer(value: Any) -> bool:
    """Whether it is what a question gave: the words, and how it came out."""
    return isinstance(value, dict) and value.keys() == {"response", "outcome", "option_index", "option_type"}


def speaks_of_outcome(wanted: str) -> bool:
    """Whether a word asks, of an answer, how it came out."""
    return folded(wanted) in _OUTCOMES


def _answers(answer: dict[str, Any], wanted: str) -> bool:
    return bool(answer["outcome"] == _OUTCOMES.get(folded(wanted), folded(wanted)))


def is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or value in ([], {})


def folded(text: str) -> str:
    """A text as it is compared: composed, without case, without outer space.

    >>> folded(" Cafe\\u0301 ") == folded("CAF\\u00c9")
    True
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).strip()


def only_list(value: dict[str, Any]) -> list[Any] | None:
    """The list of an object that holds exactly one."""
    lists = [inner for inner in value.values() if isinstance(inner, list)]
    return lists[0] if len(lists) == 1 else None


def _same_json(value: Any, wanted: str) -> bool:
    try:
        return bool(read_json(wanted) == value)
    except NoJson:
        return False


def _size(value: Any) -> float:
    match value:
        case bool() | None:
            pass
        case int() | float():
            return value
        case str() if (number := _number(value)) is not None:
            return number
        case list():
            return len(value)
        case dict() if (inner := only_list(value)) is not None:
            return len(inner)
    raise WrongType(f"{_brief(value)} is neither a number nor a list")


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"

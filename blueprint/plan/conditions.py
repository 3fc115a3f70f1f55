"""Conditions of a plan, such as `RESULT_FROM_1 contains 'yes'`, compiled to ordinary expressions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from holdfast.blueprint.expressions.comparisons import asks_outcome, number_in
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.evaluation import check_expression
from holdfast.blueprint.expressions.parse import MAX_SOURCE
from holdfast.blueprint.plan.references import BadText, Reference, leading_reference, references_in

_COMPILED = {
    "not_contains": "is not containing({})",
    "contains": "is containing({})",
    "not_equals": "is not alike({})",
    "equals": "is alike({})",
    "is not empty": "is not empty",
    "is empty": "is empty",
    ">=": "| size >= {}",
    "<=": "| size <= {}",
    ">": "| size > {}",
    "<": "| size < {}",
}
"""What follows the compared value, by operator; of two that begin alike, the longer one first."""
_OF_NOTHING = ("is empty", "is not empty")
_OF_NUMBERS = (">=", "<=", ">", "<")
_SPELLINGS = {
    operator: re.compile(re.sub("[_ ]", "[_ ]", operator) + (r"\b" if operator[0].isalpha() else ""), re.IGNORECASE)
    for operator in _COMPILED
}
_FOREIGN = {"==": "equals", "=": "equals", "!=": "not_equals", "in": "contains", "is": "equals"}
_NULL = re.compile(r"is\s+(?P<not>not\s+)?(none|null)", re.IGNORECASE)
_NOT = re.compile(r"NOT\s*\((?P<inner>.*)\)", re.IGNORECASE | re.DOTALL)
_JOINED = re.compile(
    r"\s(AND|OR|&&|\|\|)\s+"
    r"((NOT\s*\()?\s*(RESULT_FROM|CURRENT_ITEM|LOOP_INDEX)|(not[_ ])?(contains|equals)\s|[<>]=?\s)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_HINT = f"write RESULT_FROM_<id> and one of: {', '.join(_COMPILED)}"


@dataclass(frozen=True)
class Condition:
    """A compiled condition."""

    text: str
    """The condition as it is written."""
    left: Reference
    """The reference to the value that is compared."""
    comparison: str
    """What follows the compared value in its expression."""
    negated: bool = False
    operand: str = ""
    """The text that it is compared with."""
    allows_missing: bool = False
    """True if it may hold of a result that is not there."""

    @property
    def asks_outcome(self) -> bool:
        """True if it asks of an answer how it came out."""
        return asks_outcome(self.operand)

    def write(self, value: str) -> str:
        """Return its expression.

        Args:
            value: The expression of the compared value.
        """
        text = f"{value} {self.comparison}"
        return f"not ({text})" if self.negated else text


def parse_condition(text: str) -> Condition:
    """Return the condition that a text says, compiled. Raises `BadText`.

    >>> parse_condition("NOT(RESULT_FROM_1 Contains 'yes')").write("input")
    'not (input is containing("yes"))'
    """
    if len(text) > MAX_SOURCE:
        raise BadText(f"{text[:60]!r} is longer than {MAX_SOURCE // 1024} KiB", "compare with a shorter text")
    rest, negated = text.strip(), False
    while (outer := _NOT.fullmatch(rest)) is not None:
        rest, negated = outer["inner"].strip(), not negated
    references_in(rest)  # refuses a misspelt reference, and one that looks into a value
    begin = leading_reference(rest)
    if begin is None:
        raise BadText(f"{rest[:60]!r} is not a condition", _HINT)
    left, comparison = begin
    if re.match(r"-\w", comparison):
        raise BadText(f"{rest.split()[0][:60]!r} is not a reference", "an id has no hyphen: write it as the step does")
    if (more := _JOINED.search(_QUOTED.sub("", comparison))) is not None:
        message = f"{more[1]} joins two conditions, and a condition is one comparison"
        raise BadText(message, "make two steps of it, the second depending on the first")
    operator, operand = _parsed_comparison(comparison.strip())
    compiled = _COMPILED[operator].format(_literal(operator, operand))
    condition = Condition(text.strip(), left, compiled, negated, operand, operator in _OF_NOTHING)
    try:
        check_expression(condition.write("input"))
    except ExpressionError as error:
        raise BadText(f"{rest[:60]!r} {error.message}", error.hint) from None
    return condition


def _parsed_comparison(text: str) -> tuple[str, str]:
    """Return operator and operand."""
    for operator, spelling in _SPELLINGS.items():
        if match := spelling.match(text):
            return operator, _operand(operator, text[match.end() :].strip())
    word = text.split(maxsplit=1)[0] if text else ""
    null = _NULL.fullmatch(text)
    intended = _FOREIGN.get(word.casefold()) if null is None else f"is {'not ' if null['not'] else ''}empty"
    message = f"unknown operator {word!r}" if word else "the operator is missing"
    raise BadText(message, f"write {intended}" if intended else _HINT)


def _operand(operator: str, value: str) -> str:
    if operator in _OF_NOTHING:
        if value:
            raise BadText(f"nothing may follow {operator!r}, and here is {value[:40]!r}", "remove it")
        return ""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    if not value.strip():
        raise BadText(f"the value after {operator!r} is missing", "did you mean `is empty`?")
    if references_in(value):
        raise BadText(f"{value!r} stands after {operator!r}", "a reference may only be on the left; let a step compare")
    if operator in _OF_NUMBERS and number_in(value) is None:
        raise BadText(f"{value[:40]!r} after {operator!r} is not a number", "only numbers can be compared in this way")
    return value


def _literal(operator: str, operand: str) -> str:
    """Return the operand as it is written in an expression."""
    number = number_in(operand) if operator in _OF_NUMBERS else None
    if number is None:
        return json.dumps(operand, ensure_ascii=False)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)

"""What is known of an expression before the run agrees with what it gives: no false error, and no value outside."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.evaluation import evaluate
from holdfast.blueprint.json_values import JSON, JSONObject, same
from holdfast.blueprint.shape import Shape, find_type
from holdfast.blueprint.shapes.place import Place
from holdfast.blueprint.shapes.reader import ExpressionReader
from holdfast.blueprint.shapes.report import Report

PART: JSONObject = {
    "type": "object",
    "properties": {"k": {"type": "number"}, "s": {"type": "string"}},
    "required": ["k", "s"],
    "additionalProperties": False,
}
SCHEMA: JSONObject = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 0, "maximum": 5},
        "t": {"type": "string"},
        "b": {"type": "boolean"},
        "e": {"enum": ["red", "green"]},
        "l": {"type": "array", "items": {"type": "string"}},
        "o": PART,
        "many": {"type": "array", "items": PART},
        "either": {"anyOf": [{"type": "number"}, {"type": "string"}]},
        "u": {},
    },
}
NAMES = ["input.n", "input.t", "input.b", "input.e", "input.l", "input.o", "input.many", "input.either", "input.u"]
NAMES += ["input.o.k", "input.o.s", "input.many[0]", "input.l[0]", "(input.many | first).s", "1", "2.5", "'red'", "'a'"]
NAMES += ["true", "['red', 'blue']", "[1, 2]", "{'k': 1}", "none"]
BINARY = ["+", "-", "*", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or"]
UNARY = ["not ({})", "({}) | length", "({}) | upper", "({}) | join('-')", "({}) | list", "({}) | int", "({})[:1]"]
UNARY += ["({}) | sort", "({}) | last", "({}) is string", "({}) is none", "({}).k", "({})[0]", "({}) | default(1)"]
UNARY += ["({}).upper()", "({}).keys()", "({}) | tojson", "({}) | sum", "({}) | reverse", "-({})", "abs({})"]
UNARY += ["({}) | map(attribute='s')", "({}) | float", "({}) | items", "({}) | dictsort"]
TWO = [
    "({})[{}]",
    "({})[:{}]",
    "({}) | truncate({})",
    "({}) | replace({}, 'a')",
    "({}) | round({})",
    "({}) | batch({})",
]
TWO += ["({}).split({})", "({}).startswith({})", "({}) is divisibleby({})", "({}) is lt({})", "({}) | join({})"]
TWO += ["min({}, {})", "[{}, {}] | max", "([{}] == {})", "{{'red': {}}}[{}]", "{{'a': {}}}.get({})", "[{}] + {}"]
PARTIAL = (" and ", " or ", " if ")
"""Words after which a part may never be evaluated."""


@dataclass
class Heard:
    """Where mistakes go."""

    codes: list[str] = field(default_factory=list)

    def add(self, path: str, code: str, message: str, hint: str | None = None, *, at: str | None = None) -> None:
        self.codes.append(code)

    def add_key(self, path: str, code: str, message: str, hint: str | None = None) -> None:
        self.codes.append(code)

    def warn(self, path: str, code: str, message: str, hint: str, *, at: str | None = None) -> None: ...

    def warn_key(self, path: str, code: str, message: str, hint: str) -> None: ...


def make_expression(chance: random.Random, depth: int) -> str:
    if depth == 0 or chance.random() < 0.2:
        return chance.choice(NAMES)
    match chance.randrange(6):
        case 0 | 1:
            left, right = make_expression(chance, depth - 1), make_expression(chance, depth - 1)
            return f"({left}) {chance.choice(BINARY)} ({right})"
        case 2:
            parts = [make_expression(chance, depth - 1) for _ in range(3)]
            return f"({parts[0]}) if ({parts[1]}) else ({parts[2]})"
        case 3:
            parts = [make_expression(chance, depth - 1) for _ in range(2)]
            return chance.choice(TWO).format(*parts)
    return chance.choice(UNARY).format(make_expression(chance, depth - 1))


def make_part(chance: random.Random) -> JSONObject:
    return {"k": chance.choice([0, 1, 2.5]), "s": chance.choice(["", "a", "red"])}


def make_value(chance: random.Random) -> JSONObject:
    """Return a value that fits the schema. No list is empty: a key of a missing element is undefined, and no error."""
    texts = ["", "a", "red", "5"]
    return {
        "n": chance.randrange(6),
        "t": chance.choice(texts),
        "b": chance.random() < 0.5,
        "e": chance.choice(["red", "green"]),
        "l": [chance.choice(texts) for _ in range(chance.randrange(1, 3))],
        "o": make_part(chance),
        "many": [make_part(chance) for _ in range(chance.randrange(1, 3))],
        "either": chance.choice([1, "a"]),
        "u": chance.choice([None, 1, "a", [1], {"k": 1}, True]),
    }


def read(expression: str) -> tuple[Shape, list[str]]:
    heard = Heard()
    reader = ExpressionReader(Place(names={"input": Shape(SCHEMA)}), "when", Report(heard))
    return reader.evaluate(expression, is_condition=False), heard.codes


def is_inside(value: JSON, shape: Shape) -> bool:
    if value is None:
        return True
    known = shape.values
    return find_type(value) in shape.types and (known is None or any(same(value, one) for one in known))


@pytest.mark.parametrize("seed", range(8))
def test_no_expression_that_can_be_evaluated_is_an_error_and_its_value_is_foreseen(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(400):
        expression = make_expression(chance, 3)
        shape, codes = read(expression)
        is_whole = not any(word in expression for word in PARTIAL)
        for _ in range(4):
            value = make_value(chance)
            try:
                given = evaluate(expression, {"input": value})
            except ExpressionError:
                continue
            assert not (is_whole and "bad_shape" in codes), f"{expression} gives {given!r} for {value}"
            assert codes or is_inside(given, shape), f"{expression} gives {given!r} for {value}, not {shape}"

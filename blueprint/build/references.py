"""References: what a step gives, or a name of the language, as an expression that Python builds.

A reference in an f-string is a template; operators, calls and indexing make larger expressions. Values that stand
beside references are written into the expression.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NoReturn

from pydantic import BaseModel, RootModel

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.json_values import JSON


class Binding(IntEnum):
    """How strongly the outermost operator of an expression binds, as in Jinja's grammar."""

    CHOICE = 0
    OR = 1
    AND = 2
    NOT = 3
    COMPARISON = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7
    FILTER = 8
    NAME = 9


class ValueReference:
    """An expression of the language: `draft.output.score >= 8`.

    A key of a value is an attribute, or in brackets where it is no name or one of ours: `ref["in_"]`. `&`, `|` and `~`
    are and, or and not; they bind more strongly than comparisons, so that those stand in parentheses.
    """

    __slots__ = ("_binding", "_text")

    def __init__(self, text: str, binding: Binding = Binding.NAME) -> None:
        self._text, self._binding = text, binding

    def in_(self, values: Sequence[object] | ValueReference) -> ValueReference:
        """Whether the value is one of these."""
        return self._compare("in", values if isinstance(values, ValueReference) else list(values))

    def contains(self, value: object) -> ValueReference:
        """Whether the list or the text has this in it."""
        return ValueReference(f"{_write(value, Binding.SUM)} in {_write(self, Binding.SUM)}", Binding.COMPARISON)

    def is_defined(self) -> ValueReference:
        """Whether there is such a key."""
        return ValueReference(f"{_write(self, Binding.FILTER)} is defined", Binding.COMPARISON)

    def or_(self, value: object) -> ValueReference:
        """The value, or another one if it is missing, empty or false."""
        return self.filter("default", value, True)

    def then(self, value: object, otherwise: object) -> ValueReference:
        """One value where this holds, and another where it does not: `error.then(error.type, "booked")`."""
        first, last = _write(value, Binding.OR), _write(otherwise, Binding.CHOICE)
        return ValueReference(f"{first} if {_write(self, Binding.OR)} else {last}", Binding.CHOICE)

    def filter(self, name: str, *arguments: object) -> ValueReference:
        """The value through a filter: `ref.filter("join", ", ")`."""
        called = f"({', '.join(map(write_value, arguments))})" if arguments else ""
        return ValueReference(f"{_write(self, Binding.FILTER)} | {name}{called}", Binding.FILTER)

    def __getattr__(self, name: str) -> ValueReference:
        if name.startswith("__"):  # what Python itself looks for
            raise AttributeError(name)
        return ValueReference(f"{_write(self, Binding.NAME)}.{name}")

    def __getitem__(self, key: object) -> ValueReference:
        if isinstance(key, str) and key.isidentifier():
            return self.__getattr__(key)
        if isinstance(key, slice):
            first, last = ("" if one is None else write_value(one) for one in (key.start, key.stop))
            return ValueReference(f"{_write(self, Binding.NAME)}[{first}:{last}]")
        return ValueReference(f"{_write(self, Binding.NAME)}[{write_value(key)}]")

    def __call__(self, *arguments: object) -> ValueReference:
        return ValueReference(f"{self._text}({', '.join(map(write_value, arguments))})")

    def __format__(self, spec: str) -> str:
        if spec:
            raise TypeError(f"{self._text} has no value yet to format as {spec!r}: use a filter")
        return f"{{{{ {self._text} }}}}"

    def __str__(self) -> str:
        return format(self)

    def __repr__(self) -> str:
        return f"<{self._text}>"

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"{self._text} has no value before the run, so that `if`, `and`, `or` and `not` cannot ask for it: use "
            "when=, a choice, or the operators &, | and ~ with comparisons in parentheses"
        )

    def __iter__(self) -> Iterator[NoReturn]:
        raise TypeError(f"{self._text} has no items before the run: use each(), or a filter")

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError(f"{self._text} has no items before the run: use {self._text}.contains(…) or value.in_(…)")

    __hash__ = None  # type: ignore[assignment]  # equality is an expression

    def __eq__(self, other: object) -> ValueReference:  # type: ignore[override]
        return self._compare("==", other)

    def __ne__(self, other: object) -> ValueReference:  # type: ignore[override]
        return self._compare("!=", other)

    def __lt__(self, other: object) -> ValueReference:
        return self._compare("<", other)

    def __le__(self, other: object) -> ValueReference:
        return self._compare("<=", other)

    def __gt__(self, other: object) -> ValueReference:
        return self._compare(">", other)

    def __ge__(self, other: object) -> ValueReference:
        return self._compare(">=", other)

    def __add__(self, other: object) -> ValueReference:
        return _join(self, "+", other, Binding.SUM)

    def __radd__(self, other: object) -> ValueReference:
        return _join(other, "+", self, Binding.SUM)

    def __sub__(self, other: object) -> ValueReference:
        return _join(self, "-", other, Binding.SUM)

    def __rsub__(self, other: object) -> ValueReference:
        return _join(other, "-", self, Binding.SUM)

    def __mul__(self, other: object) -> ValueReference:
        return _join(self, "*", other, Binding.PRODUCT)

    def __rmul__(self, other: object) -> ValueReference:
        return _join(other, "*", self, Binding.PRODUCT)

    def __truediv__(self, other: object) -> ValueReference:
        return _join(self, "/", other, Binding.PRODUCT)

    def __floordiv__(self, other: object) -> ValueReference:
        return _join(self, "//", other, Binding.PRODUCT)

    def __mod__(self, other: object) -> ValueReference:
        return _join(self, "%", other, Binding.PRODUCT)

    def __neg__(self) -> ValueReference:
        return ValueReference(f"-{_write(self, Binding.FILTER)}", Binding.SIGN)

    def __and__(self, other: object) -> ValueReference:
        return _join(self, "and", other, Binding.AND)

    def __rand__(self, other: object) -> ValueReference:
        return _join(other, "and", self, Binding.AND)

    def __or__(self, other: object) -> ValueReference:
        return _join(self, "or", other, Binding.OR)

    def __ror__(self, other: object) -> ValueReference:
        return _join(other, "or", self, Binding.OR)

    def __invert__(self) -> ValueReference:
        return ValueReference(f"not {_write(self, Binding.NOT)}", Binding.NOT)

    def _compare(self, operator: str, other: object) -> ValueReference:
        sides = _write(self, Binding.SUM), _write(other, Binding.SUM)
        return ValueReference(f"{sides[0]} {operator} {sides[1]}", Binding.COMPARISON)


class ModelReference(ValueReference):
    """A reference to an instance of a pydantic model, which has the fields of the model and no other keys."""

    __slots__ = ("_model",)

    def __init__(self, text: str, model: type[BaseModel]) -> None:
        super().__init__(text)
        self._model = model

    def __getattr__(self, name: str) -> ValueReference:
        found = super().__getattr__(name)
        fields = {field.alias or name: field for name, field in self._model.model_fields.items()}
        if name in fields:
            return refer(found._text, fields[name].annotation)
        if name in _METHODS:
            return found
        hint = did_you_mean(name, fields) or f"it has {', '.join(fields)}"
        raise AttributeError(f"{self._text}: {self._model.__name__} has no field {name!r} ({hint})")


class StepResult:
    """What a step gives, for the steps after it. The step itself is no value: used as one it raises `TypeError`."""

    def __init__(self, name: str, type_: object = None) -> None:
        quoted = f"steps.{name}" if name.isidentifier() else f"steps['{name}']"
        self.name = name
        self.output = refer(f"{quoted}.output", type_)
        self.reply = ValueReference(f"{quoted}.reply")
        """Who answered, when and why, of a step that asked."""
        self.status = ValueReference(f"{quoted}.status")
        self.error = ValueReference(f"{quoted}.error")

    def refuse_as_value(self) -> NoReturn:
        raise TypeError(f"{self.name} is a step, and no value: write {self.name}.output")

    def __format__(self, spec: str) -> str:
        self.refuse_as_value()

    def __str__(self) -> str:
        self.refuse_as_value()

    def __bool__(self) -> NoReturn:
        self.refuse_as_value()

    def __eq__(self, other: object) -> NoReturn:  # a comparison would be False, and written as that
        self.refuse_as_value()

    __hash__ = None  # type: ignore[assignment]


_METHODS = ("get", "items", "keys", "values")
"""Methods of objects in expressions."""


def refer(text: str, type_: object) -> ValueReference:
    """Return a reference to a value of a type; of one with fields it is checked as it is written."""
    if isinstance(type_, type) and issubclass(type_, BaseModel) and not issubclass(type_, RootModel):
        return ValueReference(text) if type_.model_config.get("extra") == "allow" else ModelReference(text, type_)
    return ValueReference(text)


def _join(left: object, operator: str, right: object, binding: Binding) -> ValueReference:
    text = f"{_write(left, binding)} {operator} {_write(right, Binding(binding + 1))}"
    return ValueReference(text, binding)


def _write(value: object, least: Binding) -> str:
    """Return a value as an operand, in parentheses where its own operator binds less strongly."""
    if isinstance(value, ValueReference):
        return value._text if value._binding >= least else f"({value._text})"
    return write_value(value)


def write_value(value: object) -> str:
    """Return a value as it is written in an expression: null as none, a text in single quotes.

    Raises:
        TypeError: It is no JSON value, or a text with a reference in it.
    """
    match value:
        case ValueReference():
            return value._text
        case StepResult():
            value.refuse_as_value()
        case None | True | False:
            return json.dumps(value).replace("null", "none")
        case int() | float():
            return repr(value)
        case str() if "{{" in value:
            raise TypeError(f"{value!r} is a template, and cannot stand inside an expression: join texts with +")
        case str():
            return "'" + json.dumps(value, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
        case Mapping():
            return "{" + ", ".join(f"{write_value(key)}: {write_value(one)}" for key, one in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(write_value, value)) + "]"
    raise TypeError(f"{value!r} cannot stand in an expression: it is no JSON value")


def read_expression(value: object) -> str:
    """Return what is written where the language wants an expression: of a reference, or text as it is."""
    return value if isinstance(value, str) else write_value(value)


def read_template(value: object) -> JSON:
    """Return what is written where the language wants a template: references become `{{ … }}`, however deep."""
    match value:
        case ValueReference():
            return format(value)
        case StepResult():
            value.refuse_as_value()
        case BaseModel():
            return value.model_dump(mode="json", by_alias=True)
        case Mapping():
            return {str(key): read_template(one) for key, one in value.items()}
        case list() | tuple():
            return [read_template(one) for one in value]
    return value


def read_path(value: object) -> str:
    """Return a path of the context: of `context.draft.title`, or text as it is. Raises `TypeError` for another one."""
    if isinstance(value, str):
        return value
    if isinstance(value, ValueReference) and value._binding is Binding.NAME and value._text.startswith("context."):
        return value._text.removeprefix("context.")
    raise TypeError(f"{value!r} is no path of the context: write context.NAME")


context = ValueReference("context")
"""The context of the run."""
output = ValueReference("output")
"""In a loop's exit: the output of the iteration."""
previous = ValueReference("previous_step")
"""The output of the step before; at the start of a list its input."""

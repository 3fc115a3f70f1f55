"""Parse expressions and templates with jinja2, and refuse what this language does not have."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.parser import Parser

from holdfast.blueprint.expressions.error import ExpressionError, did_you_mean, shorten
from holdfast.blueprint.expressions.filters import FILTERS, unknown_filter
from holdfast.blueprint.expressions.functions import FUNCTIONS, METHODS
from holdfast.blueprint.expressions.predicates import TESTS, unknown_test
from holdfast.blueprint.expressions.values import MAX_NUMBER
from holdfast.blueprint.expressions.walk import EXPRESSIONS, STATEMENTS
from holdfast.blueprint.json_values import JSON

MAX_SOURCE = 64 * 1024
MAX_NESTING = 60  # of jinja2's parser, which takes up to nine frames a level (a parenthesis is two levels)
MAX_DEPTH = 100  # of the nodes, as the walker takes two frames a level
_MARKS = ("{{", "{%", "{#")
_TAGS = ("if", "elif", "else", "endif", "for", "endfor", "set")
_INNER = (nodes.Operand, nodes.Pair, nodes.Keyword, nodes.Slice, nodes.TemplateData, nodes.Template)
_ALLOWED = frozenset({*EXPRESSIONS, *STATEMENTS, *_INNER})
_REFUSED: dict[type[nodes.Node], str] = {
    nodes.AssignBlock: "a `set` block is not part of this language, only {% set name = value %}",
    nodes.NSRef: "only a name can be set",
}
_ENVIRONMENT = Environment(keep_trailing_newline=True)  # its parser alone is used  # nosec B701


_CUT_SHORT = dict.fromkeys(
    ("unexpected 'end of template'", "unexpected 'end of print statement'"),
    "is cut short: a value is missing at its end",
)
"""What jinja2 says where an expression ends too early; a condition is no template, and nothing is printed."""


_OF_OTHERS = {
    "=": "write == to compare",
    "&": "write `and`",
    "|": "write `or`",
    "!": "write `not`",
    "?": "write `a if condition else b`",
    "#": "write {% if … %} … {% endif %}, or {% for … %} … {% endfor %}",
    "/": "write {% endif %} or {% endfor %}",
}
"""Operators of other languages, with what to write here."""


@dataclass(frozen=True, slots=True)
class Template:
    body: list[nodes.Node]
    whole: nodes.Node | None  # the expression, if the template is exactly one {{ … }}
    copies: bool  # its parts are texts, values as they are, and lists of them that are joined


def is_plain(text: str) -> bool:
    """Return whether a text has no mark of a template, and stays as it is."""
    return "{" not in text or not any(mark in text for mark in _MARKS)


@lru_cache(maxsize=512)
def parsed_expression(source: str) -> nodes.Node:
    def parse() -> nodes.Node:
        parser = _Parser(_ENVIRONMENT, source, state="variable")
        expression = parser.parse_expression()
        if not parser.stream.eos:
            parser.fail(f"the expression ends before {shorten(str(parser.stream.current.value), 40)!r}")
        return expression

    if not source.strip():
        raise ExpressionError("an expression is missing", expression=source)
    if source.lstrip().startswith("{{"):
        raise ExpressionError("is a template", "a condition is a bare expression, without {{ }}", source)
    return _parse_checked(source, parse)


@lru_cache(maxsize=512)
def parsed_template(source: str) -> Template:
    root = _parse_checked(source, lambda: _Parser(_ENVIRONMENT, source).parse())
    assert isinstance(root, nodes.Template)
    # By its nodes, too: `{{ a }} and {{ b }}` begins and ends like a single expression.
    whole = _whole(root.body) if source[:2] == "{{" and source[-2:] == "}}" else None
    return Template(root.body, whole, all(map(_copies, root.body)))


def _copies(node: nodes.Node) -> bool:
    """Return whether a part of a template only copies values: such a text is no longer than what it reads."""
    match node:
        case nodes.Output(nodes=parts):
            return all(map(_copies, parts))
        case nodes.Filter(name="join", node=nodes.Node() as of, args=[nodes.Const(value=str())] | [], kwargs=[]):
            return _copies(of)
        case nodes.Getattr(node=above) | nodes.Getitem(node=above, arg=nodes.Const()):
            return _copies(above)
        case nodes.CondExpr(expr1=one, expr2=nodes.Node() as other):
            return _copies(one) and _copies(other)
    return isinstance(node, nodes.TemplateData | nodes.Name | nodes.Const)


def _whole(body: list[nodes.Node]) -> nodes.Node | None:
    match body:
        case [nodes.Output(nodes=[nodes.Expr() as only])] if not isinstance(only, nodes.TemplateData):
            return only
    return None


class _Parser(Parser):
    """jinja2's parser with a bounded depth and only the tags of this language."""

    level = 0

    def enter(self) -> None:
        self.level += 1
        if self.level > MAX_NESTING:
            self.fail("nested too deeply")

    def parse_condexpr(self) -> nodes.Expr:
        self.enter()
        node = super().parse_condexpr()
        self.level -= 1
        return node

    def parse_not(self) -> nodes.Expr:
        if not self.stream.current.test("name:not"):
            return super().parse_not()
        self.enter()
        node = super().parse_not()
        self.level -= 1
        return node

    def parse_unary(self, with_filter: bool = True) -> nodes.Expr:
        self.enter()
        node = super().parse_unary(with_filter)
        self.level -= 1
        return node

    def parse_primary(self, with_namespace: bool = False) -> nodes.Expr:
        node = super().parse_primary(with_namespace)
        return nodes.Const(None, lineno=node.lineno) if isinstance(node, nodes.Name) and node.name == "null" else node

    def parse_statement(self) -> nodes.Node | list[nodes.Node]:
        tag = str(self.stream.current.value)
        if self.stream.current.type == "name" and tag not in _TAGS:
            self.fail(f"no tag {shorten(tag, 40)!r} here: a template has `if`, `for` and `set`")
        self.enter()
        node = super().parse_statement()
        self.level -= 1
        return node


def _parse_checked(source: str, parse: Callable[[], nodes.Node]) -> nodes.Node:
    if len(source) > MAX_SOURCE:
        raise ExpressionError(f"is longer than {MAX_SOURCE // 1024} KiB", expression=source)
    try:
        root = parse()
        _check(root)
    except TemplateSyntaxError as error:
        message = _CUT_SHORT.get(str(error.message), str(error.message))
        raise ExpressionError(message, _way_out(message), source, error.lineno) from None
    except ExpressionError as error:
        error.expression = source
        raise
    except (SyntaxError, ValueError):  # from numbers that Python cannot read: thousands of digits, foreign digits
        raise ExpressionError("a number cannot be read", expression=source) from None
    except RecursionError:
        raise ExpressionError("nested too deeply", expression=source) from None
    return root


def _way_out(message: str) -> str | None:
    """Return what to write instead of an operator of other languages, which a message of the parser quotes."""
    return next((hint for sign, hint in _OF_OTHERS.items() if f"{sign!r}" in message), None)


def _check(root: nodes.Node) -> None:
    waiting = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        try:
            if depth > MAX_DEPTH:
                raise ExpressionError("has too many operations in one another")
            if type(node) not in _ALLOWED:
                raise ExpressionError(_REFUSED.get(type(node), f"{type(node).__name__} is not part of this language"))
            if check := _CHECKS.get(type(node)):
                check(node)
        except ExpressionError as error:
            error.line = node.lineno
            raise
        waiting.extend((child, depth + 1) for child in reversed([*node.iter_child_nodes()]))


def _check_constant(node: nodes.Const) -> None:
    match node.value:
        case int() if node.value > MAX_NUMBER:
            raise ExpressionError("a number is over 2^63")
        case float() if math.isinf(node.value):
            raise ExpressionError("a number is too large")
        case str() if any("\ud800" <= char <= "\udfff" for char in node.value):
            raise ExpressionError("a text holds half a character (a lone surrogate)")


def _check_key(node: nodes.Getattr) -> None:
    if node.attr.startswith("__") and node.attr.endswith("__"):
        raise ExpressionError(f"{shorten(node.attr, 40)!r} cannot be read")


def _check_tuple(node: nodes.Tuple) -> None:
    if any(isinstance(part, nodes.Slice) for part in node.items):
        raise ExpressionError("a slice stands alone between brackets")


def _check_loop(node: nodes.For) -> None:
    if node.recursive:
        raise ExpressionError("`recursive` loops are not part of this language")


def _check_call(node: nodes.Call) -> None:
    match node.node:
        case nodes.Name(name=name):
            if name not in FUNCTIONS:
                raise _unknown("function", name, FUNCTIONS)
            _check_arguments(node, f"{name}()", FUNCTIONS[name], 1)
        case nodes.Getattr(attr=name):
            if name not in METHODS:
                raise _unknown("method", name, METHODS)
            _check_arguments(node, f".{name}()", METHODS[name][1], 2)
        case _:
            raise ExpressionError("only functions and methods can be called, by their names")


def _check_filter(node: nodes.Filter) -> None:
    if node.name not in FILTERS:
        raise unknown_filter(node.name)
    _check_arguments(node, f"filter {node.name!r}", FILTERS[node.name], 2)
    match node.name, node.args:
        case "map", [nodes.Const(value=str(name)), *_] if name not in FILTERS:
            raise unknown_filter(name)
        case ("select" | "reject", [nodes.Const(value=name), *_]) if name not in TESTS:
            raise unknown_test(str(name))
        case ("selectattr" | "rejectattr", [_, nodes.Const(value=name), *_]) if name not in TESTS:
            raise unknown_test(str(name))


def _check_test(node: nodes.Test) -> None:
    if node.name not in TESTS:
        raise unknown_test(node.name)
    _check_arguments(node, f"test {node.name!r}", TESTS[node.name], 2)


def _check_arguments(
    node: nodes.Call | nodes.Filter | nodes.Test, callee: str, called: Callable[..., Any], leading: int
) -> None:
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        raise ExpressionError(f"{callee}: `*` and `**` are not part of this language")
    named = {str(pair.key): None for pair in node.kwargs}
    try:
        _signature(called).bind(*[None] * (leading + len(node.args)), **named)
    except TypeError as error:
        raise ExpressionError(f"{callee}: {error}") from None


@cache
def _signature(called: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(called)


def _unknown(kind: str, name: str, available: Mapping[str, JSON]) -> ExpressionError:
    return ExpressionError(f"unknown {kind} {shorten(name, 40)!r}", did_you_mean(name, available))


_CHECKS: dict[type[nodes.Node], Callable[[Any], None]] = {
    nodes.Const: _check_constant,
    nodes.Getattr: _check_key,
    nodes.Tuple: _check_tuple,
    nodes.For: _check_loop,
    nodes.Call: _check_call,
    nodes.Filter: _check_filter,
    nodes.Test: _check_test,
}

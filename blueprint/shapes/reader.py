"""Reads expressions before the run: what each gives, and what in it cannot be meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from jinja2 import nodes

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.parse import Template, is_plain, parsed_expression, parsed_template
from holdfast.blueprint.shape import (
    BOOLEAN,
    NUMBER,
    TEXT,
    UNKNOWN,
    Shape,
    find_type,
    join_shapes,
    keep_values,
    make_constant,
    make_list,
    make_object,
    make_shape,
)
from holdfast.blueprint.shapes import arguments, consents, rules
from holdfast.blueprint.shapes.functions import call_function, call_method, filter_value
from holdfast.blueprint.shapes.operators import ARITHMETIC, compare
from holdfast.blueprint.shapes.place import JudgedText
from holdfast.blueprint.shapes.report import Report, find_chain, find_read, name_node

_LOOP = make_object(
    {"index": NUMBER, "index0": NUMBER, "first": BOOLEAN, "last": BOOLEAN, "length": NUMBER}, is_closed=True
)
_CERTAIN = (nodes.Const, nodes.Compare, nodes.Not, nodes.Test)
"""Expressions that are never null."""
_READ = (nodes.Name, nodes.Getattr, nodes.Getitem)
_SAMPLE = "2"
_MOST_SAMPLES = 1_000
_DEFAULTS = ("default", "d")
_COMPARING_TESTS = {
    **{"in": "in", "eq": "eq", "equalto": "eq", "ne": "ne"},
    **{"lt": "lt", "le": "lteq", "gt": "gt", "ge": "gteq"},
}
"""Tests that compare with their argument, and the operator that does the same."""
_TESTS_OF_BEING = ("defined", "undefined", "none")
_TYPES_OF_TESTS = {
    "string": "text",
    "number": "number",
    "integer": "number",
    "float": "number",
    "mapping": "object",
    "boolean": "boolean",
}


@dataclass
class ExpressionReader(JudgedText):
    """Reads the expressions of one text of a blueprint."""

    local: dict[str, Shape] = field(default_factory=dict)
    """The names that the text itself has set."""

    def render(self, template: object) -> Shape:
        """Return what a template gives; reports what is wrong in it."""
        match template:
            case str() if not is_plain(template):
                return self._render_text(template)
            case dict():
                parts = {key: self._at(f"{self.path}.{key}").render(part) for key, part in template.items()}
                return make_object(parts)
            case list():
                return make_list(reader.render(part) for reader, part in self.list_parts(template))
        return make_constant(template)

    def list_parts(self, template: list[Any]) -> Iterator[tuple[ExpressionReader, Any]]:
        """Yield the elements of a list of templates, each with its reader."""
        return ((self._at(f"{self.path}[{index}]"), part) for index, part in enumerate(template))

    def _at(self, path: str) -> ExpressionReader:
        return ExpressionReader(self.place, path, self.findings, self.ask_nobody)

    def _render_text(self, text: str) -> Shape:
        try:
            parsed = parsed_template(text)
        except ExpressionError:
            return UNKNOWN  # reported with the names
        if parsed.whole is not None:
            return self.read(parsed.whole)
        self.run(parsed.body)
        return TEXT

    def write_samples(self, template: object, texts: Sequence[str]) -> list[str]:
        """Return texts that a template may give in which values stand between constants, as `{{ n }}d`.

        Each number is 2, each text one of its known values, or of these texts. Nothing for any other template.
        """
        if not isinstance(template, str) or is_plain(template):
            return []
        with suppress(ExpressionError):  # reported with the names
            match parsed_template(template):
                case Template(whole=None, body=[nodes.Output(nodes=parts)]):
                    quiet = self._be_quiet()
                    choices = [quiet.write_part(part, texts) for part in parts]
                    if all(choices) and prod(map(len, choices)) <= _MOST_SAMPLES:
                        return ["".join(chosen) for chosen in product(*choices)]
        return []

    def look_into(self, template: object) -> Shape:
        """Return what a template gives; reports nothing."""
        return self._be_quiet().render(template)

    def _be_quiet(self) -> ExpressionReader:
        return ExpressionReader(self.place, self.path, Report(None), self.ask_nobody)

    def write_part(self, part: nodes.Node, texts: Sequence[str]) -> Sequence[str]:
        """Return what a part of a template may give: a constant, a number, or a text; nothing if it may give others."""
        if isinstance(part, nodes.TemplateData):
            return [part.data]
        shape = self.read(part)
        if shape.types <= {"number", "null"}:
            return [_SAMPLE]
        if not shape.is_text:
            return []
        return [str(value) for value in shape.values] if shape.values else texts

    def evaluate(self, expression: str, *, is_condition: bool) -> Shape:
        """Return what an expression gives; a condition is tested for truth."""
        try:
            node = parsed_expression(expression)
        except ExpressionError:
            return UNKNOWN
        if not is_condition:
            return self.read(node)
        before = self.findings.mistakes
        shape = self.test(node)
        if self.findings.mistakes == before:
            consents.check_after_no(self, node)
        return shape

    def check_choice(self, expression: str) -> None:
        """Report a choice that is the same after a no."""
        with suppress(ExpressionError):  # reported with the names
            consents.check_choice_after_no(self, parsed_expression(expression))

    def check_exit(self, condition: str) -> None:
        """Warn of a loop that ends with any text that a person or a model writes, or with any object."""
        with suppress(ExpressionError):  # reported with the names
            for node in _split(parsed_expression(condition)):
                tested = node.node if isinstance(node, nodes.Not) else node
                shape = self.look_at(tested) if isinstance(tested, _READ) else UNKNOWN
                name = name_node(tested)
                if shape.is_text and not shape.values and tested is node:
                    message = f"{name} is a text, and any text ends the loop, also a no"
                    self.warn("any_output", message, f"compare it: {name} == 'stop'")
                elif shape.types <= {"object", "null"} and shape.required:
                    ends = "ends the loop" if tested is node else "keeps the loop going"
                    message = f"{name} is an object, and any object {ends}"
                    self.warn("any_output", message, f"test one of its keys: {', '.join(shape.keys)}")

    def check_decided(self, condition: str, shape: Shape, *, is_exit: bool) -> None:
        """Warn of a condition that is the same however the run goes; an exit that is an object is told as such."""
        try:
            node = parsed_expression(condition)
            decided = decide(node, shape) if is_exit or not self._is_full(node) else True
            if not is_exit and isinstance(node, nodes.Not) and self._is_full(node.node):
                decided = False
        except ExpressionError:
            return
        if decided is not None:
            message = f"the condition is always {'true' if decided else 'false'}"
            self.warn("constant_condition", message, "see what is known of the values in it, or remove it")

    def _is_full(self, node: nodes.Node) -> bool:
        """Return whether an expression is surely an object with keys, as what a step gives that has surely run."""
        shape = self._find_certain(node)
        return shape is not None and shape.types == {"object"} and bool(shape.required)

    def _find_certain(self, node: nodes.Node) -> Shape | None:
        root, keys = find_chain(node)
        return self.place.find_certain(root, keys) if root and root not in self.local else None

    def is_surely_there(self, node: nodes.Node) -> bool:
        """Return whether an expression is surely defined, and not null."""
        shape = self._find_certain(node)
        return shape is not None and "null" not in shape.types

    @staticmethod
    def find_read(expression: str) -> set[str]:
        """Return the references that an expression reads, such as `steps.ask` and `input.note`."""
        try:
            return find_read(parsed_expression(expression))
        except ExpressionError:
            return set()

    @staticmethod
    def is_constant(expression: str) -> bool:
        """Return whether an expression is a constant, as it is written."""
        try:
            return isinstance(parsed_expression(expression), nodes.Const)
        except ExpressionError:
            return True

    # Values

    def read(self, node: nodes.Node | None) -> Shape:
        """Return what an expression gives; reports a key that must not be missing there, and may be."""
        if isinstance(node, nodes.Getattr | nodes.Getitem):
            rules.check_presence(self, node)
        return self.look_at(node)

    def look_at(self, node: nodes.Node | None) -> Shape:
        """Return what an expression gives where a missing key is no mistake."""
        if node is None:
            return UNKNOWN
        return _READERS.get(type(node), ExpressionReader._read_parts)(self, node)

    def test(self, node: nodes.Node) -> Shape:
        """Return what an expression gives that is tested for truth."""
        match node:
            case nodes.And(left=left, right=right) | nodes.Or(left=left, right=right):
                first = self.test(left)
                if decide(left, first) is isinstance(node, nodes.Or):
                    return first
                return join_shapes([first, self._after(left, right, self.test)])
            case nodes.CondExpr(test=test, expr1=one, expr2=other):
                return self._choose(test, one, other, self.test)
            case nodes.Name() | nodes.Getattr() | nodes.Getitem():
                shape = self.look_at(node)
                rules.check_truth(self, node)
                consents.check_truth(self, node, shape)
                return shape
        return self.read(node)

    def _after(self, test: nodes.Node, node: nodes.Node, read: Callable[[nodes.Node], Shape]) -> Shape:
        """Return what an expression gives that is read only where a test has looked at what it reads."""
        place = self.place
        self.place = place.assume(find_read(test))
        shape = read(node)
        self.place = place
        return shape

    def _choose(
        self, test: nodes.Node, one: nodes.Node, other: nodes.Node | None, read: Callable[[nodes.Node], Shape]
    ) -> Shape:
        decided = decide(test, self.test(test))
        parts = [(part, holds) for part, holds in ((one, True), (other, False)) if decided is not (not holds)]
        shapes = []
        for part, holds in parts:
            shape = UNKNOWN if part is None else self._after(test, part, read)
            shapes.append(_narrow(shape, part, test, holds=holds))
        return join_shapes(shapes)

    def _read_parts(self, node: nodes.Node) -> Shape:
        for child in node.iter_child_nodes():
            self.read(child)
        return UNKNOWN

    def _read_constant(self, node: nodes.Const) -> Shape:
        return make_constant(node.value)

    def _read_name(self, node: nodes.Name) -> Shape:
        return self.local[node.name] if node.name in self.local else self.place.find(node.name)

    def _read_key(self, node: nodes.Getattr | nodes.Getitem) -> Shape:
        match node:
            case nodes.Getattr(node=above, attr=key) | nodes.Getitem(node=above, arg=nodes.Const(value=str(key))):
                if find_chain(above)[0] not in self.local:
                    consents.check_reply(self, node)
                return rules.read_key(self, node, self.look_at(above), key)
        return UNKNOWN

    def _read_item(self, node: nodes.Getitem) -> Shape:
        match node.arg:
            case nodes.Const(value=str()):
                return self._read_key(node)
            case nodes.Slice() as part:
                arguments.check_slice(self, [(bound, self.read(bound)) for bound in part.iter_child_nodes()])
                return rules.read_slice(self, node, self.look_at(node.node))
        of, key = self.look_at(node.node), self.read(node.arg)
        arguments.check_index(self, node, of, key)
        return rules.read_item(self, node, of, key)

    def _read_list(self, node: nodes.List | nodes.Tuple) -> Shape:
        return make_list(map(self.read, node.items))

    def _read_dict(self, node: nodes.Dict) -> Shape:
        parts: dict[str, Shape] = {}
        is_closed = True
        for pair in node.items:
            value = self.read(pair.value)
            if isinstance(pair.key, nodes.Const) and isinstance(pair.key.value, str):
                parts[pair.key.value] = value
            else:
                self.read(pair.key)
                is_closed = False
        return make_object(parts, is_closed=is_closed)

    def _read_condition(self, node: nodes.CondExpr) -> Shape:
        return self._choose(node.test, node.expr1, node.expr2, self.read)

    def _read_and(self, node: nodes.And) -> Shape:
        first = self.test(node.left)
        if decide(node.left, first) is False:
            return first
        return join_shapes([*keep_values(first, truth=False), self._after(node.left, node.right, self.read)])

    def _read_or(self, node: nodes.Or) -> Shape:
        first = self.look_at(node.left)
        if decide(node.left, first) is True:
            return first
        return join_shapes([*keep_values(first, truth=True), self._after(node.left, node.right, self.read)])

    def _read_not(self, node: nodes.Not) -> Shape:
        decided = decide(node.node, self.test(node.node))
        return BOOLEAN if decided is None else make_constant(not decided)

    def _read_comparison(self, node: nodes.Compare) -> Shape:
        read = self.look_at if all(operand.op in ("eq", "ne") for operand in node.ops) else self.read
        left, shape = node.expr, read(node.expr)
        result = BOOLEAN
        for operand in node.ops:
            other = read(operand.expr)
            result = compare(self, left, shape, operand, other)
            if operand.op in ("eq", "ne") and self._compares_with_null(left, operand.expr):
                result = make_constant(operand.op == "ne")
            left, shape = operand.expr, other
        return result if len(node.ops) == 1 else BOOLEAN

    def _compares_with_null(self, left: nodes.Node, right: nodes.Node) -> bool:
        """Return whether one side is null, and the other surely is not."""
        sides = ((left, right), (right, left))
        return any(
            isinstance(null, nodes.Const) and null.value is None and self.is_surely_there(of) for of, null in sides
        )

    def _read_arithmetic(self, node: Any) -> Shape:
        return ARITHMETIC[type(node)](self, node, self.read(node.left), self.read(node.right))

    def _read_sign(self, node: nodes.UnaryExpr) -> Shape:
        return rules.need_number(self, node.node, self.read(node.node))

    def _read_text(self, node: nodes.Concat) -> Shape:
        self._read_parts(node)
        return TEXT

    def _read_filter(self, node: nodes.Filter) -> Shape:
        value = self.look_at(node.node) if node.name in _DEFAULTS else self.read(node.node)
        given = [self.read(part) for part in (*node.args, *(pair.value for pair in node.kwargs))]
        arguments.check_filter(self, node, given)
        return filter_value(self, node, value)

    def _read_test(self, node: nodes.Test) -> Shape:
        shape, before = self.look_at(node.node), self.findings.mistakes
        given = [self.read(part) for part in node.args]
        consents.check_test(self, node, shape)
        arguments.check_test(self, node, given)
        if node.name in _COMPARING_TESTS and self.findings.mistakes == before:
            operand = nodes.Operand(_COMPARING_TESTS[node.name], node.args[0])
            return compare(self, node.node, shape, operand, given[0])
        if node.name in _TESTS_OF_BEING and self.is_surely_there(node.node):
            return make_constant(node.name == "defined")
        type_ = _TYPES_OF_TESTS.get(node.name)
        return make_constant(False) if type_ is not None and not shape.may_be(type_) else BOOLEAN

    def _read_call(self, node: nodes.Call) -> Shape:
        given = [self.read(part) for part in node.args]
        if isinstance(node.node, nodes.Getattr):
            return call_method(self, node, self.look_at(node.node.node), given)
        return call_function(self, node, given)

    # Statements

    def run(self, body: Iterable[nodes.Node]) -> None:
        for node in body:
            match node:
                case nodes.Output(nodes=parts):
                    for part in parts:
                        if not isinstance(part, nodes.TemplateData):
                            self.read(part)
                            rules.check_print(self, part)
                case nodes.Assign(target=nodes.Name(name=name)):
                    self.local[name] = self.read(node.node)
                case nodes.Assign():
                    self.read(node.node)
                    self._forget(node.target)
                case nodes.If():
                    self._run_if(node)
                case nodes.For():
                    self._run_for(node)

    def _run_if(self, node: nodes.If) -> None:
        before = dict(self.local)
        place = self.place
        for branch in (node, *node.elif_):
            self.place = self.place.assume(find_read(branch.test))
            decided = decide(branch.test, self.test(branch.test))
            if decided is not False:
                self.run(branch.body)
            self.local = dict(before)
            if decided is True:
                break
        else:
            self.run(node.else_)
        self.local, self.place = before, place
        self._forget(node)

    def _run_for(self, node: nodes.For) -> None:
        before = dict(self.local)
        elements = rules.read_elements(self, node.iter, self.read(node.iter))
        self._forget(node)
        if isinstance(node.target, nodes.Name):
            self.local[node.target.name] = elements
        if node.test is not None:
            self.test(node.test)
        self.local["loop"] = _LOOP
        self.run(node.body)
        self.local = dict(before)
        self.run(node.else_)
        self.local = before

    def _forget(self, node: nodes.Node) -> None:
        """Know nothing more of the names that are set inside."""
        for name in [node, *node.find_all(nodes.Name)]:
            if isinstance(name, nodes.Name) and name.ctx == "store":
                self.local[name.name] = UNKNOWN


_READERS: dict[type[nodes.Node], Callable[[ExpressionReader, Any], Shape]] = {
    nodes.Const: ExpressionReader._read_constant,
    nodes.Name: ExpressionReader._read_name,
    nodes.Getattr: ExpressionReader._read_key,
    nodes.Getitem: ExpressionReader._read_item,
    nodes.List: ExpressionReader._read_list,
    nodes.Tuple: ExpressionReader._read_list,
    nodes.Dict: ExpressionReader._read_dict,
    nodes.CondExpr: ExpressionReader._read_condition,
    nodes.And: ExpressionReader._read_and,
    nodes.Or: ExpressionReader._read_or,
    nodes.Not: ExpressionReader._read_not,
    nodes.Compare: ExpressionReader._read_comparison,
    **dict.fromkeys(ARITHMETIC, ExpressionReader._read_arithmetic),
    nodes.Neg: ExpressionReader._read_sign,
    nodes.Pos: ExpressionReader._read_sign,
    nodes.Concat: ExpressionReader._read_text,
    nodes.Filter: ExpressionReader._read_filter,
    nodes.Test: ExpressionReader._read_test,
    nodes.Call: ExpressionReader._read_call,
}


def _split(node: nodes.Node) -> list[nodes.Node]:
    """Return the parts of a condition that are tested for truth."""
    match node:
        case nodes.And(left=left, right=right) | nodes.Or(left=left, right=right):
            return [*_split(left), *_split(right)]
    return [node]


def _narrow(shape: Shape, node: nodes.Node | None, test: nodes.Node, *, holds: bool) -> Shape:
    """Return what is known of a value where a comparison of the same value with a constant holds, or does not."""
    match test:
        case nodes.Compare(expr=of, ops=[nodes.Operand(op="eq" | "ne" as op, expr=nodes.Const(value=value))]):
            if node is None or not find_chain(of)[0] or find_chain(of) != find_chain(node):
                return shape
            if (op == "eq") is holds:
                return make_constant(value)
            left = [one for one in shape.values or () if one != value]
            return make_shape(*map(find_type, left), values=left) if left else shape
    return shape


def decide(node: nodes.Node, shape: Shape) -> bool | None:
    """Return whether an expression is surely true or surely false; None if neither."""
    values = shape.values
    if values is None:
        return None
    if not any(values):
        return False if values or shape.types == {"null"} else None
    return True if all(values) and isinstance(node, _CERTAIN) else None

"""Evaluation: a walker over jinja2's parsed nodes, one function for each kind of node.

jinja2's compiled templates cannot be bounded: three nested `range(1000)` block a workflow task until Temporal's
deadlock detector fails it, for ever.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import nodes

from holdfast.blueprint.expressions import functions, operators
from holdfast.blueprint.expressions.bounds import Bounds
from holdfast.blueprint.expressions.error import ExpressionError, did_you_mean, shorten
from holdfast.blueprint.expressions.filters import apply_filter
from holdfast.blueprint.expressions.predicates import apply_test
from holdfast.blueprint.expressions.values import Path, Undefined, attribute, item, kind, shown_key
from holdfast.blueprint.json_values import JSON, JSONObject


class Walker(Bounds):
    """The state of one call of `evaluate` or `render`: the names it sees and what it may still spend."""

    __slots__ = ("local", "names")

    def __init__(self, names: Mapping[str, JSON]) -> None:
        super().__init__()
        self.names = names
        self.local: JSONObject = {}  # replaced, not changed, on entering a loop

    def value(self, node: nodes.Node) -> JSON:
        """Return the value of an expression, which may be undefined."""
        # `pay`, written out: this runs for each node.
        self.remaining -= 1
        if self.remaining < 0:
            self.pay(0)
        try:
            return EXPRESSIONS[type(node)](self, node)
        except ExpressionError as error:
            error.line = error.line or node.lineno
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise ExpressionError(shorten(str(error), 200), line=node.lineno) from error

    def require_value(self, node: nodes.Node) -> JSON:
        """Return the value of an expression. Raises `ExpressionError` if it is undefined."""
        value = self.value(node)
        if isinstance(value, Undefined):
            value.refuse(node.lineno)
        return value

    def text_from(self, body: list[nodes.Node]) -> str:
        parts: list[str] = []
        size = 0
        self.local = {}

        def write(part: str) -> None:
            nonlocal size
            size += len(part)
            if size > self.most_text:
                self.room_for_text(size)
            self.pay(1 + len(part) // self.text_per_step)
            parts.append(part)

        self.run(body, write)
        return "".join(parts)

    def run(self, body: list[nodes.Node], write: Callable[[str], None]) -> None:
        for statement in body:
            self.pay(1)
            try:
                STATEMENTS[type(statement)](self, statement, write)
            except ExpressionError as error:
                error.line = error.line or statement.lineno
                raise

    def bind(self, target: nodes.Node, value: object) -> None:
        """Bind a target to a value: `target` is a name, or a tuple of targets that takes a list apart."""
        self.pay(1)
        if isinstance(target, nodes.Name):
            self.local[target.name] = value
        elif isinstance(target, nodes.Tuple):
            if not isinstance(value, list) or len(value) != len(target.items):
                actual = f"{len(value)} elements" if isinstance(value, list) else kind(value)
                raise ExpressionError(f"expects {len(target.items)} elements, not {actual}")
            for part, element in zip(target.items, value, strict=True):
                self.bind(part, element)


# Names, keys, literals


def _const(walker: Walker, node: nodes.Const) -> JSON:
    return node.value


def _name(walker: Walker, node: nodes.Name) -> JSON:
    name = node.name
    if name in walker.local:
        return walker.local[name]
    if name in walker.names:
        return walker.names[name]
    candidates = [*walker.local, *walker.names]
    hint = did_you_mean(name, candidates) or "known: " + (", ".join(sorted(candidates)[:10]) or "nothing")
    raise ExpressionError(f"unknown name {shorten(name, 40)!r}", hint)


def _getattr(walker: Walker, node: nodes.Getattr) -> JSON:
    of = walker.value(node.node)
    if isinstance(of, dict) and node.attr in of:
        return of[node.attr]
    return attribute(of, node.attr, lambda: write_source(node))


def _getitem(walker: Walker, node: nodes.Getitem) -> JSON:
    of = walker.value(node.node)
    if isinstance(node.arg, nodes.Slice):
        return _refuse_slice(walker, of, node.arg, lambda: write_source(node))
    key = walker.require_value(node.arg)
    if isinstance(of, dict) and isinstance(key, str) and key in of:
        return of[key]
    return item(of, key, lambda: write_source(node))


def _refuse_slice(walker: Walker, of: object, node: nodes.Slice, path: Path) -> JSON:
    start, stop, step = (
        None if part is None else walker.require_value(part) for part in (node.start, node.stop, node.step)
    )
    match of:
        case list():
            part = of[start:stop:step]
            walker.room_for_items(len(part))
            return part
        case str():
            return walker.built_text(of[start:stop:step])
        case Undefined():
            return of.under("[:]")
        case None:
            return Undefined(path())
    raise ExpressionError(f"{path()}: {kind(of)} has no slices")


def write_source(node: nodes.Node | None) -> str:
    """Return the path that an author wrote, for messages."""
    match node:
        case nodes.Name(name=name):
            return str(name)
        case nodes.Getattr(node=of, attr=key):
            return f"{write_source(of)}.{key}"
        case nodes.Getitem(node=of, arg=nodes.Const(value=value)):
            return f"{write_source(of)}[{shown_key(value)}]"
        case nodes.Getitem(node=of, arg=nodes.Slice()):
            return f"{write_source(of)}[:]"
        case nodes.Getitem(node=of, arg=key):
            return f"{write_source(of)}[{write_source(key)}]"
        case nodes.Call(node=of):
            return f"{write_source(of)}()"
        case nodes.Filter(node=of, name=name):
            return f"({write_source(of)} | {name})"
    return "(…)"


def _list(walker: Walker, node: nodes.List | nodes.Tuple) -> list[JSON]:
    return [walker.require_value(part) for part in node.items]


def _dict(walker: Walker, node: nodes.Dict) -> JSONObject:
    built = {}
    for pair in node.items:
        key = walker.require_value(pair.key)
        if not isinstance(key, str):
            raise ExpressionError(f"a key of an object is text, not {kind(key)}")
        built[key] = walker.require_value(pair.value)
    return built


# Logic


def _condition(walker: Walker, node: nodes.CondExpr) -> JSON:
    if walker.value(node.test):
        return walker.value(node.expr1)
    return Undefined("`… if …` without an else") if node.expr2 is None else walker.value(node.expr2)


def _and(walker: Walker, node: nodes.And) -> JSON:
    left = walker.value(node.left)
    return walker.value(node.right) if left else left


def _or(walker: Walker, node: nodes.Or) -> JSON:
    return walker.value(node.left) or walker.value(node.right)


def _not(walker: Walker, node: nodes.Not) -> bool:
    return not walker.value(node.node)


def _compare(walker: Walker, node: nodes.Compare) -> bool:
    left = walker.value(node.expr)
    for operand in node.ops:
        right = walker.value(operand.expr)
        if not operators.COMPARISONS[operand.op](walker, left, right):
            return False
        left = right
    return True


# Arithmetic, text


def _binary(compute: operators.Binary) -> Callable[[Walker, Any], Any]:
    def walk(walker: Walker, node: nodes.BinExpr) -> JSON:
        return compute(walker, walker.require_value(node.left), walker.require_value(node.right))

    return walk


def _negative(walker: Walker, node: nodes.Neg) -> JSON:
    return operators.negative(walker.require_value(node.node))


def _positive(walker: Walker, node: nodes.Pos) -> JSON:
    return operators.positive(walker.require_value(node.node))


def _concat(walker: Walker, node: nodes.Concat) -> str:
    return functions.join_texts(walker, "", [walker.display(walker.require_value(part)) for part in node.nodes])


# Filters, tests, calls


def _filter(walker: Walker, node: nodes.Filter) -> JSON:
    assert node.node is not None  # only a filter block has none
    value = walker.value(node.node)
    args = [walker.value(arg) for arg in node.args]
    return apply_filter(walker, node.name, value, args, _read_named(walker, node))


def _read_named(walker: Walker, node: nodes.Filter) -> JSONObject:
    return {str(pair.key): walker.value(pair.value) for pair in node.kwargs}


def _test(walker: Walker, node: nodes.Test) -> bool:
    return apply_test(walker, node.name, walker.value(node.node), [walker.value(arg) for arg in node.args])


def _call(walker: Walker, node: nodes.Call) -> JSON:
    if isinstance(node.node, nodes.Getattr):
        of = walker.require_value(node.node.node)
        owner, method = functions.METHODS[node.node.attr]
        if not isinstance(of, owner):
            raise ExpressionError(f"{write_source(node.node)}: {kind(of)} has no .{node.node.attr}()")
        return method(walker, of, *[walker.require_value(arg) for arg in node.args])
    assert isinstance(node.node, nodes.Name)  # as checked when it was parsed
    return functions.FUNCTIONS[node.node.name](walker, *[walker.require_value(arg) for arg in node.args])


# Statements


def _output(walker: Walker, node: nodes.Output, write: Callable[[str], None]) -> None:
    for part in node.nodes:
        if isinstance(part, nodes.TemplateData):
            write(part.data)
        else:
            write(walker.display(walker.require_value(part)))


def _set(walker: Walker, node: nodes.Assign, write: Callable[[str], None]) -> None:
    walker.bind(node.target, walker.value(node.node))


def _if(walker: Walker, node: nodes.If, write: Callable[[str], None]) -> None:
    for branch in (node, *node.elif_):
        if walker.value(branch.test):
            return walker.run(branch.body, write)
    return walker.run(node.else_, write)


def _for(walker: Walker, node: nodes.For, write: Callable[[str], None]) -> None:
    """Run a loop; names set in its body end with each turn, as in Jinja."""
    outer = walker.local
    elements = _run_loop(walker, node)
    for index, element in enumerate(elements):
        walker.pay(1 + (len(outer) >> 3))
        walker.local = {**outer, "loop": _loop(index, len(elements))}
        walker.bind(node.target, element)
        walker.run(node.body, write)
    if not elements:
        walker.local = dict(outer)
        walker.run(node.else_, write)
    walker.local = outer


def _run_loop(walker: Walker, node: nodes.For) -> list[JSON]:
    elements = walker.elements(walker.require_value(node.iter))
    if node.test is None:
        return elements
    outer, kept = walker.local, []
    walker.pay(len(outer) >> 3)
    walker.local = dict(outer)
    for element in elements:
        walker.bind(node.target, element)
        if walker.value(node.test):
            kept.append(element)
    walker.local = outer
    return kept


def _loop(index: int, length: int) -> JSONObject:
    return {
        "index": index + 1,
        "index0": index,
        "first": index == 0,
        "last": index == length - 1,
        "length": length,
    }


EXPRESSIONS: dict[type[nodes.Node], Callable[[Walker, Any], Any]] = {
    nodes.Const: _const,
    nodes.Name: _name,
    nodes.Getattr: _getattr,
    nodes.Getitem: _getitem,
    nodes.List: _list,
    nodes.Tuple: _list,
    nodes.Dict: _dict,
    nodes.CondExpr: _condition,
    nodes.And: _and,
    nodes.Or: _or,
    nodes.Not: _not,
    nodes.Compare: _compare,
    nodes.Add: _binary(operators.add),
    nodes.Sub: _binary(operators.subtract),
    nodes.Mul: _binary(operators.multiply),
    nodes.Div: _binary(operators.divide),
    nodes.FloorDiv: _binary(operators.divide_whole),
    nodes.Mod: _binary(operators.remainder),
    nodes.Pow: _binary(operators.power),
    nodes.Neg: _negative,
    nodes.Pos: _positive,
    nodes.Concat: _concat,
    nodes.Filter: _filter,
    nodes.Test: _test,
    nodes.Call: _call,
}

STATEMENTS: dict[type[nodes.Node], Callable[[Walker, Any, Callable[[str], None]], None]] = {
    nodes.Output: _output,
    nodes.Assign: _set,
    nodes.If: _if,
    nodes.For: _for,
}

"""Comparisons and arithmetic before the run: what they give, and which cannot hold or cannot be computed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from typing import Any

from jinja2 import nodes

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.shape import (
    BOOLEAN,
    NUMBER,
    TEXT,
    UNKNOWN,
    Shape,
    Variant,
    find_type,
    join_shapes,
    make_constant,
    make_shape,
)
from holdfast.blueprint.shapes import consents
from holdfast.blueprint.shapes.place import JudgedText
from holdfast.blueprint.shapes.report import (
    describe_types,
    describe_values,
    find_chain,
    locate_value,
    name_node,
    quote,
    suggest_key,
    suggest_value,
)

_FALSE, _TRUE = make_shape("boolean", values=(False,)), make_shape("boolean", values=(True,))
_NUMBERS = frozenset({"number", "boolean"})


def compare(judged: JudgedText, left: nodes.Node, value: Shape, operand: nodes.Operand, other: Shape) -> Shape:
    """Return what one comparison gives; reports one that cannot hold, or cannot be made."""
    if consents.check_comparison(judged, left, value, operand, other):
        return BOOLEAN
    match operand.op:
        case "eq" | "ne":
            return _equal(judged, left, value, operand, other)
        case "in" | "notin":
            return _contain(judged, left, value, operand, other)
    return _order(judged, left, value, operand, other)


def _equal(judged: JudgedText, left: nodes.Node, value: Shape, operand: nodes.Operand, other: Shape) -> Shape:
    _warn_near_option(judged, left, value, [operand.expr])
    _warn_near_option(judged, operand.expr, other, [left])
    is_outside = _is_outside(value, operand.expr) or _is_outside(other, left)
    if may_equal(value, other) and not is_outside:
        return BOOLEAN
    for node, shape, constant in ((left, value, operand.expr), (operand.expr, other, left)):
        if isinstance(constant, nodes.Const) and not isinstance(node, nodes.Const):
            _report_never(judged, node, shape, constant.value)
            break
        if shape.types <= {"list", "null"} and (listed := find_constants(constant)):
            for wanted in listed:
                _check_element(judged, nodes.Const(wanted), make_constant(wanted), node, shape)
            break
    else:
        if not isinstance(left, nodes.Const):
            ours, theirs = _describe(value), _describe(other)
            message = f"{name_node(left)} is {ours}, and {name_node(operand.expr)} is {theirs}: they are never equal"
            judged.report("impossible_comparison", message, "compare values of one kind")
    return _FALSE if operand.op == "eq" else _TRUE


def _warn_near_option(judged: JudgedText, node: nodes.Node, shape: Shape, compared: Sequence[nodes.Node]) -> None:
    """Warn of an answer that is compared with what is nearly one of its options; own words are hardly that."""
    for one in compared:
        match one:
            case nodes.Const(value=str(wanted)) if (option := shape.find_near_option(wanted)) is not None:
                message = f"{name_node(node)} is compared with {quote(wanted)}, which is no option of {shape.step}"
                judged.warn("near_option", message, f"did you mean {quote(option)}?", locate_value(wanted))


def _describe(shape: Shape) -> str:
    return describe_values(shape.values) if shape.values else describe_types(shape)


def _report_never(judged: JudgedText, node: nodes.Node, shape: Shape, wanted: JSON) -> None:
    values = shape.values
    chain = find_chain(node)
    if wanted == "failed" and chain[0] == "steps" and chain[1][1:] == ["status"]:
        hint = f"where {chain[1][0]} fails, the list ends; write on_error: continue there to go on"
    elif values:
        hint = suggest_value(wanted, values)
    elif isinstance(wanted, str) and shape.types <= _NUMBERS | {"null"}:
        hint = f"it is {describe_types(shape)}: write it without quotes"
    elif isinstance(wanted, int | float) and shape.is_text:
        hint = f"it is a text: write '{quote(wanted)}', or read a number with `| int`"
    else:
        hint = f"it is {describe_types(shape)}{_describe_range(shape)}"
    judged.report("impossible_comparison", f"{name_node(node)} is never {quote(wanted)}", hint, locate_value(wanted))


def _describe_range(shape: Shape) -> str:
    least, most = _find_range(shape)
    parts = [
        f"{word} {quote(bound)}" for word, bound in (("of at least", least), ("of at most", most)) if bound is not None
    ]
    return f" {' and '.join(parts)}" if parts else ""


def may_equal(value: Shape, other: Shape) -> bool:
    """Return whether two values may be equal; both may be null unless they are constants."""
    types, others = (_merge_numbers(shape.types) for shape in (value, other))
    if not types & others - {"null"}:
        return "null" in value.types & other.types or {"null"} in (value.types, other.types)
    if "null" in types & others:
        return True
    if types | others <= {"list", "null"}:
        return _may_hold(value, other) and _may_hold(other, value)
    if value.values is None or other.values is None:
        return True
    return any(one == another for one in value.values for another in other.values)


def _may_hold(value: Shape, other: Shape) -> bool:
    """Return whether a list may have the elements that another one surely has."""
    return all(may_equal(member, value.element) for member in other.members)


def _merge_numbers(types: frozenset[str]) -> frozenset[str]:
    """Return the types without the difference of true and 1, which are equal in expressions."""
    return (types - {"boolean"}) | {"number"} if "boolean" in types else types


def _contain(judged: JudgedText, left: nodes.Node, value: Shape, operand: nodes.Operand, other: Shape) -> Shape:
    if isinstance(operand.expr, nodes.List | nodes.Tuple):
        _warn_near_option(judged, left, value, operand.expr.items)
    listed = find_constants(operand.expr)
    if listed is not None and value.types != {"null"}:
        impossible = [one for one in listed if not may_equal(value, make_shape(find_type(one), values=(one,)))]
        for wanted in impossible:
            _report_never(judged, left, value, wanted)
        if len(impossible) == len(listed):
            return _FALSE if operand.op == "in" else _TRUE
        return BOOLEAN
    if not other.may_be("list", "object", "text"):
        message = f"{name_node(operand.expr)} is {describe_types(other)}, in which nothing can be found"
        judged.report("bad_shape", message, "`in` needs a list, an object or a text")
    elif other.types <= {"text", "null"} and not value.may_be("text"):
        message = f"{name_node(left)} is {describe_types(value)}, which cannot be in a text"
        judged.report("bad_shape", message, "`| string` makes text of a value")
    else:
        _check_element(judged, left, value, operand.expr, other)
    return BOOLEAN


def _check_element(judged: JudgedText, left: nodes.Node, value: Shape, elements: nodes.Node, other: Shape) -> None:
    """Report a constant that no element of a list is, or no key of an object."""
    match left:
        case nodes.Const(value=str(key)) if other.types <= {"object", "null"} and other.find_key(key) is None:
            message = f"{name_node(elements)} never has {quote(key)}"
            judged.report("impossible_comparison", message, suggest_key(key, other), locate_value(key))
        case nodes.Const(value=wanted) if other.types <= {"list", "null"} and not may_equal(other.element, value):
            element = other.element
            hint = suggest_value(wanted, element.values) if element.values else f"each is {describe_types(element)}"
            message = f"{quote(wanted)} is never in {name_node(elements)}"
            judged.report("impossible_comparison", message, hint, locate_value(wanted))


def find_constants(node: nodes.Node) -> list[JSON] | None:
    """Return the values of a list of constants; None for any other expression."""
    if not isinstance(node, nodes.List | nodes.Tuple):
        return None
    constants = [part for part in node.items if isinstance(part, nodes.Const)]
    return [part.value for part in constants] if len(constants) == len(node.items) else None


def _order(judged: JudgedText, left: nodes.Node, value: Shape, operand: nodes.Operand, other: Shape) -> Shape:
    if not need_order(judged, [(left, value), (operand.expr, other)]):
        return BOOLEAN
    match operand.expr:
        case nodes.Const(value=int() | float() as bound):
            return _decide_order(value, operand.op, bound)
    return BOOLEAN


def need_order(judged: JudgedText, values: Sequence[tuple[nodes.Node, Shape]]) -> bool:
    """Return whether values may have an order; report one that has none, or two that have none together."""
    for node, shape in values:
        if not shape.may_be("text", "number", "boolean"):
            message = f"{name_node(node)} is {describe_types(shape)}, which is neither more nor less than anything"
            judged.report("bad_shape", message, "compare numbers or texts; `| length` counts")
            return False
    for (node, shape), (other_node, other) in combinations(values, 2):
        if not _merge_numbers(shape.types) & _merge_numbers(other.types) & {"text", "number"}:
            message = (
                f"{name_node(node)} is {describe_types(shape)}, and {name_node(other_node)} is {describe_types(other)}"
            )
            hint = "compare numbers with numbers; `| int` reads one"
            judged.report("bad_shape", f"{message}: they have no order", hint)
            return False
    return True


def _decide_order(value: Shape, sign: str, bound: float) -> Shape:
    """Return whether a number of known bounds is surely more or less than another."""
    least, most = _find_range(value)
    never = {
        "lt": least is not None and least >= bound,
        "lteq": least is not None and least > bound,
        "gt": most is not None and most <= bound,
        "gteq": most is not None and most < bound,
    }
    always = {
        "lt": most is not None and most < bound,
        "lteq": most is not None and most <= bound,
        "gt": least is not None and least > bound,
        "gteq": least is not None and least >= bound,
    }
    return _FALSE if never[sign] else _TRUE if always[sign] else BOOLEAN


def _find_range(shape: Shape) -> tuple[float | None, float | None]:
    """Return the least and the most that a number may be; None where that is open, or it may be no number."""
    if not shape.types <= {"number", "null"}:
        return None, None
    least = [variant.least for variant in shape.variants if variant.least is not None]
    most = [variant.most for variant in shape.variants if variant.most is not None]
    every = len(shape.variants)
    return min(least) if len(least) == every else None, max(most) if len(most) == every else None


def _is_outside(shape: Shape, node: nodes.Node) -> bool:
    """Return whether a constant number is outside the bounds of a value."""
    if not isinstance(node, nodes.Const) or isinstance(node.value, bool) or not isinstance(node.value, int | float):
        return False
    least, most = _find_range(shape)
    return (least is not None and node.value < least) or (most is not None and node.value > most)


# Arithmetic


def _add(judged: JudgedText, node: nodes.BinExpr, left: Shape, right: Shape) -> Shape:
    sums = [shape for types, shape in ((_NUMBERS, NUMBER), ({"text"}, TEXT)) if _are_both(types, left, right)]
    if _are_both({"list"}, left, right):
        sums.append(_join_lists(left, right))
    if sums:
        return join_shapes(sums)
    is_text = left.is_text or right.is_text
    message = f"{name_node(node.left)} is {describe_types(left)}, and {name_node(node.right)} {describe_types(right)}"
    hint = "`~` joins values as text" if is_text else "`+` adds numbers, texts or lists"
    judged.report("bad_shape", f"{message}: they cannot be added", hint)
    return left  # nothing comes of it, so that what it is written to stays what it is


def _are_both(types: Collection[str], *shapes: Shape) -> bool:
    return all(shape.may_be(*types) for shape in shapes)


def _join_lists(left: Shape, right: Shape) -> Shape:
    """Return what is known of a list and the elements of another behind it."""
    lists = [variant for shape in (left, right) for variant in shape.variants if "list" in variant.types]
    element = join_shapes([variant.element or UNKNOWN for variant in lists])
    return Shape(own=(Variant(frozenset({"list"}), element=element, members=(*left.members, *right.members)),))


def _compute(judged: JudgedText, node: nodes.BinExpr, left: Shape, right: Shape) -> Shape:
    for part, shape in ((node.left, left), (node.right, right)):
        if not shape.may_be(*_NUMBERS):
            message = f"{name_node(part)} is {describe_types(shape)}: `{node.operator}` needs numbers"
            judged.report("bad_shape", message, "`| int` or `| float` reads a number from a text")
    return NUMBER


ARITHMETIC: dict[type[nodes.Node], Callable[[JudgedText, Any, Shape, Shape], Shape]] = {
    nodes.Add: _add,
    **dict.fromkeys((nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow), _compute),
}

"""Filters, functions and methods before the run: what each takes, and what it gives."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import nodes

from holdfast.blueprint.expressions.functions import METHODS
from holdfast.blueprint.shape import BOOLEAN, LIST, NUMBER, TEXT, UNKNOWN, Shape, join_shapes, make_shape
from holdfast.blueprint.shapes.arguments import check_method
from holdfast.blueprint.shapes.elements import look_into
from holdfast.blueprint.shapes.operators import need_order
from holdfast.blueprint.shapes.place import JudgedText
from holdfast.blueprint.shapes.report import describe_types, locate_value, name_node, suggest_key
from holdfast.blueprint.shapes.rules import find_entry, need_number, need_text, read_elements, take_part

_OF_TEXT = {
    "capitalize": TEXT,
    "indent": TEXT,
    "lower": TEXT,
    "replace": TEXT,
    "title": TEXT,
    "trim": TEXT,
    "truncate": TEXT,
    "upper": TEXT,
    "wordcount": NUMBER,
    "fromjson": UNKNOWN,
}
_OF_NUMBER = ("abs", "round")
_OF_ELEMENTS = {
    "join": TEXT,
    "sum": NUMBER,
    "map": LIST,
    "batch": LIST,
    "slice": LIST,
    "items": LIST,
    "dictsort": LIST,
}
_SAME_ELEMENTS = ("list", "sort", "unique", "select", "reject", "selectattr", "rejectattr")
_ONE_ELEMENT = ("first", "last", "min", "max")
_OF_OBJECT = ("items", "dictsort")
_AS_IT_IS = "a list is gone through as it is"
_OF_ANY = {"string": TEXT, "tojson": TEXT, "int": UNKNOWN, "float": UNKNOWN, "size": NUMBER}
_READING = ("int", "float")
_ORDERED = (("number", "boolean", "text"), "numbers or texts")
_NEEDS = {"sum": (("number", "boolean"), "numbers"), **dict.fromkeys(("min", "max", "sort"), _ORDERED)}
"""Filters that look at each element, the types that one of them needs, and these in words."""
_COUNTED = ("count", "length")
_METHODS = {
    "items": LIST,
    "keys": make_shape("list", element=TEXT),
    "values": LIST,
    "lower": TEXT,
    "upper": TEXT,
    "strip": TEXT,
    "split": make_shape("list", element=TEXT),
    "startswith": BOOLEAN,
    "endswith": BOOLEAN,
    "replace": TEXT,
    "join": TEXT,
}


def filter_value(judged: JudgedText, node: nodes.Filter, value: Shape) -> Shape:
    """Return what a filter gives; reports a value that it cannot take."""
    name, of = node.name, node.node
    assert of is not None  # only a filter block has none
    if name in ("default", "d"):
        given = node.args[0] if node.args else None
        return join_shapes([value, _read_default(given)])
    if name in _OF_TEXT:
        need_text(judged, of, value)
        return _OF_TEXT[name]
    if name in _OF_NUMBER:
        return need_number(judged, of, value)
    if name in _COUNTED:
        return _count(judged, of, value)
    if name in _READING:
        _check_readable(judged, name, of, value)
    if name in _OF_ANY:
        return _OF_ANY[name]
    if name == "reverse":
        read_elements(judged, of, value)
        return take_part(value)
    if name in _OF_OBJECT and not value.may_be("object"):
        judged.report("bad_shape", f"{name_node(of)} is {describe_types(value)}: `{name}` needs an object", _AS_IT_IS)
        return LIST
    element = read_elements(judged, of, value)
    if name == "join":
        _check_join(judged, node, of, value)
    seen = look_into(judged, node, element)
    if name in _NEEDS and value.types <= {"list", "null"}:  # a text may be empty
        _check_elements(judged, name, of, seen, value.members if seen is element else ())
    if name == "map" and not node.args:
        return make_shape("list", element=seen)
    if name in _OF_ELEMENTS:
        return _OF_ELEMENTS[name]
    if name in _SAME_ELEMENTS:
        return make_shape("list", element=element)
    return element if name in _ONE_ELEMENT else UNKNOWN


def _check_elements(judged: JudgedText, name: str, of: nodes.Node, seen: Shape, members: Sequence[Shape] = ()) -> None:
    """Report elements, or what is looked at in each, that cannot be added or have no order.

    Args:
        members: What surely is among the elements, as it is looked at.
    """
    types, wanted = _NEEDS[name]
    wrong = next((one for one in (seen, *members) if not one.may_be(*types)), None)
    if wrong is not None:
        message = f"what `{name}` looks at in {name_node(of)} is {describe_types(wrong)}: it needs {wanted}"
        judged.report("bad_shape", message, "name the part of each: attribute='…', or make numbers: map('int')")
    elif types == _ORDERED[0]:
        parts = of.items if isinstance(of, nodes.List | nodes.Tuple) else [of] * len(members)
        need_order(judged, list(zip(parts, members, strict=True)))


def _check_readable(judged: JudgedText, name: str, of: nodes.Node, value: Shape) -> None:
    """Warn of a list or an object that is read as a number: what comes of it is the default."""
    if value.types <= {"list", "object", "null"} and value.types != {"null"}:
        message = f"{name_node(of)} is {describe_types(value)}: `{name}` gives its default"
        judged.warn("unread_number", message, "read a part of it, or count it: `| length`")


def _check_join(judged: JudgedText, node: nodes.Filter, of: nodes.Node, value: Shape) -> None:
    """Warn of an object or a text whose keys or letters are joined; without a separator a text stays as it is."""
    if value.types <= {"object", "null"} and value.types != {"null"}:
        message, hint = f"{name_node(of)} is an object: its keys are joined", "join its values: .values() | join(', ')"
    elif value.is_text and node.args:
        message, hint = f"{name_node(of)} is a text: its letters are joined", "print it as it is, or .split() it first"
    else:
        return
    judged.warn("joined_parts", message, hint)


def _read_default(node: nodes.Node | None) -> Shape:
    match node:
        case None:
            return TEXT
        case nodes.Const(value=str()):
            return TEXT
        case nodes.Const(value=bool()):
            return BOOLEAN
        case nodes.Const(value=int() | float()):
            return NUMBER
        case nodes.List():
            return LIST
    return UNKNOWN


def _count(judged: JudgedText, node: nodes.Node, value: Shape) -> Shape:
    if not value.may_be("text", "list", "object"):
        message = f"{name_node(node)} is {describe_types(value)}, and has no length"
        judged.report("bad_shape", message, "a text, a list or an object has one")
    return NUMBER


def call_function(judged: JudgedText, node: nodes.Call, arguments: Sequence[Shape]) -> Shape:
    """Return what `len`, `min`, `max`, `abs` or `range` gives."""
    assert isinstance(node.node, nodes.Name)  # as checked when it was parsed
    match node.node.name:
        case "len":
            return _count(judged, node.args[0], arguments[0])
        case "abs":
            return need_number(judged, node.args[0], arguments[0])
        case "range":
            for argument, shape in zip(node.args, arguments, strict=True):
                need_number(judged, argument, shape)
            return make_shape("list", element=NUMBER)
        case "min" | "max" if len(arguments) == 1:
            element = read_elements(judged, node.args[0], arguments[0])
            if arguments[0].types <= {"list", "null"}:
                _check_elements(judged, node.node.name, node.args[0], element, arguments[0].members)
            return element
    need_order(judged, list(zip(node.args, arguments, strict=True)))  # `min` or `max`
    return join_shapes(list(arguments))


def call_method(judged: JudgedText, node: nodes.Call, of: Shape, arguments: Sequence[Shape]) -> Shape:
    """Return what a method gives; reports a value that has none of that name."""
    assert isinstance(node.node, nodes.Getattr)
    name = node.node.attr
    owner = "object" if METHODS[name][0] is dict else "text"
    if not of.may_be(owner):
        message = f"{name_node(node.node.node)} is {describe_types(of)}, and has no .{name}()"
        hint = "`| string` makes text of a value" if owner == "text" else "only an object has it"
        judged.report("bad_shape", message, hint)
    check_method(judged, node, name, arguments)
    match name, node.args:
        case "get", [nodes.Const(value=str(key)), *_] if of.types != {"null"}:
            return _get(judged, node, of, key)
        case "get", [key, *others] if of.types <= {"object", "null"} and arguments[0].values:
            found = find_entry(judged, node.node.node, key, of, arguments[0])
            return UNKNOWN if others else found
    return _METHODS.get(name, UNKNOWN)


def _get(judged: JudgedText, node: nodes.Call, of: Shape, key: str) -> Shape:
    """Return what `.get(key)` gives; reports a key that the object cannot have."""
    assert isinstance(node.node, nodes.Getattr)
    found = of.find_key(key)
    if found is None and of.may_be("object"):
        message = f"{name_node(node.node.node)} has no {key!r}"
        judged.report("unknown_field", message, suggest_key(key, of), locate_value(key))
    return UNKNOWN if found is None or len(node.args) > 1 else found

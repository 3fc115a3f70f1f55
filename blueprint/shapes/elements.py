"""Filters that look into the elements of a list: by an attribute (`map`, `sort`), or by a test (`select`)."""

from __future__ import annotations

import re
from typing import Any

from jinja2 import nodes

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.shape import UNKNOWN, Shape, make_constant
from holdfast.blueprint.shapes.operators import find_constants, may_equal
from holdfast.blueprint.shapes.place import JudgedText
from holdfast.blueprint.shapes.report import describe_types, locate_value, name_node, quote, suggest_value

_FIRST = ("selectattr", "rejectattr", "groupby", "sum")
"""Filters whose first argument is the attribute."""
_SELECTING = ("select", "reject", "selectattr", "rejectattr")
_EQUAL = ("equalto", "eq", "==", "ne", "!=")


def look_into(judged: JudgedText, node: nodes.Filter, element: Shape) -> Shape:
    """Return what is known of the part of each element that a filter looks at; reports what no element has or is."""
    attribute = _find_attribute(node)
    seen = element if attribute is None else _read_attribute(judged, node, element, attribute)
    if node.name in _SELECTING:
        _check_test(judged, node, seen, attribute)
    return seen


def _find_attribute(node: nodes.Filter) -> str | None:
    named = [pair.value for pair in node.kwargs if pair.key == "attribute"]
    match [*named, *(node.args[:1] if node.name in _FIRST else [])]:
        case [nodes.Const(value=str(attribute)), *_]:
            return attribute
    return None


def _read_attribute(judged: JudgedText, node: nodes.Filter, element: Shape, attribute: str) -> Shape:
    here, of = element, name_node(_find_elements(node))
    for key in attribute.split("."):
        if here.types == {"null"} or key.isdecimal() or any(pair.key == "default" for pair in node.kwargs):
            return UNKNOWN
        found = here.find_key(key)
        if found is None:
            each = f"each has {', '.join(here.keys)}" if here.keys else f"each is {describe_types(here)}"
            hint = did_you_mean(key, here.keys) or each
            judged.report("unknown_field", f"no element of {of} has {key!r}", hint, rf"\b({re.escape(key)})\b")
            return UNKNOWN
        here = found
    return here


def _check_test(judged: JudgedText, node: nodes.Filter, seen: Shape, attribute: str | None) -> None:
    """Report a constant that no element is equal to."""
    listed: list[Any] = []
    match node.args[0 if attribute is None else 1 :]:
        case [nodes.Const(value=test), nodes.Const(value=wanted)] if test in _EQUAL:
            listed = [wanted]
        case [nodes.Const(value="in"), values]:
            listed = find_constants(values) or []
    for wanted in listed:
        if wanted is not None and not may_equal(seen, make_constant(wanted)):
            of = name_node(_find_elements(node))
            hint = suggest_value(wanted, seen.values) if seen.values else f"each is {describe_types(seen)}"
            where = of if attribute is None else f"{attribute} of {of}"
            judged.report("impossible_comparison", f"{quote(wanted)} is never in {where}", hint, locate_value(wanted))


def _find_elements(node: nodes.Filter) -> nodes.Node:
    assert node.node is not None  # only a filter block has none
    return node.node

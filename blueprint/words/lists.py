"""Filters of expressions in plain words: `x | reject('none')` is "the elements of x that are not null"."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jinja2 import nodes

Say = Callable[[nodes.Node], str]
"""Says an expression as a noun; it may raise, where there are no words for it."""

FILTERED = {
    "abs": "{} without its sign",
    "capitalize": "{} with a capital letter",
    "count": "the length of {}",
    "first": "the first of {}",
    "float": "{}",
    "fromjson": "{}",
    "int": "{}",
    "last": "the last of {}",
    "length": "the length of {}",
    "list": "{}",
    "lower": "{} in small letters",
    "max": "the greatest of {}",
    "min": "the least of {}",
    "reverse": "{} in reverse order",
    "round": "{} rounded",
    "size": "{}, or its length,",
    "sort": "{} sorted",
    "string": "{}",
    "sum": "the sum of {}",
    "title": "{} with capital letters",
    "tojson": "{} as JSON",
    "trim": "{}",
    "unique": "{}, each once,",
    "upper": "{} in capitals",
}
METHODS = {"lower": "lower", "strip": "trim", "upper": "upper"}
"""Methods that do what a filter does."""
_OF_ATTRIBUTE = {
    "map": "the {1} of each of {0}",
    "max": "the one of {0} with the greatest {1}",
    "min": "the one of {0} with the least {1}",
    "sort": "{0} sorted by {1}",
    "sum": "the sum of the {1} of each of {0}",
    "unique": "{0}, each {1} once,",
}
_COUNTING = ("count", "length")
_SELECTING = {"select": False, "selectattr": False, "reject": True, "rejectattr": True}
"""Filters that keep elements by a test, and whether the test is negated."""
_COMPARED = {
    **dict.fromkeys(("eq", "==", "equalto", "sameas"), ("is", "is not")),
    **dict.fromkeys(("ne", "!="), ("is not", "is")),
    **dict.fromkeys(("gt", ">", "greaterthan"), ("is more than", "is at most")),
    **dict.fromkeys(("lt", "<", "lessthan"), ("is less than", "is at least")),
    **dict.fromkeys(("ge", ">="), ("is at least", "is less than")),
    **dict.fromkeys(("le", "<="), ("is at most", "is more than")),
    "in": ("is one of", "is none of"),
}
_TESTED = {
    "defined": ("is given", "is not given"),
    "undefined": ("is not given", "is given"),
    "none": ("is null", "is not null"),
}


def say_list_filter(node: nodes.Filter, say: Say) -> str | None:
    """Return what a filter keeps, reads or counts of the elements of a list; None for any other filter."""
    attribute = _find_attribute(node)
    if attribute is not None:
        words = _OF_ATTRIBUTE.get(node.name)
        return None if words is None else words.format(say(_skip_list(node.node)), attribute)
    if node.name in _COUNTING and not node.args and not node.kwargs:
        selected = _say_selected(_skip_list(node.node), say)
        return None if selected is None else f"the number of {selected}"
    selected = _say_selected(node, say)
    return None if selected is None else f"the {selected}"


def _find_attribute(node: nodes.Filter) -> object:
    """Return the constant `attribute` of a filter that is given nothing else; None for any other."""
    if node.args or len(node.kwargs) != 1 or node.kwargs[0].key != "attribute":
        return None
    value = node.kwargs[0].value
    return value.value if isinstance(value, nodes.Const) else None


def _skip_list(node: nodes.Node | None) -> nodes.Node:
    """Return what `| list` is applied to, which changes nothing."""
    match node:
        case nodes.Filter(name="list", args=[], kwargs=[], node=nodes.Expr() as of):
            return _skip_list(of)
    assert node is not None  # only a filter block has none
    return node


def _say_selected(node: nodes.Node, say: Say) -> str | None:
    match node:
        case nodes.Filter(name=name, args=args, kwargs=[], node=nodes.Expr() as of) if name in _SELECTING:
            elements = f"elements of {say(_skip_list(of))}"
            if name in ("select", "reject"):
                holds = _say_test(args, say, negated=_SELECTING[name])
                return None if holds is None else f"{elements} that {holds.replace('is', 'are', 1)}"
            match args:
                case [nodes.Const(value=str(key)), *test]:
                    holds = _say_test(test, say, negated=_SELECTING[name])
                    return None if holds is None else f"{elements} whose {key} {holds}"
    return None


def _say_test(args: Sequence[nodes.Expr], say: Say, *, negated: bool) -> str | None:
    """Return what a test says of its subject, as `is 'failed'`; None for one without words."""
    match args:
        case []:
            return "is false or empty" if negated else "is true or not empty"
        case [nodes.Const(value=str(name))] if name in _TESTED:
            return _TESTED[name][negated]
        case [nodes.Const(value=str(name)), other] if name in _COMPARED:
            parts = other.items if name == "in" and isinstance(other, nodes.List | nodes.Tuple) else [other]
            return f"{_COMPARED[name][negated]} {' or '.join(map(say, parts))}"
    return None

"""What filters, methods and tests are given, the bounds of slices, and indices: values that count or are looked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jinja2 import nodes

from holdfast.blueprint.expressions.values import is_integer
from holdfast.blueprint.shape import Shape
from holdfast.blueprint.shapes.place import JudgedText
from holdfast.blueprint.shapes.report import describe_types, locate_value, name_node


@dataclass(frozen=True)
class _Form:
    """What a value has to be: its types, and these in words."""

    types: tuple[str, ...]
    words: str
    is_whole: bool = True
    """Numbers have to be whole."""

    def takes(self, shape: Shape) -> bool:
        if not shape.may_be(*self.types):
            return False
        only_numbers = self.is_whole and shape.types == {"number"} and shape.values
        return not only_numbers or any(map(is_integer, shape.values or ()))


_TEXT = _Form(("text",), "a text")
_TEXT_OR_NULL = _Form(("text", "null"), "a text")
_TEXTS = _Form(("text", "list"), "a text, or a list of texts")
_COUNT = _Form(("number",), "a whole number")
_COUNT_OR_NULL = _Form(("number", "null"), "a whole number")
_COUNT_OR_TEXT = _Form(("number", "text"), "a whole number or a text")
_BOUND = _Form(("number", "boolean", "null"), "a whole number")
_ANY = None
_FILTERS: Mapping[str, Mapping[str, _Form | None]] = {
    "batch": {"linecount": _COUNT},
    "indent": {"width": _COUNT_OR_TEXT},
    "int": {"default": _ANY, "base": _COUNT},
    "join": {"d": _TEXT},
    "replace": {"old": _TEXT, "new": _TEXT, "count": _COUNT},
    "round": {"precision": _COUNT, "method": _TEXT},
    "slice": {"slices": _COUNT},
    "tojson": {"indent": _COUNT_OR_NULL},
    "trim": {"chars": _TEXT_OR_NULL},
    "truncate": {"length": _COUNT, "killwords": _ANY, "end": _TEXT, "leeway": _COUNT},
}
"""The arguments of each filter by their names, in their order."""
_METHODS: Mapping[str, tuple[_Form, ...]] = {
    "endswith": (_TEXTS,),
    "get": (_TEXT,),
    "replace": (_TEXT, _TEXT, _COUNT),
    "split": (_TEXT_OR_NULL, _COUNT),
    "startswith": (_TEXTS,),
    "strip": (_TEXT_OR_NULL,),
}
_NUMBER = _Form(("number", "boolean"), "a number", is_whole=False)
_TESTS: Mapping[str, _Form] = {"divisibleby": _NUMBER}


def check_filter(judged: JudgedText, node: nodes.Filter, arguments: Iterable[Shape]) -> None:
    """Report an argument that a filter cannot take.

    Args:
        arguments: What is known of the arguments: first those in order, then those by name.
    """
    forms: Mapping[str, _Form | None] = _FILTERS.get(node.name, {})
    in_order = [*forms.values(), *([None] * len(node.args))][: len(node.args)]
    wanted = [*in_order, *(forms.get(str(pair.key)) for pair in node.kwargs)]
    parts = [*node.args, *(pair.value for pair in node.kwargs)]
    for form, part, shape in zip(wanted, parts, arguments, strict=True):
        _check(judged, f"`{node.name}`", part, shape, form)


def check_method(judged: JudgedText, node: nodes.Call, name: str, arguments: Iterable[Shape]) -> None:
    """Report an argument that a method cannot take."""
    for part, shape, form in zip(node.args, arguments, _METHODS.get(name, ()), strict=False):
        _check(judged, f".{name}()", part, shape, form)


def check_test(judged: JudgedText, node: nodes.Test, arguments: Iterable[Shape]) -> None:
    """Report an argument that a test cannot take."""
    for part, shape in zip(node.args, arguments, strict=True):
        _check(judged, f"`is {node.name}`", part, shape, _TESTS.get(node.name))


def check_slice(judged: JudgedText, bounds: Iterable[tuple[nodes.Node, Shape]]) -> None:
    """Report a bound of a slice that does not count."""
    for part, shape in bounds:
        _check(judged, "a slice", part, shape, _BOUND)


def check_index(judged: JudgedText, node: nodes.Getitem, of: Shape, key: Shape) -> None:
    """Report an index that does not count, or a number in place of the key of an object."""
    of_object, of_list = of.types <= {"object", "null"}, of.types <= {"list", "text", "null"}
    if of.types != {"null"} and (of_object or of_list):
        name = name_node(node.node)
        what = f"{name} is an object, and has keys, which are texts: it" if of_object else f"an element of {name}"
        _check(judged, what, node.arg, key, _TEXT if of_object else _COUNT)


def _check(judged: JudgedText, what: str, part: nodes.Node, shape: Shape, form: _Form | None) -> None:
    if form is None or form.takes(shape):
        return
    message = f"{what} needs {form.words}, and {name_node(part)} is {describe_types(shape)}"
    hint = "`| string` makes text of a value" if "text" in form.types else "write it without quotes, or `| int`"
    at = locate_value(part.value) if isinstance(part, nodes.Const) else None
    judged.report("bad_shape", message, hint, at)

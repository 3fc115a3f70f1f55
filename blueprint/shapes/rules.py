"""Rules of reading: keys, elements and parts that a value cannot have."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import nodes

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.shape import NUMBER, TEXT, UNKNOWN, Shape, join_shapes, make_shape
from holdfast.blueprint.shapes import consents
from holdfast.blueprint.shapes.place import PREVIOUS, JudgedText
from holdfast.blueprint.shapes.report import (
    MOST_KEYS,
    describe_types,
    find_chain,
    locate_key,
    locate_value,
    name_node,
    quote,
    suggest_key,
    suggest_value,
)

_INSTEAD = {
    "length": "write `| length`",
    "size": "write `| length`",
    "first": "write `| first`",
    "last": "write `| last`",
}


def read_key(judged: JudgedText, node: nodes.Getattr | nodes.Getitem, of: Shape, key: str) -> Shape:
    """Return what is known under a key; reports one that the value cannot have."""
    found = of.find_key(key)
    if consents.check_key(judged, node, of, key, has_key=found is not None):
        return UNKNOWN
    if found is None and of.types != {"null"}:
        _report_key(judged, node, of, key)
        return UNKNOWN
    if not of.lists(key) and of.keys:
        message = f"nothing says that {name_node(node.node)} has {key!r}"
        hint = did_you_mean(key, of.keys) or f"it lists {', '.join(of.keys[:MOST_KEYS])}"
        judged.warn("unlisted_key", message, hint, locate_key(node.node, key))
    return UNKNOWN if found is None else found


def _report_key(judged: JudgedText, node: nodes.Getattr | nodes.Getitem, of: Shape, key: str) -> None:
    at, above = locate_key(node.node, key), name_node(node.node)
    root = find_chain(node)[0]
    if key == "output" and isinstance(node.node, nodes.Name) and root in PREVIOUS:
        message = f"{root} is the output of the step before already, and has no 'output'"
        judged.report("bad_shape", message, f"write {root}", at)
    elif of.may_be("object"):
        judged.report("unknown_field", f"{above} has no {key!r}", suggest_key(key, of), at)
    else:
        hint = _INSTEAD.get(key, "read it as a whole, or let it be an object")
        judged.report("bad_shape", f"{above} is {describe_types(of)}, and has no key {key!r}", hint, at)


def check_print(judged: JudgedText, node: nodes.Node) -> None:
    """Warn of an output that is printed in a text, and may be null there."""
    match find_chain(node):
        case "steps", [name, "output"] if (
            name in judged.place.null_causes and f"steps.{name}" not in judged.place.looked_at
        ):
            message = f"{name_node(node)} may be null in this text: {judged.place.null_causes[name]}"
            hint = f"say what stands there then: {name_node(node)} | default('nothing', true)"
            judged.warn("null_in_text", message, hint, locate_key(nodes.Name("steps", "load"), name))


def check_presence(judged: JudgedText, node: nodes.Node) -> None:
    """Warn of a key that an object may leave out, where the expression fails without it."""
    root, keys = find_chain(node)
    if root == "steps" and keys[1:2] == ["output"] and keys[2:]:
        _check_null(judged, keys)
    start, shapes = _find_given(judged, root, keys)
    below = keys[start:]
    counts = [count for shape in shapes if (count := shape.find_optional(below)) is not None]
    if not counts:
        return
    count = min(counts)
    reference = ".".join([root, *keys[: start + count]])
    if reference not in judged.place.looked_at:
        message = f"{reference} may be missing, and then this fails: nothing requires it, and it has no default"
        hint = f"require it, or say what stands there then: {reference} | default(…)"
        judged.warn("optional_key", message, hint, locate_key(_find_above(node, len(below) - count), below[count - 1]))


def _check_null(judged: JudgedText, keys: Sequence[str]) -> None:
    """Warn of a key of an output that may be null."""
    name, output = keys[0], f"steps.{keys[0]}.output"
    if name in judged.place.null_causes and not {f"steps.{name}", output} & judged.place.looked_at:
        message = f"{output} may be null, and then this fails: {judged.place.null_causes[name]}"
        hint = f"say what stands there then: {output}.{keys[2]} | default(…)"
        judged.warn("optional_key", message, hint, locate_key(nodes.Name("steps", "load"), name))


def _find_given(judged: JudgedText, root: str, keys: Sequence[str]) -> tuple[int, Sequence[Shape]]:
    """Return how many of the keys lead to a value that is given as a whole, and what it may be."""
    if root == "input" or root in PREVIOUS:
        return 0, [judged.place.find(root)]
    if root == "steps" and keys[1:2] == ["output"]:
        return 2, [(judged.place.find(root).find_key(keys[0]) or UNKNOWN).find_key("output") or UNKNOWN]
    # Whether the key of the context has been written by then is not followed.
    return 1, judged.place.written.get(keys[0], ()) if root == "context" and keys else ()


def _find_above(node: nodes.Node, levels: int) -> nodes.Node:
    """Return the reference above the key at so many levels from the end."""
    for _ in range(levels + 1):
        assert isinstance(node, nodes.Getattr | nodes.Getitem)
        node = node.node
    return node


def check_truth(judged: JudgedText, node: nodes.Node) -> None:
    """Report a whole step that is tested for truth."""
    match find_chain(node):
        case "steps", [name]:
            message = f"{name_node(node)} is the whole step, which is true however it ended"
            judged.report(
                "bad_shape", message, f"write {name_node(node)}.output", locate_key(nodes.Name("steps", "load"), name)
            )


def read_item(judged: JudgedText, node: nodes.Getitem, of: Shape, key: Shape) -> Shape:
    """Return what is known of an element of a list or a text, or of a value of an object."""
    if not of.may_be("object", "list", "text", "null"):
        judged.report(
            "bad_shape", f"{name_node(node.node)} is {describe_types(of)}, and has no elements", "read it as a whole"
        )
        return UNKNOWN
    if of.types <= {"object", "null"} and key.values:
        return find_entry(judged, node.node, node.arg, of, key)
    if of.may_be("object") or not key.types <= {"number"}:
        return UNKNOWN
    return of.element


def find_entry(judged: JudgedText, table: nodes.Node, key: nodes.Node, of: Shape, index: Shape) -> Shape:
    """Return what is known under a key that is one of several; report what no key finds, or what finds no key.

    Args:
        table: The object. Where it stands in the expression itself, each of its keys is meant to be found.
        index: What is known of the key.
    """
    keys = [value for value in index.values or () if isinstance(value, str)]
    found = [shape for one in keys if (shape := of.find_key(one)) is not None]
    unread = [one for one in of.keys if one not in keys] if isinstance(table, nodes.Dict) else []
    if keys and not found and not unread:
        judged.report("unknown_field", f"{name_node(table)} has no {quote(keys[0])}", suggest_key(keys[0], of))
    for one in unread:
        hint = suggest_value(one, keys)
        judged.report("impossible_comparison", f"{name_node(key)} is never {quote(one)}", hint, locate_value(one))
    return join_shapes(found) if found else UNKNOWN


def read_slice(judged: JudgedText, node: nodes.Getitem, of: Shape) -> Shape:
    if not of.may_be("list", "text", "null"):
        message = f"{name_node(node.node)} is {describe_types(of)}, and has no slices"
        judged.report("bad_shape", message, "read it as a whole")
        return UNKNOWN
    return take_part(of)


def take_part(of: Shape) -> Shape:
    """Return what is known of a part of a list or a text, or of its elements in another order."""
    parts = [make_shape("list", element=of.element)] if of.may_be("list", "object") else []
    return join_shapes([*parts, TEXT] if of.may_be("text") else parts)


def read_elements(judged: JudgedText, node: nodes.Node, of: Shape) -> Shape:
    """Return what a loop over a value visits."""
    if not of.may_be("list", "object", "text"):
        message = f"{name_node(node)} is {describe_types(of)}, and cannot be gone through"
        judged.report("bad_shape", message, "a list, an object or a text is needed")
        return UNKNOWN
    return of.element


def need_number(judged: JudgedText, node: nodes.Node, value: Shape) -> Shape:
    if not value.may_be("number", "boolean"):
        judged.report(
            "bad_shape", f"{name_node(node)} is {describe_types(value)}, and no number", "`| int` reads a number"
        )
    return NUMBER


def need_text(judged: JudgedText, node: nodes.Node, value: Shape) -> Shape:
    if not value.may_be("text"):
        message = f"{name_node(node)} is {describe_types(value)}, and no text"
        judged.report("bad_shape", message, "`| string` makes text of a value")
    return TEXT

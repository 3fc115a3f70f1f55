"""The reports of the judgement: each mistake once, at the word that is wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jinja2 import nodes

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.expressions.values import shown_key
from holdfast.blueprint.expressions.walk import write_source
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.shape import TYPES, Shape

_WORDS = {
    "text": "a text",
    "number": "a number",
    "boolean": "true or false",
    "list": "a list",
    "object": "an object",
    "null": "null",
}
_MOST_LISTED = 8
MOST_KEYS = 12
"""Most keys of an object that a hint lists."""


class Sink(Protocol):
    """Where mistakes and warnings go: `Findings`, or what makes problems of another kind."""

    def add(self, path: str, code: str, message: str, hint: str | None = None, *, at: str | None = None) -> None: ...
    def add_key(self, path: str, code: str, message: str, hint: str | None = None) -> None: ...
    def warn(self, path: str, code: str, message: str, hint: str, *, at: str | None = None) -> None: ...
    def warn_key(self, path: str, code: str, message: str, hint: str) -> None: ...


@dataclass
class Report:
    """The mistakes found in one document."""

    findings: Sink | None
    """None: nothing is reported, as the steps are walked to learn what they give."""
    told: set[tuple[str, str]] = field(default_factory=set)
    mistakes: int = 0
    """How many of them are errors."""

    def add(self, path: str, code: str, message: str, hint: str, at: str | None = None) -> None:
        self.mistakes += (path, message) not in self.told
        if (findings := self._find_open(path, message)) is not None:
            findings.add(path, code, message, hint, at=at)

    def add_key(self, path: str, code: str, message: str, hint: str) -> None:
        self.mistakes += (path, message) not in self.told
        if (findings := self._find_open(path, message)) is not None:
            findings.add_key(path, code, message, hint)

    def warn(self, path: str, code: str, message: str, hint: str, at: str | None = None) -> None:
        if (findings := self._find_open(path, message)) is not None:
            findings.warn(path, code, message, hint, at=at)

    def warn_key(self, path: str, code: str, message: str, hint: str) -> None:
        if (findings := self._find_open(path, message)) is not None:
            findings.warn_key(path, code, message, hint)

    def _find_open(self, path: str, message: str) -> Sink | None:
        """Return where a mistake goes; None if it is told already."""
        if (path, message) in self.told:
            return None
        self.told.add((path, message))
        return self.findings


def describe_types(shape: Shape) -> str:
    """Return in words what a value of this shape is.

    >>> describe_types(Shape({"type": ["string", "number"]}))
    'a number or a text'
    """
    types = sorted(shape.types - {"null"}) or ["null"]
    return " or ".join(_WORDS[one] for one in types) if shape.types != TYPES else "any value"


def describe_values(values: Sequence[JSON]) -> str:
    """Return a list of values in words.

    >>> describe_values(["red", True, 1])
    "'red', true or 1"
    """
    words = [quote(value) for value in values[:_MOST_LISTED]]
    if len(values) > _MOST_LISTED:
        return f"{', '.join(words)}, …"
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else "".join(words)


def quote(value: JSON) -> str:
    """Return a value as it is written in an expression."""
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else shown_key(value)


def suggest_value(wanted: JSON, values: Sequence[JSON]) -> str:
    texts = [value for value in values if isinstance(value, str)]
    near = did_you_mean(wanted, texts) if isinstance(wanted, str) else None
    return near or f"it is {describe_values(values)}"


def suggest_key(key: str, of: Shape) -> str:
    """Return the key that was meant in place of one that an object does not have, or those that it has."""
    return did_you_mean(key, of.keys) or (f"it has {', '.join(of.keys[:MOST_KEYS])}" if of.keys else "it has none")


def name_node(node: nodes.Node) -> str:
    """Return a part of an expression as it is written, as far as it is short."""
    if isinstance(node, nodes.Const):
        return quote(node.value)
    text = write_source(node)
    return "what is computed here" if text == "(…)" else text


def find_chain(node: nodes.Node) -> tuple[str, list[str]]:
    """Return the name that a reference begins with, and the keys below it; an empty name for other expressions."""
    match node:
        case nodes.Name(name=name):
            return name, []
        case nodes.Getattr(node=above, attr=key) | nodes.Getitem(node=above, arg=nodes.Const(value=str(key))):
            root, keys = find_chain(above)
            return root, [*keys, key] if root else []
    return "", []


def find_read(node: nodes.Node) -> set[str]:
    """Return the references in an expression, also the shorter ones inside them: `steps.ask`, `steps.ask.output`."""
    read = (nodes.Name, nodes.Getattr, nodes.Getitem)
    parts = [node, *node.find_all(read)]
    return {".".join([root, *keys]) for root, keys in map(find_chain, parts) if root and keys}


def locate_key(node: nodes.Node, key: str) -> str:
    """Return the pattern of a key that is read below a reference; the key is its group."""
    root, keys = find_chain(node)
    last = rf"(?:\.\s*|\[\s*\\?['\"])({re.escape(key)})\b"
    if not root:
        return last
    between = "".join(rf"\s*(?:\.\s*|\[\s*\\?['\"]){re.escape(one)}(?:\\?['\"]\s*\])?" for one in keys)
    return rf"(?<![\w.]){re.escape(root)}{between}\s*{last}"


def locate_value(value: JSON) -> str:
    """Return the pattern of a constant; it is its group."""
    return (
        rf"['\"]({re.escape(value)})\\?['\"]"
        if isinstance(value, str)
        else rf"(?<![\w.'\"])({re.escape(quote(value))})\b"
    )

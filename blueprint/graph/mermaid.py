"""Mermaid's syntax: nodes, groups, edges and classes, with labels that hold any text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from holdfast.blueprint.expressions.error import shortened

Shape = Literal["end", "question", "condition", "agent", "tool", "plain", "fork", "store"]
SHAPES: dict[Shape, tuple[str, str]] = {
    "end": ("([", "])"),
    "question": ("{{", "}}"),
    "condition": ("{", "}"),
    "agent": ("(", ")"),
    "tool": ("[[", "]]"),
    "plain": ("[", "]"),
    "fork": ("[/", "\\]"),
    "store": ("[(", ")]"),
}
STYLES = {
    "done": "fill:#d5e8d4,stroke:#4d7c3c,color:#1b1b1b",
    "running": "fill:#dae8fc,stroke:#3d6ea5,color:#1b1b1b",
    "waiting": "fill:#fff2cc,stroke:#b8860b,color:#1b1b1b,stroke-width:3px",
    "failed": "fill:#f8cecc,stroke:#b03a2e,color:#1b1b1b",
    "skipped": "fill:#eeeeee,stroke:#999999,color:#777777,stroke-dasharray:4",
}
LONGEST = 80
_INDENT = "  "
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
_READ_AS_IS = frozenset(" .,;'?!=+/()-_:")
"""ASCII punctuation without meaning to Mermaid inside quotes, except where `_MARKUP` matches."""
_MARKUP = re.compile(r":(?! )|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|^[-+]|(?<=www)\.")
"""Icons and styles after a colon; emphasis, lists and links of Mermaid's Markdown."""
_NUMBERED = re.compile(r"^\d+([.)])")


def label(*lines: str) -> str:
    """Return a label in quotes, each line shortened and escaped.

    >>> print(label('ask "him"', "a < b & #1;"))
    "ask #34;him#34;<br/>a #60; b #38; #35;1;"
    """
    return f'"{"<br/>".join(_escaped(shortened(_plain(line), LONGEST)) for line in lines if line.strip()) or " "}"'


def _plain(text: str) -> str:
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


def _escaped(text: str) -> str:
    """Return the text with every character that Mermaid could interpret as a numeric entity."""
    markup = {match.start() for match in _MARKUP.finditer(text)}
    markup |= {match.start(1) for match in _NUMBERED.finditer(text)}
    return "".join(
        f"#{ord(char)};" if index in markup or not _reads_as_is(char) else char for index, char in enumerate(text)
    )


def _reads_as_is(char: str) -> bool:
    if char.isascii():
        return char.isalnum() or char in _READ_AS_IS
    return char not in "°¶ﬂß"  # with which Mermaid stands in for such numbers itself


@dataclass
class MermaidChart:
    """The text of a chart. Edges are written after all groups: inside one, an edge draws both of its nodes in."""

    nodes: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    classes: dict[str, list[str]] = field(default_factory=dict)
    _count: int = 0
    _level: int = 1

    @property
    def size(self) -> int:
        """The number of nodes and groups."""
        return self._count

    def node(self, shape: Shape, *lines: str) -> str:
        """Add a node, and return its id."""
        opened, closed = SHAPES[shape]
        id_ = self._next("n")
        self._declare(f"{id_}{opened}{label(*lines)}{closed}")
        return id_

    @contextmanager
    def group(self, *lines: str) -> Iterator[str]:
        """Frame what is declared inside, and yield the id of the frame."""
        id_ = self._next("g")
        self._declare(f"subgraph {id_}[{label(*lines)}]")
        self._level += 1
        yield id_
        self._level -= 1
        self._declare("end")

    def edge(self, source: str, target: str, text: str = "", *, dotted: bool = False) -> None:
        arrow = "-.->" if dotted else "-->"
        label_text = f"|{label(text)}|" if text.strip() else ""
        self.edges.append(f"{_INDENT}{source} {arrow}{label_text} {target}")

    def mark(self, id_: str, state: str) -> None:
        self.classes.setdefault(state, []).append(id_)

    def text(self) -> str:
        styled = [f"{_INDENT}classDef {state} {STYLES[state]}" for state in STYLES if state in self.classes]
        marked = [
            f"{_INDENT}class {','.join(self.classes[state])} {state}" for state in STYLES if state in self.classes
        ]
        return "\n".join(["flowchart TD", *self.nodes, *self.edges, *styled, *marked, ""])

    def _next(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def _declare(self, line: str) -> None:
        self.nodes.append(_INDENT * self._level + line)

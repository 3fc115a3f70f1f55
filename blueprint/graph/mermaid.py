"""Mermaid's syntax: nodes, groups, edges and classes of a chart, with labels that hold any text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from holdfast.blueprint.explain.outline import remove_controls
from holdfast.blueprint.graph.chart import Chart, ChartEdge, ChartGroup, ChartNode
from holdfast.blueprint.kinds.description import Shape
from holdfast.blueprint.words.text import one_line

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
    return (
        f'"{"<br/>".join(_escape(remove_controls(one_line(line, LONGEST))) for line in lines if line.strip()) or " "}"'
    )


def _escape(text: str) -> str:
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


def mermaid_text(chart: Chart) -> str:
    """Return the Mermaid source of a chart.

    Edges stand after all groups: inside a group, an edge draws both of its nodes in.
    """
    classes: dict[str, list[str]] = {}
    for id_, state in chart.states.items():
        classes.setdefault(state, []).append(id_)
    styled = [f"{_INDENT}classDef {state} {STYLES[state]}" for state in STYLES if state in classes]
    marked = [f"{_INDENT}class {','.join(classes[state])} {state}" for state in STYLES if state in classes]
    edges = [_edge(edge) for edge in chart.edges]
    return "\n".join(["flowchart TD", *_declare(chart.elements, 1), *edges, *styled, *marked, ""])


def _declare(elements: Sequence[ChartNode | ChartGroup], level: int) -> Iterator[str]:
    indent = _INDENT * level
    for element in elements:
        if isinstance(element, ChartNode):
            opened, closed = SHAPES[element.shape]
            yield f"{indent}{element.id}{opened}{label(*element.lines)}{closed}"
        else:
            yield f"{indent}subgraph {element.id}[{label(*element.lines)}]"
            yield from _declare(element.elements, level + 1)
            yield f"{indent}end"


def _edge(edge: ChartEdge) -> str:
    arrow = "-.->" if edge.dotted else "-->"
    label_text = f"|{label(edge.text)}|" if edge.text.strip() else ""
    return f"{_INDENT}{edge.source} {arrow}{label_text} {edge.target}"

"""Reads the part of Mermaid's flowcharts that `graph` writes, strictly: whatever is not of it is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

SHAPES = {
    "([": "])",
    "{{": "}}",
    "[[": "]]",
    "[/": "\\]",
    "[(": ")]",
    "(": ")",
    "{": "}",
    "[": "]",
}
_LABEL = r'"((?:[^\x00-\x1f"#<>&%\\`*|\[\]{}@$~^]|#\d+;|<br/>)+)"'
_NODE = re.compile(rf"(n\d+)(\(\[|\{{\{{|\[\[|\[/|\[\(|\(|\{{|\[){_LABEL}(.+)")
_GROUP = re.compile(rf"subgraph (g\d+)\[{_LABEL}\]")
_EDGE = re.compile(rf"(n\d+) (-->|-\.->)(?:\|{_LABEL}\|)? (n\d+)")
_STYLE = re.compile(r"classDef ([a-z]+) [a-z-]+:[#\w]+(?:,[a-z-]+:[#\w]+)*")
_CLASS = re.compile(r"class ((?:[ng]\d+,)*[ng]\d+) ([a-z]+)")


@dataclass
class Flowchart:
    """What is drawn: labels by id, edges as (source, label, target), classes by id, groups around a node."""

    labels: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, str] = field(default_factory=dict)
    edges: list[tuple[str, str, str]] = field(default_factory=list)
    dotted: list[tuple[str, str, str]] = field(default_factory=list)
    classes: dict[str, str] = field(default_factory=dict)
    around: dict[str, list[str]] = field(default_factory=dict)

    def id(self, label: str) -> str:
        """The node or group with this first line."""
        found = [id_ for id_, text in self.labels.items() if text.split("\n")[0] == label]
        assert len(found) == 1, f"{label}: {found}"
        return found[0]

    def state(self, label: str) -> str | None:
        return self.classes.get(self.id(label))

    def next(self, label: str) -> dict[str, str]:
        """Where it goes on from a node: first lines of labels, with what stands on the way."""
        own = self.id(label)
        return {self.labels[target].split("\n")[0]: text for source, text, target in self.edges if source == own}

    def beside(self, label: str) -> dict[str, str]:
        own = self.id(label)
        return {self.labels[target].split("\n")[0]: text for source, text, target in self.dotted if source == own}


def read_flowchart(text: str) -> Flowchart:
    """The flowchart; an AssertionError where it is none of ours."""
    first, *lines = text.splitlines()
    assert first == "flowchart TD" and text.endswith("\n")
    chart, open_, styles = Flowchart(), [], set()
    for line in lines:
        words = line.strip()
        expected = 1 + len(open_) - (words == "end")
        assert line == "  " * expected + words, f"indented otherwise: {line!r}"
        if match := _NODE.fullmatch(words):
            id_, opened, label, closed = match.groups()
            assert not chart.edges and not chart.dotted, "edges stand behind all nodes"
            assert closed == SHAPES[opened], line
            _declare(chart, id_, label, open_)
            chart.shapes[id_] = opened
        elif match := _GROUP.fullmatch(words):
            _declare(chart, match[1], match[2], open_)
            open_.append(match[1])
        elif words == "end":
            open_.pop()
        elif match := _EDGE.fullmatch(words):
            source, arrow, label, target = match.groups()
            assert not open_, "an edge inside a group draws its ends in"
            assert {source, target} <= set(chart.shapes), f"an end is not declared: {line!r}"
            (chart.edges if arrow == "-->" else chart.dotted).append((source, unescaped(label or ""), target))
        elif match := _STYLE.fullmatch(words):
            styles.add(match[1])
        elif match := _CLASS.fullmatch(words):
            assert match[2] in styles
            for id_ in match[1].split(","):
                assert id_ in chart.labels and id_ not in chart.classes
                chart.classes[id_] = match[2]
        else:
            raise AssertionError(f"not of Mermaid as we write it: {line!r}")
    assert not open_, "a group is not ended"
    return chart


def _declare(chart: Flowchart, id_: str, label: str, open_: list[str]) -> None:
    assert id_ not in chart.labels, f"{id_} is declared twice"
    chart.labels[id_] = unescaped(label)
    chart.around[id_] = list(open_)


def unescaped(label: str) -> str:
    """A label as Mermaid shows it."""
    return re.sub(r"#(\d+);", lambda match: chr(int(match[1])), label.replace("<br/>", "\n"))


def unreached(chart: Flowchart) -> set[str]:
    """Nodes to which no way leads from the first one."""
    first = next(iter(chart.shapes))
    reached, waiting = {first}, [first]
    while waiting:
        source = waiting.pop()
        for one, _, target in [*chart.edges, *chart.dotted]:
            if one == source and target not in reached:
                reached.add(target)
                waiting.append(target)
    return set(chart.shapes) - reached

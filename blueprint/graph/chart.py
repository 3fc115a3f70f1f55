"""A flowchart as data: nodes in groups, edges and states. `mermaid.py` writes it as text, a page draws it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from holdfast.blueprint.graph.overlay import State
from holdfast.blueprint.kinds.description import Shape


@dataclass(frozen=True)
class ChartNode:
    """A node, with the lines of its label."""

    id: str
    shape: Shape
    lines: tuple[str, ...]


@dataclass(frozen=True)
class ChartGroup:
    """A frame around nodes and other groups, with the lines of its title."""

    id: str
    lines: tuple[str, ...]
    elements: list[ChartNode | ChartGroup] = field(default_factory=list)


@dataclass(frozen=True)
class ChartEdge:
    """An arrow between two nodes or groups. A dotted one leads to what a step works with, or to its fallback."""

    source: str
    target: str
    text: str = ""
    dotted: bool = False


@dataclass
class Chart:
    """A chart being built: a node or group is added to the group that is open."""

    elements: list[ChartNode | ChartGroup] = field(default_factory=list)
    edges: list[ChartEdge] = field(default_factory=list)
    states: dict[str, State] = field(default_factory=dict)
    """The state of a run at a node or group, by its id."""
    size: int = 0
    """The number of nodes and groups."""
    _open: list[list[ChartNode | ChartGroup]] = field(default_factory=list)

    def node(self, shape: Shape, *lines: str) -> str:
        """Add a node, and return its id."""
        node = ChartNode(self._next("n"), shape, lines)
        self._list().append(node)
        return node.id

    @contextmanager
    def group(self, *lines: str) -> Iterator[str]:
        """Frame what is added inside, and yield the id of the frame."""
        group = ChartGroup(self._next("g"), lines)
        self._list().append(group)
        self._open.append(group.elements)
        yield group.id
        self._open.pop()

    def edge(self, source: str, target: str, text: str = "", *, dotted: bool = False) -> None:
        """Add an arrow."""
        self.edges.append(ChartEdge(source, target, text, dotted))

    def _list(self) -> list[ChartNode | ChartGroup]:
        return self._open[-1] if self._open else self.elements

    def _next(self, letter: str) -> str:
        self.size += 1
        return f"{letter}{self.size}"

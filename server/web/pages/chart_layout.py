"""The layout of a flowchart for a page: positions of nodes, frames and arrows, in pixels. The template draws them.

A frame is laid out first and then placed as one block. In each frame the arrows put the blocks into rows, from top to
bottom; an arrow that passes rows keeps a free column in them, and one that leads back runs along the left side. What a
step works with (tools, agents, people) stands at its right.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from holdfast.blueprint.graph import Chart, ChartEdge, ChartGroup, ChartNode
from holdfast.protocol.display import one_line

Drawn = TypeVar("Drawn", ChartNode, ChartGroup)

LINE, PADDING, GAP, ROW_GAP, MARGIN = 17.0, 10.0, 24.0, 40.0, 8.0
SIDE_GAP, SIDE_ROW_GAP, LANE, CORNER, TEXT_DROP = 28.0, 8.0, 18.0, 8.0, 4.0
"""Pixels: the height of a line of text, and the room around and between blocks."""
NARROW, WIDE = 7.1, 13.5
"""Pixels: the width of a character; wide ones are Chinese, Japanese, Korean."""
LINE_LENGTH, GROUP_LINE_LENGTH, MOST_LINES = 28, 40, 5
"""Characters of a line of a label, of a frame's title, and lines of a label."""
TIPS = {"question": 14.0, "condition": 22.0, "fork": 14.0}
"""Pixels that the slanted sides of a shape take from its text."""


@dataclass(frozen=True)
class _PlacedElement(Generic[Drawn]):
    """An element at its place: its upper left corner and its size, the lines of its text as far as they fit."""

    drawn: Drawn
    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]
    state: str = ""

    @property
    def label(self) -> str:
        """The whole text."""
        return " — ".join(line for line in self.drawn.lines if line.strip())


class PlacedNode(_PlacedElement[ChartNode]):
    """A node at its place."""

    @property
    def tip(self) -> float:
        """The pixels that a slanted side takes."""
        return TIPS.get(self.drawn.shape, 0)


class PlacedGroup(_PlacedElement[ChartGroup]):
    """A frame at its place; its text is its title."""


@dataclass(frozen=True)
class PlacedEdge:
    """An arrow: its path as SVG writes it, and its text with the place of the text's middle."""

    path: str
    text: str
    x: float
    y: float
    dotted: bool


@dataclass(frozen=True)
class ChartLayout:
    """A laid out chart; frames come before what they hold."""

    width: float
    height: float
    groups: list[PlacedGroup]
    nodes: list[PlacedNode]
    edges: list[PlacedEdge]


@dataclass
class _Box:
    """A node with what stands beside it, a frame, or a free column; `left` and `right` are measured from its axis."""

    left: float = LANE / 2
    right: float = LANE / 2
    height: float = 0
    element: ChartNode | ChartGroup | None = None
    lines: tuple[str, ...] = ()
    own_height: float = 0
    sides: list[_Box] = field(default_factory=list)
    inside: _Level | None = None
    x: float = 0
    """The axis."""
    y: float = 0
    row_bottom: float = 0
    """Of the row where it stands, measured like `y`."""

    @property
    def bottom(self) -> float:
        return self.y + (self.own_height or self.height)


@dataclass
class _Link:
    """An arrow between two blocks of a level: the free columns that it takes, or its lane if it leads back."""

    source: str
    target: str
    edge: ChartEdge
    columns: list[_Box] = field(default_factory=list)
    lane: int | None = None


class _Level:
    """The blocks of one frame, or of the whole chart, in rows."""

    def __init__(self, elements: Sequence[ChartNode | ChartGroup], context: _Surroundings) -> None:
        elements = [element for element in elements if not context.stands_beside(element)]
        self.blocks = {element.id: context.block(element) for element in elements}
        self.links = self._find_links(elements, context.edges)
        self.lanes = self._find_lanes()
        self.rows = self._make_rows()
        self._set_out()

    def _find_links(self, elements: Sequence[ChartNode | ChartGroup], edges: Sequence[ChartEdge]) -> list[_Link]:
        """Return the arrows between the blocks: an edge from or to what is inside a frame is drawn at the frame."""
        homes = {inner: element.id for element in elements for inner in _ids(element)}
        links: dict[tuple[str, str, str], _Link] = {}
        for edge in edges:
            source, target = homes.get(edge.source), homes.get(edge.target)
            if source is not None and target is not None and source != target:
                links.setdefault((source, target, edge.text), _Link(source, target, edge))
        return list(links.values())

    def _find_lanes(self) -> list[str]:
        """Give the edges that lead back to a block a lane, and return the blocks that have one."""
        forward: dict[str, list[str]] = defaultdict(list)
        lanes: list[str] = []
        for link in self.links:
            if not _reaches(forward, link.target, link.source):
                forward[link.source].append(link.target)
                continue
            if link.target not in lanes:
                lanes.append(link.target)
            link.lane = lanes.index(link.target)
        return lanes

    def _ranks(self) -> dict[str, int]:
        """Return the row of each block: below all that lead to it."""
        before: dict[str, list[str]] = defaultdict(list)
        for link in self.links:
            if link.lane is None:
                before[link.target].append(link.source)
        ranks: dict[str, int] = {}
        for id_ in self.blocks:
            stack = [id_]
            while stack:
                if missing := [source for source in before[stack[-1]] if source not in ranks]:
                    stack += missing
                else:
                    above = [ranks[source] for source in before[stack[-1]]]
                    ranks[stack.pop()] = max(above, default=-1) + 1
        return ranks

    def _make_rows(self) -> list[list[_Box]]:
        ranks = self._ranks()
        rows: list[list[_Box]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
        for id_, block in self.blocks.items():
            rows[ranks[id_]].append(block)
        for link in self.links:
            if link.lane is None:
                between = range(ranks[link.source] + 1, ranks[link.target])
                link.columns = [_Box() for _ in between]
                for rank, column in zip(between, link.columns, strict=True):
                    rows[rank].append(column)
        return rows

    def _set_out(self) -> None:
        """Place the blocks around the axis of the level; free columns come at the right."""
        self.left = self.right = y = 0.0
        for row in self.rows:
            blocks = [block for block in row if block.element is not None]
            width = sum(block.left + block.right for block in blocks) + GAP * (len(blocks) - 1)
            x = -blocks[0].left if len(blocks) == 1 else -width / 2
            self.left = max(self.left, -x)
            height = max(block.height for block in row)
            for block in row:
                block.x, block.y, block.row_bottom = x + block.left, y, y + height
                x += block.left + block.right + GAP
                if block.element is None:
                    block.height = height
            self.right = max(self.right, x - GAP)
            y += height + ROW_GAP
        self.height = max(y - ROW_GAP, 0.0) + LANE * bool(self.lanes)
        self.left += len(self.lanes) * LANE

    def lane(self, number: int) -> float:
        """Return the position of a lane from the axis."""
        return -self.left + (number + 0.5) * LANE

    def all_blocks(self) -> Iterator[_Box]:
        """Yield the blocks and free columns, row by row, each followed by what stands beside it."""
        for row in self.rows:
            for block in row:
                yield block
                yield from block.sides

    def place(self, x: float, y: float) -> None:
        """Move the blocks, and what is in them and beside them: the axis to `x`, the top of the first row to `y`."""
        self.x = x
        for block in [block for row in self.rows for block in row]:
            block.x, block.y, block.row_bottom = block.x + x, block.y + y, block.row_bottom + y
            if block.inside is not None:
                shift = (block.inside.left - block.inside.right) / 2
                block.inside.place(block.x + shift, block.y + LINE * len(block.lines) + 2 * PADDING)
            side_y = block.y
            for side in block.sides:
                side.x, side.y = block.x + block.left + SIDE_GAP + side.left, side_y
                side_y += side.height + SIDE_ROW_GAP


@dataclass(frozen=True)
class _Surroundings:
    """The edges of a chart, and the nodes that stand beside another one, with the text of the edge to them."""

    edges: Sequence[ChartEdge]
    beside: dict[str, list[tuple[ChartNode, str]]]
    """By the id of the node beside which they stand."""

    def stands_beside(self, element: ChartNode | ChartGroup) -> bool:
        return any(node is element for pairs in self.beside.values() for node, _ in pairs)

    def block(self, element: ChartNode | ChartGroup) -> _Box:
        """Return the block of a node or a frame, with everything in it and beside it."""
        if isinstance(element, ChartGroup):
            return self._group_block(element)
        block = _node_block(element)
        block.sides = [_node_block(node, text) for node, text in self._all_beside(element.id)]
        if block.sides:
            block.right += SIDE_GAP + max(side.left + side.right for side in block.sides)
            below = sum(side.height for side in block.sides) + SIDE_ROW_GAP * (len(block.sides) - 1)
            block.height = max(block.height, below)
        return block

    def _group_block(self, group: ChartGroup) -> _Box:
        level = _Level(group.elements, self)
        lines = _wrap(group.lines, GROUP_LINE_LENGTH)[:2]
        half = max((level.left + level.right) / 2, _text_width(lines) / 2) + PADDING
        height = level.height + LINE * len(lines) + 3 * PADDING
        return _Box(half, half, height, group, lines, height, inside=level)

    def _all_beside(self, id_: str) -> Iterator[tuple[ChartNode, str]]:
        for node, text in self.beside.get(id_, ()):
            yield node, text
            yield from self._all_beside(node.id)


def lay_out(chart: Chart) -> ChartLayout:
    """Return the layout of a chart."""
    level = _Level(chart.elements, _Surroundings(chart.edges, _beside(chart)))
    level.place(level.left + MARGIN, MARGIN)
    levels = list(_levels(level))
    blocks = {block.element.id: block for inner in levels for block in inner.all_blocks() if block.element}
    return ChartLayout(
        width=level.left + level.right + 2 * MARGIN,
        height=level.height + 2 * MARGIN,
        groups=[_placed_group(block, chart.states) for block in blocks.values() if block.inside is not None],
        nodes=[_placed_node(block, chart.states) for block in blocks.values() if block.inside is None],
        edges=[*(edge for inner in levels for edge in _placed_edges(inner)), *_side_edges(blocks.values())],
    )


def _beside(chart: Chart) -> dict[str, list[tuple[ChartNode, str]]]:
    """Return the nodes that only dotted edges lead to, and none leads on from, by the node of the first such edge."""
    nodes = {node.id: node for node in _nodes(chart.elements)}
    solid = {id_ for edge in chart.edges if not edge.dotted for id_ in (edge.source, edge.target)}
    beside: dict[str, list[tuple[ChartNode, str]]] = defaultdict(list)
    placed: set[str] = set()
    for edge in chart.edges:
        is_side = edge.dotted and edge.target in nodes and edge.target not in solid | placed
        if is_side and edge.source in nodes:
            placed.add(edge.target)
            beside[edge.source].append((nodes[edge.target], edge.text))
    return beside


def _placed_group(block: _Box, states: Mapping[str, str]) -> PlacedGroup:
    assert isinstance(block.element, ChartGroup)
    width, state = block.left + block.right, states.get(block.element.id, "")
    return PlacedGroup(block.element, block.x - block.left, block.y, width, block.height, block.lines, state)


def _placed_node(block: _Box, states: Mapping[str, str]) -> PlacedNode:
    assert isinstance(block.element, ChartNode)
    state = states.get(block.element.id, "")
    return PlacedNode(
        block.element, block.x - block.left, block.y, 2 * block.left, block.own_height, block.lines, state
    )


def _placed_edges(level: _Level) -> Iterator[PlacedEdge]:
    for link in level.links:
        source, target = level.blocks[link.source], level.blocks[link.target]
        if link.lane is None:
            yield _forward(link, source, target)
        else:
            yield _backward(link.edge, source, target, level.x + level.lane(link.lane))


def _forward(link: _Link, source: _Box, target: _Box) -> PlacedEdge:
    """Return an arrow from the bottom of a block through the free columns to the top of another one."""
    x, y = source.x, source.bottom
    path = f"M{x:.0f} {y:.0f}"
    stops = [(column.x, column.y, column.bottom) for column in link.columns] + [(target.x, target.y, target.y)]
    middle = (x + (stops[0][0] - x) * 0.5, y + (stops[0][1] - y) * 0.5 + TEXT_DROP)
    for to_x, to_y, leave_y in stops:
        half = (to_y - y) / 2
        path += f" C{x:.0f} {y + half:.0f} {to_x:.0f} {to_y - half:.0f} {to_x:.0f} {to_y:.0f}"
        if leave_y > to_y:
            path += f" L{to_x:.0f} {leave_y:.0f}"
        x, y = to_x, leave_y
    # The frame of a branch has the text of the edge as its title.
    text = "" if link.edge.text in target.lines else link.edge.text
    return PlacedEdge(path, _short(text), *middle, link.edge.dotted)


def _backward(edge: ChartEdge, source: _Box, target: _Box, lane: float) -> PlacedEdge:
    """Return an arrow from the bottom of a block along a lane up to the left of another one."""
    below, to_y = source.row_bottom + LANE / 2, target.y + target.own_height / 2
    path = (
        f"M{source.x:.0f} {source.bottom:.0f} V{below:.0f} H{lane + CORNER:.0f} Q{lane:.0f} {below:.0f} {lane:.0f} "
        f"{below - CORNER:.0f} V{to_y + CORNER:.0f} Q{lane:.0f} {to_y:.0f} {lane + CORNER:.0f} {to_y:.0f} "
        f"H{target.x - target.left:.0f}"
    )
    text = _short(edge.text)
    return PlacedEdge(path, text, lane + _text_width([text]) / 2, below - TEXT_DROP, edge.dotted)


def _side_edges(blocks: Iterable[_Box]) -> Iterator[PlacedEdge]:
    for block in blocks:
        x, y = block.x + block.left, block.y + block.own_height / 2
        for side in block.sides:
            to_x, to_y = side.x - side.left, side.y + side.own_height / 2
            half = (to_x - x) / 2
            path = f"M{x:.0f} {y:.0f} C{x + half:.0f} {y:.0f} {to_x - half:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f}"
            yield PlacedEdge(path, "", 0, 0, dotted=True)


def _node_block(node: ChartNode, text: str = "") -> _Box:
    """Return the block of a node; the text of a dotted edge to it is the last line of its label."""
    lines = _wrap((*node.lines, *([text] if text else [])), LINE_LENGTH)
    half = max(_text_width(lines) / 2 + PADDING, 20) + TIPS.get(node.shape, 0)
    height = LINE * max(len(lines), 1) + 2 * PADDING
    return _Box(half, half, height, node, lines, height)


def _levels(level: _Level) -> Iterator[_Level]:
    """Yield a level and those inside it, outer ones first."""
    yield level
    for block in level.all_blocks():
        if block.inside is not None:
            yield from _levels(block.inside)


def _nodes(elements: Iterable[ChartNode | ChartGroup]) -> Iterator[ChartNode]:
    for element in elements:
        if isinstance(element, ChartNode):
            yield element
        else:
            yield from _nodes(element.elements)


def _ids(element: ChartNode | ChartGroup) -> Iterator[str]:
    yield element.id
    for inner in element.elements if isinstance(element, ChartGroup) else ():
        yield from _ids(inner)


def _reaches(links: Mapping[str, Sequence[str]], source: str, target: str) -> bool:
    """Return whether links lead from one block to another."""
    seen, stack = {source}, [source]
    while stack:
        id_ = stack.pop()
        if id_ == target:
            return True
        fresh = [next_ for next_ in links.get(id_, ()) if next_ not in seen]
        seen.update(fresh)
        stack += fresh
    return False


def _wrap(lines: Iterable[str], length: int) -> tuple[str, ...]:
    """Return the lines of a label, broken at a width; what is too long ends in an ellipsis."""
    wrapped: list[str] = []
    for line in lines:
        text = one_line(line)
        wide = any(_is_wide(character) for character in text)
        wrapped += textwrap.wrap(text, length // 2 if wide else length, max_lines=3, placeholder="…")
    return tuple(wrapped) if len(wrapped) <= MOST_LINES else (*wrapped[: MOST_LINES - 1], "…")


def _short(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= LINE_LENGTH else f"{text[: LINE_LENGTH - 1]}…"


def _text_width(lines: Iterable[str]) -> float:
    """Return the width of the longest line, estimated: the server has no fonts to measure."""
    return max((sum(WIDE if _is_wide(character) else NARROW for character in line) for line in lines), default=0.0)


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"

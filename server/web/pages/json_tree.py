"""A JSON value as a tree for a page, bounded: large lists and texts are cut, and say so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_ENTRIES, MOST_NODES, LONGEST_TEXT = 200, 4_000, 10_000
"""Entries of one object or list, of the whole tree, and characters of a text that a page shows."""


@dataclass(frozen=True)
class JsonNode:
    """A value at its key: a text for a plain one, else the nodes inside it."""

    key: str
    text: str = ""
    is_text: bool = False
    """True for a string, which is shown without quotes."""
    kind: str = ""
    """`object` or `list`; empty for a plain value."""
    size: int = 0
    """Entries of an object or list, those that are cut off too."""
    nodes: Sequence[JsonNode] = ()

    @property
    def cut(self) -> int:
        """The number of entries that are not shown."""
        return self.size - len(self.nodes) if self.kind else 0


class _Room:
    """The nodes that still fit into the tree."""

    def __init__(self) -> None:
        self.left = MOST_NODES

    def node(self, key: str, value: object) -> JsonNode:
        self.left -= 1
        match value:
            case Mapping():
                return self._whole(key, "object", [(str(name), inner) for name, inner in value.items()])
            case list() | tuple():
                return self._whole(key, "list", [(str(index), inner) for index, inner in enumerate(value)])
            case str():
                return JsonNode(key, _shorten(value), is_text=True)
        return JsonNode(key, json.dumps(value, ensure_ascii=False, default=str))

    def _whole(self, key: str, kind: str, entries: Sequence[tuple[str, object]]) -> JsonNode:
        nodes = []
        for name, inner in entries[:MOST_ENTRIES]:
            if self.left <= 0:
                break
            nodes.append(self.node(name, inner))
        return JsonNode(key, kind=kind, size=len(entries), nodes=nodes)


def json_node(value: object) -> JsonNode:
    """Return the tree of a value.

    >>> tree = json_node({"a": [1, "x"], "b": None})
    >>> [(node.key, node.kind, node.text) for node in tree.nodes]
    [('a', 'list', ''), ('b', '', 'null')]
    """
    return _Room().node("", value)


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"

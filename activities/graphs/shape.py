"""The shape of a graph of LangGraph: what it keeps where, and which of its nodes run in threads. Used by its calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel
from langgraph.store.memory import InMemoryStore

Graph = Pregel[Any, Any, Any, Any]


def is_in_memory(graph: Graph) -> bool:
    """Return whether a graph's checkpoints would die with the process, so that ours take their place."""
    return isinstance(graph.checkpointer, InMemorySaver)


def has_memory_store(graph: Graph) -> bool:
    """Return whether the store of a graph, or of a graph inside it, dies with the process."""
    graphs = [graph, *(cast(Graph, inner) for _, inner in graph.get_subgraphs(recurse=True))]
    return any(isinstance(each.store, InMemoryStore) for each in graphs)


def with_saver(graph: Graph, saver: BaseCheckpointSaver[Any]) -> Graph:
    """Return the graph with another checkpointer, which its subgraphs inherit."""
    return graph.copy({"checkpointer": saver})


def is_plain_node(graph: Graph, name: str) -> bool:
    """Return whether a node, or a node of its subgraph, is no coroutine, so that it runs in a thread."""
    if name not in graph.nodes:
        return False
    bound = graph.nodes[name].bound
    inner = [cast(Graph, subgraph) for key, subgraph in graph.get_subgraphs() if key == name]
    return any(_is_plain(step) for step in getattr(bound, "steps", [bound])) or any(
        is_plain_node(subgraph, node) for subgraph in inner for node in subgraph.nodes
    )


def _is_plain(step: Any) -> bool:
    # What a node runs may be any runnable; those that LangGraph makes of functions have `func` and `afunc`.
    function: Callable[..., Any] | None = getattr(step, "func", None)
    return function is not None and getattr(step, "afunc", None) is None and not inspect.iscoroutinefunction(function)

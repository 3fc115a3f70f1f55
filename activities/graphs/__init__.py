"""Graphs of LangGraph as tools: what a worker can run, and each call from its last checkpoint on. Used by the tools."""

from __future__ import annotations

from types import ModuleType

from temporalio import activity

from holdfast.activities.graphs.store import CheckpointStore, MemoryCheckpoints, NoCheckpoints
from holdfast.activities.graphs.threads import copy_records, list_earlier, name_thread
from holdfast.activities.imports import import_alone
from holdfast.activities.registry import Tool, wrong
from holdfast.protocol.agents import ToolRequest

__all__ = ["CheckpointStore", "Graphs", "MemoryCheckpoints", "NoCheckpoints"]


class Graphs:
    """The graphs of a worker.

    Args:
        store: The store of their checkpoints.
    """

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store

    def check(self, tool: Tool, *, idempotent: bool) -> None:
        """Raise `not_allowed` for a graph that could not go on where it was cut off, unless it may run twice."""
        if not _has_checkpointer(tool):
            if not idempotent:
                text = (
                    "the graph has no checkpointer, so a lost call would run finished nodes again; compile it "
                    "with one (InMemorySaver() will do: Holdfast's takes its place), or say idempotent: true"
                )
                raise wrong("not_allowed", f"{tool.name}: {text}")
        elif _shape().is_in_memory(tool.function) and self._store.problem:
            way = "or compile the graph with a checkpointer that lasts, such as PostgresSaver"
            raise wrong("not_allowed", f"{tool.name}: {self._store.problem}, {way}")
        if _shape().has_memory_store(tool.function):
            text = (
                "the graph has an InMemoryStore, whose content each worker has for itself and loses when it ends; "
                "compile it with a store that lasts, such as PostgresStore, or without one"
            )
            raise wrong("not_allowed", f"{tool.name}: {text}")

    def goes_on(self, tool: Tool) -> bool:
        """Return whether a second attempt of a call goes on where the first was cut off."""
        return _has_checkpointer(tool)

    async def result(self, tool: Tool, request: ToolRequest) -> object:
        """Return what a call of a graph gives. Raises `Interrupt` where it waits for people."""
        _check_input(tool, request)
        running, graph, thread = _import_running(), tool.function, name_thread(request)
        if _shape().is_in_memory(graph):
            await copy_records(self._store, list_earlier(request), thread)
            saver = _saver().StoredSaver(thread, self._store, _codec(), graph.checkpointer.serde)
            await saver.load()
            graph = _shape().with_saver(graph, saver)
        return await running.GraphCall(graph, tool, request, thread).result()

    def find_place(self, error: BaseException) -> str:
        """Return the node in which an error was raised, as the beginning of a message; empty if it is not known."""
        place = _import_running().place_in(error)
        return f"node {place}: " if place else ""


def _has_checkpointer(tool: Tool) -> bool:
    # Not by its type, which would import LangGraph into every worker; a tool that is no graph has none.
    return getattr(tool.function, "checkpointer", None) not in (None, False, True)


def _import_running() -> ModuleType:
    return import_alone("holdfast.activities.graphs.running")


def _shape() -> ModuleType:
    return import_alone("holdfast.activities.graphs.shape")


def _saver() -> ModuleType:
    return import_alone("holdfast.activities.graphs.saver")


def _codec() -> object:
    """Return the codec of the worker's payloads, which encrypts them where that is configured."""
    return activity.client().data_converter.payload_codec


def _check_input(tool: Tool, request: ToolRequest) -> None:
    """Raise `tool_input` for keys that the graph's state does not have: LangGraph would drop them in silence."""
    if request.args is not None:
        raise wrong("not_allowed", f"{tool.name} is a graph, and cannot be a condition or a mapper")
    schema = tool.parameters()
    keys = schema.get("properties")
    if schema.get("type") != "object" or not keys or schema.get("additionalProperties"):
        return
    listed = ", ".join(keys)
    if not isinstance(request.input, dict):
        kind = type(request.input).__name__
        raise wrong("tool_input", f"{tool.name} takes an object with keys of its state ({listed}), not {kind}")
    if unknown := [key for key in request.input if key not in keys]:
        raise wrong("tool_input", f"{tool.name} has no key {unknown[0]!r} in its state (it has: {listed})")

"""Graphs of LangGraph, recognised and described without an import of that library; the registry takes them as tools."""

from __future__ import annotations

import typing
from typing import Any

from pydantic.errors import PydanticUserError

from holdfast.blueprint.json_values import JSONObject


def is_graph(value: object) -> bool:
    """Return whether a value is a compiled graph of LangGraph, which may not even be installed."""
    return any(
        kind.__name__ == "Pregel" and kind.__module__.startswith("langgraph.pregel") for kind in type(value).__mro__
    )


def is_builder(value: object) -> bool:
    """Return whether a value is a graph that its author has not compiled."""
    return any(
        kind.__name__ == "StateGraph" and kind.__module__.startswith("langgraph.") for kind in type(value).__mro__
    )


def input_schema(graph: Any) -> JSONObject:
    """Return the JSON Schema of a graph's input; where its types have none, that of an object with the state's keys."""
    try:
        schema: JSONObject = graph.get_input_jsonschema()
    except PydanticUserError:  # Python 3.11 has a TypedDict that pydantic does not read
        state = getattr(getattr(graph, "builder", None), "input_schema", None)
        if state is None:  # of a function with @entrypoint, which has no builder
            return {}
        return {"type": "object", "properties": {key: {} for key in typing.get_type_hints(state)}}
    return {key: value for key, value in schema.items() if key != "title"}

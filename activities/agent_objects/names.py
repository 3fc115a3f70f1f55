"""The names of an agent object's tools: as far as its code tells them, and as its run has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai.agent import AbstractAgent
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import (
    AbstractToolset,
    CombinedToolset,
    DynamicToolset,
    ExternalToolset,
    FunctionToolset,
    PrefixedToolset,
    RenamedToolset,
    WrapperToolset,
)
from pydantic_ai.toolsets.function import FunctionToolsetTool

Names = set[str]


def tool_names(agent: AbstractAgent[Any, Any]) -> Names | None:
    """Return the names of the agent's tools; None if only a run can tell them."""
    return _join([_plain_names(toolset) for toolset in agent.toolsets])


def leaves(*toolsets: AbstractToolset[Any]) -> list[AbstractToolset[Any]]:
    """Return the toolsets that are inside these, or are these themselves."""
    inner: list[AbstractToolset[Any]] = []
    for toolset in toolsets:
        toolset.apply(inner.append)
    return inner


def _join(parts: Sequence[Names | None]) -> Names | None:
    names: Names = set()
    for part in parts:
        if part is None:
            return None
        names |= part
    return names


def _plain_names(toolset: AbstractToolset[Any]) -> Names | None:
    match toolset:
        case FunctionToolset():
            return None if any(tool.prepare for tool in toolset.tools.values()) else set(toolset.tools)
        case ExternalToolset():
            return {definition.name for definition in toolset.tool_defs}
        case CombinedToolset():
            return _join([_plain_names(part) for part in toolset.toolsets])
        case WrapperToolset() if _is_known(toolset):
            inner = _plain_names(toolset.wrapped)
            return None if inner is None else _rename(toolset, inner)
    return None


def _is_known(toolset: AbstractToolset[Any]) -> bool:
    """Return whether it is one of the library's own, of which two give names: the others hide tools at most."""
    return type(toolset).__module__.startswith("pydantic_ai.toolsets.")


def _rename(toolset: WrapperToolset[Any], names: Names) -> Names:
    match toolset:
        case PrefixedToolset():
            return {f"{toolset.prefix}_{name}" for name in names}
        case RenamedToolset():
            new_names = {original: name for name, original in toolset.name_map.items()}
            return {new_names.get(name, name) for name in names}
    return names


async def names_in_run(toolset: AbstractToolset[Any], ctx: RunContext[Any]) -> Names:
    """Return the names of the tools in a run: of those that are offered now, and of those that are hidden now."""
    match toolset:
        case CombinedToolset():
            return set().union(*[await names_in_run(part, ctx) for part in toolset.toolsets])
        case DynamicToolset():
            return set() if toolset._toolset is None else await names_in_run(toolset._toolset, ctx)
        case WrapperToolset() if _is_known(toolset):
            return _rename(toolset, await names_in_run(toolset.wrapped, ctx))
    tools = await toolset.get_tools(ctx)
    names = {name for name, tool in tools.items() if tool.tool_def.kind != "output"}
    if isinstance(toolset, FunctionToolset):  # one that its `prepare` hides has its own name, as far as is known
        offered = {tool.original_name for tool in tools.values() if isinstance(tool, FunctionToolsetTool)}
        names |= set(toolset.tools) - offered
    return names

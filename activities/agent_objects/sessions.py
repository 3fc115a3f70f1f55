"""Processes of MCP servers that the functions of an agent object's authors start: ended with the activity.

`MCPToolset` keeps the process of a server for the next run, which uses the same toolset. A function with
`@agent.toolset` is called for each activity, and one that builds a toolset there would leave a process behind each
time: nothing knows of that toolset any more.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from pydantic_ai import Agent
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import AbstractToolset, DynamicToolset

from holdfast.activities.agent_objects.names import leaves

_known: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""The transports that such functions have returned, and whether their authors have them keep the process."""


def ending_sessions(agent: Agent[Any, Any], offered: Sequence[AbstractToolset[Any]]) -> AbstractContextManager[None]:
    """Have processes that functions of the agent start end with their session, as long as this context lasts.

    Args:
        agent: The agent, whose own toolsets stay as they are.
        offered: Further toolsets of the run: an override takes the place of those that the run is given.
    """
    own = agent.toolsets[1:]  # the first holds the functions that are tools, and is no toolset to override
    if not any(isinstance(leaf, DynamicToolset) for leaf in leaves(*own)):
        return nullcontext()
    replaced = [toolset.visit_and_replace(_end_toolset) for toolset in own]
    return agent.override(toolsets=[*replaced, *offered])


def _end_toolset(toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
    if not isinstance(toolset, DynamicToolset):
        return toolset
    function = partial(_build, toolset.toolset_func)
    return DynamicToolset(function, per_run_step=toolset.per_run_step, id=toolset.id)


async def _build(function: Any, ctx: RunContext[Any]) -> AbstractToolset[Any] | None:
    made = function(ctx)
    toolset: AbstractToolset[Any] | None = await made if inspect.isawaitable(made) else made
    if toolset is not None:
        toolset.apply(_end_with_session)
    return toolset


def _end_with_session(toolset: AbstractToolset[Any]) -> None:
    """Have a process end with its session; one of a toolset that was returned before is its authors' to keep."""
    for transport in _processes(toolset):
        if transport in _known:
            transport.keep_alive = _known[transport]
        else:
            _known[transport] = transport.keep_alive
            transport.keep_alive = False


def _processes(toolset: AbstractToolset[Any]) -> Iterator[Any]:
    """Yield the transport of a server that the toolset starts as a process; by its attributes, as the package of
    servers need not be there."""
    transport = getattr(getattr(toolset, "client", None), "transport", None)
    transport = getattr(transport, "transport", transport)  # that of a configuration with one server
    if hasattr(transport, "keep_alive"):
        yield transport

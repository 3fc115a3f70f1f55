"""Agent objects in the modules that a worker lists: found by name, and refused if they use what cannot be carried."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import (
    Instrumentation,
    NativeTool,
    PrefixTools,
    PrepareTools,
    ProcessHistory,
    Thinking,
    ToolSearch,
    Toolset,
)
from pydantic_ai.capabilities._pending_messages import PendingMessageDrainCapability
from pydantic_ai.capabilities.abstract import AbstractCapability, leaf_capabilities
from pydantic_ai.toolsets import FunctionToolset

from holdfast.activities.agent_objects.names import leaves, tool_names
from holdfast.activities.foreign import is_graph
from holdfast.activities.registry import absent, borrowed_from, find_members, wrong
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.protocol.agent_objects import ObjectReference

AnyAgent = Agent[Any, Any]
UNSUPPORTED = "agent_unsupported"
UNKNOWN = "unknown_agent"

_CARRIED = (
    Instrumentation,
    NativeTool,
    PrepareTools,
    ProcessHistory,
    Thinking,
    Toolset,
    ToolSearch,
    PendingMessageDrainCapability,
)
"""Capabilities that act within one request or one call. The last two every agent has."""
_INSTEAD = {
    "HandleDeferredToolCalls": "leave it out: people are asked about deferred calls",
    "TemporalDurability": "leave it out: each request and each call is an activity already",
    "DBOSDurability": "leave it out: each request and each call is an activity already",
    "PrefectDurability": "leave it out: each request and each call is an activity already",
    "ModelFallback": "name the other models in the blueprint: fallback_models",
    "SelectModel": "name the model in the blueprint: model",
    "ResolveModelId": "name the model in the blueprint: model",
    "MCP": "give it the server as a toolset: toolsets=[MCPToolset(…)]",
}
_OTHERWISE = "do in a tool, an instruction or an output validator what it does"


def find_agent(reference: str, allowed: Sequence[str]) -> AnyAgent:
    """Return the pydantic-ai agent ``pkg.mod:agent``.

    Raises `not_allowed` for a module that the worker does not list, `unknown_agent` for a name that stands for none.
    """
    members, name = find_members(reference, allowed, UNKNOWN)
    if name not in members:
        agents = [key for key, value in members.items() if isinstance(value, Agent) and not key.startswith("_")]
        raise absent(UNKNOWN, reference, agents)
    member = members[name]
    if isinstance(member, Agent):
        _check_origin(reference, members, name, allowed)
        return member
    raise wrong(UNKNOWN, f"{reference}: {_no_agent(name, member)}")


def _no_agent(name: str, value: object) -> str:
    if isinstance(value, AbstractAgent):
        return f"{name!r} is a {type(value).__name__}, which wraps an agent; name the agent inside it"
    if is_graph(value):
        return f"{name!r} is a graph of LangGraph; let a step use it as a tool: uses"
    if inspect.isroutine(value) or inspect.isclass(value):  # agents of other libraries can be called, too
        return f"{name!r} is a function; register it with @agent, or let the step use it as a tool: uses"
    library, _, _ = type(value).__module__.partition(".")
    way_out = "write a function with @agent that runs it: only agents of pydantic-ai are taken as they are"
    return f"{name!r} is of type {type(value).__qualname__} of {library}; {way_out}"


def _check_origin(reference: str, members: Mapping[str, Any], name: str, allowed: Sequence[str]) -> None:
    """Refuse an agent that its module imports from one that is not listed."""
    if (home := borrowed_from(members, name, allowed)) is not None:
        text = f"{reference}: the agent is imported from {home}, which [worker] imports does not list"
        raise wrong("not_allowed", f"{text}; list it, or build the agent in a module that is listed")


def check_agent(agent: AnyAgent, reference: ObjectReference) -> None:
    """Raise `agent_unsupported` with all that cannot be carried, and `unknown_agent` for settings of unknown tools."""
    refusals = [*iterate_unsupported(agent), *_iterate_lacks(agent, reference)]
    if refusals:
        raise wrong(UNSUPPORTED, f"{reference.reference}: {'; '.join(refusals)}")
    names = tool_names(agent)
    if names is not None:
        check_names(reference.reference, reference.tools, names)


def check_tool(agent: AnyAgent, reference: str, name: str) -> None:
    """Raise `unknown_agent` if the agent certainly has no tool of this name."""
    names = tool_names(agent)
    if names is not None:
        check_names(reference, {"": name}, names)


def check_names(reference: str, named: Mapping[str, str], names: Collection[str]) -> None:
    """Raise `unknown_agent` with all that the blueprint names, by its places, and that is no tool of the agent."""
    unknown = [_unknown(place, name, names) for place, name in named.items() if name not in names]
    if unknown:
        own = ", ".join(sorted(names)) or "none"
        raise wrong(UNKNOWN, f"{reference}: {'; '.join(unknown)}; its tools are: {own}")


def _unknown(place: str, name: str, names: Collection[str]) -> str:
    hint = did_you_mean(name, sorted(names))
    text = f"the agent has no tool {name!r}{f' ({hint})' if hint else ''}"
    return f"{place}: {text}" if place else text


def _iterate_lacks(agent: AnyAgent, reference: ObjectReference) -> Iterator[str]:
    """Yield what the agent needs, and neither it nor the blueprint says."""
    if agent.model is None and not reference.model:
        yield "model: it has none; name one in the blueprint: model"
    if reference.deps is None and agent.deps_type not in (object, type(None)):
        kind = getattr(agent.deps_type, "__name__", str(agent.deps_type))  # a union has no name
        yield f"deps_type: its dependencies are of type {kind}; name a function that gives them: deps"


def iterate_unsupported(agent: AnyAgent) -> Iterator[str]:
    """Yield what the agent uses that cannot be carried: the name, why, and the way out."""
    for capability in _capabilities(agent.root_capability):
        if not isinstance(capability, _CARRIED):
            name = type(capability).__name__
            bases = [kind.__name__ for kind in type(capability).__mro__]
            way_out = next((_INSTEAD[base] for base in bases if base in _INSTEAD), _OTHERWISE)
            yield f"capabilities: {name} acts on a run in one process, which there is not; {way_out}"
    if agent._event_hooks.has_on_event:
        yield "on_event: nothing is streamed; read the events of the Holdfast run"
    if agent.event_stream_handler is not None:
        yield "event_stream_handler: nothing is streamed; read the events of the Holdfast run"
    if agent._concurrency_limiter is not None:
        yield "max_concurrency: a run is not in one process; limit the worker: HOLDFAST_MAX_ACTIVITIES"
    if agent._output_schema.allows_image:
        yield "output_type: an image is not JSON; let a tool store it and return its address"
    if agent._output_schema.allows_pending_model_response:
        yield "output_type: PendingModelResponse cannot be waited for; leave it out"
    yield from _unsupported_tools(agent)


def _capabilities(root: AbstractCapability[Any]) -> Iterator[AbstractCapability[Any]]:
    """Yield what the capabilities are that an agent has; one that only prefixes names is what it wraps."""
    for capability in leaf_capabilities(root):
        if isinstance(capability, PrefixTools):
            yield from _capabilities(capability.wrapped)
        else:
            yield capability


def unsupported_agents(modules: Sequence[str]) -> Iterator[str]:
    """Yield, for each agent of these modules that is not private and cannot be carried, its name and why."""
    for module in modules:
        for name, value in sorted(vars(sys.modules[module]).items()):
            if isinstance(value, Agent) and not name.startswith("_"):
                refusals = "; ".join(iterate_unsupported(value))
                if refusals:
                    yield f"{module}:{name}: {refusals}"


def _unsupported_tools(agent: AnyAgent) -> Iterator[str]:
    for toolset in leaves(*agent.toolsets):
        if isinstance(toolset, FunctionToolset):
            for name, tool in toolset.tools.items():
                if tool.defer_loading:
                    yield f"tools: {name} has defer_loading, but there is no tool search; remove defer_loading"


def has_own_checks(agent: AnyAgent) -> bool:
    """Return whether functions of its authors take part in the check of an output: validators, output functions."""
    return bool(agent._output_validators) or has_output_function(agent)


def has_output_function(agent: AnyAgent) -> bool:
    """Return whether its output is what a function makes of the model's."""
    schema = agent._output_schema
    processors = [schema.text_processor, *(schema.toolset.processors.values() if schema.toolset else ())]
    return any(_has_function(processor) for processor in processors)


def _has_function(processor: object) -> bool:
    # The library says it nowhere else: a union's processor holds others, that of a function has its schema.
    inner = getattr(processor, "_processors", None)
    if isinstance(inner, dict):
        return any(map(_has_function, inner.values()))
    return getattr(processor, "_function_schema", None) is not None

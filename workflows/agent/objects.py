"""The run of an agent object, as its workflow keeps it: counters, tools, and the order of calls. Pure.

The library of the object keeps these counters itself where a run is in one process; here a run is many activities.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.blueprint.kinds import Agent, AgentTool
from holdfast.blueprint.positions import Parts, path_text
from holdfast.protocol.agent_objects import ObjectUse
from holdfast.protocol.agents import Message, ModelReply, ObjectTool, ToolCall, ToolSpec
from holdfast.protocol.tool_rules import OwnerRule
from holdfast.workflows.agent.checks import Result

NOT_TAKEN = "not taken: other calls of this turn have to be made again first"


def list_named_tools(agent: Agent, name: str | None) -> dict[str, str]:
    """Return the names of tools that the blueprint has settings or rules for, by their places in it."""
    start: Parts = ("agent",) if name is None else ("agents", name)
    return {path_text((*start, *path)): tool for path, tool in agent.named_tools}


def add_reply(use: ObjectUse, reply: ModelReply) -> ObjectUse:
    """Return the run after a reply."""
    used = use.usage
    usage = used.model_copy(
        update={
            "requests": used.requests + reply.usage.requests,
            "input_tokens": used.input_tokens + reply.usage.input_tokens,
            "output_tokens": used.output_tokens + reply.usage.output_tokens,
        }
    )
    return use.model_copy(update={"step": use.step + 1, "usage": usage, "opening": reply.opening, "tools": {}})


def add_results(use: ObjectUse, calls: Sequence[ToolCall], results: Sequence[Result]) -> ObjectUse:
    """Return the run after the calls of a turn: a tool that asked for another call has one retry less."""
    retries, made = dict(use.tool_retries), 0
    for call, result in zip(calls, results, strict=True):
        if result.messages and not result.again:
            retries.pop(call.name, None)
            made += 1
    for name in dict.fromkeys(call.name for call, result in zip(calls, results, strict=True) if result.again):
        retries[name] = use.tool_retries.get(name, 0) + 1
    usage = use.usage.model_copy(update={"tool_calls": use.usage.tool_calls + made})
    return use.model_copy(update={"tool_retries": retries, "usage": usage})


def add_correction(use: ObjectUse, corrections: Sequence[Message]) -> ObjectUse:
    """Return the run after an output that has to be given again."""
    retries = dict(use.tool_retries)
    for name in dict.fromkeys(message.tool for message in corrections if message.role == "tool"):
        retries[name] = retries.get(name, 0) + 1
    return use.model_copy(update={"output_retries": use.output_retries + 1, "tool_retries": retries})


def group_calls(tools: Sequence[ObjectTool], indices: Sequence[int]) -> list[list[int]]:
    """Return the calls in groups, one after the other; those of a group are made at once.

    >>> group_calls([ObjectTool(), ObjectTool(), ObjectTool(barrier=True), ObjectTool()], [0, 1, 2, 3])
    [[0, 1], [2], [3]]
    """
    groups: list[list[int]] = []
    alone = True
    for index in indices:
        barrier = tools[index].barrier
        if alone or barrier:
            groups.append([index])
        else:
            groups[-1].append(index)
        alone = barrier
    return groups


def make_spec(agent: Agent, call: ToolCall, tool: ObjectTool) -> ToolSpec:
    """Return the description of a tool, whose own demand counts beside what the blueprint says."""
    rule = OwnerRule(approve="always") if tool.demand == "approval" else None
    return ToolSpec(name=call.name, parameters=tool.parameters, reference=f"{agent.source}/{call.name}", rule=rule)


def make_settings(agent: Agent, spec: ToolSpec) -> AgentTool:
    """Return what the blueprint says of a tool of the agent."""
    setting = next((tool for tool in agent.tools if tool.name == spec.name), AgentTool(name=spec.name))
    return setting.model_copy(update={"name": spec.reference})


def order_results(calls: Sequence[ToolCall], results: dict[int, list[Message]]) -> list[Message]:
    """Return the messages of the results in the order of the calls; what else is said comes after them."""
    messages = [message for index in range(len(calls)) for message in results.get(index, [])]
    return [
        *(entry for entry in messages if entry.role == "tool"),
        *(entry for entry in messages if entry.role != "tool"),
    ]

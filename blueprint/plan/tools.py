"""Tools of a plan's steps: the agent whose list of tools counts, and the tools that it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal, NamedTuple

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.kinds import Agent, PlanBody, PlanStep
from holdfast.blueprint.parts import AskForAccess, CallAgain, ToolErrors
from holdfast.blueprint.plan.layout import Fault

MOST_RETRIES = 2
"""Largest number of retries of a step whose tools fail, for each item."""


@cache  # made of a plan's steps only, as it builds models
def make_tool_errors(*, by_model: bool = True) -> ToolErrors:
    """Return what follows errors of the tools of a step.

    Args:
        by_model: A model gives the arguments. Where the plan does, there is none to correct them.
    """
    return ToolErrors(
        authorization=AskForAccess(ask=1),
        missing="find",
        bad_arguments=CallAgain(retry=2) if by_model else "fail",
        timeout="fail",  # it may have taken effect all the same
        business=CallAgain(retry=1) if by_model else "fail",
        other="fail",
        total=MOST_RETRIES,
    )


class Lack(NamedTuple):
    """The reason for which a step may not use a tool, and the way out."""

    type: Literal["unknown_tool", "not_allowed"]
    message: str
    hint: str | None = None


def find_authored(step: PlanStep, author: PlanBody) -> PlanStep | None:
    """Return the step of this name as the author wrote it; of a plan that is read, nobody did."""
    return next((own for own in author.steps if own.id == step.id), None)


def ruling_agent(step: PlanStep, plan: PlanBody, author: PlanBody, agents: Mapping[str, Agent]) -> Agent | None:
    """Return the agent whose tools, approvals and permissions count: a model cannot choose others by naming one."""
    before = find_authored(step, author)
    own = before is not None and before.agent == step.agent and step.agent is not None
    agent = step.agent if own else plan.agent
    return agents.get(agent) if isinstance(agent, str) else agent


def has_tool(agent: Agent, tool: str) -> bool:
    """Return whether an agent lists a tool, or its MCP server."""
    return any(entry.name in (tool, tool.partition("/")[0]) for entry in agent.tools)


def find_unlisted(tool: str, agent: Agent | None) -> Lack | None:
    """Return why an agent that lists tools may not use one; None if it lists none, or this one."""
    if agent is None or not agent.tools or has_tool(agent, tool):
        return None
    listed = [entry.name for entry in agent.tools]
    hint = did_you_mean(tool, listed) or f"it has: {', '.join(listed)}"
    return Lack("unknown_tool", f"the agent has no tool {tool!r}", hint)


def find_tool_lack(tool: str, step: PlanStep, author: PlanBody, agent: Agent | None) -> Lack | None:
    """Return why a step may not use a tool, as far as that is known without a worker; None if it may."""
    before = find_authored(step, author)
    if (agent is not None and agent.tools) or (before is not None and tool in before.tools):
        return find_unlisted(tool, agent)
    if ":" in tool:
        text = f"{tool!r}: a plan that no author wrote may only name registered tools, and those of its agent"
        return Lack("not_allowed", text, "name a registered tool")
    if author.source is not None and not author.confirm:
        text = f"{tool!r}: nobody has allowed the plan a tool: its agent lists none, and no person approves it"
        return Lack("not_allowed", text, "list it under `tools` of the agent, or write `confirm: true`")
    return None


def check_tools(plan: PlanBody, author: PlanBody, agents: Mapping[str, Agent]) -> Iterator[Fault]:
    """Yield every tool that a step's agent does not have; what the author wrote was checked when it was loaded."""
    for index, step in enumerate(plan.steps):
        if find_authored(step, author) == step:
            continue
        agent = ruling_agent(step, plan, author, agents)
        for number, tool in enumerate(step.tools):
            if (lack := find_tool_lack(tool, step, author, agent)) is not None:
                yield Fault(f"steps[{index}].tools[{number}]", "unknown_name", lack.message, lack.hint)

"""Tools of a plan's steps: the agent whose list of tools counts, and the tools that it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.kinds import Agent, PlanBody, PlanStep
from holdfast.blueprint.plan.layout import Fault

MOST_RETRIES = 2
"""Largest number of retries of a step whose tools fail, for each item."""


class Lack(NamedTuple):
    """The reason for which a step may not use a tool, and the way out."""

    type: Literal["unknown_tool", "not_allowed"]
    message: str
    hint: str | None = None


def authored(step: PlanStep, author: PlanBody) -> PlanStep | None:
    """Return the step of this name as the author wrote it; of a plan that is read, nobody did."""
    return next((own for own in author.steps if own.id == step.id), None)


def ruling_agent(step: PlanStep, plan: PlanBody, author: PlanBody, agents: Mapping[str, Agent]) -> Agent | None:
    """Return the agent whose tools, approvals and permissions count: a model cannot choose others by naming one."""
    before = authored(step, author)
    own = before is not None and before.agent == step.agent and step.agent is not None
    agent = step.agent if own else plan.agent
    return agents.get(agent) if isinstance(agent, str) else agent


def unlisted(tool: str, agent: Agent | None) -> Lack | None:
    """Return why an agent that lists tools may not use one; None if it lists none, or this one or its MCP server."""
    listed = [] if agent is None else [entry.name for entry in agent.tools]
    if not listed or tool in listed or tool.partition("/")[0] in listed:
        return None
    hint = did_you_mean(tool, listed) or f"it has: {', '.join(listed)}"
    return Lack("unknown_tool", f"the agent has no tool {tool!r}", hint)


def lack_of(tool: str, step: PlanStep, author: PlanBody, agent: Agent | None) -> Lack | None:
    """Return why a step may not use a tool, as far as that is known without a worker; None if it may."""
    lack = unlisted(tool, agent)
    before = authored(step, author)
    if lack is None and ":" in tool and not (agent and agent.tools) and (before is None or tool not in before.tools):
        text = f"{tool!r}: a plan that no author wrote may only name registered tools, and those of its agent"
        return Lack("not_allowed", text, "name a registered tool")
    return lack


def check_tools(plan: PlanBody, author: PlanBody, agents: Mapping[str, Agent]) -> Iterator[Fault]:
    """Yield every tool that a step's agent does not have; what the author wrote was checked when it was loaded."""
    for index, step in enumerate(plan.steps):
        if authored(step, author) == step:
            continue
        agent = ruling_agent(step, plan, author, agents)
        for number, tool in enumerate(step.tools):
            if (lack := lack_of(tool, step, author, agent)) is not None:
                yield Fault(f"steps[{index}].tools[{number}]", "unknown_name", lack.message, lack.hint)

"""Approvals that the owners of tools demand, beside those of the blueprint: explain and graph show both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from holdfast.blueprint.explain.agents import describe_tool
from holdfast.blueprint.explain.outline import Line
from holdfast.blueprint.kinds import Agent, AgentTool, Blueprint
from holdfast.blueprint.parts import Risk
from holdfast.blueprint.words.text import as_sentence

Demands = Mapping[str, AgentTool]
"""By the name of a tool, what its owner demands, in the form of an agent's settings."""


def add_demands(blueprint: Blueprint, demands: Demands) -> Blueprint:
    """Return the blueprint with the demands beside what its named agents say of their tools."""
    agents = {name: _with_demands(agent, demands) for name, agent in blueprint.agents.items()}
    imports = {alias: add_demands(child, demands) for alias, child in blueprint.imports.items()}
    return blueprint.model_copy(update={"agents": agents, "imports": imports})


def demand_lines(demands: Demands) -> list[Line]:
    """Return a section of an explanation: each tool whose owner demands something."""
    lines = [Line(as_sentence(describe_tool(tool, Agent(model="echo"))), "-") for tool in demands.values()]
    return [Line("Approvals that the owners of tools demand, wherever they are called:"), *lines] if lines else []


def _with_demands(agent: Agent, demands: Demands) -> Agent:
    tools = [_with_demand(tool, demands[tool.name], agent) if tool.name in demands else tool for tool in agent.tools]
    return agent.model_copy(update={"tools": tools})


def _with_demand(tool: AgentTool, demand: AgentTool, agent: Agent) -> AgentTool:
    own = "always" if tool.approve is None and "approve" in agent.human else tool.approve
    given = [approve for approve in (own, demand.approve) if approve not in (None, "never")]
    approve = "always" if "always" in given else " or ".join(f"({one})" for one in given) if len(given) > 1 else None
    risks = [risk for risk in get_args(Risk) if risk in (tool.risk, demand.risk)]
    changes = {
        "approve": approve or (given[0] if given else tool.approve),
        "review": tool.review or demand.review,
        "risk": risks[-1] if risks else None,
    }
    return tool.model_copy(update=changes)

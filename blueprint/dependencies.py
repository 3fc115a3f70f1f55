"""The agents and imports that steps or tools may use, also through tools of agents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.blueprint.kinds import Agent, AgentTool, AnyStep, Blueprint
from holdfast.blueprint.kinds.references import AGENT, IMPORT
from holdfast.blueprint.kinds.walk import steps_within


@dataclass
class Dependencies:
    """The named agents and imports that are used."""

    agents: dict[str, Agent] = field(default_factory=dict)
    imports: dict[str, Blueprint] = field(default_factory=dict)


def list_agents(step: AnyStep, blueprint: Blueprint) -> list[Agent]:
    """Return the agents that work for a step, without unknown ones and those that only shorten a conversation."""
    workers = (resolve_agent(used.agent, blueprint) for used in step.agents() if used.role != "summarizer")
    return [agent for agent in workers if agent is not None]


def resolve_agent(agent: str | Agent, blueprint: Blueprint) -> Agent | None:
    """Return the agent of a name, or the one that is written in place of it."""
    return agent if isinstance(agent, Agent) else blueprint.agents.get(agent)


def list_tools(step: AnyStep, blueprint: Blueprint) -> list[AgentTool]:
    """Return the tools that a step's agents may call, or that its planner may have run."""
    own = [tool for agent in list_agents(step, blueprint) for tool in agent.tools]
    return [*own, *step.tools()]


def calls_tools(blueprint: Blueprint) -> bool:
    """Return whether a step of a blueprint, or of one that it imports, may call a tool."""
    for step in steps_within(blueprint.steps):
        inner = blueprint.imports.get(step.import_alias or "")
        if list_tools(step, blueprint) or any(need.kind == "tool" for need in step.requires()):
            return True
        if inner is not None and calls_tools(inner):
            return True
    return False


def find_reach(steps: Iterable[AnyStep], blueprint: Blueprint) -> Dependencies:
    """Return the agents and imports that these steps, and those inside them, use."""
    dependencies = Dependencies()
    for step in steps_within(steps):
        named = [used.agent for used in step.agents() if isinstance(used.agent, str)]
        for name in blueprint.agents if step.uses_any_agent else named:
            _add_agent(name, blueprint, dependencies)
        _add_tools(list_tools(step, blueprint), blueprint, dependencies)
        if step.import_alias is not None:
            _add_import(step.import_alias, blueprint, dependencies)
    return dependencies


def collect_registries(steps: Iterable[AnyStep]) -> dict[str, list[AgentTool]]:
    """Return the tools that each named planner may have run, in all steps that it directs."""
    registries: dict[str, list[AgentTool]] = {}
    for step in steps_within(steps):
        for used in step.agents():
            if used.role == "planner" and isinstance(used.agent, str):
                registries.setdefault(used.agent, []).extend(step.tools())
    return registries


def reach_of_tools(tools: Iterable[AgentTool], blueprint: Blueprint) -> Dependencies:
    """Return the agents and imports that these tools use."""
    dependencies = Dependencies()
    _add_tools(tools, blueprint, dependencies)
    return dependencies


def _add_tools(tools: Iterable[AgentTool], blueprint: Blueprint, dependencies: Dependencies) -> None:
    for tool in tools:
        if tool.name.startswith(AGENT):
            _add_agent(tool.name.removeprefix(AGENT), blueprint, dependencies)
        elif tool.name.startswith(IMPORT):
            _add_import(tool.name.removeprefix(IMPORT), blueprint, dependencies)


def _add_agent(name: str, blueprint: Blueprint, dependencies: Dependencies) -> None:
    if name in dependencies.agents or name not in blueprint.agents:
        return
    agent = dependencies.agents[name] = blueprint.agents[name]
    _add_tools(agent.tools, blueprint, dependencies)
    if agent.history_management is not None and agent.history_management.agent is not None:
        _add_agent(agent.history_management.agent, blueprint, dependencies)


def _add_import(alias: str, blueprint: Blueprint, dependencies: Dependencies) -> None:
    if alias in blueprint.imports:
        dependencies.imports[alias] = blueprint.imports[alias]

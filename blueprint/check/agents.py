"""Rules of agents: their tools exist, and their approval expressions can be read."""

from __future__ import annotations

from holdfast.blueprint.dependencies import collect_registries, reach_of_tools
from holdfast.blueprint.findings import Findings, check_known
from holdfast.blueprint.kinds import Agent, AnyStep, Blueprint
from holdfast.blueprint.kinds.agent_checks import check_agent
from holdfast.blueprint.kinds.agents import AgentReference


def check_agents(blueprint: Blueprint, findings: Findings) -> None:
    registries = collect_registries(blueprint.steps)
    for name, agent in blueprint.agents.items():
        check_agent(agent, f"agents.{name}", blueprint, findings, registries.get(name))
        if name in reach_of_tools(agent.tools, blueprint).agents:
            message = f"the agent {name!r} is among its own tools, and would never end"
            findings.add(f"agents.{name}.tools", "conflict", message, "leave it out, also from its tools' tools")
        if (history := agent.history_management) is not None and history.agent is not None:
            summarizer = AgentReference(history.agent, "", "summarizer")
            place = f"agents.{name}.history_management.agent"
            _check_use(summarizer, blueprint.agents.get(history.agent), place, findings)


def check_references(step: AnyStep, path: str, blueprint: Blueprint, findings: Findings) -> None:
    """Check the agents that a step names, or that are written in it."""
    for used in step.agents():
        agent_path = f"{path}.{used.path}"
        match used.agent:
            case str(name) if not findings.was_repaired("agents", name):
                check_known(name, "agent", blueprint.agents, agent_path, findings)
                _check_use(used, blueprint.agents.get(name), agent_path, findings)
            case Agent() as agent:
                registry = step.tools() if used.role == "planner" else None
                check_agent(agent, agent_path, blueprint, findings, registry)
                _check_use(used, agent, agent_path, findings)


def _check_use(used: AgentReference, agent: Agent | None, path: str, findings: Findings) -> None:
    if agent is not None and agent.source is not None and not used.may_be_object:
        message = "an agent of 'from' has an output of its own, and cannot do this"
        findings.add(path, "conflict", message, "name an agent with a model")

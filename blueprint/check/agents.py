"""Rules of agents: their tools exist, and their approval expressions can be read."""

from __future__ import annotations

from holdfast.blueprint.dependencies import planners_of, reach_of_tools
from holdfast.blueprint.findings import Findings, check_known
from holdfast.blueprint.kinds import Agent, AnyStep, Blueprint
from holdfast.blueprint.kinds.agent_checks import check_agent


def check_agents(blueprint: Blueprint, findings: Findings) -> None:
    planners = planners_of(blueprint.steps)
    for name, agent in blueprint.agents.items():
        check_agent(agent, f"agents.{name}", blueprint, findings, planner=name in planners)
        if name in reach_of_tools(agent.tools, blueprint).agents:
            message = f"the agent {name!r} is among its own tools, and would never end"
            findings.add(f"agents.{name}.tools", "conflict", message, "leave it out, also from its tools' tools")


def check_references(step: AnyStep, path: str, blueprint: Blueprint, findings: Findings) -> None:
    """Check the agents that a step names, or that are written in it."""
    for used in step.agents():
        agent_path = f"{path}.{used.path}"
        match used.agent:
            case str(name) if used.role != "summarizer" and not findings.was_repaired("agents", name):
                check_known(name, "agent", blueprint.agents, agent_path, findings)
            case Agent() as agent:
                check_agent(agent, agent_path, blueprint, findings, planner=used.role == "planner")

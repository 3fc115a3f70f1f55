"""Which agents and imports something may use, through tools of agents too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from blueprint.grammar import (
    Agent,
    AgenticLoop,
    AgentTool,
    AnyStep,
    Blueprint,
    Clarify,
    Fallback,
    Loop,
    PlainStep,
    Plan,
    PlanBody,
)

AGENT = "agent:"
IMPORT = "imports."
MCP = "mcp:"


@dataclass
class Reach:
    """The named agents and imports that are used."""

    agents: dict[str, Agent] = field(default_factory=dict)
    imports: dict[str, Blueprint] = field(default_factory=dict)


def agent_of(step: AnyStep, blueprint: Blueprint) -> Agent | None:
    """The agent that a step runs, if it runs one that is known."""
    match step:
        case PlainStep(agent=written) | AgenticLoop(planner=written) | Clarify(agent=written):
            return blueprint.agents.get(written) if isinstance(written, str) else written
    return None


def tools_of(step: AnyStep, blueprint: Blueprint) -> list[AgentTool]:
    """The tools that a step's agent may call, or that its planner may have run."""
    agent = agent_of(step, blueprint)
    own = [] if agent is None else agent.tools
    return [*own, *step.registry] if isinstance(step, AgenticLoop) else own


def reach_of(steps: Iterable[AnyStep], blueprint: Blueprint) -> Reach:
    """What these steps, and those inside them, use."""
    reach = Reach()
    for step in steps_within(steps):
        match step:
            case PlainStep(agent=str(name)) | AgenticLoop(planner=str(name)) | Clarify(agent=str(name)):
                _add_agent(name, blueprint, reach)
            case Loop() if (rule := step.loop.history_management) is not None and rule.agent is not None:
                _add_agent(rule.agent, blueprint, reach)
            case Plan():
                _add_plan(step.plan, blueprint, reach)
            case PlainStep(uses=str(uses)) if uses.startswith(IMPORT):
                _add_import(uses.removeprefix(IMPORT), blueprint, reach)
        _add_tools(tools_of(step, blueprint), blueprint, reach)
    return reach


def _add_plan(plan: PlanBody, blueprint: Blueprint, reach: Reach) -> None:
    """The agents of a plan; of one that is read, any that the blueprint names."""
    if plan.source is not None:
        for name in blueprint.agents:
            _add_agent(name, blueprint, reach)
    _add_tools([AgentTool(name=tool) for step in plan.steps for tool in step.tools], blueprint, reach)
    for agent in (plan.agent, *(step.agent for step in plan.steps)):
        if isinstance(agent, str):
            _add_agent(agent, blueprint, reach)
        elif agent is not None:
            _add_tools(agent.tools, blueprint, reach)


def planners_of(steps: Iterable[AnyStep]) -> set[str]:
    """The named agents that are planners of agentic loops."""
    return {
        step.planner for step in steps_within(steps) if isinstance(step, AgenticLoop) and isinstance(step.planner, str)
    }


def reach_of_tools(tools: Iterable[AgentTool], blueprint: Blueprint) -> Reach:
    """What these tools use."""
    reach = Reach()
    _add_tools(tools, blueprint, reach)
    return reach


def _add_tools(tools: Iterable[AgentTool], blueprint: Blueprint, reach: Reach) -> None:
    for tool in tools:
        if tool.name.startswith(AGENT):
            _add_agent(tool.name.removeprefix(AGENT), blueprint, reach)
        elif tool.name.startswith(IMPORT):
            _add_import(tool.name.removeprefix(IMPORT), blueprint, reach)


def _add_agent(name: str, blueprint: Blueprint, reach: Reach) -> None:
    if name in reach.agents or name not in blueprint.agents:
        return
    agent = reach.agents[name] = blueprint.agents[name]
    _add_tools(agent.tools, blueprint, reach)
    if agent.history_management is not None and agent.history_management.agent is not None:
        _add_agent(agent.history_management.agent, blueprint, reach)


def _add_import(alias: str, blueprint: Blueprint, reach: Reach) -> None:
    if alias in blueprint.imports:
        reach.imports[alias] = blueprint.imports[alias]


def steps_within(steps: Iterable[AnyStep]) -> Iterable[AnyStep]:
    """The steps, and those inside them."""
    for step in steps:
        yield step
        for block in step.blocks().values():
            yield from steps_within(block.steps)
        if isinstance(step.on_error, Fallback):
            yield from steps_within([step.on_error.fallback])

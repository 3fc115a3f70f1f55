"""The agents and imports that steps or tools may use, also through tools of agents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.blueprint.kinds import (
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
class Dependencies:
    """The named agents and imports that are used."""

    agents: dict[str, Agent] = field(default_factory=dict)
    imports: dict[str, Blueprint] = field(default_factory=dict)


def agent_of(step: AnyStep, blueprint: Blueprint) -> Agent | None:
    """Return the agent that a step runs, or None if it runs none or an unknown one."""
    match step:
        case PlainStep(agent=agent) | AgenticLoop(planner=agent) | Clarify(agent=agent):
            return blueprint.agents.get(agent) if isinstance(agent, str) else agent
    return None


def tools_of(step: AnyStep, blueprint: Blueprint) -> list[AgentTool]:
    """Return the tools that a step's agent may call, or that its planner may have run."""
    agent = agent_of(step, blueprint)
    own = [] if agent is None else agent.tools
    return [*own, *step.registry] if isinstance(step, AgenticLoop) else own


def reach_of(steps: Iterable[AnyStep], blueprint: Blueprint) -> Dependencies:
    """Return the agents and imports that these steps, and those inside them, use."""
    dependencies = Dependencies()
    for step in steps_within(steps):
        match step:
            case PlainStep(agent=str(name)) | AgenticLoop(planner=str(name)) | Clarify(agent=str(name)):
                _add_agent(name, blueprint, dependencies)
            case Loop() if (rule := step.loop.history_management) is not None and rule.agent is not None:
                _add_agent(rule.agent, blueprint, dependencies)
            case Plan():
                _add_plan(step.plan, blueprint, dependencies)
            case PlainStep(uses=str(uses)) if uses.startswith(IMPORT):
                _add_import(uses.removeprefix(IMPORT), blueprint, dependencies)
        _add_tools(tools_of(step, blueprint), blueprint, dependencies)
    return dependencies


def _add_plan(plan: PlanBody, blueprint: Blueprint, dependencies: Dependencies) -> None:
    """Add the agents of a plan; a plan that is read from a value may use any agent of the blueprint."""
    if plan.source is not None:
        for name in blueprint.agents:
            _add_agent(name, blueprint, dependencies)
    _add_tools([AgentTool(name=tool) for step in plan.steps for tool in step.tools], blueprint, dependencies)
    for agent in (plan.agent, *(step.agent for step in plan.steps)):
        if isinstance(agent, str):
            _add_agent(agent, blueprint, dependencies)
        elif agent is not None:
            _add_tools(agent.tools, blueprint, dependencies)


def planners_of(steps: Iterable[AnyStep]) -> set[str]:
    """Return the names of agents that are planners of agentic loops."""
    return {
        step.planner for step in steps_within(steps) if isinstance(step, AgenticLoop) and isinstance(step.planner, str)
    }


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


def lists_within(steps: Sequence[AnyStep]) -> Iterable[Sequence[AnyStep]]:
    """Yield every list of steps: this one, and those inside its steps."""
    yield steps
    for step in steps:
        for block in step.blocks().values():
            yield from lists_within(block.steps)


def steps_within(steps: Iterable[AnyStep]) -> Iterable[AnyStep]:
    """Yield the steps, and those inside them."""
    for step in steps:
        yield step
        for block in step.blocks().values():
            yield from steps_within(block.steps)
        if isinstance(step.on_error, Fallback):
            yield from steps_within([step.on_error.fallback])

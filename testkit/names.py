"""The names that a blueprint and its imports declare, against which a test file is checked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.blueprint.kinds import Agent, AgentTool, Blueprint, PlanBody, PlanStep, Step
from holdfast.blueprint.kinds.references import AGENT, BUILTINS, IMPORT
from holdfast.blueprint.parts import Part

ASK_TOOL = "request_user_info"
"""The tool with which an agent asks a person."""


@dataclass
class DeclaredNames:
    """The steps, agents and tools that a test may name."""

    steps: set[str] = field(default_factory=set)
    agents: set[str] = field(default_factory=set)
    models: dict[str, str] = field(default_factory=dict)
    """Models by the name of their agent, or of the step it is written in."""
    objects: dict[str, str] = field(default_factory=dict)
    """Agents that are code of the author's, by the same names, each as a call of it is named if it is a function."""
    tools: set[str] = field(default_factory=set)
    """Tools and functions as the blueprint names them, and the workflows and signals of its author."""
    signals: set[str] = field(default_factory=set)
    """Signals to workflows of its author."""
    called: set[str] = field(default_factory=lambda: {ASK_TOOL})
    """Tools as the trace names them."""
    open: bool = False
    """True if there may be others: those of a plan that is read when it runs."""


def collect_names(blueprint: Blueprint) -> DeclaredNames:
    names = DeclaredNames()
    for part in _parts(blueprint):
        _collect(part, names)
    return names


def is_pattern(name: str) -> bool:
    """Return whether it is an address or a glob over addresses, rather than a name."""
    return bool(re.search(r"[*?\[;:]", name))


def _parts(value: object) -> Iterator[Part]:
    """Yield every part of a blueprint, including those of its imports."""
    match value:
        case Part():
            yield value
            for inner in value.__dict__.values():
                yield from _parts(inner)
        case dict():
            for inner in value.values():
                yield from _parts(inner)
        case list():
            for inner in value:
                yield from _parts(inner)


def _collect(part: Part, names: DeclaredNames) -> None:
    for requirement in part.requires():
        if requirement.kind in ("tool", "own_workflow"):
            _collect_tool(requirement.name, names)
        if requirement.kind == "own_workflow" and requirement.path[-1] == "signal":
            names.signals.add(requirement.name)
    match part:
        case Blueprint(agents=agents):
            names.agents |= agents.keys()
            for name, agent in agents.items():
                _collect_agent(name, agent, names)
        case Step():
            _collect_step(part, names)
        case AgentTool(name=name):
            names.called.add(_name_call(name))
        case PlanBody(source=source) as plan:
            names.steps |= plan.loop_blocks.keys()
            names.open = names.open or source is not None
        case PlanStep(id=id_, tools=tools):
            names.steps.add(id_)
            names.called.update(map(_name_call, tools))


def _name_call(tool: str) -> str:
    """Return the name of a tool as the trace has it."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", re.split(r"[:/.]", tool)[-1])


def _collect_tool(name: str, names: DeclaredNames) -> None:
    """Collect a tool, unless it is a built-in, agent or import: these run in workflows and cannot be faked."""
    if name not in BUILTINS and not name.startswith((AGENT, IMPORT)):
        names.tools.add(name)


def _collect_agent(name: str, agent: Agent, names: DeclaredNames) -> None:
    names.models[name] = agent.model or agent.title
    if agent.source is not None:
        names.objects[name] = agent.source.rpartition(":")[2]
        names.tools.add(names.objects[name])


def _collect_step(step: Step, names: DeclaredNames) -> None:
    names.steps.add(step.name)
    for used in step.agents():
        if isinstance(used.agent, Agent):
            _collect_agent(step.name, used.agent, names)

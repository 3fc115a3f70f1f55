"""The names that a blueprint and its imports have for steps, agents and tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from blueprint.grammar import (
    Agent,
    AgenticLoop,
    AgentTool,
    Blueprint,
    Clarify,
    Conditional,
    Hitl,
    LoopBlock,
    PlainStep,
    PlanBody,
    PlanStep,
    Step,
)
from blueprint.grammar.base import Part
from blueprint.grammar.steps import BUILTINS
from blueprint.reach import AGENT, IMPORT

ASKING = "request_user_info"
"""The tool by which an agent asks a person."""


@dataclass
class Names:
    """What a test may speak of."""

    steps: set[str] = field(default_factory=set)
    agents: set[str] = field(default_factory=set)
    models: dict[str, str] = field(default_factory=dict)
    """Which model an agent asks, by the agent's name or that of its step."""
    tools: set[str] = field(default_factory=set)
    """Tools and functions as the blueprint refers to them."""
    called: set[str] = field(default_factory=lambda: {ASKING})
    """Tools as the trace calls them."""
    open: bool = False
    """Whether there may be others: those of a plan that is read when it runs."""
    ladders: dict[str, list[float]] = field(default_factory=dict)
    """By the step that asks: after how many seconds others are asked instead."""


def names_of(blueprint: Blueprint) -> Names:
    names = Names()
    for part in _parts(blueprint):
        _take(part, names)
    return names


def is_pattern(name: str) -> bool:
    """Whether it is an address, or a glob over addresses, and not a name."""
    return bool(re.search(r"[*?\[;:]", name))


def _parts(value: Any) -> Iterator[Part]:
    """Every piece of a blueprint, those of its imports too."""
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


def _take(part: Part, names: Names) -> None:
    match part:
        case Blueprint(agents=agents):
            names.agents |= agents.keys()
            names.models |= {name: agent.model for name, agent in agents.items()}
        case Step():
            names.steps.add(part.name)
            _take_step(part, names)
        case AgentTool(name=name):
            _take_tool(name, names)
            names.called.add(re.sub(r"[^A-Za-z0-9_-]+", "_", re.split(r"[:/.]", name)[-1]))
        case PlanBody(source=source) as plan:
            names.steps |= plan.loop_blocks.keys()
            names.open = names.open or source is not None
        case PlanStep(id=id_, tools=tools):
            names.steps.add(id_)
            for tool in tools:
                _take(AgentTool(name=tool), names)
        case LoopBlock():
            mappers = (part.initial_input_mapper, part.iteration_input_mapper, part.loop_output_mapper)
            names.tools.update(filter(None, (*mappers, part.exit_condition)))


def _take_tool(name: str, names: Names) -> None:
    """Built-ins, agents and imports run in workflows, and are no tools that a test can stand in for."""
    if name not in BUILTINS and not name.startswith((AGENT, IMPORT)):
        names.tools.add(name)


def _take_step(step: Step, names: Names) -> None:
    match step:
        case (
            PlainStep(agent=Agent() as agent) | AgenticLoop(planner=Agent() as agent) | Clarify(agent=Agent() as agent)
        ):
            names.models[step.name] = agent.model
        case PlainStep(uses=str(tool)) | Conditional(condition=str(tool)):
            _take_tool(tool, names)
        case Hitl(escalate=ladder):
            names.ladders[step.name] = [rung.after for rung in ladder]

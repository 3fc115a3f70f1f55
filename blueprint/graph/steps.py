"""The drawing of a step from what its kind says of itself: a node, a frame, the steps inside, its agents and tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.blueprint.dependencies import resolve_agent, tools_of
from holdfast.blueprint.explain.agents import approval_condition
from holdfast.blueprint.explain.plans import compiled
from holdfast.blueprint.graph.flowchart import DEFAULT, DrawnStep, Ends, Flowchart, Location, root_location
from holdfast.blueprint.graph.overlay import Path
from holdfast.blueprint.kinds import Agent, AgentTool, AnyStep, Blueprint
from holdfast.blueprint.kinds.agents import AgentReference
from holdfast.blueprint.kinds.description import Drawing, NestedSteps
from holdfast.blueprint.kinds.references import AGENT, IMPORT, model, tool_name
from holdfast.blueprint.words.text import condition

LARGEST = 200
"""The number of nodes above which imports are drawn closed: browsers handle some hundreds."""


def draw_step(drawing: Flowchart, step: AnyStep, location: Location, ends: Ends) -> DrawnStep:
    """Draw a step without its fallback."""
    step = compiled(step, location.blueprint)
    imported = None if step.import_alias is None else location.blueprint.imports.get(step.import_alias)
    if imported is not None and drawing.chart.size <= LARGEST:
        return _import(drawing, step, imported, location, ends)
    drawn = step.draw(location.names)
    inside = step.describe(location.names).inner
    if drawn.framed:
        return _framed(drawing, step, drawn, inside, location, ends)
    node = _node(drawing, step, drawn, location, ends)
    _beside(drawing, node, step, drawn, location)
    return DrawnStep(node, _inside(drawing, step, inside, location, [(node, "")]))


def _title(step: AnyStep, location: Location, *lines: str) -> list[str]:
    only = [] if step.when is None else [f"if {condition(step.when, location.names)}"]
    return [step.label, *only, *lines]


def _node(drawing: Flowchart, step: AnyStep, drawn: Drawing, location: Location, ends: Ends) -> str:
    node = drawing.chart.node(drawn.shape, *_title(step, location, *drawn.lines))
    for name in (step.name, *drawn.also):
        drawing.register((*location.path, name), node)
    drawing.connect(ends, node)
    return node


def _import(drawing: Flowchart, step: AnyStep, child: Blueprint, location: Location, ends: Ends) -> DrawnStep:
    """Draw the import's own steps in a frame."""
    own = (*location.path, step.name)
    with drawing.chart.group(*_title(step, location, *step.draw(location.names).lines)) as group:
        drawing.register(own, group)
        return drawing.steps(child.steps, root_location(child, own), ends)


def _framed(
    drawing: Flowchart, step: AnyStep, drawn: Drawing, inside: Sequence[NestedSteps], location: Location, ends: Ends
) -> DrawnStep:
    own = (*location.path, step.name)
    last = drawing.overlay.rounds.get(own)
    count = f"{drawn.counts} {last}" if drawn.counts and last is not None else ""
    with drawing.chart.group(*_title(step, location, drawn.title, count)) as group:
        drawing.register(own, group)
        if drawn.repeats == "body":
            (inner,) = inside
            body = drawing.steps(inner.steps, location.inside(step.name, names=inner.names), ends)
            node = drawing.chart.node(drawn.shape, *drawn.lines)
        else:
            agreed = _confirmation(drawing, drawn, own, ends) if drawn.confirms else ""
            node = drawing.chart.node(drawn.shape, *drawn.lines)
            drawing.connect([(agreed, "")] if agreed else ends, node)
            body = DrawnStep(agreed or node, _inside(drawing, step, inside, location, [(node, drawn.enters)]))
            if drawn.asks:
                _person(drawing, node, location.inside(step.name), drawn.asks)
    return DrawnStep(body.first, _ways_on(drawing, node, drawn, body))


def _confirmation(drawing: Flowchart, drawn: Drawing, path: Path, ends: Ends) -> str:
    node = drawing.chart.node("question", drawn.confirms)
    drawing.register((*path, "confirm"), node)
    drawing.connect(ends, node)
    return node


def _ways_on(drawing: Flowchart, node: str, drawn: Drawing, body: DrawnStep) -> Ends:
    """Connect the steps inside with the node where they repeat, and return the ends of the whole."""
    own = [] if drawn.skips is None else [(node, drawn.skips)]
    match drawn.repeats:
        case "node":
            drawing.connect([(source, text or "next") for source, text in body.ends], node)
            return own
        case "body":
            drawing.connect(body.ends, node)
            drawing.chart.edge(node, body.first, drawn.enters)
            return own
    return [*own, *body.ends]


def _inside(drawing: Flowchart, step: AnyStep, inside: Sequence[NestedSteps], location: Location, ends: Ends) -> Ends:
    """Draw the steps inside: each labelled list in a frame of its own; an empty one is only an edge."""
    if any(inner.label is not None for inner in inside):
        named = frozenset(inner.key for inner in inside if inner.key is not None)
        drawing.keys[(*location.path, step.name)] = named
    out: Ends = []
    for inner in inside:
        if inner.label is None:
            inside_step = location.inside(step.name, names=inner.names)
            if inner.waits is None:
                out += drawing.steps(inner.steps, inside_step, ends).ends
            else:
                out += drawing.steps_after_others(inner.steps, inner.waits, inside_step, ends)
        elif not inner.steps:
            out += [(source, inner.label) for source, _ in ends]
        else:
            out += _branch(drawing, step, inner, location, ends)
    return out if inside else ends


def _branch(drawing: Flowchart, step: AnyStep, inner: NestedSteps, location: Location, ends: Ends) -> Ends:
    label = inner.label or ""
    with drawing.chart.group(label) as group:
        inside = location.inside(step.name, DEFAULT if inner.key is None else inner.key, names=inner.names)
        drawing.register(inside.path, group)
        return drawing.steps(inner.steps, inside, [(source, label) for source, _ in ends]).ends


# Agents and tools


def _beside(drawing: Flowchart, node: str, step: AnyStep, drawn: Drawing, location: Location) -> None:
    """Draw what the step works with beside its node: its agent's tools, a person it asks, or the agent itself."""
    for used in () if drawn.alone else step.agents():
        if drawn.helper:
            label = f"the agent {used.agent}" if isinstance(used.agent, str) else f"an agent: {model(used.agent.model)}"
            drawing.chart.edge(node, drawing.chart.node("agent", label), drawn.helper, dotted=True)
        else:
            _worker(drawing, node, step, used, location)


def _worker(drawing: Flowchart, node: str, step: AnyStep, used: AgentReference, location: Location) -> None:
    agent = resolve_agent(used.agent, location.blueprint)
    inside = location.inside(step.name)
    if used.role == "planner":
        _person(drawing, node, inside, "ask_human")
    elif agent is not None and "ask" in agent.human:
        _person(drawing, node, inside, "request_user_info")
    if agent is not None:
        _tools(drawing, node, agent, tools_of(step, location.blueprint), inside, set())


def _person(drawing: Flowchart, node: str, location: Location, name: str) -> None:
    person = drawing.chart.node("question", "a person")
    drawing.register((*location.path, name), person)
    drawing.chart.edge(node, person, "asks", dotted=True)


def _tools(
    drawing: Flowchart, node: str, agent: Agent, tools: Iterable[AgentTool], location: Location, seen: set[str]
) -> None:
    for tool in tools:
        _tool(drawing, node, agent, tool, location, seen)


def _tool(drawing: Flowchart, node: str, agent: Agent, tool: AgentTool, location: Location, seen: set[str]) -> None:
    """Draw a tool beside its agent; an agent among the tools is expanded only once."""
    asked = [*(["shown to a person"] if tool.review else []), approval_condition(tool, agent)]
    inner = location.blueprint.agents.get(tool.name.removeprefix(AGENT)) if tool.name.startswith(AGENT) else None
    name = tool.name.removeprefix(AGENT).removeprefix(IMPORT)
    target = drawing.chart.node("agent" if inner is not None else "tool", tool_name(tool.name))
    drawing.register((*location.path, name), target)
    drawing.chart.edge(node, target, ", ".join(note for note in asked if note), dotted=True)
    if inner is None or name in seen:
        return
    seen.add(name)
    inside = location.inside(name, name)
    if "ask" in inner.human:
        _person(drawing, target, inside, "request_user_info")
    _tools(drawing, target, inner, inner.tools, inside, seen)

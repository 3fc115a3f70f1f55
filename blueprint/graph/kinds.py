"""Drawings of the step kinds: one function for each kind, registered in `DRAWN`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdfast.blueprint.explain.agents import approval_condition, model, tool_name
from holdfast.blueprint.explain.people import PREVIOUS
from holdfast.blueprint.explain.steps import describe_step, ends_of, items, subject, yes_or_no
from holdfast.blueprint.explain.words import condition, counted, duration, filled, unquoted
from holdfast.blueprint.graph.flowchart import DEFAULT, DrawnStep, Ends, Flowchart, Location, root_location
from holdfast.blueprint.graph.mermaid import Shape
from holdfast.blueprint.graph.plans import plan
from holdfast.blueprint.kinds import (
    Agent,
    AgenticLoop,
    AgentTool,
    Cache,
    Clarify,
    Conditional,
    Hitl,
    Loop,
    Map,
    Parallel,
    PlainStep,
    Plan,
    Step,
)
from holdfast.blueprint.kinds.references import AGENT, BUILTINS, IMPORT

LARGEST = 200
"""The number of nodes above which imports are drawn closed: browsers handle some hundreds."""


def _node(drawing: Flowchart, shape: Shape, step: Step, location: Location, ends: Ends, *details: str) -> DrawnStep:
    """Draw a step as one node."""
    only = "" if step.when is None else f"if {condition(step.when, location.names)}"
    node = drawing.chart.node(shape, step.name, only, *details)
    drawing.register((*location.path, step.name), node)
    drawing.connect(ends, node)
    return DrawnStep(node, [(node, "")])


def _title(step: Step, location: Location, *details: str) -> list[str]:
    """Return the title of a group."""
    only = [] if step.when is None else [f"if {condition(step.when, location.names)}"]
    return [step.name, *only, *details]


# Single actions


def _plain(drawing: Flowchart, step: PlainStep, location: Location, ends: Ends) -> DrawnStep:
    if step.agent is not None:
        return _agent(drawing, step, step.agent, location, ends)
    if step.uses is not None and step.uses.startswith(IMPORT):
        return _import(drawing, step, step.uses.removeprefix(IMPORT), location, ends)
    if step.uses is None:
        input_text = "" if step.input == PREVIOUS else unquoted(step.input, location.names)
        return _node(drawing, "plain", step, location, ends, input_text)
    if step.uses in BUILTINS:
        return _node(drawing, "plain", step, location, ends, step.uses)
    return _node(drawing, "tool", step, location, ends, step.uses if step.uses != step.name else "")


def _agent(
    drawing: Flowchart, step: PlainStep, agent_or_name: str | Agent, location: Location, ends: Ends
) -> DrawnStep:
    agent = agent_or_name if isinstance(agent_or_name, Agent) else location.blueprint.agents.get(agent_or_name)
    label = f"agent {agent_or_name}" if isinstance(agent_or_name, str) else f"agent: {model(agent_or_name.model)}"
    drawn = _node(drawing, "agent", step, location, ends, label)
    if agent is not None:
        _tools(drawing, drawn.first, agent, agent.tools, location.inside(step.name), set())
    return drawn


def _tools(
    drawing: Flowchart, node: str, agent: Agent, tools: Iterable[AgentTool], location: Location, seen: set[str]
) -> None:
    """Draw an agent's tools beside it. An agent among them is expanded only once."""
    if "ask" in agent.human:
        person = drawing.chart.node("question", "a person")
        drawing.register((*location.path, "request_user_info"), person)
        drawing.chart.edge(node, person, "asks", dotted=True)
    for tool in tools:
        _tool(drawing, node, agent, tool, location, seen)


def _tool(drawing: Flowchart, node: str, agent: Agent, tool: AgentTool, location: Location, seen: set[str]) -> None:
    asked = [*(["shown to a person"] if tool.review else []), approval_condition(tool, agent)]
    inner = location.blueprint.agents.get(tool.name.removeprefix(AGENT)) if tool.name.startswith(AGENT) else None
    name = tool.name.removeprefix(AGENT).removeprefix(IMPORT)
    is_drawn = inner is not None and name in seen
    target = drawing.chart.node("agent" if inner is not None else "tool", tool_name(tool.name))
    drawing.register((*location.path, name), target)
    drawing.chart.edge(node, target, ", ".join(note for note in asked if note), dotted=True)
    if inner is not None and not is_drawn:
        seen.add(name)
        _tools(drawing, target, inner, inner.tools, location.inside(name, name), seen)


def _import(drawing: Flowchart, step: PlainStep, alias: str, location: Location, ends: Ends) -> DrawnStep:
    """Draw the import's own steps in a group, unless the chart is large already."""
    child = location.blueprint.imports.get(alias)
    if child is None or drawing.chart.size > LARGEST:
        return _node(drawing, "tool", step, location, ends, f"the blueprint {alias}")
    with drawing.chart.group(*_title(step, location, f"the blueprint {alias}")) as group:
        drawing.register((*location.path, step.name), group)
        return drawing.steps(child.steps, root_location(child, (*location.path, step.name)), ends)


# A person


def _hitl(drawing: Flowchart, step: Hitl, location: Location, ends: Ends) -> DrawnStep:
    seen = location.names.after(filled(step.input, location.names))
    text = "waits for a word" if step.ask_kind.is_pause else unquoted(step.message, seen)
    return _node(drawing, "question", step, location, ends, text)


def _clarify(drawing: Flowchart, step: Clarify, location: Location, ends: Ends) -> DrawnStep:
    facts = f"asks for {', '.join(step.properties())}" if step.properties() else ""
    drawn = _node(drawing, "question", step, location, ends, unquoted(step.goal, location.names), facts)
    if step.agent is not None:
        label = f"the agent {step.agent}" if isinstance(step.agent, str) else f"an agent: {model(step.agent.model)}"
        drawing.chart.edge(drawn.first, drawing.chart.node("agent", label), "words and reads", dotted=True)
    return drawn


# Branches


def _conditional(drawing: Flowchart, step: Conditional, location: Location, ends: Ends) -> DrawnStep:
    clause = yes_or_no(step, location.names)
    asked = f"{clause}?" if clause is not None else subject(step, location.names)
    head = _node(drawing, "condition", step, location, ends, asked)
    drawing.keys[(*location.path, step.name)] = frozenset(step.branches)
    return DrawnStep(head.first, _branches(drawing, step, location, head.first))


def _parallel(drawing: Flowchart, step: Parallel, location: Location, ends: Ends) -> DrawnStep:
    with drawing.chart.group(*_title(step, location)) as group:
        drawing.register((*location.path, step.name), group)
        head = drawing.chart.node("fork", "at the same time")
        drawing.connect(ends, head)
        return DrawnStep(head, _branches(drawing, step, location, head))


def _branches(drawing: Flowchart, step: Conditional | Parallel, location: Location, head: str) -> Ends:
    """Draw each branch in a group; an empty one is only an edge."""
    out: Ends = []
    for inner in describe_step(step, location.names).inner:
        if not inner.steps:
            out.append((head, inner.label))
            continue
        with drawing.chart.group(inner.label) as group:
            inside = location.inside(step.name, DEFAULT if inner.key is None else inner.key, names=inner.names)
            drawing.register(inside.path, group)
            out += drawing.steps(inner.steps, inside, [(head, inner.label)]).ends
    return out


# Repetition


def _loop(drawing: Flowchart, step: Loop, location: Location, ends: Ends) -> DrawnStep:
    own = (*location.path, step.name)
    round_ = drawing.overlay.rounds.get(own)
    round_text = "" if round_ is None else f"round {round_}"
    with drawing.chart.group(*_title(step, location, round_text)) as group:
        drawing.register(own, group)
        (inner,) = describe_step(step, location.names).inner
        body = drawing.steps(inner.steps, location.inside(step.name, names=inner.names), ends)
        test = drawing.chart.node("condition", *ends_of(step, location.names))
    drawing.connect(body.ends, test)
    drawing.chart.edge(test, body.first, "again")
    return DrawnStep(body.first, [(test, "done")])


def _map(drawing: Flowchart, step: Map, location: Location, ends: Ends) -> DrawnStep:
    own = (*location.path, step.name)
    at_once = step.map.max_concurrency
    how = f"up to {at_once} at once" if at_once > 1 else "one after the other"
    with drawing.chart.group(*_title(step, location)) as group:
        drawing.register(own, group)
        head = drawing.chart.node("fork", f"for each item of {items(step, location.names)}", how)
        drawing.connect(ends, head)
        (inner,) = describe_step(step, location.names).inner
        body = drawing.steps(inner.steps, location.inside(step.name, names=inner.names), [(head, "item")])
    drawing.connect([(source, text or "next") for source, text in body.ends], head)
    return DrawnStep(head, [(head, "done")])


def _cache(drawing: Flowchart, step: Cache, location: Location, ends: Ends) -> DrawnStep:
    kept = "for ever" if step.ttl is None else f"for {duration(step.ttl)}"
    with drawing.chart.group(*_title(step, location)) as group:
        drawing.register((*location.path, step.name), group)
        store = drawing.chart.node("store", f"results are kept {kept}")
        drawing.connect(ends, store)
        (inner,) = describe_step(step, location.names).inner
        wrapped = drawing.steps(inner.steps, location.inside(step.name, names=inner.names), [(store, "new")])
    return DrawnStep(store, [(store, "known"), *wrapped.ends])


def _planner(drawing: Flowchart, step: AgenticLoop, location: Location, ends: Ends) -> DrawnStep:
    agent_or_name = step.planner
    agent = agent_or_name if isinstance(agent_or_name, Agent) else location.blueprint.agents.get(agent_or_name)
    label = f"planner {agent_or_name}" if isinstance(agent_or_name, str) else f"planner: {model(agent_or_name.model)}"
    drawn = _node(drawing, "agent", step, location, ends, label, f"at most {counted(step.max_loops, 'turn')}")
    person = drawing.chart.node("question", "a person")
    drawing.register((*location.path, step.name, "ask_human"), person)
    drawing.chart.edge(drawn.first, person, "asks", dotted=True)
    seen: set[str] = set()
    if agent is not None:
        for tool in step.registry:
            _tool(drawing, drawn.first, agent, tool, location.inside(step.name), seen)
    return drawn


DRAWN: Mapping[type[Step], Callable[[Flowchart, Any, Location, Ends], DrawnStep]] = {
    PlainStep: _plain,
    Hitl: _hitl,
    Conditional: _conditional,
    Loop: _loop,
    Map: _map,
    Parallel: _parallel,
    Clarify: _clarify,
    Cache: _cache,
    AgenticLoop: _planner,
    Plan: plan,
}

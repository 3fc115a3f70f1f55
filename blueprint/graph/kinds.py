"""How each step kind is drawn: one function a kind, in one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from blueprint.explain.agents import consent, model, tool_name
from blueprint.explain.people import PREVIOUS
from blueprint.explain.steps import ends_of, items, subject, told_of, yes_or_no
from blueprint.explain.words import bare, condition, counted, filled, lasting
from blueprint.grammar import (
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
from blueprint.grammar.steps import BUILTINS
from blueprint.graph.drawing import DEFAULT, Drawing, Drawn, Ends, Place, place_of
from blueprint.graph.mermaid import Shape
from blueprint.graph.plans import plan
from blueprint.reach import AGENT, IMPORT

LARGEST = 200
"""Nodes above which imports stay closed: a browser draws no more than some hundreds."""


def _node(drawing: Drawing, shape: Shape, step: Step, place: Place, ends: Ends, *details: str) -> Drawn:
    """A step of one node."""
    only = "" if step.when is None else f"if {condition(step.when, place.names)}"
    node = drawing.sheet.node(shape, step.name, only, *details)
    drawing.stand((*place.path, step.name), node)
    drawing.connect(ends, node)
    return Drawn(node, [(node, "")])


def _title(step: Step, place: Place, *details: str) -> list[str]:
    """What stands over a group."""
    only = [] if step.when is None else [f"if {condition(step.when, place.names)}"]
    return [step.name, *only, *details]


# One thing


def _plain(drawing: Drawing, step: PlainStep, place: Place, ends: Ends) -> Drawn:
    if step.agent is not None:
        return _agent(drawing, step, step.agent, place, ends)
    if step.uses is not None and step.uses.startswith(IMPORT):
        return _import(drawing, step, step.uses.removeprefix(IMPORT), place, ends)
    if step.uses is None:
        given = "" if step.input == PREVIOUS else bare(step.input, place.names)
        return _node(drawing, "plain", step, place, ends, given)
    if step.uses in BUILTINS:
        return _node(drawing, "plain", step, place, ends, step.uses)
    return _node(drawing, "tool", step, place, ends, step.uses if step.uses != step.name else "")


def _agent(drawing: Drawing, step: PlainStep, written: str | Agent, place: Place, ends: Ends) -> Drawn:
    agent = written if isinstance(written, Agent) else place.blueprint.agents.get(written)
    who = f"agent {written}" if isinstance(written, str) else f"agent: {model(written.model)}"
    drawn = _node(drawing, "agent", step, place, ends, who)
    if agent is not None:
        _tools(drawing, drawn.first, agent, agent.tools, place.inside(step.name), set())
    return drawn


def _tools(drawing: Drawing, node: str, agent: Agent, tools: Iterable[AgentTool], place: Place, seen: set[str]) -> None:
    """What an agent may call, beside it; an agent among them has tools of its own, which are drawn once."""
    if "ask" in agent.human:
        person = drawing.sheet.node("question", "a person")
        drawing.stand((*place.path, "request_user_info"), person)
        drawing.sheet.edge(node, person, "asks", dotted=True)
    for tool in tools:
        _tool(drawing, node, agent, tool, place, seen)


def _tool(drawing: Drawing, node: str, agent: Agent, tool: AgentTool, place: Place, seen: set[str]) -> None:
    asked = [*(["shown to a person"] if tool.review else []), consent(tool, agent)]
    inner = place.blueprint.agents.get(tool.name.removeprefix(AGENT)) if tool.name.startswith(AGENT) else None
    name = tool.name.removeprefix(AGENT).removeprefix(IMPORT)
    known = inner is not None and name in seen
    target = drawing.sheet.node("agent" if inner is not None else "tool", tool_name(tool.name))
    drawing.stand((*place.path, name), target)
    drawing.sheet.edge(node, target, ", ".join(one for one in asked if one), dotted=True)
    if inner is not None and not known:
        seen.add(name)
        _tools(drawing, target, inner, inner.tools, place.inside(name, name), seen)


def _import(drawing: Drawing, step: PlainStep, alias: str, place: Place, ends: Ends) -> Drawn:
    """The import's own steps in a frame, as long as the graph is not too large."""
    child = place.blueprint.imports.get(alias)
    if child is None or drawing.sheet.size > LARGEST:
        return _node(drawing, "tool", step, place, ends, f"the blueprint {alias}")
    with drawing.sheet.group(*_title(step, place, f"the blueprint {alias}")) as group:
        drawing.stand((*place.path, step.name), group)
        return drawing.steps(child.steps, place_of(child, (*place.path, step.name)), ends)


# A person


def _hitl(drawing: Drawing, step: Hitl, place: Place, ends: Ends) -> Drawn:
    seen = place.names.after(filled(step.input, place.names))
    told = "waits for a word" if step.ask == "hold" else bare(step.message, seen)
    return _node(drawing, "question", step, place, ends, told)


def _clarify(drawing: Drawing, step: Clarify, place: Place, ends: Ends) -> Drawn:
    facts = f"asks for {', '.join(step.properties())}" if step.properties() else ""
    drawn = _node(drawing, "question", step, place, ends, bare(step.goal, place.names), facts)
    if step.agent is not None:
        who = f"the agent {step.agent}" if isinstance(step.agent, str) else f"an agent: {model(step.agent.model)}"
        drawing.sheet.edge(drawn.first, drawing.sheet.node("agent", who), "words and reads", dotted=True)
    return drawn


# Branches


def _conditional(drawing: Drawing, step: Conditional, place: Place, ends: Ends) -> Drawn:
    clause = yes_or_no(step, place.names)
    asked = f"{clause}?" if clause is not None else subject(step, place.names)
    head = _node(drawing, "condition", step, place, ends, asked)
    drawing.keys[(*place.path, step.name)] = frozenset(step.branches)
    return Drawn(head.first, _branches(drawing, step, place, head.first))


def _parallel(drawing: Drawing, step: Parallel, place: Place, ends: Ends) -> Drawn:
    with drawing.sheet.group(*_title(step, place)) as group:
        drawing.stand((*place.path, step.name), group)
        head = drawing.sheet.node("fork", "at the same time")
        drawing.connect(ends, head)
        return Drawn(head, _branches(drawing, step, place, head))


def _branches(drawing: Drawing, step: Conditional | Parallel, place: Place, head: str) -> Ends:
    """Every branch in a frame; one without steps is an edge alone."""
    out: Ends = []
    for inner in told_of(step, place.names).inner:
        if not inner.steps:
            out.append((head, inner.label))
            continue
        with drawing.sheet.group(inner.label) as group:
            inside = place.inside(step.name, DEFAULT if inner.key is None else inner.key, knowing=inner.names)
            drawing.stand(inside.path, group)
            out += drawing.steps(inner.steps, inside, [(head, inner.label)]).ends
    return out


# Again and again


def _loop(drawing: Drawing, step: Loop, place: Place, ends: Ends) -> Drawn:
    own = (*place.path, step.name)
    round_ = drawing.marks.rounds.get(own)
    told = "" if round_ is None else f"round {round_}"
    with drawing.sheet.group(*_title(step, place, told)) as group:
        drawing.stand(own, group)
        (inner,) = told_of(step, place.names).inner
        body = drawing.steps(inner.steps, place.inside(step.name, knowing=inner.names), ends)
        test = drawing.sheet.node("condition", *ends_of(step, place.names))
    drawing.connect(body.ends, test)
    drawing.sheet.edge(test, body.first, "again")
    return Drawn(body.first, [(test, "done")])


def _map(drawing: Drawing, step: Map, place: Place, ends: Ends) -> Drawn:
    own = (*place.path, step.name)
    at_once = step.map.max_concurrency
    how = f"up to {at_once} at once" if at_once > 1 else "one after the other"
    with drawing.sheet.group(*_title(step, place)) as group:
        drawing.stand(own, group)
        head = drawing.sheet.node("fork", f"for each item of {items(step, place.names)}", how)
        drawing.connect(ends, head)
        (inner,) = told_of(step, place.names).inner
        body = drawing.steps(inner.steps, place.inside(step.name, knowing=inner.names), [(head, "item")])
    drawing.connect([(source, text or "next") for source, text in body.ends], head)
    return Drawn(head, [(head, "done")])


def _cache(drawing: Drawing, step: Cache, place: Place, ends: Ends) -> Drawn:
    kept = "for ever" if step.ttl is None else f"for {lasting(step.ttl)}"
    with drawing.sheet.group(*_title(step, place)) as group:
        drawing.stand((*place.path, step.name), group)
        store = drawing.sheet.node("store", f"results are kept {kept}")
        drawing.connect(ends, store)
        (inner,) = told_of(step, place.names).inner
        wrapped = drawing.steps(inner.steps, place.inside(step.name, knowing=inner.names), [(store, "new")])
    return Drawn(store, [(store, "known"), *wrapped.ends])


def _planner(drawing: Drawing, step: AgenticLoop, place: Place, ends: Ends) -> Drawn:
    written = step.planner
    agent = written if isinstance(written, Agent) else place.blueprint.agents.get(written)
    who = f"planner {written}" if isinstance(written, str) else f"planner: {model(written.model)}"
    drawn = _node(drawing, "agent", step, place, ends, who, f"at most {counted(step.max_loops, 'turn')}")
    person = drawing.sheet.node("question", "a person")
    drawing.stand((*place.path, step.name, "ask_human"), person)
    drawing.sheet.edge(drawn.first, person, "asks", dotted=True)
    seen: set[str] = set()
    if agent is not None:
        for tool in step.registry:
            _tool(drawing, drawn.first, agent, tool, place.inside(step.name), seen)
    return drawn


DRAWN: Mapping[type[Step], Callable[[Drawing, Any, Place, Ends], Drawn]] = {
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

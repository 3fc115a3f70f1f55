"""The drawing of a step from what its kind says of itself: a node, a frame, the steps inside, its agents and tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.blueprint.dependencies import list_tools, resolve_agent
from holdfast.blueprint.explain.agents import approval_condition
from holdfast.blueprint.explain.plans import compile_step
from holdfast.blueprint.graph.flowchart import DEFAULT, DrawnStep, Ends, Flowchart, Location, root_location
from holdfast.blueprint.graph.overlay import Path
from holdfast.blueprint.kinds import Agent, AgentTool, AnyStep, Blueprint
from holdfast.blueprint.kinds.agents import AgentReference
from holdfast.blueprint.kinds.description import Drawing, NestedSteps
from holdfast.blueprint.kinds.references import AGENT, IMPORT, model, tool_name
from holdfast.blueprint.words.text import condition

LARGEST = 200
"""The number of nodes above which imports are drawn closed: browsers handle some hundreds."""


def draw_step(flow: Flowchart, step: AnyStep, location: Location, ends: Ends) -> DrawnStep:
    """Draw a step without its fallback."""
    step = compile_step(step, location.blueprint)
    drawing = step.draw(location.names)
    drawn = _StepDrawing(flow, step, location, drawing, step.describe(location.names).inner)
    imported = None if step.import_alias is None else location.blueprint.imports.get(step.import_alias)
    if imported is not None and flow.chart.size <= LARGEST:
        return drawn.draw_import(imported, ends)
    return drawn.draw_frame(ends) if drawing.framed else drawn.draw_node(ends)


@dataclass(frozen=True)
class _StepDrawing:
    """A step that is being drawn."""

    flow: Flowchart
    step: AnyStep
    location: Location
    drawing: Drawing
    """What its kind says of its shape."""
    inner: Sequence[NestedSteps]

    @property
    def path(self) -> Path:
        return (*self.location.path, self.step.name)

    def title(self, *lines: str) -> list[str]:
        when = self.step.when
        return [self.step.label, *([] if when is None else [f"if {condition(when, self.location.names)}"]), *lines]

    def draw_node(self, ends: Ends) -> DrawnStep:
        """Draw the step as a node, with what it works with beside it, and the steps inside behind it."""
        node = self.flow.chart.node(self.drawing.shape, *self.title(*self.drawing.lines))
        self.flow.register(self.path, node)
        self.flow.connect(ends, node)
        self._draw_agents(node)
        return DrawnStep(node, self._draw_inside([(node, "")]))

    def draw_import(self, child: Blueprint, ends: Ends) -> DrawnStep:
        """Draw the import's own steps in a frame."""
        with self.flow.chart.group(*self.title(*self.drawing.lines)) as group:
            self.flow.register(self.path, group)
            return self.flow.steps(child.steps, root_location(child, self.path), ends)

    def draw_frame(self, ends: Ends) -> DrawnStep:
        """Draw the step as a frame around a node of its own and the steps inside."""
        drawing, chart, last = self.drawing, self.flow.chart, self.flow.overlay.rounds.get(self.path)
        count = f"{drawing.counts} {last}" if drawing.counts and last is not None else ""
        with chart.group(*self.title(drawing.title, count)) as group:
            self.flow.register(self.path, group)
            if drawing.transitions:
                return self._draw_machine(ends)
            if drawing.repeats == "body":
                body = self._draw_list(self.inner[0], ends)
                node = chart.node(drawing.shape, *drawing.lines)
            else:
                agreed = self._draw_confirmation(ends)
                node = chart.node(drawing.shape, *drawing.lines)
                self.flow.connect([(agreed, "")] if agreed else ends, node)
                body = DrawnStep(agreed or node, self._draw_inside([(node, drawing.enters)]))
                if drawing.asks:
                    self._draw_person(node, drawing.asks)
        return DrawnStep(body.first, self._ways_on(node, body))

    def _draw_machine(self, ends: Ends) -> DrawnStep:
        """Draw each state in a frame of its own, with an edge for each way out of it."""
        self.flow.keys[self.path] = frozenset(inner.key for inner in self.inner if inner.key is not None)
        drawn: dict[str, DrawnStep] = {}
        for inner in self.inner:
            assert inner.label is not None
            with self.flow.chart.group(inner.label) as group:
                location = self.location.inside(self.step.name, inner.label, names=inner.names)
                self.flow.register(location.path, group)
                before = ends if inner.label == self.drawing.begins else []
                drawn[inner.label] = self.flow.steps(inner.steps, location, before)
        reached = {name: self.flow.chart.node("end", name) for name in self.drawing.ends}
        for state, ways in self.drawing.transitions.items():
            for label, target in ways:
                node = reached[target] if target in reached else drawn[target].first
                self.flow.connect([(source, text or label) for source, text in drawn[state].ends], node)
        return DrawnStep(drawn[self.drawing.begins].first, [(node, "") for node in reached.values()])

    def _draw_confirmation(self, ends: Ends) -> str:
        if not self.drawing.confirms:
            return ""
        node = self.flow.chart.node("question", self.drawing.confirms, *self.step.people_line(self.location.names))
        self.flow.register((*self.path, "confirm"), node)
        self.flow.connect(ends, node)
        return node

    def _ways_on(self, node: str, body: DrawnStep) -> Ends:
        """Connect the steps inside with the node where they repeat, and return the ends of the whole."""
        own = [] if self.drawing.skips is None else [(node, self.drawing.skips)]
        match self.drawing.repeats:
            case "node":
                self.flow.connect([(source, text or "next") for source, text in body.ends], node)
                return own
            case "body":
                self.flow.connect(body.ends, node)
                self.flow.chart.edge(node, body.first, self.drawing.enters)
                return own
        return [*own, *body.ends]

    def _draw_inside(self, ends: Ends) -> Ends:
        """Draw the steps inside: each labelled list in a frame of its own; an empty one is only an edge."""
        if any(inner.label is not None for inner in self.inner):
            self.flow.keys[self.path] = frozenset(inner.key for inner in self.inner if inner.key is not None)
        out: Ends = []
        for inner in self.inner:
            if inner.label is None:
                out += self._draw_list(inner, ends).ends
            elif inner.label == self.drawing.last:
                out = self._draw_branch(inner, inner.label, out)
            elif not inner.steps:
                out += [(source, inner.label) for source, _ in ends]
            else:
                out += self._draw_branch(inner, inner.label, ends)
        return out if self.inner else ends

    def _draw_list(self, inner: NestedSteps, ends: Ends) -> DrawnStep:
        location = self.location.inside(self.step.name, names=inner.names)
        if inner.waits is None:
            return self.flow.steps(inner.steps, location, ends)
        return self.flow.steps_after_others(inner.steps, inner.waits, location, ends)

    def _draw_branch(self, inner: NestedSteps, label: str, ends: Ends) -> Ends:
        with self.flow.chart.group(label) as group:
            key = DEFAULT if inner.key is None else inner.key
            location = self.location.inside(self.step.name, key, names=inner.names)
            self.flow.register(location.path, group)
            return self.flow.steps(inner.steps, location, [(source, label) for source, _ in ends]).ends

    def _draw_agents(self, node: str) -> None:
        """Draw what the step works with beside its node: its agent's tools, a person it asks, or the agent itself."""
        chart = self.flow.chart
        for used in () if self.drawing.alone else self.step.agents():
            if self.drawing.helper:
                agent = used.agent
                name = f"the agent {agent}" if isinstance(agent, str) else f"an agent: {model(agent.title)}"
                chart.edge(node, chart.node("agent", name), self.drawing.helper, dotted=True)
            else:
                self._draw_agent(node, used)

    def _draw_agent(self, node: str, used: AgentReference) -> None:
        blueprint, inside = self.location.blueprint, self.location.inside(self.step.name)
        agent = resolve_agent(used.agent, blueprint)
        if used.role == "planner":
            self._draw_person(node, "ask_human")
        elif agent is not None and "ask" in agent.human:
            self._draw_person(node, "request_user_info")
        if agent is not None:
            _draw_tools(self.flow, node, agent, list_tools(self.step, blueprint), inside, set())

    def _draw_person(self, node: str, name: str) -> None:
        _draw_person(self.flow, node, self.location.inside(self.step.name), name, self.step.people(self.location.names))


def _draw_person(flow: Flowchart, node: str, location: Location, name: str, people: str = "") -> None:
    person = flow.chart.node("question", people or "a person")
    flow.register((*location.path, name), person)
    flow.chart.edge(node, person, "asks", dotted=True)


def _draw_tools(
    flow: Flowchart, node: str, agent: Agent, tools: Iterable[AgentTool], location: Location, seen: set[str]
) -> None:
    """Draw tools beside their agent; an agent among the tools is expanded only once."""
    for tool in tools:
        inner = location.blueprint.agents.get(tool.name.removeprefix(AGENT)) if tool.name.startswith(AGENT) else None
        name = tool.name.removeprefix(AGENT).removeprefix(IMPORT)
        target = flow.chart.node("agent" if inner is not None else "tool", tool_name(tool.name))
        flow.register((*location.path, name), target)
        asked = ["shown to a person" if tool.review else None, approval_condition(tool, agent)]
        flow.chart.edge(node, target, ", ".join(note for note in asked if note), dotted=True)
        if inner is None or name in seen:
            continue
        seen.add(name)
        inside = location.inside(name, name)
        if "ask" in inner.human:
            _draw_person(flow, target, inside, "request_user_info")
        _draw_tools(flow, target, inner, inner.tools, inside, seen)

"""A flowchart being built: each step has a first node and open ends, to which the next step connects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.blueprint.graph.chart import Chart
from holdfast.blueprint.graph.overlay import Path, RunOverlay, State, path_of_stop
from holdfast.blueprint.kinds import AnyStep, Blueprint, Fallback
from holdfast.blueprint.kinds.needs import find_vocabularies, has_needs
from holdfast.blueprint.kinds.walk import answers_in
from holdfast.blueprint.words.text import RUN, Vocabulary

Ends = list[tuple[str, str]]
"""Nodes from which the flow continues, each with the label of its edge."""


@dataclass(frozen=True)
class Location:
    """The location of a list of steps: its path, its vocabulary, and the blueprint whose agents and imports it uses."""

    path: Path
    names: Vocabulary
    blueprint: Blueprint

    def inside(self, *path: str, names: Vocabulary | None = None) -> Location:
        return replace(self, path=(*self.path, *path), names=names or self.names)


DEFAULT = "\0"
"""Stands in a path for every branch key that a conditional does not name."""


@dataclass(frozen=True)
class DrawnStep:
    """A drawn step or list: its first node ("" if there are no steps), and its ends."""

    first: str
    ends: Ends


@dataclass
class Flowchart:
    """A flowchart being built."""

    draw_step: Callable[[Flowchart, AnyStep, Location, Ends], DrawnStep]
    """Draws a step, given the ends of what comes before it."""
    overlay: RunOverlay = field(default_factory=RunOverlay)
    chart: Chart = field(default_factory=Chart)
    nodes: dict[Path, str] = field(default_factory=dict)
    """The node or group that represents each path."""
    keys: dict[Path, frozenset[str]] = field(default_factory=dict)
    """The branch keys of each conditional."""

    def draw(self, blueprint: Blueprint) -> None:
        begin = self.nodes[()] = self.chart.node("end", blueprint.name)
        steps = self.steps(blueprint.steps, root_location(blueprint), [(begin, "")])
        end = self.chart.node("end", "end")
        self.connect(steps.ends, end)
        self._mark(begin, end)

    def connect(self, ends: Ends, target: str) -> None:
        for source, text in ends:
            self.chart.edge(source, target, text)

    def register(self, path: Path, id_: str) -> None:
        """Let a node or group represent a path, unless the path has one already."""
        self.nodes.setdefault(path, id_)

    def steps(self, steps: Sequence[AnyStep], location: Location, ends: Ends) -> DrawnStep:
        """Draw steps in sequence; an empty list continues from the ends it was given."""
        if has_needs(steps):
            return self.steps_after_others(steps, {step.name: step.needs for step in steps}, location, ends)
        first, stop_after = "", ""
        for step in steps:
            # A run stops once between two steps, and calls that a stop before the second.
            if stop := f"stop before {step.name}" if step.interrupt_before else stop_after:
                ends = self._stop(stop, path_of_stop((*location.path, step.name), "before"), ends)
                first = first or ends[0][0]
            drawn = self.step(step, location, ends)
            first, ends = first or drawn.first, drawn.ends
            stop_after = f"stop after {step.name}" if step.interrupt_after else ""
            location = location.inside(names=location.names.after(step.result(location.names)))
        if stop_after:
            ends = self._stop(stop_after, path_of_stop((*location.path, steps[-1].name), "after"), ends)
        return DrawnStep(first, ends)

    def steps_after_others(
        self, steps: Sequence[AnyStep], waits: Mapping[str, Sequence[str]], location: Location, ends: Ends
    ) -> DrawnStep:
        """Draw each step after those that it waits for; the ends are those of the steps that none waits for."""
        places = find_vocabularies(steps, location.names)
        drawn = {
            step.name: self._with_stops(step, location.inside(names=names))
            for step, names in zip(steps, places, strict=False)
        }
        for name, step in drawn.items():
            before = [end for other in waits[name] if other in drawn for end in drawn[other].ends]
            self.connect(before or ends, step.first)
        waited_for = {other for name in drawn for other in waits[name]}
        last = [end for name, step in drawn.items() if name not in waited_for for end in step.ends]
        return DrawnStep(next(iter(drawn.values())).first if drawn else "", last or ends)

    def _with_stops(self, step: AnyStep, location: Location) -> DrawnStep:
        """Draw a step that nothing leads to yet, between its stops."""
        first, ends = "", Ends()
        if step.interrupt_before:
            ends = self._stop(f"stop before {step.name}", path_of_stop((*location.path, step.name), "before"), ends)
            first = ends[0][0]
        drawn = self.step(step, location, ends)
        ends = drawn.ends
        if step.interrupt_after:
            ends = self._stop(f"stop after {step.name}", path_of_stop((*location.path, step.name), "after"), ends)
        return DrawnStep(first or drawn.first, ends)

    def step(self, step: AnyStep, location: Location, ends: Ends) -> DrawnStep:
        """Draw a step with its fallback."""
        drawn = self.draw_step(self, step, location, ends)
        if not isinstance(step.on_error, Fallback):
            return drawn
        rescue = self.step(step.on_error.fallback, location, [])
        self.chart.edge(drawn.first, rescue.first, "if it fails", dotted=True)
        return DrawnStep(drawn.first, [*drawn.ends, *rescue.ends])

    def _stop(self, text: str, path: Path, ends: Ends) -> Ends:
        node = self.chart.node("question", text, "a person looks at the context")
        self.register(path, node)
        self.connect(ends, node)
        return [(node, "")]

    # The state of a run

    def _mark(self, begin: str, end: str) -> None:
        """Colour the nodes by the states of a run; an open question marks the nearest node."""
        states = {self._with_default_keys(path): state for path, state in self.overlay.states.items()}
        colours: dict[str, State] = {self.nodes[path]: state for path, state in states.items() if path in self.nodes}
        if () in states:
            colours[begin] = "done"
            colours |= {end: states[()]} if states[()] in ("done", "failed") else {}
        colours |= {self._nearest_node(path): "waiting" for path in self.overlay.waiting}
        self.chart.states.update(colours)

    def _with_default_keys(self, path: Path) -> Path:
        """Return the path with `DEFAULT` for keys that no branch has."""
        resolved: Path = ()
        for name in path:
            other = resolved in self.keys and name not in self.keys[resolved]
            resolved = (*resolved, DEFAULT if other else name)
        return resolved

    def _nearest_node(self, path: Path) -> str:
        path = self._with_default_keys(path)
        while path not in self.nodes:
            path = path[:-1]
        return self.nodes[path]


def root_location(blueprint: Blueprint, path: Path = ()) -> Location:
    """Return the location of a blueprint's outermost list, which has a vocabulary of its own."""
    return Location(path, replace(RUN, answers=answers_in(blueprint.steps)), blueprint)

"""A flowchart being built: each step has a first node and open ends, to which the next step connects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.blueprint.graph.chart import Chart
from holdfast.blueprint.graph.overlay import Path, RunOverlay, State
from holdfast.blueprint.kinds import AnyStep, Blueprint, Fallback
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


@dataclass(frozen=True)
class _Stop:
    """A node for a stop, with the path of its list and of the steps before and after it."""

    node: str
    path: Path
    before: Path | None
    after: Path | None

    def is_reached(self, states: Mapping[Path, State]) -> bool:
        """Return whether the step before has ended and the step after has not begun."""
        if self.after in states:
            return False
        if self.before is None:
            return self.path in states
        return states.get(self.before) in ("done", "skipped", "failed")


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
    _stops: list[_Stop] = field(default_factory=list)

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
        first = ""
        for index, step in enumerate(steps):
            own, after = (*location.path, step.name), steps[index + 1 : index + 2]
            if step.interrupt_before:
                before = None if index == 0 else (*location.path, steps[index - 1].name)
                ends = self._stop(f"stop before {step.name}", ends, _Stop("", location.path, before, own))
                first = first or ends[0][0]
            drawn = self.step(step, location, ends)
            first, ends = first or drawn.first, drawn.ends
            # Two stops between the same two steps are drawn as one.
            if step.interrupt_after and not any(follower.interrupt_before for follower in after):
                next_ = next(((*location.path, follower.name) for follower in after), None)
                ends = self._stop(f"stop after {step.name}", ends, _Stop("", location.path, own, next_))
            location = location.inside(names=location.names.after(step.result(location.names)))
        return DrawnStep(first, ends)

    def steps_after_others(
        self, steps: Sequence[AnyStep], waits: Mapping[str, Sequence[str]], location: Location, ends: Ends
    ) -> Ends:
        """Draw each step after those that it waits for; return the ends of the steps that none waits for."""
        drawn = {step.name: self.step(step, location, []) for step in steps}
        for name, step in drawn.items():
            before = [end for other in waits[name] if other in drawn for end in drawn[other].ends]
            self.connect(before or ends, step.first)
        waited_for = {other for name in drawn for other in waits[name]}
        return [end for name, step in drawn.items() if name not in waited_for for end in step.ends] or ends

    def step(self, step: AnyStep, location: Location, ends: Ends) -> DrawnStep:
        """Draw a step with its fallback."""
        drawn = self.draw_step(self, step, location, ends)
        if not isinstance(step.on_error, Fallback):
            return drawn
        rescue = self.step(step.on_error.fallback, location, [])
        self.chart.edge(drawn.first, rescue.first, "if it fails", dotted=True)
        return DrawnStep(drawn.first, [*drawn.ends, *rescue.ends])

    def _stop(self, text: str, ends: Ends, stop: _Stop) -> Ends:
        node = self.chart.node("question", text, "a person looks at the context")
        self.connect(ends, node)
        self._stops.append(replace(stop, node=node))
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
        colours |= {self._stop_node(path, states): "waiting" for path in self.overlay.stops}
        for id_, state in colours.items():
            self.chart.mark(id_, state)

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

    def _stop_node(self, path: Path, states: Mapping[Path, State]) -> str:
        """Return the stop that a run has reached at or below a path, else the nearest node."""
        path = self._with_default_keys(path)
        reached = (stop.node for stop in self._stops if stop.path[: len(path)] == path and stop.is_reached(states))
        return next(reached, None) or self._nearest_node(path)


def root_location(blueprint: Blueprint, path: Path = ()) -> Location:
    """Return the location of a blueprint's outermost list, which has a vocabulary of its own."""
    return Location(path, Vocabulary(RUN.roots, answers_in(blueprint.steps), RUN.keys), blueprint)

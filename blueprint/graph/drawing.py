"""A blueprint drawn step by step: every step has a first node and ends, lists hang together by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from blueprint.explain.steps import answers_in, result_of
from blueprint.explain.words import RUN, Names
from blueprint.grammar import AnyStep, Blueprint, Fallback, Step
from blueprint.graph.marks import Marks, Path, State
from blueprint.graph.mermaid import Sheet

Ends = list[tuple[str, str]]
"""Nodes from which it goes on, each with what is written on the way."""


@dataclass(frozen=True)
class Place:
    """Where steps stand: the names on the way, what their own names mean, whose agents and imports they use."""

    path: Path
    names: Names
    blueprint: Blueprint

    def inside(self, *names: str, knowing: Names | None = None) -> Place:
        return replace(self, path=(*self.path, *names), names=knowing or self.names)


DEFAULT = "\0"
"""Stands in a path for every branch key that a conditional does not name."""


@dataclass(frozen=True)
class Drawn:
    """What became of a step or a list: its first node ("" where there are no steps), and how it goes on."""

    first: str
    ends: Ends


@dataclass(frozen=True)
class _Stop:
    """A stop's node, the list it stands in, and the steps around it."""

    node: str
    path: Path
    before: Path | None
    after: Path | None

    def is_reached(self, states: Mapping[Path, State]) -> bool:
        """Whether what stands before has ended, and what stands behind has not begun."""
        if self.after in states:
            return False
        if self.before is None:
            return self.path in states
        return states.get(self.before) in ("done", "skipped", "failed")


@dataclass
class Drawing:
    """A flowchart as it grows. `kinds` draw a step of theirs; the ends are those of what comes before it."""

    kinds: Mapping[type[Step], Callable[[Drawing, Any, Place, Ends], Drawn]]
    marks: Marks = field(default_factory=Marks)
    sheet: Sheet = field(default_factory=Sheet)
    places: dict[Path, str] = field(default_factory=dict)
    """The node or group that stands for a place."""
    keys: dict[Path, frozenset[str]] = field(default_factory=dict)
    """The branch keys that a conditional names."""
    _stops: list[_Stop] = field(default_factory=list)

    def whole(self, blueprint: Blueprint) -> None:
        begin = self.places[()] = self.sheet.node("end", blueprint.name)
        steps = self.steps(blueprint.steps, place_of(blueprint), [(begin, "")])
        end = self.sheet.node("end", "end")
        self.connect(steps.ends, end)
        self._mark(begin, end)

    def connect(self, ends: Ends, target: str) -> None:
        for source, text in ends:
            self.sheet.edge(source, target, text)

    def stand(self, path: Path, id_: str) -> None:
        """The node or group is that of the place; the first one stays."""
        self.places.setdefault(path, id_)

    def steps(self, steps: Sequence[AnyStep], place: Place, ends: Ends) -> Drawn:
        """Steps one after the other; where there are none, it goes on as it came in."""
        first = ""
        for index, step in enumerate(steps):
            own, after = (*place.path, step.name), steps[index + 1 : index + 2]
            if step.interrupt_before:
                before = None if index == 0 else (*place.path, steps[index - 1].name)
                ends = self._stop(f"stop before {step.name}", ends, _Stop("", place.path, before, own))
                first = first or ends[0][0]
            drawn = self.step(step, place, ends)
            first, ends = first or drawn.first, drawn.ends
            if step.interrupt_after and not any(one.interrupt_before for one in after):
                next_ = next(((*place.path, one.name) for one in after), None)
                ends = self._stop(f"stop after {step.name}", ends, _Stop("", place.path, own, next_))
            place = place.inside(knowing=place.names.after(result_of(step, place.names)))
        return Drawn(first, ends)

    def step(self, step: AnyStep, place: Place, ends: Ends) -> Drawn:
        """A step with its fallback."""
        drawn = self.kinds[type(step)](self, step, place, ends)
        if not isinstance(step.on_error, Fallback):
            return drawn
        rescue = self.step(step.on_error.fallback, place, [])
        self.sheet.edge(drawn.first, rescue.first, "if it fails", dotted=True)
        return Drawn(drawn.first, [*drawn.ends, *rescue.ends])

    def _stop(self, text: str, ends: Ends, stop: _Stop) -> Ends:
        node = self.sheet.node("question", text, "a person looks at the context")
        self.connect(ends, node)
        self._stops.append(replace(stop, node=node))
        return [(node, "")]

    # Where a run stands

    def _mark(self, begin: str, end: str) -> None:
        """Colour what stands for a place; where a question is open, what is nearest to it."""
        states = {self._known(path): state for path, state in self.marks.states.items()}
        colours: dict[str, str] = {self.places[path]: state for path, state in states.items() if path in self.places}
        if () in states:
            colours[begin] = "done"
            colours |= {end: states[()]} if states[()] in ("done", "failed") else {}
        colours |= {self._nearest(path): "waiting" for path in self.marks.waiting}
        colours |= {self._stopped(path, states): "waiting" for path in self.marks.stops}
        for id_, state in colours.items():
            self.sheet.mark(id_, state)

    def _known(self, path: Path) -> Path:
        """The path with `DEFAULT` for the keys that no branch has."""
        known: Path = ()
        for name in path:
            other = known in self.keys and name not in self.keys[known]
            known = (*known, DEFAULT if other else name)
        return known

    def _nearest(self, path: Path) -> str:
        path = self._known(path)
        while path not in self.places:
            path = path[:-1]
        return self.places[path]

    def _stopped(self, path: Path, states: Mapping[Path, State]) -> str:
        """The stop that the run has come to, in this list or below; where there is none, what stands for the list."""
        path = self._known(path)
        reached = (stop.node for stop in self._stops if stop.path[: len(path)] == path and stop.is_reached(states))
        return next(reached, None) or self._nearest(path)


def place_of(blueprint: Blueprint, path: Path = ()) -> Place:
    """The outermost list of a blueprint, which has names of its own."""
    return Place(path, Names(RUN.roots, answers_in(blueprint.steps), RUN.keys), blueprint)

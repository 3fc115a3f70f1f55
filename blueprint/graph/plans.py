"""How a plan is drawn: a frame for it and for each of its loops, inside them every step behind what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blueprint.explain.agents import tool_name
from blueprint.explain.plans import PlanWords, at_once, in_order, instruction, source_of, who_works
from blueprint.explain.words import condition, listed
from blueprint.grammar import Plan
from blueprint.graph.drawing import Drawing, Drawn, Ends, Place
from blueprint.graph.marks import Path
from blueprint.graph.mermaid import Shape
from blueprint.plan import LoopUnit, StepUnit, Unit, asks, laid_out


def plan(drawing: Drawing, step: Plan, place: Place, ends: Ends) -> Drawn:
    """The whole: what it is for, before it who must agree, beside it whom its agent may ask."""
    layout = laid_out(step.plan)[0]
    own: Path = (*place.path, step.name)
    only = "" if step.when is None else f"if {condition(step.when, place.names)}"
    with drawing.sheet.group(step.name, only) as group:
        drawing.stand(own, group)
        agreed = _agreement(drawing, step, own, ends)
        head = drawing.sheet.node("fork", *_about(step, place))
        drawing.connect(ends if agreed is None else [(agreed, "")], head)
        out = _Units(drawing, PlanWords(layout), step.plan.driver == "agent").all(layout.units, own, head, "")
        if step.plan.driver == "agent":
            person = drawing.sheet.node("question", "a person")
            drawing.stand((*own, "request_user_info"), person)
            drawing.sheet.edge(head, person, "asks", dotted=True)
    return Drawn(agreed or head, out)


def _agreement(drawing: Drawing, step: Plan, own: Path, ends: Ends) -> str | None:
    """The question whether the plan may be run."""
    if not step.plan.confirm:
        return None
    node = drawing.sheet.node("question", "May this plan be run?")
    drawing.stand((*own, "confirm"), node)
    drawing.connect(ends, node)
    return node


def _about(step: Plan, place: Place) -> list[str]:
    plan = step.plan
    what = plan.goal if plan.source is None else f"the plan in {source_of(step, place.names)}"
    if plan.driver == "agent":
        return [what, f"driven by {who_works(plan.agent)}"]
    return [what, at_once(plan.max_parallel, "step")]


@dataclass(frozen=True)
class _Units:
    """The steps and loops of one plan as they are drawn."""

    drawing: Drawing
    words: PlanWords
    driven: bool

    def all(self, units: Sequence[Unit], path: Path, head: str, way: str) -> Ends:
        """Each behind what it waits for, else behind the head; it goes on behind those that nothing waits for."""
        drawn = {unit.id: self._one(unit, path) for unit in in_order(units)}
        for unit in units:
            before = [end for id_ in unit.waits if id_ in drawn for end in drawn[id_].ends]
            self.drawing.connect(before or [(head, way)], drawn[unit.id].first)
        waited_for = {id_ for unit in units for id_ in unit.waits}
        return [end for id_, one in drawn.items() if id_ not in waited_for for end in one.ends] or [(head, way)]

    def _one(self, unit: Unit, path: Path) -> Drawn:
        return self._step(unit, path) if isinstance(unit, StepUnit) else self._loop(unit, path)

    def _only(self, unit: Unit) -> str:
        clause = self.words.clause(unit)
        return f"if {clause}" if clause else ""

    def _step(self, unit: StepUnit, path: Path) -> Drawn:
        step = unit.step
        shape: Shape = "question" if asks(step) else "tool" if step.tools else "agent"
        text = self.words.bare(instruction(step), unit)
        calls = listed([tool_name(tool) for tool in step.tools]) if step.tools else ""
        then = f"unless no: {calls}" if calls and asks(step) else calls
        own = who_works(step.agent) if step.agent is not None and not self.driven else ""
        node = self.drawing.sheet.node(shape, self.words.headed(unit), self._only(unit), text, then, own)
        self.drawing.stand((*path, unit.id), node)
        if f"{unit.id}_reconnect" not in self.words.layout.units_by_id:
            self.drawing.stand((*path, f"{unit.id}_reconnect"), node)  # where a tool's access is asked for
        return Drawn(node, [(node, "")])

    def _loop(self, unit: Unit, path: Path) -> Drawn:
        assert isinstance(unit, LoopUnit)
        own = (*path, unit.id)
        item = self.drawing.marks.rounds.get(own)
        told = "" if item is None else f"item {item}"
        several = unit.max_parallel > 1 and not self.driven
        how = f"up to {unit.max_parallel} at once" if several else "one after the other"
        with self.drawing.sheet.group(self.words.headed(unit), self._only(unit), told) as group:
            self.drawing.stand(own, group)
            head = self.drawing.sheet.node("fork", f"for each item of {self.words.over(unit)}", how)
            ends = self.all(unit.body, own, head, "item")
        self.drawing.connect([(source, text or "next") for source, text in ends], head)
        return Drawn(head, [(head, "done")])

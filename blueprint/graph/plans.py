"""The drawing of a plan: a group for it and for each of its loops, with every step after its dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.blueprint.explain.plans import PlanWords, at_once, in_order, instruction, source_of, worker_name
from holdfast.blueprint.graph.flowchart import DrawnStep, Ends, Flowchart, Location
from holdfast.blueprint.graph.mermaid import Shape
from holdfast.blueprint.graph.overlay import Path
from holdfast.blueprint.kinds import PlanBody, Step
from holdfast.blueprint.kinds.references import tool_name
from holdfast.blueprint.plan import LoopUnit, StepUnit, Unit, asks, compile_plan
from holdfast.blueprint.words.text import condition, listed


def draw_plan(drawing: Flowchart, step: Step, plan: PlanBody, location: Location, ends: Ends) -> DrawnStep:
    """Draw a step that works off a plan, with its confirmation and its driver's questions."""
    layout = compile_plan(plan)[0]
    own: Path = (*location.path, step.name)
    only = "" if step.when is None else f"if {condition(step.when, location.names)}"
    with drawing.chart.group(step.name, only) as group:
        drawing.register(own, group)
        agreed = _agreement(drawing, plan, own, ends)
        head = drawing.chart.node("fork", *_about(step, plan, location))
        drawing.connect(ends if agreed is None else [(agreed, "")], head)
        out = _Units(drawing, PlanWords(layout), plan.driver == "agent").all(layout.units, own, head, "")
        if plan.driver == "agent":
            person = drawing.chart.node("question", "a person")
            drawing.register((*own, "request_user_info"), person)
            drawing.chart.edge(head, person, "asks", dotted=True)
    return DrawnStep(agreed or head, out)


def _agreement(drawing: Flowchart, plan: PlanBody, own: Path, ends: Ends) -> str | None:
    """Draw the question that confirms the plan, if there is one."""
    if not plan.confirm:
        return None
    node = drawing.chart.node("question", "May this plan be run?")
    drawing.register((*own, "confirm"), node)
    drawing.connect(ends, node)
    return node


def _about(step: Step, plan: PlanBody, location: Location) -> list[str]:
    subject = plan.goal if plan.source is None else f"the plan in {source_of(step, plan, location.names)}"
    if plan.driver == "agent":
        return [subject, f"driven by {worker_name(plan.agent)}"]
    return [subject, at_once(plan.max_parallel, "step")]


@dataclass(frozen=True)
class _Units:
    """The drawing of one plan's steps and loops."""

    drawing: Flowchart
    words: PlanWords
    driven: bool

    def all(self, units: Sequence[Unit], path: Path, head: str, way: str) -> Ends:
        """Draw units after their dependencies, or after the head; return the ends of those nothing depends on."""
        drawn = {unit.id: self._one(unit, path) for unit in in_order(units)}
        for unit in units:
            before = [end for id_ in unit.waits if id_ in drawn for end in drawn[id_].ends]
            self.drawing.connect(before or [(head, way)], drawn[unit.id].first)
        waited_for = {id_ for unit in units for id_ in unit.waits}
        return [end for id_, step in drawn.items() if id_ not in waited_for for end in step.ends] or [(head, way)]

    def _one(self, unit: Unit, path: Path) -> DrawnStep:
        return self._step(unit, path) if isinstance(unit, StepUnit) else self._loop(unit, path)

    def _only(self, unit: Unit) -> str:
        clause = self.words.clause(unit)
        return f"if {clause}" if clause else ""

    def _step(self, unit: StepUnit, path: Path) -> DrawnStep:
        step = unit.step
        shape: Shape = "question" if asks(step) else "tool" if step.tools else "agent"
        text = self.words.unquoted(instruction(step), unit)
        calls = listed([tool_name(tool) for tool in step.tools]) if step.tools else ""
        then = f"unless no: {calls}" if calls and asks(step) else calls
        own = worker_name(step.agent) if step.agent is not None and not self.driven else ""
        node = self.drawing.chart.node(shape, self.words.headed(unit), self._only(unit), text, then, own)
        self.drawing.register((*path, unit.id), node)
        if f"{unit.id}_reconnect" not in self.words.layout.units_by_id:
            self.drawing.register((*path, f"{unit.id}_reconnect"), node)  # where a tool's access is asked for
        return DrawnStep(node, [(node, "")])

    def _loop(self, unit: Unit, path: Path) -> DrawnStep:
        assert isinstance(unit, LoopUnit)
        own = (*path, unit.id)
        item = self.drawing.overlay.rounds.get(own)
        item_text = "" if item is None else f"item {item}"
        several = unit.max_parallel > 1 and not self.driven
        how = f"up to {unit.max_parallel} at once" if several else "one after the other"
        with self.drawing.chart.group(self.words.headed(unit), self._only(unit), item_text) as group:
            self.drawing.register(own, group)
            head = self.drawing.chart.node("fork", f"for each item of {self.words.over(unit)}", how)
            ends = self.all(unit.body, own, head, "item")
        self.drawing.connect([(source, text or "next") for source, text in ends], head)
        return DrawnStep(head, [(head, "done")])

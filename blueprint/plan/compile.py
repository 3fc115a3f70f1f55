"""Compile a plan: references and conditions are resolved, and what must be over before what is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from holdfast.blueprint.expressions.texts import fold, read_structure
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.kinds.plan_body import PlanBody, PlanStep
from holdfast.blueprint.plan.answers import asks, check_question, informs, never_a_yes
from holdfast.blueprint.plan.conditions import Condition, parse_condition
from holdfast.blueprint.plan.layout import Fault, Layout, LoopUnit, Unit, known_id
from holdfast.blueprint.plan.references import BadText, Reference, list_references, whole_reference
from holdfast.blueprint.plan.structure import Structure, compares_item, over_path

MAX_CYCLES = 20
"""Cycles that are shown of one list, so that the search takes no longer than a workflow has."""


def compile_plan(plan: PlanBody) -> tuple[Layout, list[Fault]]:
    """Return the plan as it runs, and everything that is wrong with it; with a fault it is not to be run."""
    structure = Structure(plan)
    _check_whole(structure)
    units = _Compiler(structure).units()
    _check_cycles(units, structure)
    return Layout(units), structure.faults


def _check_whole(structure: Structure) -> None:
    if not structure.plan.goal.strip():
        structure.add_fault("goal", "missing_key", "'goal' is empty", "say in a sentence what the plan is for")
    if not structure.plan.steps:
        structure.add_fault("steps", "missing_key", "'steps' is empty", "a plan has at least one step")


class _Compiler:
    """Finds the needs and the condition of every step and loop, and what each waits for."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.needs: dict[str, list[str]] = {}
        self.conditions: dict[str, Condition] = {}
        self.waits: dict[str, list[str]] = {id_: [] for id_ in structure.units}
        for unit in structure.steps.values():
            self._read_step(unit.id, unit.path, unit.step)
        for loop in structure.loops.values():
            self._read_loop(loop)
        for owner, needs in self.needs.items():
            for id_ in needs:
                self._add_wait(owner, id_)

    def units(self) -> tuple[Unit, ...]:
        """Return the units outside every loop."""
        return tuple(self._unit(id_) for id_ in self.structure.in_order() if id_ not in self.structure.loop_of)

    def _unit(self, id_: str) -> Unit:
        """Return a unit with what it waits for, a loop with its body."""
        structure, condition = self.structure, self.conditions.get(id_)
        needs, waits = tuple(self.needs[id_]), tuple(_unique(self.waits[id_]))
        around = tuple(structure.around(id_)[::-1])
        unit = replace(structure.units[id_], needs=needs, waits=waits, condition=condition, around=around)
        if not isinstance(unit, LoopUnit):
            return unit
        body = [inner for inner in structure.bodies[id_] if structure.loop_of.get(inner) == id_]
        return replace(unit, body=tuple(map(self._unit, body)), source=self._source(unit.block.over))

    def _source(self, over: object) -> str | None:
        """Return the unit to whose result `over` refers."""
        reference = whole_reference(over) if isinstance(over, str) else None
        return (
            None if reference is None or reference.kind != "result" else known_id(reference.name, self.structure.units)
        )

    def _add_wait(self, owner: str, id_: str) -> None:
        """Let one of two units of the same list wait for the other: the first around both where they part."""
        for mine, other in zip(self._way_to(owner), self._way_to(id_), strict=False):
            if mine != other:
                self.waits[mine].append(other)
                return

    def _way_to(self, id_: str) -> list[str]:
        return [*self.structure.around(id_)[::-1], id_]

    def _read_step(self, id_: str, path: str, step: PlanStep) -> None:
        is_own = self.structure.own_loop(id_) == id_  # else dependencies and condition are those of its loop
        if not step.instruction.strip() and not step.tools:
            hint = "write the task or the question"
            self.structure.add_fault(f"{path}.instruction", "missing_key", "'instruction' is empty", hint)
        needs = self._dependencies(step.dependencies, path, id_) if is_own else []
        needs += self._references(step.instruction, f"{path}.instruction", id_)
        needs += self._references(step.arguments, f"{path}.arguments", id_)
        if step.arguments is not None and len(step.tools) != 1:
            message = "'arguments' belongs to a step with one tool"
            self.structure.add_fault(f"{path}.arguments", "conflict", message, "name its tool, or make a step of each")
        for index, option in enumerate(step.options):
            needs += self._references(option.text, f"{path}.options[{index}].text", id_)
        if is_own or compares_item(step.condition):
            needs += self._condition(step.condition, f"{path}.condition", id_)
        for key, code, message, hint in check_question(step, self.structure.plan.spoken_language):
            self.structure.add_fault(f"{path}.{key}", code, message, hint)
        self.needs[id_] = _unique(needs)

    def _read_loop(self, loop: LoopUnit) -> None:
        block, over = loop.block, loop.block.over
        if isinstance(over, str) and whole_reference(over) is None and not isinstance(read_structure(over), list):
            message = f"{over[:60]!r} is neither a reference nor a list"
            hint = "write RESULT_FROM_<id>, CURRENT_ITEM of a loop around it, or a list"
            self.structure.add_fault(over_path(loop), "bad_reference", message, hint)
        needs = self._dependencies(block.dependencies, loop.path, loop.id)
        needs += self._references(over, over_path(loop), loop.id)
        needs += self._condition(block.condition, f"{loop.path}.condition", loop.id)
        inside = [id_ for id_ in needs if loop.id in self.structure.around(id_)]
        for id_ in inside:
            message = f"the loop {loop.id!r} waits for {id_!r}, which is inside it"
            self.structure.add_fault(over_path(loop), "cycle", message, "loop over what is known before it begins")
        self.needs[loop.id] = [id_ for id_ in _unique(needs) if id_ not in inside]

    def _dependencies(self, names: Iterable[str], path: str, owner: str) -> list[str]:
        ids = []
        for index, name in enumerate(names):
            id_ = self.structure.require_id(name, f"{path}.dependencies[{index}]", "step or loop")
            if id_ == owner:
                message = f"{owner!r} depends on itself"
                self.structure.add_fault(f"{path}.dependencies[{index}]", "cycle", message, "remove it")
            elif id_ is not None and id_ not in self.structure.around(owner):  # inside a loop is not after it
                ids.append(id_)
        return ids

    def _references(self, value: object, path: str, owner: str) -> list[str]:
        """Return the ids that a text, or the texts in a list or object, refer to."""
        try:
            references = list_references(value)
        except BadText as error:
            self.structure.add_fault(path, "bad_reference", error.message, error.hint)
            return []
        ids = [self._find_referred(reference, path, owner, write_text(value)) for reference in references]
        return [id_ for id_ in ids if id_ is not None]

    def _find_referred(self, reference: Reference, path: str, owner: str, text: str) -> str | None:
        """Return the id of a result that is referred to."""
        if reference.kind != "result":
            self._check_item(reference, path, owner)
            return None
        id_ = self.structure.require_id(reference.name or "", path, "step or loop", text)
        if id_ is not None and id_ in (owner, *self.structure.around(owner)):
            message = f"{reference} is not available before {owner!r} has run"
            self.structure.add_fault(path, "cycle", message, "refer to a step before it")
            return None
        return id_

    def _check_item(self, reference: Reference, path: str, owner: str) -> None:
        around = self.structure.around(owner)
        if not around:
            message = f"{reference} is outside every loop"
            self.structure.add_fault(path, "bad_reference", message, "put the step into a loop, or say what is meant")
        elif reference.name is not None and known_id(reference.name, around) is None:
            message = f"{reference}: no loop {reference.name!r} is around this step"
            self.structure.add_fault(path, "bad_reference", message, f"around it: {', '.join(around)}")

    def _condition(self, text: str | None, path: str, owner: str) -> list[str]:
        """Compile a condition; return the id that it refers to."""
        if text is None:
            return []
        try:
            condition = parse_condition(text)
        except BadText as error:
            self.structure.add_fault(path, "bad_condition", error.message, error.hint)
            return []
        id_ = self._find_referred(condition.left, path, owner, text)
        if id_ is not None:
            condition = replace(condition, left=replace(condition.left, name=id_))
            self._check_can_be_confirmed(condition, id_, path)
        self.conditions[owner] = condition
        return [] if id_ is None else [id_]

    def _check_can_be_confirmed(self, condition: Condition, id_: str, path: str) -> None:
        """Refuse to ask whether a question was confirmed that has no answer which means so."""
        unit = self.structure.steps.get(id_)
        if unit is None or not asks(unit.step) or informs(unit.step) or fold(condition.operand) != "confirmed":
            return
        if unit.step.options and never_a_yes(unit.step):
            message = f"no option of {id_!r} means yes, so that it is never confirmed"
            self.structure.add_fault(path, "bad_condition", message, 'mark the one that does: {"text": "…", "type": 1}')


def _check_cycles(units: tuple[Unit, ...], structure: Structure) -> None:
    by_id = {unit.id: unit for unit in units}
    waits = {unit.id: list(unit.waits) for unit in units}
    for _ in range(MAX_CYCLES):
        cycle = _cycle_in(waits)
        if not cycle:
            break
        first = min(range(len(cycle)), key=lambda index: by_id[cycle[index]].place)
        cycle = [*cycle[first:], *cycle[:first]]
        waits[cycle[0]].remove(cycle[1])
        message = f"these wait for each other: {' -> '.join([*cycle, cycle[0]])}"
        structure.add_fault(f"{by_id[cycle[0]].path}.dependencies", "cycle", message, "remove one dependency")
    for unit in units:
        if isinstance(unit, LoopUnit):
            _check_cycles(unit.body, structure)


def _cycle_in(waits: dict[str, list[str]]) -> list[str]:
    """Return ids of which each waits for the next, and the last for the first; empty if there are none."""
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        # graphlib names the cycle from what comes first to what waits for it, with one unit at both ends.
        return list(reversed(error.args[1][1:]))
    return []


def _unique(ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(ids))

"""Steps and loops of a plan by their ids: the three ways to write a loop become one, and every body is found."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.kinds.plan_body import PlanBody, PlanLoop, PlanStep
from holdfast.blueprint.plan.conditions import parse_condition
from holdfast.blueprint.plan.layout import Fault, LoopUnit, StepUnit, Unit, known_id
from holdfast.blueprint.plan.references import BadText, Reference, list_references

MAX_LEVELS = 3
"""Loops in loops."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*")


class Structure:
    """The steps and loops of a plan, found when it is made; `faults` are the mistakes so far."""

    def __init__(self, plan: PlanBody) -> None:
        self.plan = plan
        self.faults: list[Fault] = []
        self.steps: dict[str, StepUnit] = {}
        """The steps that run: one that only heads a loop is none."""
        self.loops: dict[str, LoopUnit] = {}
        """Without their bodies."""
        self.bodies: dict[str, dict[str, str]] = {}
        """The ids inside each loop, each with the path where the loop names it."""
        self.loop_of: dict[str, str] = {}
        self._collect()
        self.units: dict[str, Unit] = {**self.steps, **self.loops}
        self._find_bodies()
        self._check_nesting()

    def add_fault(self, path: str, code: str, message: str, hint: str | None = None) -> None:
        fault = Fault(path, code, message, hint)
        if fault not in self.faults:
            self.faults.append(fault)

    def in_order(self) -> list[str]:
        """Return the ids in the order of the plan."""
        return sorted(self.units, key=lambda id_: (self.loops.get(id_) or self.steps[id_]).place)

    def around(self, id_: str) -> list[str]:
        """Return the loops around a unit, the innermost first."""
        around: list[str] = []
        while (id_ := self.loop_of.get(id_, "")) and id_ not in around:
            around.append(id_)
        return around

    def own_loop(self, id_: str) -> str:
        """Return the loop of a step that loops by itself; else the step."""
        loop = self.loops.get(f"loop_{id_}")
        return loop.id if loop is not None and not is_block(loop) and self._is_single(loop) else id_

    def require_id(self, name: str, path: str, noun: str, text: str = "") -> str | None:
        """Return the id that is meant; add a fault if there is none. `text` is the longer one that names it."""
        id_ = known_id(name, self.units)
        if id_ is None:
            hint = self._hyphen_hint(name, text or name) or did_you_mean(name, self.units)
            hint = hint or f"known: {', '.join(self.units) or 'none'}"
            self.add_fault(path, "unknown_name", f"there is no {noun} {name[:60]!r}", hint)
        return id_

    def _hyphen_hint(self, name: str, text: str) -> str | None:
        """Return a hint for an id that is written with hyphens, which no id has."""
        whole = re.search(rf"(?P<before>(RESULT_FROM_)?){re.escape(name)}(?P<rest>[A-Za-z0-9_-]*)", text)
        spelled = "" if whole is None else f"{name}{whole['rest']}"
        if whole is None or "-" not in spelled:
            return None
        intended = known_id(spelled.replace("-", "_"), self.units)
        return "an id has no hyphen" + ("" if intended is None else f": write {whole['before']}{intended}")

    # Steps and loops

    def _collect(self) -> None:
        taken: dict[str, str] = {}
        steps = [
            (index, step)
            for index, step in enumerate(self.plan.steps)
            if self._take_id(step.id, f"steps[{index}]", f"steps[{index}].id", taken)
        ]
        blocks = [
            (key, block)
            for key, block in self.plan.loop_blocks.items()
            if self._take_id(key, f"loop_blocks.{key}", f"loop_blocks.{key}", taken)
        ]
        for index, step in steps:
            self._add_step(index, step, taken)
        for key, block in blocks:
            self._add_block(key, block)

    def _take_id(self, id_: str, holder: str, path: str, taken: dict[str, str]) -> bool:
        if not id_:
            self.add_fault(path, "bad_value", "'id' is missing", "letters, digits and _, unique in the plan")
            return False
        if not _ID.fullmatch(id_):
            hint = "an id has letters, digits and _, and begins with a letter or a digit"
            self.add_fault(path, "bad_value", f"{id_[:60]!r} is not an id", hint)
        elif id_ in taken:
            self.add_fault(path, "duplicate_name", f"the id {id_!r} is taken by {taken[id_]}", "rename one")
        return taken.setdefault(id_, holder) == holder

    def _add_step(self, index: int, step: PlanStep, taken: dict[str, str]) -> None:
        path = f"steps[{index}]"
        if step.loopover is None or step.start_step is None:
            self.steps[step.id] = StepUnit(id=step.id, path=path, place=index, step=step)
        if step.loopover is not None:
            self._add_loop(step, index, path, taken)
        elif step.start_step is not None:
            message = "'start_step' makes the step a loop, and 'loopover' is missing"
            hint = "say what it loops over: RESULT_FROM_<id>, or a list"
            self.add_fault(f"{path}.loopover", "missing_key", message, hint)

    def _add_loop(self, step: PlanStep, index: int, path: str, taken: dict[str, str]) -> None:
        """Add the loop that a step is with a `start_step`, or stands in by itself without one."""
        id_ = f"loop_{step.id}" if step.start_step is None else step.id
        if taken.setdefault(id_, path) != path:
            message = f"the step's loop would be called {id_!r}, and {taken[id_]} is"
            self.add_fault(f"{path}.loopover", "duplicate_name", message, f"rename {id_!r}")
            return
        own = step.start_step is None and compares_item(step.condition)  # evaluated for each item, not once
        block = PlanLoop(
            over=[] if step.loopover is None else step.loopover,
            steps=[step.start_step or step.id],
            dependencies=step.dependencies,
            condition=None if own else step.condition,
        )
        self.loops[id_] = LoopUnit(id=id_, path=path, place=index, block=block)

    def _add_block(self, key: str, block: PlanLoop) -> None:
        path = f"loop_blocks.{key}"
        if block.id is not None and block.id != key:
            message = f"the loop's id {block.id!r} is not its key {key!r}"
            self.add_fault(f"{path}.id", "conflict", message, "make them the same")
        if not block.steps:
            hint = "name the steps that run for every item"
            self.add_fault(f"{path}.steps", "missing_key", "'steps' is empty", hint)
        self.loops[key] = LoopUnit(id=key, path=path, place=len(self.plan.steps), block=block)

    # Bodies

    def _find_bodies(self) -> None:
        self.bodies = {id_: self._body(loop) for id_, loop in self.loops.items()}
        for id_, body in self.bodies.items():
            for inner, path in body.items():
                if self.loop_of.setdefault(inner, id_) != id_:
                    message = f"{inner!r} is in two loops, {self.loop_of[inner]!r} and {id_!r}"
                    self.add_fault(path, "conflict", message, "keep it in one of them")
        for id_, loop in self.loops.items():
            if is_block(loop):
                places = [self.steps[inner].place for inner in self.bodies[id_] if inner in self.steps]
                self.loops[id_] = self.units[id_] = replace(loop, place=min([loop.place, *places]))

    def _body(self, loop: LoopUnit) -> dict[str, str]:
        if is_block(loop):
            return self._members(loop)
        return {loop.block.steps[0]: over_path(loop)} if self._is_single(loop) else self._from_start(loop)

    def _is_single(self, loop: LoopUnit) -> bool:
        """Return whether it is the loop of one step that loops by itself."""
        step = self.steps.get(loop.block.steps[0])
        return step is not None and step.path == loop.path

    def _members(self, loop: LoopUnit) -> dict[str, str]:
        members: dict[str, str] = {}
        for index, name in enumerate(loop.block.steps):
            path = f"{loop.path}.steps[{index}]"
            id_ = self.require_id(name, path, "step")
            if id_ is not None and self.own_loop(id_) in members:
                self.add_fault(path, "duplicate_name", f"the step {name!r} appears twice", "remove one of them")
            elif id_ is not None:
                members[self.own_loop(id_)] = path
        return members

    def _from_start(self, loop: LoopUnit) -> dict[str, str]:
        """Return the start, and all that follows from it, but not what waits for the whole loop."""
        path = f"{loop.path}.start_step"
        start = self.require_id(loop.block.steps[0], path, "step")
        if start is None:
            return {}
        needed = {id_: self._list_declared(id_) for id_ in self.units}
        after = {id_ for id_, ids in needed.items() if loop.id in ids and id_ != start}
        while more := {id_ for id_, ids in needed.items() if ids & after} - after:
            after |= more
        inside = {start}
        while more := {id_ for id_, ids in needed.items() if ids & inside} - inside - after - {loop.id}:
            inside |= more
        body = {self.own_loop(id_) for id_ in inside}
        return {id_: path for id_ in self.in_order() if id_ in body}

    def _list_declared(self, id_: str) -> set[str]:
        """Return what a unit depends on, as far as it is written."""
        names = list(self.loops[id_].block.dependencies) if id_ in self.loops else []
        if id_ in self.steps:
            step = self.steps[id_].step
            texts = [step.instruction, step.condition or "", step.arguments]
            names += [*step.dependencies, *_result_names(texts)]
        return {unit_id for name in names if (unit_id := known_id(name, self.units)) is not None}

    def _check_nesting(self) -> None:
        for id_, loop in self.loops.items():
            chain = [id_, *self.around(id_)]
            if id_ in chain[1:]:
                message = f"loops contain each other: {' in '.join(chain)}"
                hint = "a loop may stand in one other loop, not in itself"
                self.add_fault(f"{loop.path}.steps", "cycle", message, hint)
                del self.loop_of[id_]
            elif len(chain) > MAX_LEVELS:
                message = f"loops are nested {len(chain)} deep: {' in '.join(chain)}"
                self.add_fault(loop.path, "bad_value", message, f"at most {MAX_LEVELS} levels")


def is_block(loop: LoopUnit) -> bool:
    """Return whether a loop is written as an entry of `loop_blocks`."""
    return loop.path.startswith("loop_blocks")


def over_path(loop: LoopUnit) -> str:
    """Return the path of what a loop goes through."""
    return f"{loop.path}.{'over' if is_block(loop) else 'loopover'}"


def compares_item(condition: str | None) -> bool:
    """Return whether a condition is about the item of a loop, so that it is evaluated for each."""
    try:
        return condition is not None and parse_condition(condition).left.kind != "result"
    except BadText:
        return False


def _result_names(texts: Iterable[object]) -> list[str]:
    """Return the names of the results that these refer to; a misspelt reference is reported where it is compiled."""
    references: list[Reference] = []
    for text in texts:
        with suppress(BadText):
            references += list_references(text)
    return [reference.name or "" for reference in references if reference.kind == "result"]

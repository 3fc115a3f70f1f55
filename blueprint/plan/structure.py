"""Steps and loops of a plan by their ids: the three ways to write a loop become one, and every body is found."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.kinds.plan_body import PlanBody, PlanLoop, PlanStep
from holdfast.blueprint.plan.conditions import parse_condition
from holdfast.blueprint.plan.layout import Fault, known_id, loops_around
from holdfast.blueprint.plan.references import BadText, references_of

MAX_LEVELS = 3
"""Loops in loops."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*")


@dataclass
class WrittenLoop:
    """A loop as an entry of `loop_blocks` says it, whichever way it is written."""

    notation: Literal["block", "start", "single"]
    """An entry of `loop_blocks`; a step that names the `start_step` of its body; a step that loops by itself."""
    id: str
    path: str
    place: int
    block: PlanLoop
    body: dict[str, str] = field(default_factory=dict)
    """The ids inside, each with the path where the loop names it."""

    @property
    def over_path(self) -> str:
        return f"{self.path}.{'over' if self.notation == 'block' else 'loopover'}"


class Structure:
    """The steps and loops of a plan, found when it is made; `faults` are the mistakes so far."""

    def __init__(self, plan: PlanBody) -> None:
        self.plan = plan
        self.faults: list[Fault] = []
        self.ids: dict[str, None] = {}
        """Of steps and loops, as an ordered set."""
        self.steps: dict[str, tuple[int, PlanStep]] = {}
        """The steps that run, with their place: one that only heads a loop is none."""
        self.loops: dict[str, WrittenLoop] = {}
        self.loop_of: dict[str, str] = {}
        self._collect()
        self.ids |= dict.fromkeys([*self.steps, *self.loops])
        self._find_bodies()
        self._check_nesting()

    def add_fault(self, path: str, code: str, message: str, hint: str | None = None) -> None:
        fault = Fault(path, code, message, hint)
        if fault not in self.faults:
            self.faults.append(fault)

    def in_order(self) -> list[str]:
        """Return the ids in the order of the plan."""
        places = {id_: loop.place for id_, loop in self.loops.items()} | {
            id_: index for id_, (index, _) in self.steps.items()
        }
        return sorted(self.ids, key=lambda id_: places[id_])

    def around(self, id_: str) -> list[str]:
        """Return the loops around a unit, the innermost first."""
        return loops_around(id_, self.loop_of)

    def own_loop(self, id_: str) -> str:
        """Return the loop of a step that loops by itself; else the step."""
        loop = self.loops.get(f"loop_{id_}")
        return loop.id if loop is not None and loop.notation == "single" else id_

    def require_id(self, written: str, path: str, noun: str, text: str = "") -> str | None:
        """Return the id that is meant; add a fault if there is none. `text` is the longer one that names it."""
        id_ = known_id(written, self.ids)
        if id_ is None:
            hint = self._hyphen_hint(written, text or written) or did_you_mean(written, self.ids)
            hint = hint or f"known: {', '.join(self.ids) or 'none'}"
            self.add_fault(path, "unknown_name", f"there is no {noun} {written[:60]!r}", hint)
        return id_

    def _hyphen_hint(self, written: str, text: str) -> str | None:
        """Return a hint for an id that is written with hyphens, which no id has."""
        whole = re.search(rf"(?P<before>(RESULT_FROM_)?){re.escape(written)}(?P<rest>[A-Za-z0-9_-]*)", text)
        spelled = "" if whole is None else f"{written}{whole['rest']}"
        if whole is None or "-" not in spelled:
            return None
        intended = known_id(spelled.replace("-", "_"), self.ids)
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
        if not _ID.fullmatch(id_):
            hint = "an id has letters, digits and _, and begins with a letter or a digit"
            self.add_fault(path, "bad_value", f"{id_[:60]!r} is no id", hint)
        elif id_ in taken:
            self.add_fault(path, "duplicate_name", f"the id {id_!r} is taken by {taken[id_]}", "rename one")
        return taken.setdefault(id_, holder) == holder

    def _add_step(self, index: int, step: PlanStep, taken: dict[str, str]) -> None:
        path = f"steps[{index}]"
        if step.loopover is None or step.start_step is None:
            self.steps[step.id] = (index, step)
        if step.loopover is None:
            if step.start_step is not None:
                message = "'start_step' makes the step a loop, and 'loopover' is missing"
                hint = "say what it loops over: RESULT_FROM_<id>, or a list"
                self.add_fault(f"{path}.loopover", "missing_key", message, hint)
        elif step.start_step is not None:
            self.loops[step.id] = _loop_of(step, "start", step.id, path, index)
        elif taken.setdefault(f"loop_{step.id}", path) == path:
            self.loops[f"loop_{step.id}"] = _loop_of(step, "single", f"loop_{step.id}", path, index)
        else:
            id_ = f"loop_{step.id}"
            message = f"the step's loop would be called {id_!r}, and {taken[id_]} is"
            self.add_fault(f"{path}.loopover", "duplicate_name", message, f"rename {id_!r}")

    def _add_block(self, key: str, block: PlanLoop) -> None:
        path = f"loop_blocks.{key}"
        if block.id is not None and block.id != key:
            message = f"the loop's id {block.id!r} is not its key {key!r}"
            self.add_fault(f"{path}.id", "conflict", message, "make them the same")
        if not block.steps:
            hint = "name the steps that run for every item"
            self.add_fault(f"{path}.steps", "missing_key", "'steps' is empty", hint)
        self.loops[key] = WrittenLoop("block", key, path, len(self.plan.steps), block)

    # Bodies

    def _find_bodies(self) -> None:
        for loop in self.loops.values():
            if loop.notation == "block":
                loop.body = self._members(loop)
        for loop in self.loops.values():
            if loop.notation == "start":
                loop.body = self._from_start(loop)
            elif loop.notation == "single":
                loop.body = {loop.block.steps[0]: loop.over_path}
        for loop in self.loops.values():
            for id_, path in loop.body.items():
                if self.loop_of.setdefault(id_, loop.id) != loop.id:
                    message = f"{id_!r} stands in two loops, {self.loop_of[id_]!r} and {loop.id!r}"
                    self.add_fault(path, "conflict", message, "leave it in one of them")
            if loop.notation == "block":
                loop.place = min([loop.place, *(self.steps[id_][0] for id_ in loop.body if id_ in self.steps)])

    def _members(self, loop: WrittenLoop) -> dict[str, str]:
        members: dict[str, str] = {}
        for index, written in enumerate(loop.block.steps):
            path = f"{loop.path}.steps[{index}]"
            id_ = self.require_id(written, path, "step")
            if id_ is not None and self.own_loop(id_) in members:
                self.add_fault(path, "duplicate_name", f"the step {written!r} is there twice", "leave one of them out")
            elif id_ is not None:
                members[self.own_loop(id_)] = path
        return members

    def _from_start(self, loop: WrittenLoop) -> dict[str, str]:
        """Return the start, and all that follows from it, but not what waits for the whole loop."""
        path = f"{loop.path}.start_step"
        start = self.require_id(loop.block.steps[0], path, "step")
        if start is None:
            return {}
        needed = {id_: self._declared(id_) for id_ in self.ids}
        after = {id_ for id_, ids in needed.items() if loop.id in ids and id_ != start}
        while more := {id_ for id_, ids in needed.items() if ids & after} - after:
            after |= more
        inside = {start}
        while more := {id_ for id_, ids in needed.items() if ids & inside} - inside - after - {loop.id}:
            inside |= more
        body = {self.own_loop(id_) for id_ in inside}
        return {id_: path for id_ in self.in_order() if id_ in body}

    def _declared(self, id_: str) -> set[str]:
        """Return what a unit depends on, as far as it is written."""
        written = list(self.loops[id_].block.dependencies) if id_ in self.loops else []
        if id_ in self.steps:
            _, step = self.steps[id_]
            written += [*step.dependencies, *_result_names(step.instruction), *_result_names(step.condition or "")]
        return {known for one in written if (known := known_id(one, self.ids)) is not None}

    def _check_nesting(self) -> None:
        for id_, loop in self.loops.items():
            chain = [id_, *self.around(id_)]
            if id_ in chain[1:]:
                message = f"loops stand in each other: {' in '.join(chain)}"
                hint = "a loop may stand in one other loop, not in itself"
                self.add_fault(f"{loop.path}.steps", "cycle", message, hint)
                del self.loop_of[id_]
            elif len(chain) > MAX_LEVELS:
                message = f"loops are nested {len(chain)} deep: {' in '.join(chain)}"
                self.add_fault(loop.path, "bad_value", message, f"at most {MAX_LEVELS} levels")


def _loop_of(step: PlanStep, notation: Literal["start", "single"], id_: str, path: str, place: int) -> WrittenLoop:
    own = notation == "single" and compares_item(step.condition)  # evaluated for each item, not once for the loop
    block = PlanLoop(
        over=[] if step.loopover is None else step.loopover,
        steps=[step.start_step or step.id],
        dependencies=step.dependencies,
        condition=None if own else step.condition,
    )
    return WrittenLoop(notation, id_, path, place, block)


def compares_item(condition: str | None) -> bool:
    """Return whether a condition is about the item of a loop, so that it is evaluated for each."""
    try:
        return condition is not None and parse_condition(condition).left.kind != "result"
    except BadText:
        return False


def _result_names(text: str) -> list[str]:
    try:
        return [reference.name or "" for reference in references_of(text) if reference.kind == "result"]
    except BadText:
        return []

"""A plan laid out: three ways to write a loop become one, every id is found, and what waits for what is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.expressions.texts import NoJson, folded, read_json
from holdfast.blueprint.kinds.plan_body import ItemRule, PlanBody, PlanLoop, PlanStep
from holdfast.blueprint.plan.answers import asks, check_question, informs, never_a_yes
from holdfast.blueprint.plan.conditions import Condition, parse_condition
from holdfast.blueprint.plan.references import BadText, Reference, references_of, whole_reference

MOST_LEVELS = 3
"""Loops in loops."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*")


class Fault(NamedTuple):
    """Something that is wrong with a plan: where in it, and the way out."""

    path: str
    code: str
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class Unit:
    """A step or a loop, as it is run."""

    id: str
    path: str
    """Where it stands in the plan: `steps[2]`, `loop_blocks.events`."""
    place: int
    """Its place in the order of the plan."""
    needs: tuple[str, ...] = ()
    """What must have come to its end before, wherever it stands: how it ended decides whether this one runs."""
    waits: tuple[str, ...] = ()
    """Which of the same list must be over first, for the sake of what stands inside one of the two, too."""
    condition: Condition | None = None


@dataclass(frozen=True)
class StepUnit(Unit):
    """A step."""

    step: PlanStep = field(default_factory=lambda: PlanStep(id="?"))


@dataclass(frozen=True)
class LoopUnit(Unit):
    """A loop: its body runs once an item."""

    over: Any = None
    body: tuple[Unit, ...] = ()
    on_item_error: ItemRule = "continue"
    max_items: int = 1_000
    max_parallel: int = 1


@dataclass(frozen=True)
class Layout:
    """A whole plan; `units` are those outside every loop."""

    units: tuple[Unit, ...] = ()
    loop_of: dict[str, str] = field(default_factory=dict)
    """By the id of what stands in a loop: the loop."""
    units_by_id: dict[str, Unit] = field(default_factory=dict)

    def find(self, written: str) -> Unit | None:
        """The unit that an id means, which may be written with or without `step_`."""
        id_ = spelled_id(written, self.units_by_id)
        return None if id_ is None else self.units_by_id[id_]

    def loops_of(self, id_: str) -> list[str]:
        """The loops that a unit stands in, the outermost first."""
        found: list[str] = []
        while (id_ := self.loop_of.get(id_, "")) != "":
            found.insert(0, id_)
        return found

    def feeds_loop(self, id_: str) -> bool:
        """Return whether a loop goes through what a step gives: then a list is wanted of it."""
        for loop in self.loops():
            reference = whole_reference(loop.over) if isinstance(loop.over, str) else None
            if reference is None or reference.kind != "result":
                continue
            unit = self.find(reference.name or "")
            if unit is not None and unit.id == id_:
                around = self.loops_of(loop.id)  # from outside a step's loop its results are a list already
                return self.loops_of(id_) == around[: len(self.loops_of(id_))]
        return False

    def steps(self) -> list[StepUnit]:
        """Every step, in the order of the plan."""
        steps = [unit for unit in self.units_by_id.values() if isinstance(unit, StepUnit)]
        return sorted(steps, key=lambda unit: unit.place)

    def loops(self) -> list[LoopUnit]:
        return [unit for unit in self.units_by_id.values() if isinstance(unit, LoopUnit)]


def spelled_id(written: str, known: Iterable[str]) -> str | None:
    """The known id that is meant: itself, else the one that differs by `step_` in front.

    >>> spelled_id("step_2", ["1", "2"]), spelled_id("2", ["step_2"]), spelled_id("3", ["1"])
    ('2', 'step_2', None)
    """
    ids = set(known)
    if written in ids:
        return written
    others = {f"step_{written}", written.removeprefix("step_")} & ids
    return others.pop() if len(others) == 1 else None


def laid_out(plan: PlanBody) -> tuple[Layout, list[Fault]]:
    """The plan as it is run, and everything that is wrong with it; with a fault, the layout is not to be run."""
    work = _Work(plan)
    return work.layout(), work.faults


@dataclass
class _Block:
    """A loop, however it was written."""

    id: str
    form: Literal["block", "head", "alone"]
    """In `loop_blocks`; a step that only heads a loop; a step that loops by itself."""
    path: str
    over: Any
    over_path: str
    body: list[str]
    place: int
    dependencies: list[tuple[str, str]]
    condition: tuple[str, str] | None
    block: PlanLoop


class _Work:
    """One layout in the making."""

    def __init__(self, plan: PlanBody) -> None:
        self.plan = plan
        self.faults: list[Fault] = []
        self.steps: dict[str, tuple[int, PlanStep]] = {}
        """Those that are run: a step that is only a loop's head is none."""
        self.blocks: dict[str, _Block] = {}
        self.loop_of: dict[str, str] = {}
        self.needs: dict[str, list[str]] = {}
        self.conditions: dict[str, Condition] = {}

    def layout(self) -> Layout:
        self._check_whole()
        self._collect()
        self._bodies()
        self._check_nesting()
        for id_, (index, step) in self.steps.items():
            self._read_step(id_, index, step)
        for block in self.blocks.values():
            self._read_block(block)
        units = self._units(None)
        by_id: dict[str, Unit] = {}
        for unit in _all(units):
            by_id[unit.id] = unit
        self._check_cycles([units, *(unit.body for unit in by_id.values() if isinstance(unit, LoopUnit))])
        return Layout(units, dict(self.loop_of), by_id)

    def fault(self, path: str, code: str, message: str, hint: str | None = None) -> None:
        fault = Fault(path, code, message, hint)
        if fault not in self.faults:
            self.faults.append(fault)

    # Who is there

    def _check_whole(self) -> None:
        if not self.plan.goal.strip():
            self.fault("goal", "missing_key", "'goal' is empty", "say in a sentence what the plan is for")
        if not self.plan.steps:
            self.fault("steps", "missing_key", "'steps' is empty", "a plan has at least one step")

    def _collect(self) -> None:
        seen: dict[str, str] = {}
        for index, step in enumerate(self.plan.steps):
            self._take_id(step.id, f"steps[{index}].id", seen)
        for key, block in self.plan.loop_blocks.items():
            self._take_id(key, f"loop_blocks.{key}", seen)
            if block.id is not None and block.id != key:
                told = f"the loop's id {block.id!r} is not its key {key!r}"
                self.fault(f"loop_blocks.{key}.id", "conflict", told, "make them the same")
        for index, step in enumerate(self.plan.steps):
            if seen.get(step.id) == f"steps[{index}].id":
                self._collect_step(index, step, seen)
        for key, block in self.plan.loop_blocks.items():
            path = f"loop_blocks.{key}"
            if seen.get(key) == path:
                self._add_block(key, path, block, None, len(self.plan.steps))

    def _take_id(self, id_: str, path: str, seen: dict[str, str]) -> None:
        if not _ID.fullmatch(id_):
            hint = "an id has letters, digits and _, and begins with a letter or a digit"
            self.fault(path, "bad_value", f"{id_[:60]!r} is no id", hint)
        elif id_ in seen:
            self.fault(
                path, "duplicate_name", f"the id {id_!r} is taken by {seen[id_].removesuffix('.id')}", "rename one"
            )
        seen.setdefault(id_, path)

    def _collect_step(self, index: int, step: PlanStep, seen: dict[str, str]) -> None:
        path = f"steps[{index}]"
        if step.start_step is not None and step.loopover is None:
            told = "'start_step' makes the step a loop, and 'loopover' is missing"
            self.fault(f"{path}.loopover", "missing_key", told, "say what it loops over: RESULT_FROM_<id>, or a list")
        if step.loopover is None:
            self.steps[step.id] = (index, step)
            return
        if step.start_step is not None:
            block = PlanLoop(over=step.loopover, steps=[step.start_step])
            self._add_block(step.id, path, block, step, index)
            return
        self.steps[step.id] = (index, step)
        id_ = f"loop_{step.id}"
        if id_ in seen:
            told = f"the step's loop would be called {id_!r}, and {seen[id_].removesuffix('.id')} is"
            self.fault(f"{path}.loopover", "duplicate_name", told, f"rename {id_!r}")
            return
        seen[id_] = path
        self._add_block(id_, path, PlanLoop(over=step.loopover, steps=[step.id]), step, index)

    def _add_block(self, id_: str, path: str, block: PlanLoop, step: PlanStep | None, place: int) -> None:
        written = block if step is None else step
        alone = step is not None and step.id != id_
        condition = None if written.condition is None else (f"{path}.condition", written.condition)
        if alone and condition is not None and _of_item(condition[1]):
            condition = None  # it is the step's own, told anew for every item
        self.blocks[id_] = _Block(
            id=id_,
            form="block" if step is None else "alone" if alone else "head",
            path=path,
            over=block.over,
            over_path=f"{path}.over" if step is None else f"{path}.loopover",
            body=list(block.steps),
            place=place,
            dependencies=[(f"{path}.dependencies[{n}]", one) for n, one in enumerate(written.dependencies)],
            condition=condition,
            block=block,
        )

    # What stands in which loop

    def _bodies(self) -> None:
        """The members of each loop by their ids, and for each member its loop."""
        for block in self.blocks.values():
            if block.form == "block":
                block.body = self._members(block)
        for block in self.blocks.values():
            if block.form == "head":
                block.body = self._from_start(block)
        for block in self.blocks.values():
            for id_ in block.body:
                if id_ in self.loop_of:
                    told = f"{id_!r} stands in two loops, {self.loop_of[id_]!r} and {block.id!r}"
                    self.fault(self._member_path(block, id_), "conflict", told, "leave it in one of them")
                else:
                    self.loop_of[id_] = block.id
            if block.place >= len(self.plan.steps):
                inside = [self.steps[id_][0] for id_ in block.body if id_ in self.steps]
                block.place = min([block.place, *inside])

    def _own_loop(self, id_: str) -> str:
        """The loop of a step that loops by itself; else the step."""
        loop = self.blocks.get(f"loop_{id_}")
        return loop.id if loop is not None and loop.form == "alone" and loop.body == [id_] else id_

    def _members(self, block: _Block) -> list[str]:
        members: list[str] = []
        if not block.body:
            self.fault(
                f"{block.path}.steps", "missing_key", "'steps' is empty", "name the steps that run for every item"
            )
        for index, written in enumerate(block.body):
            id_ = self._known(written, f"{block.path}.steps[{index}]", "step")
            if id_ is None:
                continue
            id_ = self._own_loop(id_)
            if id_ in members:
                told = f"the step {written!r} is there twice"
                self.fault(f"{block.path}.steps[{index}]", "duplicate_name", told, "leave one of them out")
            else:
                members.append(id_)
        return members

    def _from_start(self, block: _Block) -> list[str]:
        """The first step of the body, and all that follow from it, but not those that wait for the whole loop."""
        start = self._known(block.body[0], f"{block.path}.start_step", "step")
        if start is None:
            return []
        needed = {id_: self._declared(id_) for id_ in [*self.steps, *self.blocks]}
        after = _closure({id_ for id_, ids in needed.items() if block.id in ids and id_ != start}, needed)
        inside = {start}
        while more := {id_ for id_, ids in needed.items() if ids & inside} - inside - after - {block.id}:
            inside |= more
        order = {id_: index for index, (id_, _) in enumerate(self._in_order())}
        return sorted({self._own_loop(id_) for id_ in inside}, key=lambda id_: order[id_])

    def _declared(self, id_: str) -> set[str]:
        """What it depends on, as it says, or as it refers to."""
        block = self.blocks.get(id_)
        step = self.steps[id_][1] if id_ in self.steps else None
        written = [one for _, one in block.dependencies] if block is not None else []
        if step is not None:
            written += [*step.dependencies, *_result_names(step.instruction), *_result_names(step.condition or "")]
        return {known for one in written if (known := spelled_id(one, self._ids())) is not None}

    def _in_order(self) -> list[tuple[str, int]]:
        places = [(id_, index) for id_, (index, _) in self.steps.items()]
        places += [(id_, block.place) for id_, block in self.blocks.items() if id_ not in self.steps]
        return sorted(places, key=lambda one: one[1])

    def _member_path(self, block: _Block, id_: str) -> str:
        if block.form != "block":
            return f"{block.path}.start_step" if block.form == "head" else f"{block.path}.loopover"
        written = self.plan.loop_blocks[block.id].steps
        index = next(n for n, one in enumerate(written) if self._own_loop(spelled_id(one, self._ids()) or "") == id_)
        return f"{block.path}.steps[{index}]"

    def _check_nesting(self) -> None:
        for id_, block in self.blocks.items():
            chain, at = [id_], id_
            while (at := self.loop_of.get(at, "")) and at not in chain:
                chain.append(at)
            if at:
                told = f"loops stand in each other: {' in '.join([*chain, at])}"
                self.fault(f"{block.path}.steps", "cycle", told, "a loop may stand in one other loop, not in itself")
                del self.loop_of[id_]
            elif len(chain) > MOST_LEVELS:
                told = f"loops are nested {len(chain)} deep: {' in '.join(chain)}"
                self.fault(block.path, "bad_value", told, f"at most {MOST_LEVELS} levels")

    # What it reads and waits for

    def _ids(self) -> list[str]:
        return [*self.steps, *(id_ for id_ in self.blocks if id_ not in self.steps)]

    def _known(self, written: str, path: str, what: str, text: str = "") -> str | None:
        """The id that is meant, if there is one; `text`: where it stands in a longer one."""
        id_ = spelled_id(written, self._ids())
        if id_ is None:
            ids = ", ".join(self._ids()) or "none"
            hint = self._without_hyphens(written, text or written) or did_you_mean(written, self._ids())
            hint = hint or f"known: {ids}"
            self.fault(path, "unknown_name", f"there is no {what} {written[:60]!r}", hint)
        return id_

    def _without_hyphens(self, written: str, text: str) -> str | None:
        """A hint for an id that is written with hyphens, which no id has."""
        whole = re.search(rf"(?P<before>(RESULT_FROM_)?){re.escape(written)}(?P<rest>[A-Za-z0-9_-]*)", text)
        spelled = "" if whole is None else f"{written}{whole['rest']}"
        if whole is None or "-" not in spelled:
            return None
        meant = spelled_id(spelled.replace("-", "_"), self._ids())
        return "an id has no hyphen" if meant is None else f"an id has no hyphen: write {whole['before']}{meant}"

    def _read_step(self, id_: str, index: int, step: PlanStep) -> None:
        path = f"steps[{index}]"
        own = self._own_loop(id_)
        needs: list[str] = []
        if not step.instruction.strip() and not step.tools:
            told = "'instruction' is empty"
            self.fault(f"{path}.instruction", "missing_key", told, "say what is to be done, or what is asked")
        if own == id_:  # else they are those of its loop
            needs += self._dependencies(
                [(f"{path}.dependencies[{n}]", one) for n, one in enumerate(step.dependencies)], id_
            )
        needs += self._references(step.instruction, f"{path}.instruction", id_)
        for n, option in enumerate(step.options):
            needs += self._references(option.text, f"{path}.options[{n}].text", id_)
        if step.condition is not None and (own == id_ or _of_item(step.condition)):
            needs += self._condition((f"{path}.condition", step.condition), id_, id_)
        for key, code, message, hint in check_question(step, self.plan.language):
            self.fault(f"{path}.{key}", code, message, hint)
        self.needs[id_] = _unique(needs)

    def _read_block(self, block: _Block) -> None:
        needs = self._dependencies(block.dependencies, block.id)
        around = self.loop_of.get(block.id)
        self._check_over(block)
        needs += self._references(block.over, block.over_path, block.id, within=around)
        if block.condition is not None:
            needs += self._condition(block.condition, block.id, block.id, within=around)
        inside = [id_ for id_ in needs if block.id in self._loops_around(id_)]
        for id_ in inside:
            told = f"the loop {block.id!r} waits for {id_!r}, which stands in it"
            self.fault(block.over_path, "cycle", told, "loop over what is known before it begins")
        self.needs[block.id] = [id_ for id_ in _unique(needs) if id_ not in inside]

    def _check_over(self, block: _Block) -> None:
        if not isinstance(block.over, str):
            return
        if whole_reference(block.over) is None and not _is_json_list(block.over):
            told = f"{block.over[:60]!r} is neither a reference nor a list"
            hint = "write RESULT_FROM_<id>, CURRENT_ITEM of a loop around it, or a list"
            self.fault(block.over_path, "bad_reference", told, hint)

    def _dependencies(self, written: list[tuple[str, str]], owner: str) -> list[str]:
        found = []
        for path, one in written:
            id_ = self._known(one, path, "step or loop")
            if id_ == owner:
                self.fault(path, "cycle", f"{owner!r} depends on itself", "leave it out")
            elif id_ is not None and id_ not in self._loops_around(owner):  # to stand in a loop is not to wait for it
                found.append(id_)
        return found

    def _references(self, value: Any, path: str, owner: str, within: str | None = "") -> list[str]:
        """The ids that a text refers to. `within` is the loop that it stands in, if not the owner's."""
        try:
            references = references_of(value)
        except BadText as error:
            self.fault(path, "bad_reference", error.message, error.hint)
            return []
        text = text_of(value)
        found = [self._referred(reference, path, owner, within, text) for reference in references]
        return [id_ for id_ in found if id_ is not None]

    def _referred(self, reference: Reference, path: str, owner: str, within: str | None, text: str) -> str | None:
        if reference.kind != "result":
            self._check_item(reference, path, owner, within)
            return None
        id_ = self._known(reference.name or "", path, "step or loop", text)
        if id_ is not None and (id_ == owner or id_ in self._loops_around(owner)):
            told = f"{reference} is not there before {owner!r} has run"
            self.fault(path, "cycle", told, "refer to a step before it")
            return None
        return id_

    def _check_item(self, reference: Reference, path: str, owner: str, within: str | None) -> None:
        around = (
            self._loops_around(owner)
            if within == ""
            else []
            if within is None
            else [within, *self._loops_around(within)]
        )
        if not around:
            told = f"{reference} stands outside every loop"
            self.fault(path, "bad_reference", told, "put the step into a loop, or say what is meant")
        elif reference.name is not None and spelled_id(reference.name, around) is None:
            told = f"{reference}: no loop {reference.name!r} is around this step"
            self.fault(path, "bad_reference", told, f"around it: {', '.join(around)}")

    def _condition(self, written: tuple[str, str], id_: str, owner: str, within: str | None = "") -> list[str]:
        path, text = written
        try:
            condition = parse_condition(text)
        except BadText as error:
            self.fault(path, "bad_condition", error.message, error.hint)
            return []
        found = self._referred(condition.left, path, owner, within, text)
        if found is not None:
            condition = replace(condition, left=replace(condition.left, name=found))
            self._check_can_be_confirmed(condition, found, path)
        self.conditions[id_] = condition
        return [] if found is None else [found]

    def _check_can_be_confirmed(self, condition: Condition, id_: str, path: str) -> None:
        """A question that is asked whether it was confirmed has an answer that means so."""
        _, step = self.steps.get(id_, (0, None))
        if step is None or not asks(step) or informs(step) or folded(condition.operand) != "confirmed":
            return
        if step.options and never_a_yes(step):
            told = f"no option of {id_!r} means yes, so that it is never confirmed"
            self.fault(path, "bad_condition", told, 'say which one does: {"text": "…", "type": 1}')

    def _loops_around(self, id_: str) -> list[str]:
        found: list[str] = []
        while (id_ := self.loop_of.get(id_, "")) and id_ not in found:
            found.append(id_)
        return found

    # The units

    def _units(self, loop: str | None) -> tuple[Unit, ...]:
        ids = [id_ for id_, _ in self._in_order() if self.loop_of.get(id_) == loop]
        if loop is not None:
            ids = [id_ for id_ in self.blocks[loop].body if id_ in ids]
        waits: dict[str, list[str]] = {id_: [] for id_ in ids}
        for owner, needs in self.needs.items():
            mine = self._standing_in(loop, owner)
            for id_ in needs:
                theirs = self._standing_in(loop, id_)
                if mine in waits and theirs in waits and mine != theirs:
                    waits[mine].append(theirs)
        return tuple(self._unit(id_, _unique(waits[id_])) for id_ in ids)

    def _standing_in(self, loop: str | None, id_: str) -> str:
        """What in this loop's body (None: outside every loop) it is, or stands in; empty if it is elsewhere."""
        at = id_
        for around in [*self._loops_around(id_), None]:
            if around == loop:
                return at
            at = around or ""
        return ""

    def _unit(self, id_: str, waits: list[str]) -> Unit:
        needs, condition = tuple(self.needs.get(id_, ())), self.conditions.get(id_)
        if id_ in self.steps:
            index, step = self.steps[id_]
            return StepUnit(id_, f"steps[{index}]", index, needs, tuple(waits), condition, step)
        block = self.blocks[id_]
        return LoopUnit(
            id_,
            block.path,
            block.place,
            needs,
            tuple(waits),
            condition,
            over=block.over,
            body=self._units(id_),
            on_item_error=block.block.on_item_error,
            max_items=block.block.max_items,
            max_parallel=block.block.max_parallel,
        )

    def _check_cycles(self, lists: list[tuple[Unit, ...]]) -> None:
        for units in lists:
            by_id = {unit.id: unit for unit in units}
            told: set[frozenset[str]] = set()
            for unit in units:
                cycle = _cycle_from(unit.id, by_id)
                if cycle and frozenset(cycle) not in told:
                    told.add(frozenset(cycle))
                    shown = " -> ".join([*cycle, cycle[0]])
                    first = by_id[cycle[0]]
                    path = f"{first.path}.dependencies"
                    self.fault(path, "cycle", f"these wait for each other: {shown}", "take one dependency out")


def _cycle_from(start: str, units: dict[str, Unit]) -> list[str]:
    """The shortest way from a unit back to itself."""
    ways: list[list[str]] = [[start]]
    seen: set[str] = set()
    while ways:
        way = ways.pop(0)
        for id_ in units[way[-1]].waits:
            if id_ == start:
                return way
            if id_ not in seen:
                seen.add(id_)
                ways.append([*way, id_])
    return []


def _closure(ids: set[str], needed: dict[str, set[str]]) -> set[str]:
    """These, and all that depend on them."""
    while more := {id_ for id_, needs in needed.items() if needs & ids} - ids:
        ids = ids | more
    return ids


def _all(units: Iterable[Unit]) -> Iterator[Unit]:
    for unit in units:
        yield unit
        if isinstance(unit, LoopUnit):
            yield from _all(unit.body)


def _of_item(condition: str) -> bool:
    """Whether a condition speaks of the item, so that it is told anew for each."""
    try:
        return parse_condition(condition).left.kind != "result"
    except BadText:
        return False


def _result_names(text: str) -> list[str]:
    """The results that a text refers to, as it writes them."""
    try:
        return [one.name or "" for one in references_of(text) if one.kind == "result"]
    except BadText:
        return []


def _is_json_list(text: str) -> bool:
    try:
        return isinstance(read_json(text), list)
    except NoJson:
        return False


def _unique(ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(ids))


__all__ = ["Fault", "Layout", "LoopUnit", "StepUnit", "Unit", "asks", "laid_out", "spelled_id"]

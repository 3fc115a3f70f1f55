"""A compiled plan: its steps and loops as they run, with all that they wait for. `compile` makes it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.blueprint.kinds.plan_body import PlanLoop, PlanStep
from holdfast.blueprint.plan.conditions import Condition
from holdfast.blueprint.plan.references import whole_reference


class Fault(NamedTuple):
    """A mistake in a plan: its path in the plan, and the way out."""

    path: str
    code: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A step or a loop."""

    id: str
    path: str
    """The path in the plan: `steps[2]`, `loop_blocks.events`."""
    place: int
    """The place in the order of the plan."""
    needs: tuple[str, ...] = ()
    """The units, in any list, whose outcome decides whether this one runs."""
    waits: tuple[str, ...] = ()
    """The units of the same list that must be over before, also for the sake of what is inside one of the two."""
    condition: Condition | None = None


@dataclass(frozen=True, kw_only=True)
class StepUnit(Unit):
    """A step."""

    step: PlanStep


@dataclass(frozen=True, kw_only=True)
class LoopUnit(Unit):
    """A loop: its body runs once for each item."""

    block: PlanLoop
    """What an entry of `loop_blocks` says of it, whichever way it is written."""
    body: tuple[Unit, ...] = ()


@dataclass(frozen=True)
class Layout:
    """A whole plan; `units` are those outside every loop."""

    units: tuple[Unit, ...] = ()
    loop_of: dict[str, str] = field(default_factory=dict)
    """The loop that a unit is in, by the id of the unit."""
    units_by_id: dict[str, Unit] = field(default_factory=dict)

    def find(self, name: str) -> Unit | None:
        """Return the unit of an id, which may be written with or without `step_`."""
        id_ = known_id(name, self.units_by_id)
        return None if id_ is None else self.units_by_id[id_]

    def loops_of(self, id_: str) -> list[str]:
        """Return the loops around a unit, the outermost first."""
        return loops_around(id_, self.loop_of)[::-1]

    def feeds_loop(self, id_: str) -> bool:
        """Return whether a loop goes through what a step gives: then a list is wanted of it."""
        around = self.loops_of(id_)  # seen from outside them, the results of the step are a list already
        return any(
            self.goes_through(loop, id_) and around == self.loops_of(loop.id)[: len(around)] for loop in self.loops()
        )

    def goes_through(self, loop: LoopUnit, id_: str) -> bool:
        """Return whether the items of a loop are the result of this unit."""
        reference = whole_reference(loop.block.over) if isinstance(loop.block.over, str) else None
        return (
            reference is not None and reference.kind == "result" and known_id(reference.name, self.units_by_id) == id_
        )

    def steps(self) -> list[StepUnit]:
        """Return every step in the order of the plan."""
        steps = [unit for unit in self.units_by_id.values() if isinstance(unit, StepUnit)]
        return sorted(steps, key=lambda unit: unit.place)

    def loops(self) -> list[LoopUnit]:
        return [unit for unit in self.units_by_id.values() if isinstance(unit, LoopUnit)]


def with_bodies(units: Iterable[Unit]) -> Iterator[Unit]:
    """Yield units and all that is inside them."""
    for unit in units:
        yield unit
        if isinstance(unit, LoopUnit):
            yield from with_bodies(unit.body)


def loops_around(id_: str, loop_of: dict[str, str]) -> list[str]:
    """Return the loops around a unit, the innermost first."""
    around: list[str] = []
    while (id_ := loop_of.get(id_, "")) and id_ not in around:
        around.append(id_)
    return around


def known_id(name: str | None, ids: Container[str]) -> str | None:
    """Return the known id that is meant: itself, else the one that differs by `step_` in front.

    >>> known_id("step_2", ["1", "2"]), known_id("2", ["step_2"]), known_id("3", ["1"])
    ('2', 'step_2', None)
    """
    if name is None or name in ids:
        return name
    others = [other for other in (f"step_{name}", name.removeprefix("step_")) if other in ids]
    return others[0] if len(others) == 1 else None

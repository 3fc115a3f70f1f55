"""A compiled plan: its steps and loops as they run, with all that they wait for. `compile` makes it."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds.plan_body import PlanLoop, PlanStep
from holdfast.blueprint.plan.answers import asks, confirms, question_text
from holdfast.blueprint.plan.conditions import Condition
from holdfast.blueprint.plan.references import Reference, make_template
from holdfast.blueprint.words.text import one_line

LONGEST_DESCRIPTION = 100


class Fault(NamedTuple):
    """A mistake in a plan: its path in the plan, and the way out."""

    path: str
    code: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, kw_only=True)
class _PlanUnit:
    """What a step and a loop have in common."""

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
    around: tuple[str, ...] = ()
    """The loops around it, the outermost first."""


@dataclass(frozen=True, kw_only=True)
class StepUnit(_PlanUnit):
    """A step."""

    step: PlanStep

    @property
    def description(self) -> str:
        """What it does, in one short line for people: its title, else what is to be done, or its tools."""
        step = self.step
        return one_line(step.title or question_text(step.instruction) or ", ".join(step.tools), LONGEST_DESCRIPTION)


@dataclass(frozen=True, kw_only=True)
class LoopUnit(_PlanUnit):
    """A loop: its body runs once for each item."""

    block: PlanLoop
    """What an entry of `loop_blocks` says of it, whichever way it is written."""
    source: str | None = None
    """The unit whose result the items are."""
    body: tuple[Unit, ...] = ()

    @property
    def description(self) -> str:
        """What it does, in one short line for people."""
        return one_line(f"for each of {write_text(self.block.over)}", LONGEST_DESCRIPTION)


Unit = StepUnit | LoopUnit


@dataclass(frozen=True)
class Layout:
    """A whole plan; `units` are those outside every loop."""

    units: tuple[Unit, ...] = ()

    @cached_property
    def units_by_id(self) -> dict[str, Unit]:
        return {unit.id: unit for unit in with_bodies(self.units)}

    def find(self, name: str) -> Unit | None:
        """Return the unit of an id, which may be written with or without `step_`."""
        id_ = known_id(name, self.units_by_id)
        return None if id_ is None else self.units_by_id[id_]

    def list_loops(self, id_: str) -> tuple[str, ...]:
        """Return the loops around a unit, the outermost first."""
        return self.units_by_id[id_].around

    def feeds_loop(self, id_: str) -> bool:
        """Return whether a loop goes through what a step gives: then a list is wanted of it."""
        around = self.list_loops(id_)  # seen from outside them, the results of the step are a list already
        return any(loop.source == id_ and around == loop.around[: len(around)] for loop in self.loops())

    def list_gates(self, unit: Unit) -> list[str]:
        """Return the confirmations that a unit depends on: it is skipped unless a person says yes to each.

        The one that its condition looks at is judged by that.
        """
        named = unit.step if isinstance(unit, StepUnit) else unit.block
        found = [self.find(name) for name in named.dependencies]
        judged = unit.condition.left if unit.condition is not None else None
        asked = judged.name if judged is not None and judged.kind == "result" else None
        confirmed = [one.id for one in found if isinstance(one, StepUnit) and confirms(one.step)]
        return [id_ for id_ in confirmed if id_ != asked]

    # What a unit reads, in the scope of its list: the ordinary names `steps`, `item` and `index`; `loops` has by id the
    # `item` and the `index` of each loop around.

    def write_template(self, value: JSON, unit: Unit) -> JSON:
        """Return the template of a unit's text, or of all texts in a list or an object."""
        match value:
            case str():
                return make_template(value, lambda reference: self._write_name(reference, unit))
            case list():
                return [self.write_template(part, unit) for part in value]
            case dict():
                return {key: self.write_template(part, unit) for key, part in value.items()}
        return value

    def write_condition(self, condition: Condition, unit: Unit) -> str:
        """Return the expression of a unit's condition; a question's answer is compared by its outcome, too."""
        left = self.find(condition.left.name or "")
        answered = isinstance(left, StepUnit) and asks(left.step)
        return condition.write(self._write_name(condition.left, unit, "answer" if answered else "output"))

    def _write_name(self, reference: Reference, unit: Unit, field: str = "output") -> str:
        """Return the expression of a reference; `field`: what of a step it means."""
        if reference.kind == "result":
            step = self.find(reference.name or "")
            assert step is not None, reference
            return f"steps[{json.dumps(step.id)}].{field}"
        loop = known_id(reference.name, unit.around)
        return reference.kind if loop in (None, unit.around[-1]) else f"loops[{json.dumps(loop)}].{reference.kind}"

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


def in_running_order(units: Iterable[Unit]) -> Iterator[Unit]:
    """Yield units in the order in which they run if one runs at a time."""
    remaining = list(units)
    ids, ended = {unit.id for unit in remaining}, set[str]()
    while remaining:
        unit = next((unit for unit in remaining if ended >= ids & set(unit.waits)), remaining[0])
        remaining.remove(unit)
        ended.add(unit.id)
        yield unit


def known_id(name: str | None, ids: Container[str]) -> str | None:
    """Return the known id that is meant: itself, else the one that differs by `step_` in front.

    >>> known_id("step_2", ["1", "2"]), known_id("2", ["step_2"]), known_id("3", ["1"])
    ('2', 'step_2', None)
    """
    if name is None or name in ids:
        return name
    others = [other for other in (f"step_{name}", name.removeprefix("step_")) if other in ids]
    return others[0] if len(others) == 1 else None

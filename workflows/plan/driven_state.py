"""Where a plan stands that an agent drives: its results, the loops that are active, and what a step's name means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.plan import Layout, LoopUnit, StepUnit, Unit
from holdfast.protocol.address import Address, within
from holdfast.protocol.plans import ActiveLoop, ItemOf, Iteration, LoopOutcome, PlanProgress, StepResult
from holdfast.workflows.plan.definitions import layout_of
from holdfast.workflows.plan.scope import PlanScope

NOTHING_DONE = PlanProgress()
_KEY = re.compile(r"(?P<loop>[A-Za-z0-9_]+?)_iter_(?P<index>\d+)_(?P<rest>.+)")


class ControlError(Exception):
    """A control call that cannot be done: what is wrong, and what to do instead."""

    def __init__(self, type_: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.told = {"type": type_, "message": message, **more}


class LocatedStep(NamedTuple):
    """A step, and the list that it stands in now."""

    unit: StepUnit
    scope: PlanScope


@dataclass
class LoopAt:
    """A loop that is active."""

    unit: LoopUnit
    items: list[Any]
    index: int
    done: list[Iteration]
    scope: PlanScope = field(init=False)

    def context(self, **more: Any) -> dict[str, Any]:
        return {
            "loop_id": self.unit.id,
            "total_iterations": len(self.items),
            "current_iteration": self.index,
            "current_item": self.items[self.index],
            "should_continue": True,
            "items_remaining": len(self.items) - self.index - 1,
            **more,
        }


class DrivenPlan:
    """The state of a driven plan; it can be handed to another workflow, and taken up there."""

    def __init__(self, plan: PlanBody, standing: PlanProgress, address: Address) -> None:
        self.address = address
        self.plan, self.layout = plan, layout_of(plan)
        self.root = PlanScope(self.layout, self.layout.units, steps=dict(standing.steps), loops=dict(standing.loops))
        self.active: dict[str, LoopAt] = {}
        self.vars, self.found, self.missing = dict(standing.vars), list(standing.found), list(standing.missing)
        for id_, loop in standing.active.items():
            at = self._activate(id_, loop.items, loop.index, list(loop.done))
            at.scope.steps, at.scope.loops = dict(loop.steps), dict(loop.loops)

    def standing(self) -> PlanProgress:
        active = {
            id_: ActiveLoop(
                items=at.items, index=at.index, done=at.done, steps=dict(at.scope.steps), loops=dict(at.scope.loops)
            )
            for id_, at in self.active.items()
        }
        return PlanProgress(
            steps=dict(self.root.steps),
            loops=dict(self.root.loops),
            active=active,
            vars=self.vars,
            found=self.found,
            missing=self.missing,
        )

    def revise(self, plan: PlanBody) -> None:
        """Go on with another plan; what has begun is the same in it."""
        self.plan, self.layout = plan, layout_of(plan)
        self.root.layout, self.root.units = self.layout, self.layout.units
        for at in self.active.values():
            at.unit = self._loop(at.unit.id)
            at.scope.layout, at.scope.units = self.layout, at.unit.body

    # Loops

    def start(self, unit: LoopUnit, items: list[Any]) -> LoopAt:
        return self._activate(unit.id, items, 0, [])

    def next_item(self, at: LoopAt, index: int, done: PlanProgress = NOTHING_DONE) -> None:
        """Go to an item, with nothing done for it yet but this."""
        at.index = index
        at.scope = self._scope_at(at)
        at.scope.steps, at.scope.loops = dict(done.steps), dict(done.loops)

    def change_item(self, at: LoopAt, item: Any) -> None:
        """Put another item into the place of the current one, and begin it anew."""
        at.items = [*at.items[: at.index], item, *at.items[at.index + 1 :]]
        self.next_item(at, at.index)

    def end(self, at: LoopAt, outcome: LoopOutcome) -> None:
        del self.active[at.unit.id]
        self.scope_around(at.unit.id).loops[at.unit.id] = outcome

    def _activate(self, id_: str, items: list[Any], index: int, done: list[Iteration]) -> LoopAt:
        at = LoopAt(self._loop(id_), items, index, done)
        at.scope = self._scope_at(at)
        self.active[id_] = at
        return at

    def _scope_at(self, at: LoopAt) -> PlanScope:
        outer = self.scope_around(at.unit.id)
        around = [*outer.around, ItemOf(loop=at.unit.id, item=at.items[at.index], index=at.index)]
        return PlanScope(self.layout, at.unit.body, around=around, outer=outer)

    def _loop(self, id_: str) -> LoopUnit:
        unit = self.layout.units_by_id[id_]
        assert isinstance(unit, LoopUnit)
        return unit

    def scopes(self) -> Iterator[PlanScope]:
        """Every list that is under way, the innermost last."""
        yield self.root
        for at in sorted(self.active.values(), key=lambda at: len(at.scope.around)):
            yield at.scope

    def scope_around(self, id_: str) -> PlanScope:
        """The list that a unit stands in now. Raises `ControlError` where its loop is not active."""
        loops = self.layout.loops_of(id_)
        if not loops:
            return self.root
        self._check_active(id_, loops)
        return self.active[loops[-1]].scope

    def _check_active(self, id_: str, loops: list[str]) -> None:
        outer = self.root
        for loop in loops:
            if loop in outer.loops:
                raise ControlError(
                    "loop_over", f"the loop {loop!r} is over ({outer.loops[loop].status}), and {id_!r} with it"
                )
            if loop not in self.active:
                text = f"{id_!r} stands in the loop {loop!r}, which is not active: call start_loop first"
                raise ControlError("loop_not_active", text, loop_id=loop)
            outer = self.active[loop].scope

    def address_of(self, scope: PlanScope) -> Address:
        """Where the steps of a list stand: iterations count from 1."""
        address = self.address
        for at in scope.around:
            address = within(address, "loop", at.loop, at.index + 1)
        return address

    # Names

    def loop_named(self, written: str) -> LoopUnit:
        unit = self.layout.find(written)
        if not isinstance(unit, LoopUnit):
            known = ", ".join(loop.id for loop in self.layout.loops()) or "none"
            raise ControlError("unknown_loop", f"there is no loop {written!r}; loops: {known}")
        return unit

    def step_named(self, written: str) -> LocatedStep:
        """The step that an id means: of the current iteration, or `events_iter_0_step_4` of that one."""
        id_, indices = _split(written, self.layout)
        unit = self._step(written, id_)
        scope = self.scope_around(unit.id)
        for loop, index in indices:
            self._check_current(written, loop, index)
        return LocatedStep(unit, scope)

    def _step(self, written: str, id_: str) -> StepUnit:
        unit: Unit | None = self.layout.find(id_)
        if isinstance(unit, LoopUnit):
            text = f"{written!r} is a loop: start_loop begins it, advance_loop goes to its next item and ends it"
            raise ControlError("not_a_step", text)
        if not isinstance(unit, StepUnit):
            known = ", ".join(step.id for step in self.layout.steps())
            raise ControlError("unknown_step", f"there is no step {written!r}; steps: {known}")
        return unit

    def _check_current(self, written: str, loop: str, index: int) -> None:
        at = self.active.get(self.loop_named(loop).id)
        if at is None or at.index != index:
            now = "not active" if at is None else f"at iteration {at.index}"
            raise ControlError(
                "other_iteration", f"{written!r}: the loop {loop!r} is {now}; only that iteration can be worked on"
            )

    # What is left

    def next_units(self) -> list[tuple[Unit, PlanScope]]:
        """What may be worked on now, the innermost list first, in the order of the plan."""
        found = []
        for scope in reversed(list(self.scopes())):
            for unit in scope.units:
                under_way = unit.id in scope.steps and scope.steps[unit.id].status in ("running", "waiting_input")
                waits = unit in scope.pending() and unit.id not in self.active
                if under_way or (waits and scope.verdict(unit) == "run"):
                    found.append((unit, scope))
        return found

    def current(self) -> str | None:
        """The step under way, else the step or loop that is next; None when nothing can be worked on."""
        units = self.next_units()
        begun = [unit.id for unit, scope in units if unit.id in scope.steps]
        return next(iter(begun or [unit.id for unit, _ in units]), None)

    def told_next(self) -> str:
        """What to do next, in words."""
        complete = [at for at in self.active.values() if at.scope.all_over()]
        if complete:
            return f"call advance_loop for {complete[-1].unit.id}"
        words = [
            f"start_loop {unit.id}" if isinstance(unit, LoopUnit) else f"step {unit.id}"
            for unit, _ in self.next_units()
        ]
        return f"next: {', '.join(words)}" if words else "nothing is left"

    def told_steps(self) -> dict[str, StepResult]:
        """Every step: one of an active loop as it stands in the current iteration."""
        told = self.root.told_steps()
        for at in self.active.values():
            for unit in at.unit.body:
                if isinstance(unit, StepUnit):
                    told[unit.id] = at.scope.steps.get(unit.id, StepResult(status="pending"))
        return told

    def result_of(self, scope: PlanScope, id_: str) -> StepResult:
        return scope.steps.get(id_, StepResult(status="pending"))

    def record(self, found: LocatedStep, **changes: Any) -> StepResult:
        """Change what is known of a step under way."""
        before = self.result_of(found.scope, found.unit.id)
        now = before.model_copy(update={"status": "running", **changes})
        found.scope.steps[found.unit.id] = now
        return now


def _split(written: str, layout: Layout) -> tuple[str, list[tuple[str, int]]]:
    """An id, and the iterations that stand before it: `outer_iter_0_inner_iter_1_step_4`."""
    indices: list[tuple[str, int]] = []
    rest = written
    while layout.find(rest) is None and (match := _KEY.fullmatch(rest)) is not None:
        indices.append((match["loop"], int(match["index"])))
        rest = match["rest"]
    return rest, indices

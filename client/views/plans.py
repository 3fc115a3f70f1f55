"""A plan of a run as everybody shows it, with the state of each of its steps. `RunPlans.read` gives it.

It combines two sources: what the workflow that holds the plan says, and the plan's part of the run, which knows about
open questions, the items of loops, and how a run was ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.plan.compile import compile_plan
from holdfast.blueprint.plan.layout import Layout, LoopUnit, StepUnit, Unit
from holdfast.client.views.steps import GroupView, StepError, StepView
from holdfast.protocol.plans import OVER, PlanSnapshot, UnitResult

PENDING = "pending"
NOT_BEGUN = UnitResult(status="pending")
CONFIRM_PLAN = ";hitl:confirm-plan"
"""The end of the address of the question whether a plan is approved."""


@dataclass(frozen=True)
class UnitView:
    """The state of a step or a loop of a plan, with its result, or why it has none."""

    status: str = PENDING
    result: object = None
    """For a step."""
    error: StepError | None = None
    reason: str | None = None
    items: Sequence[ItemView] | None = None
    """For a loop: the items that have started; None for a step."""
    told: UnitResult | None = None
    """What the workflow says of it; None for a step in an item of a loop, which only the run knows."""

    @classmethod
    def read(cls, told: UnitResult) -> UnitView:
        """Return the view of what the workflow says of a step."""
        result = told.response if told.data is None else told.data
        return cls(told.status, result, _read_error(told), told.reason, told=told)

    def see(self, step: StepView | None) -> UnitView:
        """Return the view of a step that waits if a question is open in it."""
        return self if step is None or not step.open_questions else replace(self, status="waiting_input")

    def to_json(self) -> JSONObject:
        """Return the step or loop as `plan --json` prints it.

        >>> UnitView().to_json(), UnitView(items=()).to_json()
        ({'status': 'pending'}, {'status': 'pending', 'iteration_results': []})
        """
        if self.told is not None:
            return {**self.told.to_output(), "status": self.status}
        error = {} if self.error is None else {"error": self.error.to_json()}
        reason = {} if self.reason is None else {"reason": self.reason}
        own = {"status": self.status, **error, **reason}
        if self.items is not None:
            return {**own, "iteration_results": [item.to_json() for item in self.items]}
        return {**own, **({} if self.result is None else {"output": self.result})}


@dataclass(frozen=True)
class ItemView:
    """The state of an item of a loop, with those of its steps and inner loops by id."""

    index: int
    item: object
    status: str
    units: Mapping[str, UnitView]

    def to_json(self) -> JSONObject:
        """Return the item as `plan --json` prints it."""
        own = {"index": self.index, "item": self.item, "status": self.status}
        steps = {id_: unit for id_, unit in self.units.items() if unit.items is None}
        loops = {id_: unit for id_, unit in self.units.items() if unit.items is not None}
        return {**own, "steps": _write_units(steps), **({"loops": _write_units(loops)} if loops else {})}


@dataclass(frozen=True)
class PlanView:
    """A plan of a run: what the workflow that holds it says, and the step that follows it."""

    run: str
    snapshot: PlanSnapshot
    step: StepView

    @property
    def address(self) -> str:
        """The address of the step."""
        return self.step.address

    @property
    def layout(self) -> Layout:
        """The steps and loops in their order."""
        return compile_plan(PlanBody.model_validate(self.snapshot.plan))[0]

    @property
    def status(self) -> str:
        """The outcome of the plan, or `running` or `waiting` (not started)."""
        own = self.step.mark if self.step.mark in OVER else self.snapshot.status
        return self.step.outcome or own

    @property
    def is_over(self) -> bool:
        """True if the plan has ended."""
        return self.status not in ("running", "waiting")

    @property
    def asks_for_approval(self) -> bool:
        """True if a person is asked whether the plan is approved."""
        return any(question.address == f"{self.address}{CONFIRM_PLAN}" for question in self.step.open_questions)

    @property
    def note(self) -> str | None:
        """The remark that the plan completed and did nothing, if so."""
        return self.snapshot.note if self.status in ("completed", "completed_with_errors") else None

    def steps(self) -> dict[str, UnitView]:
        """Return the view of every step by its id; a step in a loop has one for all items."""
        layout, seen = self.layout, _find_units(self.step.steps)
        units: dict[str, UnitView] = {}
        for unit in layout.steps():
            told = self.snapshot.steps.get(unit.id, NOT_BEGUN)
            view = UnitView.read(told)
            loops = layout.list_loops(unit.id)
            loop = seen.get(loops[0]) if loops else None
            if loop is not None and view.status == PENDING and loop.status == "running":
                view = replace(view, status="running")
            step = seen.get(unit.id)
            if step is not None and self.is_over and view.status not in OVER:  # the run was ended
                view = replace(view, status=step.mark)
            units[unit.id] = view.see(step)
        return units

    def loops(self) -> dict[str, UnitView]:
        """Return the view of every outermost loop by its id, with the items that have started."""
        seen = _find_units(self.step.steps)
        units: dict[str, UnitView] = {}
        for unit in self.layout.units:
            if isinstance(unit, LoopUnit):
                told = self.snapshot.loops.get(unit.id, NOT_BEGUN)
                view = self._loop(unit, seen.get(unit.id))
                status = view.status if unit.id in seen else told.status
                error, reason = view.error or _read_error(told), view.reason or told.reason
                units[unit.id] = replace(view, status=status, error=error, reason=reason)
        return units

    def _loop(self, unit: LoopUnit, step: StepView | None) -> UnitView:
        if step is None:
            return UnitView(items=())
        items = {iteration.n: self._item(unit, iteration) for iteration in step.iterations}
        status = step.status
        if status == "completed" and step.output in OVER:  # the output of a loop is its status
            status = str(step.output)
        return UnitView(status, error=step.error, reason=step.reason, items=list(items.values()))

    def _item(self, unit: LoopUnit, iteration: GroupView) -> ItemView:
        seen = _find_units(iteration.steps)
        units = {part.id: self._part(part, seen.get(part.id)) for part in unit.body}
        status = _find_status(unit, units)
        if status == "running" and self.status in ("failed", "cancelled"):
            status = self.status
        return ItemView(iteration.n - 1, iteration.item, status, units)

    def _part(self, unit: Unit, step: StepView | None) -> UnitView:
        """Return the view of a step or a loop in an item, of which only the run knows."""
        if isinstance(unit, LoopUnit):
            return self._loop(unit, step)
        return UnitView() if step is None else UnitView(step.status, step.output, step.error, step.reason).see(step)

    def to_json(self) -> JSONObject:
        """Return the plan as `plan --json` prints it."""
        told = self.snapshot.model_dump(mode="json", include={"workflow", "revision", "goal", "driver", "plan"})
        own = {"status": self.status, "steps": _write_units(self.steps()), "loops": _write_units(self.loops())}
        revisions = [revision.model_dump(mode="json") for revision in self.snapshot.revisions]
        note = {} if self.note is None else {"note": self.note}
        plans = [plan.to_json() for plan in self.step.earlier_plans]
        earlier = {"earlier_plans": plans} if plans else {}
        return {"run": self.run, "address": self.address, **told, **own, "revisions": revisions, **earlier, **note}


def _find_units(steps: Iterable[StepView]) -> dict[str, StepView]:
    """Return steps and loops by their ids, without the tool calls beside them."""
    return {step.name: step for step in steps if step.kind != "tool"}


def _write_units(units: Mapping[str, UnitView]) -> JSONObject:
    return {id_: unit.to_json() for id_, unit in units.items()}


def _read_error(told: UnitResult) -> StepError | None:
    return (
        None
        if told.error is None
        else StepError(told.error["type"], told.error["message"], place=told.error.get("raised_at"))
    )


def _find_status(unit: LoopUnit, units: Mapping[str, UnitView]) -> str:
    """Return the status of an item whose steps and loops are so far as this."""
    optional = {part.id for part in unit.body if isinstance(part, StepUnit) and part.step.optional}
    statuses = {id_: view.status for id_, view in units.items()}
    if "cancelled" in statuses.values():
        return "cancelled"
    if any(status not in OVER for status in statuses.values()):
        return "running"
    has_failed = any(status == "failed" and id_ not in optional for id_, status in statuses.items())
    return "failed" if has_failed else "completed"

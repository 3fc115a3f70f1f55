"""Working off the units of a scope: what may run runs, what cannot is skipped, in the order of the plan."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from temporalio import workflow

from blueprint.grammar import PlanBody
from blueprint.plan import LoopUnit, StepUnit, Unit, asks
from protocol.plans import LoopOutcome, PlanLoopDefinition, PlanLoopResult, PlanLoopState
from workflows.failures import HANDLED, failure_of
from workflows.frame import Frame
from workflows.plan.desk import Desk
from workflows.plan.performing import perform
from workflows.plan.place import layout_of
from workflows.plan.scope import Fail, OverError, Scope, Skip, items_of
from workflows.together import end, is_cancelled

DefineLoop = Callable[[LoopUnit, Desk, list[Any]], tuple[PlanLoopDefinition, PlanLoopState]]


class Engine:
    """Runs the units of one scope, a workflow of its own for each loop among them."""

    def __init__(
        self,
        desk: Desk,
        define_loop: DefineLoop,
        *,
        at_once: int = 1,
        stopped: str = "",
        wants_rest: Callable[[], bool] = lambda: False,
    ) -> None:
        self.desk, self._define_loop, self._at_once, self._wants_rest = desk, define_loop, at_once, wants_rest
        self._running: dict[str, asyncio.Task[None]] = {}
        self.stopped = stopped
        """Why nothing more is started."""

    @property
    def running(self) -> list[str]:
        return list(self._running)

    @property
    def scope(self) -> Scope:
        return self.desk.scope

    def revise(self, plan: PlanBody) -> None:
        """Go on with another plan; what has begun is the same in it."""
        self.scope.layout = layout_of(plan)
        self.scope.units = self.scope.layout.units
        self.desk = replace(self.desk, plan=plan)
        self._at_once = plan.max_parallel

    async def run(self, between: Callable[[], Awaitable[None]] | None = None) -> None:
        """To the end of every unit. `between` is awaited whenever nothing is running."""
        try:
            while True:
                if between is not None and not self._running:
                    await between()
                self.settle()
                self._start()
                if not self._running:
                    return
                await workflow.wait(self._running.values(), return_when=asyncio.FIRST_COMPLETED)
                self._collect()
        except (asyncio.CancelledError, *HANDLED):
            await end(self._running.values())
            raise

    def settle(self) -> None:
        """Skip what cannot run, until nothing more follows."""
        for unit, verdict in self.scope.settle(self.stopped, self._running):
            tell_settled(unit, verdict, self.desk.frame)

    def _start(self) -> None:
        """Start what may run, as many at once as the plan allows; two that ask people never run at once."""
        scope = self.scope
        for unit in scope.pending():
            if self.stopped or len(self._running) >= self._at_once or (self._running and self._wants_rest()):
                return
            if unit.id in self._running or scope.verdict(unit) != "run":
                continue
            if self._running and self.desk.may_ask(unit) and any(self._asks_by_id(id_) for id_ in self._running):
                continue
            work = self._step(unit) if isinstance(unit, StepUnit) else self._loop(unit)
            self._running[unit.id] = asyncio.create_task(work)

    def _collect(self) -> None:
        for id_, task in [(id_, task) for id_, task in self._running.items() if task.done()]:
            del self._running[id_]
            task.result()
        if self.desk.plan.fail_fast and not self.scope.around and self._has_failed():
            self.stopped = "fail_fast"

    def _has_failed(self) -> bool:
        scope = self.scope
        return any(scope.is_over(unit.id) and scope.has_failed(unit) for unit in scope.units)

    async def _step(self, unit: StepUnit) -> None:
        result = await perform(unit, self.desk)
        self.scope.steps[unit.id] = result
        if result.status == "cancelled":
            self.stopped = "plan_cancelled"

    async def _loop(self, unit: Unit) -> None:
        assert isinstance(unit, LoopUnit)
        self.scope.loops[unit.id] = outcome = await self._outcome(unit)
        if outcome.status == "cancelled":
            self.stopped = "plan_cancelled"

    async def _outcome(self, unit: LoopUnit) -> LoopOutcome:
        """The loop's child to its end; that what it goes through is no list fails the loop, and nothing else."""
        here = self.desk.frame.at("loop", unit.id)
        here.note("step.started", name=unit.id, kind="loop")
        try:
            items = items_of(unit, self.scope)
        except OverError as error:
            here.note("step.failed", name=unit.id, kind="loop", error=error.type, message=str(error))
            return LoopOutcome(status="failed", error={"type": error.type, "message": str(error)})
        if not items:
            here.note("step.completed", name=unit.id, kind="loop", output=[])
            return LoopOutcome(status="completed", reason="empty_loop")
        definition, state = self._define_loop(unit, self.desk.at(here, self.scope), items)
        try:
            result: PlanLoopResult = await here.run_child(definition, state)
        except HANDLED as error:
            what = failure_of(error, here.address)
            if not is_cancelled(error):
                here.note("step.failed", name=unit.id, kind="loop", error=what.type, message=what.message)
            raise
        self._tell_end(unit, result.outcome)
        return result.outcome

    def _tell_end(self, unit: LoopUnit, outcome: LoopOutcome) -> None:
        here = self.desk.frame.at("loop", unit.id)
        if outcome.status == "failed" and outcome.error is not None:
            here.note(
                "step.failed", name=unit.id, kind="loop", error=outcome.error["type"], message=outcome.error["message"]
            )
        else:
            here.note("step.completed", name=unit.id, kind="loop", output=outcome.status)

    def _asks_by_id(self, id_: str) -> bool:
        return self.desk.may_ask(self.scope.layout.units_by_id[id_])


def tell_settled(unit: Unit, verdict: Skip | Fail, frame: Frame) -> None:
    """The event of a unit that did not run."""
    kind, id_ = segment_of(unit)
    here = frame.at(kind, id_)
    match verdict:
        case Skip(reason=reason):
            here.note("step.skipped", name=id_, kind=kind, reason=reason)
        case Fail(type=type_, message=message):
            here.note("step.failed", name=id_, kind=kind, error=type_, message=message)


def segment_of(unit: Unit) -> tuple[str, str]:
    """What an address calls it."""
    if isinstance(unit, LoopUnit):
        return "loop", unit.id
    assert isinstance(unit, StepUnit)
    return ("hitl" if asks(unit.step) else "step"), unit.id

"""Working off the units of a scope: what may run runs, what cannot is skipped, in the order of the plan."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from temporalio import workflow

from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.plan import LoopUnit, StepUnit, Unit
from holdfast.protocol.events import StepCompleted, StepFailed, StepStarted
from holdfast.protocol.plans import LoopOutcome, PlanLoopDefinition, PlanLoopResult, PlanLoopState, StepResult
from holdfast.workflows.concurrency import end, is_cancelled
from holdfast.workflows.failures import HANDLED, failure_of
from holdfast.workflows.plan.break_off import Ending, break_off, outcome_kept
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.definitions import layout_of
from holdfast.workflows.plan.items import CANCELLED, items_for
from holdfast.workflows.plan.scope import OverError, PlanScope
from holdfast.workflows.plan.step_runner import perform
from holdfast.workflows.plan.telling import tell_settled

DefineLoop = Callable[[LoopUnit, PlanContext, list[Any]], tuple[PlanLoopDefinition, PlanLoopState]]


class Scheduler:
    """Runs the units of one scope, a workflow of its own for each loop among them."""

    def __init__(
        self,
        desk: PlanContext,
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
    def scope(self) -> PlanScope:
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
        except (asyncio.CancelledError, *HANDLED) as error:
            await end(self._running.values())
            frame = self.desk.frame
            break_off(self.scope, frame, Ending.of(error, frame.address), self._running)
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
            task.result()
            del self._running[id_]
        if self.desk.plan.fail_fast and not self.scope.around and self._has_failed():
            self.stopped = "fail_fast"

    def _has_failed(self) -> bool:
        scope = self.scope
        return any(scope.is_over(unit.id) and scope.has_failed(unit) for unit in scope.units)

    async def _step(self, unit: StepUnit) -> None:
        self.scope.steps[unit.id] = StepResult(status="running")
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
        here.note(StepStarted(name=unit.id, kind="loop"))
        try:
            items = await items_for(unit, self.desk, here)
        except OverError as error:
            if error.type == CANCELLED:
                return LoopOutcome(status="cancelled", reason=CANCELLED)
            here.note(StepFailed(name=unit.id, kind="loop", error=error.type, message=str(error)))
            return LoopOutcome(status="failed", error={"type": error.type, "message": str(error)})
        if not items:
            here.note(StepCompleted(name=unit.id, kind="loop", output=[]))
            return LoopOutcome(status="completed", reason="empty_loop")
        definition, state = self._define_loop(unit, self.desk.at(here, self.scope), items)
        try:
            result: PlanLoopResult = await here.run_child(definition, state)
        except HANDLED as error:
            what = failure_of(error, here.address)
            if (reached := outcome_kept(what)) is not None:
                self.scope.loops[unit.id] = reached
            if not is_cancelled(error):
                here.note(StepFailed(name=unit.id, kind="loop", error=what.type, message=what.message))
            raise
        self._tell_end(unit, result.outcome)
        return result.outcome

    def _tell_end(self, unit: LoopUnit, outcome: LoopOutcome) -> None:
        here = self.desk.frame.at("loop", unit.id)
        if outcome.status == "failed" and outcome.error is not None:
            here.note(
                StepFailed(name=unit.id, kind="loop", error=outcome.error["type"], message=outcome.error["message"])
            )
        else:
            here.note(StepCompleted(name=unit.id, kind="loop", output=outcome.status))

    def _asks_by_id(self, id_: str) -> bool:
        return self.desk.may_ask(self.scope.layout.units_by_id[id_])

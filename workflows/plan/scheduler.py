"""The driver of a plan without an agent: starts what may run, in the order of the plan, and collects what has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from temporalio import workflow

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.plan import LoopUnit, StepUnit, Unit
from holdfast.protocol.events import StepFailed
from holdfast.protocol.plans import PlanDefinition, PlanLoopResult
from holdfast.workflows.concurrency import CancelledWithResult, is_cancelled
from holdfast.workflows.concurrency import end as end_tasks
from holdfast.workflows.failures import HANDLED, find_failure
from holdfast.workflows.plan.definitions import define_loop
from holdfast.workflows.plan.items import begin_loop
from holdfast.workflows.plan.results import Ending, result_in
from holdfast.workflows.plan.scope import PlanScope, StepRun
from holdfast.workflows.plan.state import PlanState
from holdfast.workflows.plan.step_runner import run_step
from holdfast.workflows.rest import await_rest


class Scheduler:
    """Runs the units of one scope; each loop among them in a child workflow.

    Args:
        state: The state, of which the root scope is run.
        definition: That of the workflow, for its children.
        wants_rest: Returns whether nothing more is to be started beside what is running.
    """

    def __init__(
        self, state: PlanState, definition: PlanDefinition, wants_rest: Callable[[], bool] = lambda: False
    ) -> None:
        self.state, self._definition, self._wants_rest = state, definition, wants_rest
        self._running: dict[str, asyncio.Task[None]] = {}
        self._below: set[str] = set()
        """The loops in workflows of their own: only these know their items, until they hand them over."""

    @property
    def scope(self) -> PlanScope:
        return self.state.root

    @property
    def _at_once(self) -> int:
        return 1 if self.scope.around else self.state.context.plan.max_parallel

    async def run(self, between: Callable[[], Awaitable[None]] | None = None) -> None:
        """Run every unit to its end; `between` is awaited whenever nothing is running."""
        try:
            while True:
                if between is not None and not self._running:
                    await between()
                self.state.settle()
                self._start()
                if not self._running:
                    return
                await workflow.wait(self._running.values(), return_when=asyncio.FIRST_COMPLETED)
                await await_rest(whole_task=True)  # only the task has the length of the history
                self._collect()
                if self._running and self.scope.was_cancelled():
                    await self._end(Ending("cancelled", "a person cancelled a question of the plan"))
        except (asyncio.CancelledError, *HANDLED) as error:
            await self._end(Ending.of(error, self.scope.frame.address))
            raise

    async def _end(self, ending: Ending) -> None:
        """End what is running, other questions too, and with it the list."""
        await end_tasks(self._running.values())
        self._running.clear()
        self.state.break_off(ending, unknown=self._below)

    def _start(self) -> None:
        """Start what may run, as many at once as the plan allows."""
        scope = self.scope
        for unit in scope.pending():
            if self._is_full() or self.state.stopped(scope):
                return
            if scope.readiness(unit) == "run":
                # Here, not in its task, which may wait for the end of a pause first: the unit would be found pending
                # once more.
                scope.mark(unit)
                self._running[unit.id] = asyncio.create_task(self._run(unit))

    def _is_full(self) -> bool:
        return len(self._running) >= self._at_once or (bool(self._running) and self._wants_rest())

    def _collect(self) -> None:
        for id_, task in [(id_, task) for id_, task in self._running.items() if task.done()]:
            task.result()
            del self._running[id_]

    async def _run(self, unit: Unit) -> None:
        if isinstance(unit, StepUnit):
            await run_step(StepRun(unit, self.scope))
        elif isinstance(unit, LoopUnit) and (items := await begin_loop(unit, self.scope)):
            await self._run_loop(unit, items)

    async def _run_loop(self, unit: LoopUnit, items: list[JSON]) -> None:
        """Run a loop's child workflow, and take its outcome, also out of a failure."""
        frame = self.scope.at(unit)
        self._below.add(unit.id)
        try:
            end: PlanLoopResult = await frame.run_child(*define_loop(self._definition, unit, self.scope, items))
        except CancelledWithResult as cancelled:
            self.scope.close(unit, cancelled.result.result)
            raise
        except HANDLED as error:
            cause = find_failure(error, frame.address)
            if not is_cancelled(error):
                frame.note(StepFailed(name=unit.id, kind="loop", error=cause.type, message=cause.message))
            if (result := result_in(cause)) is not None:
                self.scope.close(unit, result)
            raise
        self.scope.finish(unit, end.result)

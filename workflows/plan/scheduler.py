"""The driver of a plan without an agent: starts what may run, in the order of the plan, and collects what has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.plan.layout import LoopUnit, StepUnit, Unit
from holdfast.protocol.events import StepFailed
from holdfast.protocol.plans import PlanDefinition, PlanLoopResult
from holdfast.workflows.concurrency import CancelledWithFailure, CancelledWithResult, end, is_cancelled
from holdfast.workflows.dependents import run_dependents
from holdfast.workflows.failures import HANDLED, find_failure
from holdfast.workflows.plan.definitions import define_loop
from holdfast.workflows.plan.items import begin_loop
from holdfast.workflows.plan.results import Ending, result_in
from holdfast.workflows.plan.scope import PlanScope
from holdfast.workflows.plan.state import PlanState
from holdfast.workflows.plan.step_run import StepRun
from holdfast.workflows.plan.units import run_unit
from holdfast.workflows.rest import await_rest


class Scheduler:
    """Runs the units of one scope; each loop among them in a child workflow.

    Args:
        state: The state, of which the root scope is run.
        definition: That of the workflow, for its children.
        between: Is awaited whenever nothing is running.
        wants_rest: Returns whether nothing more is to be started beside what is running.
    """

    def __init__(
        self,
        state: PlanState,
        definition: PlanDefinition,
        between: Callable[[], Awaitable[None]] | None = None,
        wants_rest: Callable[[], bool] = lambda: False,
    ) -> None:
        self.state, self._definition = state, definition
        self._between, self._wants_rest = between, wants_rest
        self._below: set[str] = set()
        """The loops in workflows of their own: only these know their items, until they hand them over."""

    @property
    def scope(self) -> PlanScope:
        return self.state.root

    @property
    def _at_once(self) -> int:
        return 1 if self.scope.around else self.state.context.plan.max_parallel

    async def run(self) -> None:
        """Run every unit to its end."""
        try:
            await run_dependents(self)
        except (asyncio.CancelledError, *HANDLED) as error:
            self.state.break_off(Ending.of(error, self.scope.frame.address), unknown=self._below)
            raise

    async def prepare(self) -> None:
        """See `Dependents`."""
        if self._between is not None:
            await self._between()

    def start(self, running: dict[str, asyncio.Task[None]]) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """See `Dependents`: as many at once as the plan allows."""
        self.state.settle()
        for unit in self.scope.list_pending():
            if self._is_full(running) or self.state.find_stop_reason(self.scope):
                return
            if self.scope.readiness(unit) == "run":
                # Here, not in its task, which may wait for the end of a pause first: the unit would be found pending
                # once more.
                self.scope.mark(unit)
                yield unit.id, self._run(unit)

    def _is_full(self, running: dict[str, asyncio.Task[None]]) -> bool:
        return len(running) >= self._at_once or (bool(running) and self._wants_rest())

    async def collect(self, running: dict[str, asyncio.Task[None]]) -> None:
        """See `Dependents`: a cancelled question ends all others, and with them the list."""
        await await_rest(whole_task=True)  # only the task has the length of the history
        for id_ in [id_ for id_, task in running.items() if task.done()]:
            running.pop(id_).result()
        if running and self.scope.was_cancelled():
            await end(running.values())
            running.clear()
            ending = Ending("cancelled", "a person cancelled a question of the plan")
            self.state.break_off(ending, unknown=self._below)

    async def _run(self, unit: Unit) -> None:
        if isinstance(unit, StepUnit):
            await run_unit(StepRun(unit, self.scope))
        elif isinstance(unit, LoopUnit) and (items := await begin_loop(unit, self.scope)):
            await self._run_loop(unit, items)

    async def _run_loop(self, unit: LoopUnit, items: list[JSON]) -> None:
        """Run a loop's child workflow, and take its outcome, also out of a failure."""
        frame = self.scope.at(unit)
        self._below.add(unit.id)
        try:
            loop: PlanLoopResult = await frame.run_child(*define_loop(self._definition, unit, self.scope, items))
        except CancelledWithResult as cancelled:
            self.scope.close(unit, cancelled.result.result)
            raise
        except CancelledWithFailure as cancelled:
            if (result := result_in(find_failure(cancelled.error, frame.address))) is not None:
                self.scope.close(unit, result)
            raise
        except HANDLED as error:
            cause = find_failure(error, frame.address)
            if not is_cancelled(error):
                frame.note(StepFailed(name=unit.id, kind="loop", error=cause.type, message=cause.message))
            if (result := result_in(cause)) is not None:
                self.scope.close(unit, result)
            raise
        self.scope.finish(unit, loop.result)

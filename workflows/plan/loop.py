"""The workflow of one loop of a plan under the scheduler: the loop's steps for every item, in a history of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any

from temporalio import workflow

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.address import Address
from holdfast.protocol.events import LoopCompleted
from holdfast.protocol.names import PLAN_LOOP_WORKFLOW, PLAN_OUTPUT
from holdfast.protocol.past import Past
from holdfast.protocol.plans import Iteration, PlanLoopDefinition, PlanLoopResult, PlanLoopState, UnitResult
from holdfast.workflows.concurrency import end
from holdfast.workflows.dependents import run_dependents
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.definitions import make_frame
from holdfast.workflows.plan.items import after_item
from holdfast.workflows.plan.results import (
    Ending,
    drop_values,
    ended_early,
    failure_output,
    loop_result,
    shorten_calls,
    unfinished_loop,
)
from holdfast.workflows.plan.scheduler import Scheduler
from holdfast.workflows.plan.scope import ItemScope, PlanScope
from holdfast.workflows.plan.state import PlanState
from holdfast.workflows.rest import await_rest
from holdfast.workflows.run import RunWorkflow
from holdfast.workflows.sizes import can_be_sent


@workflow.defn(name=PLAN_LOOP_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
class PlanLoopWorkflow(RunWorkflow):
    """The items of one loop."""

    definition: PlanLoopDefinition
    state: PlanLoopState

    @workflow.init
    def __init__(self, definition: PlanLoopDefinition, state: PlanLoopState) -> None:
        task, approved = definition.origin.task, definition.approved
        author = definition.author
        context = PlanContext(definition.plan or author, author, definition.blueprint, task, approved=approved)
        loop = context.loop(definition.loop)
        self.at_once = loop.block.max_parallel
        super().__init__(definition, state, definition.history_limits.rounds)
        self.plan_context, self.loop = context, loop
        self._at_work: dict[int, ItemScope] = {}
        """The scopes of the items that are not done yet, in their order."""
        self._over: dict[int, Iteration] = {}
        """Those of them that are over, and wait for one before them."""

    def current_context(self) -> JSONObject:
        return {"loop": self.loop.id, "items": len(self.definition.items), "done": len(self.state.done)}

    @workflow.run
    async def run(self, definition: PlanLoopDefinition, state: PlanLoopState) -> PlanLoopResult:
        result = await self.run_to_result(self._work(), self._make_result)
        return self._make_cancelled() if result is None else result

    def _make_result(self, result: UnitResult) -> PlanLoopResult:
        return PlanLoopResult(result=result, **self.collect_result())

    def _make_cancelled(self) -> PlanLoopResult:
        """Return the items of a loop that was cancelled; of many without the values."""
        result = self._make_result(self._broken_off(Ending.of_cancel()))
        if can_be_sent(result, self.host.identity.history_limits.value):
            return result
        return result.model_copy(update={"result": drop_values(result.result)})

    def list_failure_fields(self, error: BaseException) -> dict[str, Any]:
        """See base class: the result, with the items so far."""
        return {"output": failure_output(self._broken_off(Ending.of(error, self.address)))}

    def _broken_off(self, ending: Ending) -> UnitResult:
        """Return the result of a loop that ends before its items, with those so far."""
        items = [self._over.get(index) or scope.iteration(ending.status) for index, scope in self._at_work.items()]
        return unfinished_loop(self.loop, ending, [*self.state.done, *items])

    @workflow.query(name=PLAN_OUTPUT, description="Null: the plan's own workflow has its output.")
    def plan_output(self) -> None:
        return None

    async def _work(self) -> UnitResult:
        await run_dependents(self)
        return loop_result(self.loop, shorten_calls(self.state.done), len(self.definition.items))

    def list_unmet(self) -> Past | None:
        """See base class: a loop that failed by its items is gone through from where the first failed."""
        return self.host.earlier.hand_over(self.address)

    def collect_state(self) -> dict[str, Any]:
        """See base class."""
        return {"done": shorten_calls(self.state.done)}

    def on_success(self, output: UnitResult) -> None:
        """See base class."""
        self.host.note(self.address, LoopCompleted(reason=output.status, iterations=len(self.state.done)))

    async def prepare(self) -> None:
        """See `Dependents`."""
        if self._has_more():
            await self.next_round()

    def start(self, running: dict[str, asyncio.Task[None]]) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """See `Dependents`: as many items at once as the loop allows."""
        while self._has_more() and len(running) < self.at_once:
            if running:
                if self.host.history.is_long:
                    return
                self.host.history.add_round()
            index = self._next_index()
            scope = self._at_work[index] = self._scope(index)
            yield str(index), self._item(scope)

    async def collect(self, running: dict[str, asyncio.Task[None]]) -> None:
        """See `Dependents`: a cancelled question ends the items beside its own."""
        await await_rest(whole_task=True)  # only the task has the length of the history
        for index in [index for index, task in running.items() if task.done()]:
            running.pop(index).result()
        if any(iteration.status == "cancelled" for iteration in self._over.values()):
            await end(running.values())
            running.clear()
            ended = {index: scope.iteration("cancelled") for index, scope in self._at_work.items()}
            self._over = {**ended, **self._over}
        done = list(self.state.done)
        while (first := len(done)) in self._over:
            done.append(self._over.pop(first))
            del self._at_work[first]
        self.advance(done=done)

    def _next_index(self) -> int:
        return len(self.state.done) + len(self._at_work)

    def _has_more(self) -> bool:
        """Return whether an item is still to begin: the last ones may have ended the loop."""
        last = [*self.state.done[-self.at_once :], *self._over.values()]
        return self._next_index() < len(self.definition.items) and not ended_early(self.loop, last)

    async def _item(self, scope: ItemScope) -> None:
        """Run the steps for one item, again as long as a person wants that."""
        await self.host.until_resumed()
        over = None
        while over is None:
            self.host.progress.iteration = scope.frame.iteration
            scope.begin()
            await Scheduler(PlanState(scope), self.definition).run()
            over = await after_item(scope)
        self._over[scope.item.index] = over

    def _frame(self) -> Frame:
        """Return the frame of the list that the loop stands in."""
        parent, _, _ = self.address.rpartition(";")
        return replace(make_frame(self, self.definition), address=Address(parent))

    def _scope(self, index: int) -> ItemScope:
        definition = self.definition
        counts = self.request_counts.item(index) if self.at_once > 1 else self.request_counts
        frame = replace(self._frame(), request_counts=counts)
        outer = PlanScope(self.plan_context, frame, definition.around, results=definition.known)
        return outer.item_scope(self.loop, definition.items, index)

"""The workflow of one loop of a plan under the scheduler: the loop's steps for every item, in a history of its own."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from temporalio import workflow

from holdfast.blueprint.expressions import ExpressionError
from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.address import Address
from holdfast.protocol.events import LoopCompleted
from holdfast.protocol.plans import (
    PLAN_LOOP_WORKFLOW,
    PLAN_OUTPUT,
    Iteration,
    PlanLoopDefinition,
    PlanLoopResult,
    PlanLoopState,
    UnitResult,
)
from holdfast.workflows.concurrency import run_together
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.definitions import frame_of
from holdfast.workflows.plan.items import after_item
from holdfast.workflows.plan.results import Ending, ended_early, failure_output, loop_result, unfinished_loop
from holdfast.workflows.plan.scheduler import Scheduler
from holdfast.workflows.plan.scope import ItemScope, PlanScope
from holdfast.workflows.plan.state import PlanState
from holdfast.workflows.run import RunWorkflow


class _QuestionCancelled(Exception):
    """A person cancelled a question of an item, and with it the plan: items beside it end, too."""


@workflow.defn(name=PLAN_LOOP_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
class PlanLoopWorkflow(RunWorkflow):
    """The items of one loop."""

    definition: PlanLoopDefinition
    state: PlanLoopState

    @workflow.init
    def __init__(self, definition: PlanLoopDefinition, state: PlanLoopState) -> None:
        task, approved = definition.origin.task, definition.approved
        context = PlanContext(definition.plan, definition.author, definition.blueprint, task, approved=approved)
        loop = context.loop(definition.loop)
        self.at_once = loop.block.max_parallel
        # Of a round with several items a history holds fewer.
        super().__init__(definition, state, max(1, definition.history_limits.rounds // self.at_once))
        self.plan_context, self.loop = context, loop
        self._at_work: dict[int, ItemScope] = {}
        """The scopes of the items of this round, in their order."""
        self._over: dict[int, Iteration] = {}
        """Those of them that are over."""

    def current_context(self) -> JSONObject:
        return {"loop": self.loop.id, "items": len(self.definition.items), "done": len(self.state.done)}

    @workflow.run
    async def run(self, definition: PlanLoopDefinition, state: PlanLoopState) -> PlanLoopResult:
        result = await self.run_to_result(self._work())
        if result is None:
            result = self._broken_off(Ending.of_cancel())
        return PlanLoopResult(result=result, **self.collect_spending())

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
        items = self.definition.items
        while len(self.state.done) < len(items) and not ended_early(self.loop, self.state.done[-self.at_once :]):
            await self.next_round()
            await self._next_items()
        result = loop_result(self.loop, self.state.done, len(items))
        self.host.note(self.address, LoopCompleted(reason=result.status, iterations=len(self.state.done)))
        return result

    async def _next_items(self) -> None:
        """Run one item, or several at once, as many as the loop allows."""
        first, frame = len(self.state.done), self._frame()
        indices = range(first, min(first + self.at_once, len(self.definition.items)))
        for index in indices:
            counts = self.request_counts.item(index) if self.at_once > 1 else self.request_counts
            self._at_work[index] = self._scope(replace(frame, request_counts=counts), index)
        with suppress(_QuestionCancelled):
            await run_together(self._item(self._at_work[index]) for index in indices)
        done = [self._over.get(index) or scope.iteration("cancelled") for index, scope in self._at_work.items()]
        self._at_work.clear()
        self._over.clear()
        self.advance(done=[*self.state.done, *done])

    async def _item(self, scope: ItemScope) -> None:
        """Run the steps for one item, again as long as a person wants that. Raises `_QuestionCancelled`."""
        while True:
            self.host.progress.iteration = scope.frame.iteration
            scope.begin()
            await Scheduler(PlanState(scope), self.definition).run()
            if (over := await after_item(scope)) is not None:
                self._over[scope.item.index] = over
                if over.status == "cancelled":
                    raise _QuestionCancelled
                return

    def _frame(self) -> Frame:
        """Return the frame of the list that the loop stands in."""
        parent, _, _ = self.address.rpartition(";")
        return replace(frame_of(self, self.definition), address=Address(parent))

    def _scope(self, frame: Frame, index: int) -> ItemScope:
        definition = self.definition
        outer = PlanScope(self.plan_context, frame, definition.around, results=definition.known)
        return outer.item_scope(self.loop, definition.items, index)

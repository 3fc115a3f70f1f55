"""One loop of a plan, in a history of its own: its steps for every item, and what came out for each."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from temporalio import workflow

from holdfast.blueprint.expressions import ExpressionError
from holdfast.blueprint.plan import LoopUnit
from holdfast.protocol.address import Address, parts, segment
from holdfast.protocol.agents import ToolSpec
from holdfast.protocol.events import LoopCompleted, LoopIteration
from holdfast.protocol.plans import (
    PLAN_LOOP_WORKFLOW,
    PLAN_OUTPUT,
    ItemOf,
    Iteration,
    LoopOutcome,
    PlanLoopDefinition,
    PlanLoopResult,
    PlanLoopState,
    PlanProgress,
)
from holdfast.protocol.runs import Failure
from holdfast.workflows.chain import ChildWorkflow
from holdfast.workflows.concurrency import together
from holdfast.workflows.failure_review import judged
from holdfast.workflows.plan.break_off import Ending, kept_of_loop, loop_broken_off
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.definitions import author_of, define_loop, frame_of, layout_of
from holdfast.workflows.plan.scheduler import Scheduler
from holdfast.workflows.plan.scope import PlanScope, done_of, first_error, outcome_of
from holdfast.workflows.request_counts import RequestCounts


@workflow.defn(name=PLAN_LOOP_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
class PlanLoopWorkflow(ChildWorkflow):
    """The items of one loop."""

    definition: PlanLoopDefinition
    state: PlanLoopState

    @workflow.init
    def __init__(self, definition: PlanLoopDefinition, state: PlanLoopState) -> None:
        super().__init__(definition, state, definition.history_limits.rounds)
        self.layout = layout_of(definition.plan)
        unit = self.layout.units_by_id[definition.loop]
        assert isinstance(unit, LoopUnit)
        self.loop = unit
        self.one_question = asyncio.Lock()
        self.specs: dict[str, ToolSpec] = {}
        self._counts: dict[int, RequestCounts] = {}
        self._at_work: dict[int, PlanScope] = {}
        """What is known of the items that are being worked on."""

    def current_context(self) -> dict[str, Any]:
        return {"loop": self.loop.id, "items": len(self.definition.items), "done": len(self.state.done)}

    @workflow.run
    async def run(self, definition: PlanLoopDefinition, state: PlanLoopState) -> PlanLoopResult:
        outcome: LoopOutcome = await self.live(self._work())
        return PlanLoopResult(outcome=outcome, **self.handed_back())

    def kept_of_a_failure(self, error: BaseException) -> dict[str, Any]:
        """See base class: the plan tells what became of the items."""
        items = [self._at_work[index].iteration("failed") for index in sorted(self._at_work)]
        return kept_of_loop(loop_broken_off(self.loop, Ending.of(error, self.address), [*self.state.done, *items]))

    @workflow.query(name=PLAN_OUTPUT, description="What a plan gave: its own workflow knows.")
    def plan_output(self) -> None:
        return None

    async def _work(self) -> LoopOutcome:
        items = self.definition.items
        while len(self.state.done) < len(items) and not self.state.ended:
            await self.next_round()
            await self._next_items()
        outcome = outcome_of(self.state.done, failed=self.state.ended == "failed", total=len(items))
        if self.state.ended == "cancelled":
            outcome = outcome.model_copy(update={"status": "cancelled"})
        self.note(self.address, LoopCompleted(reason=outcome.status, iterations=len(self.state.done)))
        return outcome

    async def _next_items(self) -> None:
        """One item; or several at once, as many as the loop allows."""
        begin = len(self.state.done)
        at_once = 1 if self._may_ask else self.loop.max_parallel
        indices = range(begin, min(begin + at_once, len(self.definition.items)))
        self._counts = {index: self.request_counts.item(index) for index in indices} if at_once > 1 else {}
        done = await together(self._item(index) for index in indices)
        self._at_work.clear()
        self.advance(done=[*self.state.done, *done])

    @property
    def _may_ask(self) -> bool:
        """Whether an item may ask a person something: then one runs after the other, for a plan asks one at a time."""
        desk = self._desk(0, None)
        return self.loop.on_item_error == "ask" or any(desk.may_ask(unit) for unit in self.loop.body)

    async def _item(self, index: int) -> Iteration:
        """The steps for one item; where they fail, the loop's rule decides, or a person."""
        item = self.definition.items[index]
        done = PlanProgress()
        while True:
            iteration, stopped = await self._run_item(index, item, done)
            if stopped == "plan_cancelled":
                self.advance(ended="cancelled")
            elif iteration.status == "failed" and self.loop.on_item_error == "fail":
                self.advance(ended="failed")
            elif iteration.status == "failed" and self.loop.on_item_error == "ask":
                what = Failure(type="item_failed", message=first_error([iteration]), address=self._address(index))
                verdict = await judged(what, item, self._desk(index, item).frame, takes_value=False)
                match verdict.action:
                    case "retry":
                        done = done_of(iteration)
                        continue
                    case "edit":
                        item, done = verdict.content, PlanProgress()
                        continue
                    case "skip":
                        return iteration.model_copy(update={"status": "skipped"})
                self.advance(ended="failed")
            return iteration

    async def _run_item(self, index: int, item: Any, done: PlanProgress) -> tuple[Iteration, str]:
        """The steps for one item, but for those that are done."""
        desk = self._desk(index, item)
        desk.scope.steps, desk.scope.loops = dict(done.steps), dict(done.loops)
        self.iteration = index + 1
        desk.frame.note(LoopIteration(iteration=index + 1, item=item))
        self._at_work[index] = desk.scope
        engine = Scheduler(desk, self._define)
        await engine.run()
        return desk.scope.iteration(), engine.stopped

    def _desk(self, index: int, item: Any) -> PlanContext:
        """Where the steps of one item are worked on."""
        definition = self.definition
        around = [*definition.around, ItemOf(loop=self.loop.id, item=item, index=index)]
        scope = PlanScope(self.layout, self.loop.body, definition.known, around)
        frame = replace(
            frame_of(self, definition, self.meter),
            address=self._address(index),
            iteration=index + 1,
            place=f"{self.loop.id} {index + 1}",
            request_counts=self._counts.get(index, self.request_counts),
        )
        author = author_of(definition)
        return PlanContext(definition.plan, frame, scope, definition.task, self.one_question, author, self.specs)

    def _define(self, unit: LoopUnit, desk: PlanContext, items: list[Any]) -> tuple[PlanLoopDefinition, PlanLoopState]:
        return define_loop(self.definition, unit, desk, items)

    def _address(self, index: int) -> Address:
        """`…;loop:events:1`: iterations count from 1, as in every loop."""
        parent, _, _ = self.address.rpartition(";")
        return Address(f"{parent};{segment('loop', parts(self.address)[-1][1], index + 1)}")

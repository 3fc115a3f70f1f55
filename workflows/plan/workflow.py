"""A plan that the engine drives, in a history of its own: between two steps it may be changed, or continue as new."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from holdfast.blueprint.expressions import ExpressionError
from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.plan import Layout, LoopUnit
from holdfast.protocol.answers import Refusal
from holdfast.protocol.events import PlanCompleted, PlanRevised
from holdfast.protocol.plans import (
    PLAN,
    PLAN_OUTPUT,
    PLAN_WORKFLOW,
    PlanDefinition,
    PlanLoopDefinition,
    PlanLoopState,
    PlanProgress,
    PlanResult,
    PlanState,
    PlanView,
    Revision,
    fitting,
)
from holdfast.workflows.base import refused
from holdfast.workflows.chain import ChildWorkflow
from holdfast.workflows.door import value_in
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.approval import begin
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.definitions import author_of, define_loop, frame_of, layout_of
from holdfast.workflows.plan.outcome import note_of, output_of, shown_of, view_of
from holdfast.workflows.plan.revision import check_change, check_new_tools, check_open, checked_change
from holdfast.workflows.plan.scheduler import Scheduler
from holdfast.workflows.plan.scope import PlanScope


@workflow.defn(name=PLAN_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
class PlanWorkflow(ChildWorkflow):
    """The steps of one plan."""

    definition: PlanDefinition
    state: PlanState

    @workflow.init
    def __init__(self, definition: PlanDefinition, state: PlanState) -> None:
        super().__init__(definition, state)
        self.one_question = asyncio.Lock()
        self.author = author_of(definition)
        self.engine: Scheduler | None = None

    def current_context(self) -> dict[str, Any]:
        return {} if self.engine is None else {"steps": shown_of(self.engine.scope)}

    @workflow.run
    async def run(self, definition: PlanDefinition, state: PlanState) -> PlanResult:
        scope: PlanScope = await self.live(self._work())
        return PlanResult(
            status=scope.whole_status(),
            output=output_of(scope),
            **self.handed_back(),
        )

    def kept_of_a_failure(self, error: BaseException) -> dict[str, Any]:
        return {} if self.engine is None else {"output": fitting(output_of(self.engine.scope, "failed"))}

    async def _work(self) -> PlanScope:
        frame = frame_of(self, self.definition, self.meter)
        if self.state.plan is None:
            definition = self.definition
            plan, _ = await begin(self.author, definition.given, frame, definition.planner, definition.task)
            self.state = self.state.model_copy(update={"plan": plan})
        self.engine = self._engine(frame)
        await self.engine.run(self.next_round)
        scope = self.engine.scope
        self.note(self.address, PlanCompleted(status=scope.whole_status(), note=note_of(scope)))
        return scope

    def _engine(self, frame: Frame) -> Scheduler:
        assert self.state.plan is not None
        layout = layout_of(self.state.plan)
        standing = self.state.standing
        scope = PlanScope(layout, layout.units, steps=dict(standing.steps), loops=dict(standing.loops))
        desk = PlanContext(self.state.plan, frame, scope, self.definition.task, self.one_question, self.author)
        return Scheduler(
            desk,
            self._define,
            at_once=self.state.plan.max_parallel,
            stopped=self.state.stopped,
            wants_rest=lambda: self.history.is_long,
        )

    def _define(self, unit: LoopUnit, desk: PlanContext, items: list[Any]) -> tuple[PlanLoopDefinition, PlanLoopState]:
        return define_loop(self.definition, unit, desk, items)

    def progress(self) -> dict[str, Any]:
        """See base class."""
        assert self.engine is not None
        scope = self.engine.scope
        return {"standing": PlanProgress(steps=scope.steps, loops=scope.loops), "stopped": self.engine.stopped}

    # Changing what is left

    @workflow.query(name=PLAN, description="The plan, and where it stands.")
    def plan_view(self) -> PlanView:
        plan = self.state.plan or self.author
        scope = PlanScope(Layout(), ()) if self.engine is None else self.engine.scope
        running = [] if self.engine is None else self.engine.running
        return view_of(self, plan, scope, running, revision=self.state.revision, revisions=self.state.revisions)

    @workflow.query(name=PLAN_OUTPUT, description="What a plan gave that failed or was cancelled before its end.")
    def plan_output(self) -> dict[str, Any] | None:
        if self.engine is None or self.ended not in ("failed", "cancelled"):
            return None
        return output_of(self.engine.scope, self.ended)

    @workflow.update(name=PLAN, description="Change what is left of the plan.")
    async def change_plan(self, raw: RawValue) -> int:
        self.history.updates += 1
        try:
            payload = value_in(raw, None)
            if self.steered_before(PLAN, payload):
                return self.state.revision
            plan, before = self._revised(payload), self.state.plan
            assert before is not None
            await check_new_tools(plan, before, frame_of(self, self.definition, self.meter))
            if self.steered_before(PLAN, payload):  # meanwhile
                return self.state.revision
            plan = self._revised(payload)  # more may have begun meanwhile
        except Refusal as refusal:
            raise refused(refusal) from None
        engine = self.engine
        assert engine is not None
        self.steered(PLAN, payload)
        engine.revise(plan)
        number = self.state.revision + 1
        revision = Revision(revision=number, by=payload.get("by"), reason=str(payload.get("reason") or ""))
        self.state = self.state.model_copy(
            update={"plan": plan, "revision": number, "revisions": [*self.state.revisions, revision]}
        )
        self.note(self.address, PlanRevised(revision=number, by=revision.by, reason=revision.reason or None))
        return number

    @change_plan.validator
    def _check_change(self, raw: RawValue) -> None:
        check_change(raw, self, self._revised)

    def _revised(self, payload: Any) -> PlanBody:
        over = self.ended is not None or (self.engine is not None and self.engine.scope.all_over())
        check_open(ended=over, begun=self.engine is not None)
        assert self.engine is not None and self.state.plan is not None
        scope = self.engine.scope
        begun = [*scope.loops, *self.engine.running, *(id_ for id_ in scope.steps if scope.is_over(id_))]
        agents = self.definition.blueprint.agents
        return checked_change(payload, self.state.plan, self.author, self.state.revision, scope.layout, begun, agents)

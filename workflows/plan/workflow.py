"""A plan that the engine drives, in a history of its own: between two steps it may be changed, or continue as new."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import workflow

from blueprint.expressions import ExpressionError
from blueprint.grammar import PlanBody
from blueprint.plan import Layout, LoopUnit
from protocol.answers import Refusal
from protocol.plans import (
    PLAN,
    PLAN_WORKFLOW,
    PlanDefinition,
    PlanLoopDefinition,
    PlanLoopState,
    PlanResult,
    PlanState,
    PlanView,
    Revision,
    Standing,
)
from workflows.frame import Frame
from workflows.host import Host, inherited, refused
from workflows.limits import Meter
from workflows.plan.beginning import begin
from workflows.plan.changing import check_change, check_open, checked_change
from workflows.plan.desk import Desk
from workflows.plan.engine import Engine
from workflows.plan.outcome import output_of, shown_of, view_of
from workflows.plan.place import author_of, define_loop, frame_of, layout_of
from workflows.plan.scope import Scope

MOST_EVENTS = 1_000
MOST_UPDATES = 1_500


@workflow.defn(name=PLAN_WORKFLOW, failure_exception_types=[ExpressionError])
class PlanWorkflow(Host):
    """The steps of one plan. A continued plan is the same plan: what is done stays done, event offsets go on."""

    @workflow.init
    def __init__(self, definition: PlanDefinition, state: PlanState) -> None:
        super().__init__(**inherited(definition, state))
        self.definition, self.state = definition, state
        self.meter = Meter(state.budgets)
        self.one_question = asyncio.Lock()
        self.author = author_of(definition)
        self.engine: Engine | None = None

    def current_context(self) -> dict[str, Any]:
        return {} if self.engine is None else {"steps": shown_of(self.engine.scope)}

    @workflow.run
    async def run(self, definition: PlanDefinition, state: PlanState) -> PlanResult:
        scope: Scope = await self.live(self._work())
        return PlanResult(
            status=scope.whole_status(),
            output=output_of(scope),
            usage=self.usage,
            permits=self.permits,
            budgets=self.meter.budgets,
        )

    async def _work(self) -> Scope:
        frame = frame_of(self, self.definition, self.meter)
        if self.state.plan is None:
            plan = await begin(self.author, self.definition.given, frame)
            self.state = self.state.model_copy(update={"plan": plan})
        self.engine = self._engine(frame)
        await self.engine.run(self._between)
        scope = self.engine.scope
        self.note(self.address, "plan.completed", status=scope.whole_status())
        return scope

    def _engine(self, frame: Frame) -> Engine:
        assert self.state.plan is not None
        layout = layout_of(self.state.plan)
        standing = self.state.standing
        scope = Scope(layout, layout.units, steps=dict(standing.steps), loops=dict(standing.loops))
        desk = Desk(self.state.plan, frame, scope, self.definition.task, self.one_question, self.author)
        return Engine(
            desk,
            self._define,
            at_once=self.state.plan.max_parallel,
            stopped=self.state.stopped,
            wants_rest=self._history_is_long,
        )

    def _define(self, unit: LoopUnit, desk: Desk, items: list[Any]) -> tuple[PlanLoopDefinition, PlanLoopState]:
        return define_loop(self.definition, unit, desk, items)

    async def _between(self) -> None:
        await self.until_resumed()
        if self._history_is_long():
            await self._continue()

    def _history_is_long(self) -> bool:
        info = workflow.info()
        return info.get_current_history_length() > MOST_EVENTS or self.questions.taken >= MOST_UPDATES

    async def _continue(self) -> None:
        """The same plan in a fresh history."""
        assert self.engine is not None
        carried = await self.carried()
        standing = Standing(steps=self.engine.scope.steps, loops=self.engine.scope.loops)
        more = {"standing": standing, "stopped": self.engine.stopped, "budgets": self.meter.budgets}
        workflow.continue_as_new(args=[self.definition, self.state.model_copy(update={**carried, **more})])

    # Changing what is left

    @workflow.query(name=PLAN, description="The plan, and where it stands.")
    def plan_view(self) -> PlanView:
        plan = self.state.plan or self.author
        scope = Scope(Layout(), ()) if self.engine is None else self.engine.scope
        running = [] if self.engine is None else self.engine.running
        return view_of(self, plan, scope, running, revision=self.state.revision, revisions=self.state.revisions)

    @workflow.update(name=PLAN, description="Change what is left of the plan.")
    def change_plan(self, payload: Any) -> int:
        try:
            plan = self._revised(payload)
        except Refusal as refusal:
            raise refused(refusal) from None
        engine = self.engine
        assert engine is not None
        engine.revise(plan)
        number = self.state.revision + 1
        revision = Revision(revision=number, by=payload.get("by"), reason=str(payload.get("reason") or ""))
        self.state = self.state.model_copy(
            update={"plan": plan, "revision": number, "revisions": [*self.state.revisions, revision]}
        )
        self.note(self.address, "plan.revised", revision=number, by=revision.by, reason=revision.reason or None)
        return number

    @change_plan.validator
    def _check_change(self, payload: Any) -> None:
        check_change(payload, self.run_id, self._revised)

    def _revised(self, payload: Any) -> PlanBody:
        check_open(ended=self.ended is not None, begun=self.engine is not None)
        assert self.engine is not None and self.state.plan is not None
        scope = self.engine.scope
        begun = [*scope.loops, *self.engine.running, *(id_ for id_ in scope.steps if scope.is_over(id_))]
        agents = list(self.definition.blueprint.agents)
        return checked_change(payload, self.state.plan, self.author, self.state.revision, scope.layout, begun, agents)

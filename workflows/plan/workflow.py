"""The workflow of a plan under the scheduler; between two steps it may be changed, or continue as new."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from holdfast.blueprint.expressions import ExpressionError
from holdfast.protocol.events import PlanCompleted
from holdfast.protocol.plans import PLAN_WORKFLOW, PlanDefinition, PlanResult, ScheduledState, fitting
from holdfast.workflows.plan.approval import begin
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.definitions import author_of, frame_of
from holdfast.workflows.plan.handlers import PlanHandlers
from holdfast.workflows.plan.outcome import note_of, output_of
from holdfast.workflows.plan.scheduler import Scheduler
from holdfast.workflows.plan.state import PlanScope, PlanState


@workflow.defn(name=PLAN_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
class PlanWorkflow(PlanHandlers):
    """The steps of one plan."""

    definition: PlanDefinition
    state: ScheduledState

    @workflow.init
    def __init__(self, definition: PlanDefinition, state: ScheduledState) -> None:
        super().__init__(definition, state)
        self.author = author_of(definition)

    @workflow.run
    async def run(self, definition: PlanDefinition, state: ScheduledState) -> PlanResult:
        scope: PlanScope = await self.live(self._work())
        return PlanResult(
            status=scope.plan_status(),
            output=output_of(scope),
            **self.handed_back(),
        )

    def kept_of_a_failure(self, error: BaseException) -> dict[str, Any]:
        return {} if self.plan_state is None else {"output": fitting(output_of(self.plan_state.root, "failed"))}

    async def _work(self) -> PlanScope:
        definition, plan, specs = self.definition, self.state.progress.plan, {}
        frame = frame_of(self, definition)
        if plan is None:
            plan, catalogue = await begin(self.author, definition.given, frame, definition.planner, definition.task)
            specs = catalogue.specs
        context = PlanContext(plan, self.author, definition.blueprint, definition.task)
        context.specs.update(specs)
        self.plan_state = PlanState(PlanScope(context, frame), self.state.progress)
        await Scheduler(self.plan_state, definition, wants_rest=lambda: self.history.is_long).run(self.next_round)
        scope = self.plan_state.root
        self.note(self.address, PlanCompleted(status=scope.plan_status(), note=note_of(scope)))
        return scope

    def progress(self) -> dict[str, Any]:
        """See base class."""
        assert self.plan_state is not None
        return {"progress": self.plan_state.progress()}

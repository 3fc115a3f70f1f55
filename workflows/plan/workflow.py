"""The workflow of a plan under the scheduler; between two steps it may be changed, or continue as new."""

from __future__ import annotations

from temporalio import workflow

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.protocol.names import PLAN_WORKFLOW
from holdfast.protocol.plans import PlanDefinition, PlanResult, ScheduledState
from holdfast.workflows.plan.definitions import make_frame
from holdfast.workflows.plan.handlers import PlanHandlers
from holdfast.workflows.plan.scheduler import Scheduler
from holdfast.workflows.plan.scope import PlanScope


@workflow.defn(name=PLAN_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
class PlanWorkflow(PlanHandlers):
    """The steps of one plan."""

    definition: PlanDefinition
    state: ScheduledState

    @workflow.init
    def __init__(self, definition: PlanDefinition, state: ScheduledState) -> None:
        super().__init__(definition, state)

    @workflow.run
    async def run(self, definition: PlanDefinition, state: ScheduledState) -> PlanResult:
        result = await self.run_to_result(self._work(), self.make_plan_result)
        return PlanResult(status="cancelled", **self.collect_result()) if result is None else result

    async def _work(self) -> PlanScope:
        frame = make_frame(self, self.definition)
        await self.begin_plan(frame)
        plan_state = self.take_up(frame)
        await Scheduler(plan_state, self.definition, self.next_round, lambda: self.host.history.is_long).run()
        return plan_state.root

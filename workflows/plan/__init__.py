"""Plans: one state, driven by the scheduler or by an agent with control tools."""

from holdfast.workflows.plan.agent_workflow import DrivenPlanWorkflow
from holdfast.workflows.plan.loop import PlanLoopWorkflow
from holdfast.workflows.plan.workflow import PlanWorkflow

__all__ = ["DrivenPlanWorkflow", "PlanLoopWorkflow", "PlanWorkflow"]

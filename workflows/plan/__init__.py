"""Plans: the engine's way through their steps, their loops, and an agent's way by control tools."""

from holdfast.workflows.plan.agent_workflow import DrivenPlanWorkflow
from holdfast.workflows.plan.loop import PlanLoopWorkflow
from holdfast.workflows.plan.workflow import PlanWorkflow

__all__ = ["DrivenPlanWorkflow", "PlanLoopWorkflow", "PlanWorkflow"]

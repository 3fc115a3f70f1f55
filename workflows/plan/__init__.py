"""Plans: the engine's way through their steps, their loops, and an agent's way by control tools."""

from workflows.plan.driven import DrivenPlanWorkflow
from workflows.plan.loop import PlanLoopWorkflow
from workflows.plan.workflow import PlanWorkflow

__all__ = ["DrivenPlanWorkflow", "PlanLoopWorkflow", "PlanWorkflow"]

"""What happens next. Deterministic: replay must give the same commands."""

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from workflows.agent import AgentWorkflow
from workflows.clarify import ClarifyWorkflow
from workflows.human import HumanInTheLoop
from workflows.loop import LoopWorkflow
from workflows.map import MapWorkflow
from workflows.pipeline import PipelineWorkflow
from workflows.plan import DrivenPlanWorkflow, PlanLoopWorkflow, PlanWorkflow

WORKFLOWS: list[type] = [
    PipelineWorkflow,
    LoopWorkflow,
    AgentWorkflow,
    MapWorkflow,
    ClarifyWorkflow,
    PlanWorkflow,
    PlanLoopWorkflow,
    DrivenPlanWorkflow,
]

PASSED_THROUGH = ("blueprint", "protocol", "pydantic", "pydantic_core", "jinja2", "markupsafe", "jsonschema_rs")
"""Pure, or deterministic: loaded once, not once a workflow."""

RUNNER = SandboxedWorkflowRunner(SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))

__all__ = ["RUNNER", "WORKFLOWS", "HumanInTheLoop"]

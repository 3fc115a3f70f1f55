"""The workflows: what happens next in a run. Deterministic, as a replay must give the same commands."""

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from holdfast.workflows.agent import AgentWorkflow
from holdfast.workflows.clarify import ClarifyWorkflow
from holdfast.workflows.human import HumanInTheLoop
from holdfast.workflows.lookup import LookUpWorkflow
from holdfast.workflows.loop import LoopWorkflow
from holdfast.workflows.map import MapWorkflow
from holdfast.workflows.pipeline import PipelineWorkflow
from holdfast.workflows.plan import DrivenPlanWorkflow, PlanLoopWorkflow, PlanWorkflow

WORKFLOWS: list[type] = [
    PipelineWorkflow,
    LoopWorkflow,
    AgentWorkflow,
    MapWorkflow,
    ClarifyWorkflow,
    PlanWorkflow,
    PlanLoopWorkflow,
    DrivenPlanWorkflow,
    LookUpWorkflow,
]

PASSED_THROUGH = ("holdfast", "pydantic", "pydantic_core", "jinja2", "markupsafe", "jsonschema_rs")
"""Modules that an author's workflow class shares with the worker instead of importing them anew for each run."""

# Our own classes say sandboxed=False: in the sandbox a waiting agent took 14 times the memory of one written by hand.
# What it would forbid them is forbidden by tests/test_determinism.py, and every run of a test is replayed.
RUNNER = SandboxedWorkflowRunner(SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))
"""For the worker of authors whose own workflow classes derive from `HumanInTheLoop`."""

__all__ = ["RUNNER", "WORKFLOWS", "HumanInTheLoop"]

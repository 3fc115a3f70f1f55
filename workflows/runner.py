"""The runners of workflow classes, ours and authors', and what goes with an author's over continue-as-new."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from temporalio import workflow
from temporalio.worker import (
    ContinueAsNewInput,
    UnsandboxedWorkflowRunner,
    WorkflowInboundInterceptor,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowOutboundInterceptor,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from holdfast.workflows.human import HumanInTheLoop, carried

# Of `holdfast`, as `guard.DEPLOYMENT` is a module's global: in a copy that the sandbox imports it is not set.
# Extensions in Rust (pydantic_core, jsonschema_rs) cannot be imported in the sandbox at all. Measured with blueprint,
# protocol, pydantic, jinja2 and jsonschema_rs: a run took 11 ms of processor time instead of 45 ms.
PASSED_THROUGH = ("holdfast", "pydantic", "pydantic_core", "jinja2", "markupsafe", "jsonschema_rs", "beartype")
"""Modules that an author's workflow class shares with the worker instead of importing them anew for each run.

beartype comes with the MCP toolset of pydantic-ai and installs an import hook: each run of an author's class then
imported its 450 modules for the hook, which took 0.28 s of processor time instead of 0.004 s.
"""


class _Outbound(WorkflowOutboundInterceptor):
    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        """See base class."""
        instance = workflow.instance()
        if isinstance(instance, HumanInTheLoop):
            memo = workflow.memo() if input.memo is None else input.memo
            input = replace(input, memo={**memo, **carried(instance)})
        super().continue_as_new(input)


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        """See base class."""
        super().init(_Outbound(outbound))


class Runner(SandboxedWorkflowRunner):
    """The SDK's sandboxed runner, under which an author's workflow carries our state over continue-as-new.

    Authors call Temporal's own `workflow.continue_as_new`, with arguments of their own: nothing of ours has a place in
    them. Without its state the new history would be resumed, and number its events from 0 once more.
    """

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """See base class."""
        return super().create_instance(replace(det, interceptor_classes=[_Inbound, *det.interceptor_classes]))


SINGLE_BATCH = 2
"""The SDK's flag for workflow tasks whose jobs are all applied before the workflow runs on; histories record it."""


class OwnRunner(UnsandboxedWorkflowRunner):
    """The SDK's runner of classes outside the sandbox, under which a workflow sees all that one workflow task brings.

    Without the flag, which the SDK knows since 1.35 and announces as its default, an answer by signal runs the workflow
    before a cancellation of the same task is applied. Where the answer led to continue-as-new, the new history never
    heard of the cancellation. Such a task comes where no worker has run for a while.
    """

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """See base class. Classes of a team that shares its worker run as they would without us."""
        if det.defn.cls.__module__.startswith(f"{__package__}."):
            det = replace(det, default_workflow_logic_flags=det.default_workflow_logic_flags | {SINGLE_BATCH})  # type: ignore[arg-type]
        return super().create_instance(det)


OWN_RUNNER = OwnRunner()
"""For the worker of our own workflow classes."""

# Our own classes say sandboxed=False: in the sandbox a waiting agent took 14 times the memory of one written by hand.
# What it would forbid them is forbidden by tests/test_determinism.py, and every run of a test is replayed.
RUNNER = Runner(SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))
"""For the worker of authors whose own workflow classes derive from `HumanInTheLoop`."""

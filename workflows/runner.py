"""The runners of workflow classes, ours and authors', and what goes with an author's over continue-as-new.

Both apply jobs one at a time, see `activation`. Other classes of a team that shares its worker run as without us.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from temporalio import workflow
from temporalio.worker import (
    ContinueAsNewInput,
    ExecuteWorkflowInput,
    UnsandboxedWorkflowRunner,
    WorkflowInboundInterceptor,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowOutboundInterceptor,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from holdfast.workflows.activation import OneJobInstance
from holdfast.workflows.human import HumanInTheLoop, collect_memo, leave
from holdfast.workflows.rest import outlast_task

# Of `holdfast`, as `guard.DEPLOYMENT` is a module's global: in a copy that the sandbox imports it is not set.
# Extensions in Rust (pydantic_core, jsonschema_rs) cannot be imported in the sandbox at all. Measured with blueprint,
# protocol, pydantic, jinja2 and jsonschema_rs: a run took 11 ms of processor time instead of 45 ms.
PASSED_THROUGH = ("holdfast", "pydantic", "pydantic_core", "jinja2", "markupsafe", "jsonschema_rs", "beartype")
"""Modules that an author's workflow class shares with the worker instead of importing them anew for each run.

beartype comes with the MCP toolset of pydantic-ai and installs an import hook: each run of an author's class then
imported its 450 modules for the hook, which took 0.28 s of processor time instead of 0.004 s.
"""


class _Outbound(WorkflowOutboundInterceptor):
    """Adds our state to the memo of the history that follows.

    Authors call Temporal's own `workflow.continue_as_new`, with arguments of their own: nothing of ours has a place in
    them. Without its state the new history would be resumed, and number its events from 0 once more.
    """

    _memo: dict[str, Any] | None = None

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        """See base class."""
        memo: Mapping[str, Any] = workflow.memo() if input.memo is None else input.memo
        self._memo = dict(memo)
        super().continue_as_new(replace(input, memo=self._memo))

    def add_state(self, instance: HumanInTheLoop) -> None:
        """Add the state to the memo, if there is a history that follows: the SDK reads it when the workflow ends."""
        if self._memo is not None:
            self._memo |= collect_memo(instance)


class _Inbound(WorkflowInboundInterceptor):
    """Has an author's workflow end only when all that came with the task is applied."""

    _outbound: _Outbound

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        """See base class."""
        self._outbound = _Outbound(outbound)
        super().init(self._outbound)

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        """See base class."""
        try:
            result = await super().execute_workflow(input)
        except (Exception, asyncio.CancelledError, workflow.ContinueAsNewError):
            await self._leave()
            raise
        await self._leave()
        return result

    async def _leave(self) -> None:
        instance = workflow.instance()
        leave(instance)
        await outlast_task()
        self._outbound.add_state(instance)


class Runner(SandboxedWorkflowRunner):
    """The SDK's sandboxed runner, for authors whose own workflow classes derive from `HumanInTheLoop`."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """See base class."""
        if not issubclass(det.defn.cls, HumanInTheLoop):
            return super().create_instance(det)
        return OneJobInstance(super().create_instance, _with_interceptor(det))


class OwnRunner(UnsandboxedWorkflowRunner):
    """The SDK's runner of classes outside the sandbox, for our own, and for those of authors that say so."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """See base class."""
        if issubclass(det.defn.cls, HumanInTheLoop):
            return OneJobInstance(self.create_inner, _with_interceptor(det))
        if det.defn.cls.__module__.startswith(f"{__package__}."):
            return OneJobInstance(self.create_inner, det)
        return super().create_instance(det)

    def create_inner(self, details: WorkflowInstanceDetails) -> WorkflowInstance:
        """Return the instance that is given one job at a time."""
        return super().create_instance(details)


def _with_interceptor(details: WorkflowInstanceDetails) -> WorkflowInstanceDetails:
    return replace(details, interceptor_classes=[_Inbound, *details.interceptor_classes])


OWN_RUNNER = OwnRunner()
"""For the worker of our own workflow classes."""

# Our own classes say sandboxed=False: in the sandbox a waiting agent took 14 times the memory of one written by hand.
# What it would forbid them is forbidden by tests/test_determinism.py, and every run of a test is replayed.
RUNNER = Runner(SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))
"""For the worker of authors whose own workflow classes derive from `HumanInTheLoop`."""

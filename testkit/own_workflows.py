"""The workflows of an author's own under test: one that stands for all of them, and takes their signals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue

from holdfast.blueprint.json_values import JSON
from holdfast.protocol.agents import CALL_TOOL, Completed, ToolRequest

SIGNALLED = "signalled"
"""Type of the workflow that takes the signals of a run, and the end of its id."""
LIMIT = timedelta(seconds=30)


@workflow.defn(dynamic=True, sandboxed=False)
class OwnWorkflows:
    """Any workflow: its result is the scripted reply for its type; a signal is only recorded."""

    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> JSON:
        type_ = workflow.info().workflow_type
        if type_ == SIGNALLED:
            await workflow.wait_condition(lambda: False)
        return await _call(type_, args)

    @workflow.signal(dynamic=True)
    async def record_signal(self, name: str, args: Sequence[RawValue]) -> None:
        await _call(name, args)


async def _call(name: str, args: Sequence[RawValue]) -> JSON:
    """Record the call as that of a tool, and return its reply."""
    values = [workflow.payload_converter().from_payload(raw.payload) for raw in args]
    request = ToolRequest(tool=name, input=values[0]) if len(values) == 1 else ToolRequest(tool=name, args=values)
    completed: Completed = await workflow.execute_activity(
        CALL_TOOL, request, result_type=Completed, start_to_close_timeout=LIMIT
    )
    return completed.result

"""A workflow that checks names before a run starts, for servers without standalone activities."""

from __future__ import annotations

from temporalio import workflow

from holdfast.protocol.lookup import LOOK_UP_WORKFLOW, LookedUp, LookUp
from holdfast.workflows import calls


@workflow.defn(name=LOOK_UP_WORKFLOW, sandboxed=False)
class LookUpWorkflow:
    """A short workflow that asks a worker which names it does not have."""

    @workflow.run
    async def run(self, request: LookUp) -> LookedUp:
        return await calls.look_up_names(request)

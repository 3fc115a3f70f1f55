"""How far a run has come, as its server knows it."""

from __future__ import annotations

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from holdfast.protocol.runs import HistoryLimits
from tests.conftest import Harness, until
from tests.tools import calls


async def has_continued(house: Harness, workflow: str) -> bool:
    """Return whether a workflow is there, and not in its first history."""
    try:
        described = await house.client.get_workflow_handle(workflow).describe()
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return False
        raise
    return described.run_id != described.raw_description.workflow_execution_info.first_run_id


async def still_running(house: Harness, run: str) -> list[str]:
    """The workflows of a run that have not ended."""
    found = []
    for history in await house.histories(run):
        handle = house.client.get_workflow_handle(history.workflow_id)
        if (await handle.describe()).status == WorkflowExecutionStatus.RUNNING:
            found.append(history.workflow_id)
    return found


async def ends(house: Harness, run: str, by: str | None = None) -> None:
    """Cancel the run, and see that nothing of it is left."""
    await house.runs.control.cancel(run, by=by)
    assert (await house.result(run)).status == "cancelled"
    assert await still_running(house, run) == []


async def at_work(house: Harness) -> None:
    async def called() -> bool:
        return calls(house.folder, "calls") > 0

    await until(called, "the tool")


async def has_child(house: Harness, run: str) -> bool:
    described = await house.client.get_workflow_handle(run).describe()
    return any(child.run_id for child in described.raw_description.pending_children)  # it has none before it starts


async def is_told_to_end(house: Harness, workflow: str) -> bool:
    described = await house.client.get_workflow_handle(workflow).describe()
    states = [activity.state for activity in described.raw_description.pending_activities]
    return PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED in states


MANY = HistoryLimits(events=100_000, bytes=10**9, commands=100_000, rounds=100_000)


def limits(**bounded: int) -> HistoryLimits:
    """Return limits of which only these can be reached."""
    return MANY.model_copy(update=bounded)

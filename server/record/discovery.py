"""Find the workflows of a deployment that may have something new, by Temporal's visibility. The recorder uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.listing import BLUEPRINT_KEY, CALM_PAGE, OPEN, OURS
from holdfast.runtime.errors import is_missing
from holdfast.runtime.namespace import quoted
from holdfast.server.record.entries import RecordedRun

ENDS = ("Completed", "Failed", "Canceled", "Terminated", "TimedOut")
"""The statuses of a workflow that is over: not of one that continues as new."""
OVERLAP = timedelta(minutes=2)
"""Visibility may list a workflow some time after it was closed."""


@dataclass(frozen=True)
class Sighting:
    """A workflow as visibility lists it."""

    workflow: str
    temporal_run: str
    root: tuple[str, str]
    """The outermost workflow above it: its id, and Temporal's id of its run."""
    blueprint: str
    closed: datetime | None
    signature: str
    """Changes when the people change that are awaited, or the run is paused: at once with every question."""

    @property
    def run(self) -> str:
        """Return the id of the run that the workflow belongs to."""
        # A pipeline may be the child of an author's own workflow, which is no part of its run.
        root, _ = self.root
        if self.workflow == root or self.workflow.startswith(f"{root}/"):
            return root
        return self.workflow.partition("/")[0]


async def open_workflows(client: Client, task_queue: str | None) -> AsyncIterator[Sighting]:
    """Yield the workflows of every run that are open; with a task queue only those on it."""
    async for execution in client.list_workflows(OPEN + _on(task_queue), page_size=CALM_PAGE):
        yield sighting_of(execution)


async def closed_workflows(client: Client, since: datetime | None, task_queue: str | None) -> AsyncIterator[Sighting]:
    """Yield the workflows that were closed since a time, or all that are retained."""
    statuses = ", ".join(f"'{status}'" for status in ENDS)
    wanted = f"{OURS} AND ExecutionStatus IN ({statuses}){_on(task_queue)}"
    if since is not None:
        wanted += f" AND CloseTime > '{(since - OVERLAP).astimezone(UTC).isoformat(timespec='seconds')}'"
    async for execution in client.list_workflows(wanted, page_size=CALM_PAGE):
        yield sighting_of(execution)


def _on(task_queue: str | None) -> str:
    return "" if task_queue is None else f" AND TaskQueue = '{quoted(task_queue)}'"


def sighting_of(execution: WorkflowExecution) -> Sighting:
    """Return a workflow as visibility lists or describes it."""
    attributes = execution.typed_search_attributes
    values = {pair.key.name: pair.value for pair in attributes if pair.key.name != "BuildIds"}
    above = execution.raw_info.root_execution
    root = (above.workflow_id, above.run_id) if above.workflow_id else (execution.id, execution.run_id)
    blueprint = attributes.get(BLUEPRINT_KEY) or execution.workflow_type
    signature = f"{sorted(values.items())} {sorted(execution.raw_info.memo.fields)}"
    return Sighting(execution.id, execution.run_id, root, blueprint, execution.close_time, signature)


class FirstRuns:
    """Finds out which run a workflow belongs to, for ever: run ids may be used again."""

    MOST = 10_000

    def __init__(self, client: Client) -> None:
        self._client = client
        self._cached: dict[tuple[str, str], str] = {}

    async def of(self, sighting: Sighting) -> RecordedRun:
        """Return the run of a workflow; the workflow counts as a run of its own if the run is forgotten."""
        _, root_run = sighting.root
        place = (sighting.run, root_run)
        if place not in self._cached:
            if len(self._cached) >= self.MOST:
                self._cached.clear()
            self._cached[place] = await self._find(sighting)
        is_run = sighting.workflow == sighting.run
        blueprint = sighting.blueprint if is_run else ""  # that of a child may be another's, which was imported
        return RecordedRun(self._client.namespace, sighting.run, self._cached[place], blueprint)

    async def _find(self, sighting: Sighting) -> str:
        own = sighting.temporal_run if sighting.workflow == sighting.run else None
        return await first_run(self._client, sighting.run, own) or sighting.temporal_run


async def first_run(client: Client, workflow: str, run: str | None = None) -> str | None:
    """Return Temporal's id of the first run of a workflow's chain; None if the workflow is forgotten."""
    try:
        described = await client.get_workflow_handle(workflow, run_id=run).describe()
    except RPCError as error:
        if not (is_missing(error) or error.status == RPCStatusCode.INVALID_ARGUMENT):
            raise
        return None
    return described.raw_info.first_run_id or described.run_id

"""What keeps an open workflow from going on: a call that loses its workers again and again, a task that fails for ever.

Read from the server's description, which needs no worker. `show`, `doctor` and the recorder use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass

from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowExecutionDescription

from holdfast.blueprint.json_values import JSONObject
from holdfast.runtime.converters import read_failure_text
from holdfast.runtime.errors import ServerUnreachable
from holdfast.runtime.workers import read_failed_task, read_last_events

MOST_LOSSES = 4
"""A deployment, a restart of a machine: a call may lose its worker so often."""
MOST_FAILED_TASKS = 4
EVENTS_READ = 200
"""Events read from the end of a history for the names of its activities."""


@dataclass(frozen=True)
class Obstacle:
    """Something that keeps a workflow from going on, though nobody is asked."""

    workflow: str
    key: str
    """The same for as long as it is there: the id of the call, or `task`."""
    type: str
    """`workers_lost` or `task_fails`."""
    message: str

    def to_json(self) -> JSONObject:
        """Return the JSON object of `show --json`."""
        return asdict(self)


async def find_obstacles(client: Client, workflow: WorkflowExecutionDescription) -> list[Obstacle]:
    """Return what keeps an open workflow from going on; its history is read only if there is something."""
    description = workflow.raw_description
    lost = [(call, await count_losses(client, call)) for call in description.pending_activities]
    lost = [(call, losses) for call, losses in lost if losses > MOST_LOSSES]
    failed = description.pending_workflow_task.attempt - 1
    if not lost and failed <= MOST_FAILED_TASKS:
        return []
    events = await read_last_events(client, workflow.id, workflow.run_id, EVENTS_READ)
    names = await read_summaries(client, events) if lost else {}
    obstacles = [await _lost_call(client, workflow.id, call, losses, names) for call, losses in lost]
    if failed > MOST_FAILED_TASKS:
        text = f"its workflow task has failed {failed} times; see it in Temporal's UI"
        if (task := await read_failed_task(client, events)) is not None:
            text = f"its workflow task fails {task.since} ({failed} times): {task.message}. {task.advise(workflow.id)}"
        obstacles.append(Obstacle(workflow.id, "task", "task_fails", text))
    return obstacles


async def count_losses(client: Client, call: PendingActivityInfo) -> int:
    """Return how often a call was handed to a worker that was lost; its activity counts what has failed in its beats.

    A count that cannot be read, for want of a key or of a store, is taken for none.
    """
    failures = 0
    if call.heartbeat_details.payloads:
        with suppress(RuntimeError, ServerUnreachable):
            [failures, *_] = await client.data_converter.decode(call.heartbeat_details.payloads)
    return call.attempt - 1 - (failures if isinstance(failures, int) else 0)


async def _lost_call(
    client: Client, workflow: str, call: PendingActivityInfo, losses: int, names: dict[str, str]
) -> Obstacle:
    name = names.get(call.activity_id, call.activity_type.name)
    last = await read_failure_text(client.data_converter, call.last_failure) or "its worker was lost"
    text = f"the call {name!r} ({call.activity_type.name}) has lost its worker {losses} times, the last time: {last}"
    return Obstacle(workflow, f"call:{call.activity_id}", "workers_lost", text)


async def read_summaries(client: Client, events: Iterable[HistoryEvent]) -> dict[str, str]:
    """Return the summaries of activities by id, as Temporal's UI shows them, as far as they can be read here."""
    summaries = {}
    for event in events:
        if event.HasField("activity_task_scheduled_event_attributes") and event.user_metadata.HasField("summary"):
            id_ = event.activity_task_scheduled_event_attributes.activity_id
            with suppress(ServerUnreachable):
                [summaries[id_]] = await client.data_converter.decode([event.user_metadata.summary], [str])
    return summaries

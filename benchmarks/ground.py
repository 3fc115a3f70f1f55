"""The set-up shared by the benchmarks: a server in memory, and a loop that asks a question in each iteration."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment

from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.load import loads
from holdfast.protocol.names import VIEW
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.embedded.server import UNTHROTTLED, find_temporal_binary
from holdfast.runtime.namespace import ATTRIBUTE_KEYS

LOOP = """
name: bench
agents: {{drafter: {{model: echo}}}}
steps:
  - kind: loop
    name: loop
    loop:
      max_loops: {iterations}
      checkpoint_every: {checkpoint}
      body:
        - {{name: draft, agent: drafter}}
        - {{kind: hitl, name: ask, message: "{{{{ previous_step }}}}?"}}
"""


ENDS = {
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED: (
        EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
    ),
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: (EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,),
}


def loop(iterations: int, checkpoint: int = 50) -> Blueprint:
    return loads(LOOP.format(iterations=iterations, checkpoint=checkpoint), name="bench")


async def question_id(handle: WorkflowHandle[Any, Any], iteration: int) -> str | None:
    """Return the id of an iteration's question, if the loop asks it now."""
    try:
        view = await handle.query(VIEW, 0, result_type=WorkflowView)
    except (RPCError, WorkflowQueryFailedError):  # not started yet, or between two histories
        return None
    return next((question.id for question in view.questions if question.iteration == iteration), None)


async def read_history(workflow: WorkflowHandle[Any, Any]) -> list[HistoryEvent]:
    """Return the events so far. They come from the server, so reading them costs the worker nothing."""
    try:
        return list((await workflow.fetch_history()).events)
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:  # a child may not have been started yet
            raise
        return []


def has_open_task(events: Sequence[HistoryEvent]) -> bool:
    """Return whether a workflow task or an activity is open."""
    types = [event.event_type for event in events]
    return any(types.count(started) != sum(types.count(ended) for ended in ends) for started, ends in ENDS.items())


@asynccontextmanager
async def server() -> AsyncIterator[Client]:
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=find_temporal_binary(),
        data_converter=DATA_CONVERTER,
        search_attributes=ATTRIBUTE_KEYS,
        dev_server_extra_args=["--dynamic-config-value", UNTHROTTLED],
    ) as environment:
        yield environment.client

"""Who answered what, when: read from Temporal's history of a run and of its loops, so that no worker is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode

from protocol.answers import Answers, Refusal, read_answers
from protocol.runs import ANSWER


@dataclass(frozen=True)
class Given:
    """One answer as it stands in a history. One sent by signal may have been refused: no history tells that."""

    question: str
    content: Any
    action: str
    by: str | None
    at: datetime
    via: str
    workflow: str
    comment: str | None

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "at": self.at.isoformat()}


async def histories(client: Client, run: str) -> AsyncIterator[WorkflowHistory]:
    """The histories of a run and of the loops below it: every run of each chain, the oldest first."""
    chain = await _chain(client, run)
    for history in chain:
        yield history
    for child in dict.fromkeys(child for history in chain for child in _children(history.events)):
        async for history in histories(client, child):
            yield history


async def _chain(client: Client, workflow: str) -> list[WorkflowHistory]:
    """The histories of a workflow over continue-as-new, as far back as they are retained."""
    chain: list[WorkflowHistory] = []
    run: str | None = None
    while True:
        try:
            history = await client.get_workflow_handle(workflow, run_id=run).fetch_history()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return chain
            raise
        chain.insert(0, history)
        run = history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
        if not run:
            return chain


def _children(events: Iterable[HistoryEvent]) -> list[str]:
    return [
        event.child_workflow_execution_started_event_attributes.workflow_execution.workflow_id
        for event in events
        if event.HasField("child_workflow_execution_started_event_attributes")
    ]


async def answers_given(client: Client, run: str) -> list[Given]:
    """Every answer to a question of the run, in the order of time."""
    given = [one async for history in histories(client, run) for one in await _given(client, history)]
    return sorted(given, key=lambda one: one.at)


async def _given(client: Client, history: WorkflowHistory) -> list[Given]:
    failed = _failed_updates(history.events)
    given: list[Given] = []
    for event in history.events:
        if event.event_id in failed:
            continue
        update = event.workflow_execution_update_accepted_event_attributes.accepted_request.input
        signal = event.workflow_execution_signaled_event_attributes
        if update.name == ANSWER:
            given += await _read(client, update.args, event, "update", history.workflow_id)
        elif signal.signal_name == ANSWER:
            given += await _read(client, signal.input, event, "signal", history.workflow_id)
    return given


def _failed_updates(events: Iterable[HistoryEvent]) -> set[int]:
    """The events of updates that were let in and then refused: another answer came first."""
    ended = [event.workflow_execution_update_completed_event_attributes for event in events]
    return {one.accepted_event_id for one in ended if one.outcome.HasField("failure")}


async def _read(client: Client, payloads: Payloads, event: HistoryEvent, via: str, workflow: str) -> list[Given]:
    """The answers in one update or signal; what cannot be read as answers was refused."""
    at = event.event_time.ToDatetime(UTC)
    try:
        batch: Answers = read_answers((await client.data_converter.decode(payloads.payloads))[0])
    except (Refusal, IndexError):
        return []
    return [
        Given(one.question, one.content, one.action, batch.by, at, via, workflow, batch.comment)
        for one in batch.answers
    ]

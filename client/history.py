"""The answers of a run, read from Temporal's histories, which needs no worker. `holdfast history` prints them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.answers import Answers, Refusal, read_answers
from holdfast.protocol.runs import ANSWER


@dataclass(frozen=True)
class AnswerRecord:
    """An answer as the history has it. One sent by signal may have been refused: the history does not show that."""

    question: str
    content: JSON
    action: str
    by: str | None
    at: datetime
    via: str
    workflow: str
    comment: str | None

    def to_json(self) -> JSONObject:
        """Return the record as the command prints it with `--json`."""
        return {**vars(self), "at": self.at.isoformat()}


async def histories(client: Client, run: str) -> AsyncIterator[WorkflowHistory]:
    """Yield the histories of a run and its children: every run of each continue-as-new chain, oldest first."""
    chain = await _chain(client, run)
    for history in chain:
        yield history
    for child in dict.fromkeys(child for history in chain for child in _children(history.events)):
        async for history in histories(client, child):
            yield history


async def _chain(client: Client, workflow: str) -> list[WorkflowHistory]:
    """Return the histories of a workflow over continue-as-new, as far back as they are retained."""
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


async def answers_given(client: Client, run: str) -> list[AnswerRecord]:
    """Return every answer to a question of the run, sorted by time."""
    records = [record async for history in histories(client, run) for record in await _records(client, history)]
    return sorted(records, key=lambda record: record.at)


async def _records(client: Client, history: WorkflowHistory) -> list[AnswerRecord]:
    failed = _failed_updates(history.events)
    records: list[AnswerRecord] = []
    for event in history.events:
        if event.event_id in failed:
            continue
        update = event.workflow_execution_update_accepted_event_attributes.accepted_request.input
        signal = event.workflow_execution_signaled_event_attributes
        if update.name == ANSWER:
            records += await _read(client, update.args, event, "update", history.workflow_id)
        elif signal.signal_name == ANSWER:
            records += await _read(client, signal.input, event, "signal", history.workflow_id)
    return records


def _failed_updates(events: Iterable[HistoryEvent]) -> set[int]:
    """Return the ids of the acceptance events of updates that failed: the validator let them in, another came first."""
    completed = [event.workflow_execution_update_completed_event_attributes for event in events]
    return {update.accepted_event_id for update in completed if update.outcome.HasField("failure")}


async def _read(client: Client, payloads: Payloads, event: HistoryEvent, via: str, workflow: str) -> list[AnswerRecord]:
    """Return the answers in an update or a signal; none if it cannot be parsed, as it was refused then."""
    at = event.event_time.ToDatetime(UTC)
    try:
        batch: Answers = read_answers((await client.data_converter.decode(payloads.payloads))[0])
    except (Refusal, IndexError):
        return []
    return [
        AnswerRecord(answer.question, answer.content, answer.action, batch.by, at, via, workflow, batch.comment)
        for answer in batch.answers
    ]

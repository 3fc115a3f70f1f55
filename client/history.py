"""The answers of a run, read from Temporal's histories, which needs no worker. `holdfast history` prints them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowHistory
from temporalio.service import RPCError

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.answers import AnswerBatch, Receipt, Refusal, read_answers
from holdfast.protocol.guard import UNPROVED, proof_in
from holdfast.protocol.names import ANSWER, OWN_MEMO, PIPELINE_WORKFLOW
from holdfast.protocol.values import make_digest
from holdfast.runtime.errors import BadInput, is_missing
from holdfast.runtime.workers import read_last_events

if TYPE_CHECKING:
    from holdfast.protocol.events import Event
    from holdfast.protocol.runs import Definition, PipelineState

BY = ", by "
"""What stands between command and person in the reason of a cancel or a termination, which Temporal keeps."""
_EVENTS_READ = 200
"""Events read from the end of a history for the request that ended it: the clean-up of a run comes after it."""


def ending_reason(command: str, by: str | None) -> str:
    """Return the reason of a cancel or a termination, with the person.

    >>> ending_reason("holdfast cancel", "user:ana")
    'holdfast cancel, by user:ana'
    """
    return command if by is None else f"{command}{BY}{by}"


async def ended_by(client: Client, workflow: str, run_id: str | None) -> str | None:
    """Return the person who cancelled or terminated a workflow, as Temporal has it; None if it names none."""
    reasons = [
        event.workflow_execution_cancel_requested_event_attributes.cause
        or event.workflow_execution_terminated_event_attributes.reason
        for event in reversed(await read_last_events(client, workflow, run_id, _EVENTS_READ))
    ]
    people = [person for reason in reasons for _, by, person in [reason.partition(BY)] if by]
    return people[0] if people else None


@dataclass(frozen=True)
class AnswerRecord:
    """An answer as the history has it. One sent by signal may have been refused: the history does not show that.

    Its action is `return` where what asked could not use it, and gave it back: see `add_returns`.
    """

    question: str
    content: JSON
    action: str
    by: str | None
    at: datetime
    via: str
    workflow: str
    comment: str | None
    proved_by: str = UNPROVED
    """What proves `by`: see `guard.Proof`; `nothing` without a token."""
    key: str | None = None
    """The idempotency key that it came with."""

    def to_json(self) -> JSONObject:
        """Return the record as the command prints it with `--json`."""
        return {**{name: value for name, value in vars(self).items() if name != "key"}, "at": self.at.isoformat()}


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
            if is_missing(error):
                return chain
            raise
        chain.insert(0, history)
        run = history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
        if not run:
            return chain


def _children(events: Iterable[HistoryEvent]) -> list[str]:
    """Return the ids of the children that are part of the run: those of a step of kind `workflow` are not."""
    own: set[int] = set()
    children: list[str] = []
    for event in events:
        initiated = event.start_child_workflow_execution_initiated_event_attributes
        if OWN_MEMO in initiated.memo.fields:
            own.add(event.event_id)
        if event.HasField("child_workflow_execution_started_event_attributes"):
            started = event.child_workflow_execution_started_event_attributes
            if started.initiated_event_id not in own:
                children.append(started.workflow_execution.workflow_id)
    return children


@dataclass(frozen=True)
class StartedBlueprint:
    """The blueprint that a run was started with, as JSON: one of another version is read, too."""

    document: JSONObject
    at: datetime
    """The time of the start."""


async def started_blueprint(client: Client, run: str, temporal_run: str) -> StartedBlueprint | None:
    """Return the blueprint that a run was started with; None for a workflow of an author's own.

    Raises `RPCError` if Temporal does not have the run, and `ServerUnreachable` if its payloads cannot be read.
    """
    first = await first_event(client, run, temporal_run)
    started = first.workflow_execution_started_event_attributes
    if started.workflow_type.name != PIPELINE_WORKFLOW:
        return None
    definition: JSONObject = (await client.data_converter.decode(started.input.payloads[:1]))[0]
    return StartedBlueprint(definition["blueprint"], first.event_time.ToDatetime(UTC))


async def started_with(client: Client, described: WorkflowExecutionDescription) -> Definition:
    """Return the definition that a run was started with. Raises `BadInput` for a workflow of an author's own."""
    if described.workflow_type != PIPELINE_WORKFLOW:
        raise BadInput(f"{described.id} is a workflow of its author's own: it has no blueprint")
    from holdfast.protocol.runs import Definition  # noqa: PLC0415  it loads the language

    definition: Definition = (await _arguments(client, described.id, [Definition]))[0]
    return definition


async def read_input(client: Client, run: str) -> PipelineState:
    """Return the input that a run was started with, and who started it."""
    from holdfast.protocol.runs import Definition, PipelineState  # noqa: PLC0415  it loads the language

    state: PipelineState = (await _arguments(client, run, [Definition, PipelineState]))[1]
    return state


async def _arguments(client: Client, run: str, types: list[type]) -> list[Any]:
    """Return as many of the arguments that a run was started with as there are types."""
    payloads = (await first_event(client, run)).workflow_execution_started_event_attributes.input.payloads
    return await client.data_converter.decode(payloads[: len(types)], types)


async def first_event(client: Client, workflow: str, run_id: str | None = None) -> HistoryEvent:
    """Return the first event of a history, which holds what the workflow was started with. Raises `RPCError`."""
    return await anext(client.get_workflow_handle(workflow, run_id=run_id).fetch_history_events(page_size=1))


async def answers_given(client: Client, run: str) -> list[AnswerRecord]:
    """Return every answer to a question of the run, sorted by time; one sent again under its key is there once."""
    records = [record async for history in histories(client, run) for record in await _records(client, history)]
    repeats: set[str] = set()
    once: list[AnswerRecord] = []
    for record in sorted(records, key=lambda record: record.at):
        name = make_digest(record.key, record.question, record.action, record.content, record.by)
        if record.key is None or name not in repeats:
            once.append(record)
        repeats.add(name)
    return once


def add_returns(answers: Sequence[AnswerRecord], events: Iterable[Event]) -> list[AnswerRecord]:
    """Return answers with those that were given back, each behind its answer and with its reason as the content.

    Sorted by time: of one workflow task Temporal's event of an answer is later than what the workflow noted.
    """
    from holdfast.protocol.events import QuestionReturned  # noqa: PLC0415  commands that show no event do without

    given = {answer.question: answer for answer in answers}
    returns = [
        AnswerRecord(
            answer.question,
            event.data.reason,
            "return",
            None,
            max(event.time, answer.at),
            "event",
            answer.workflow,
            None,
        )
        for event in events
        if isinstance(event.data, QuestionReturned) and (answer := given.get(event.data.id)) is not None
    ]
    return sorted([*answers, *returns], key=lambda record: record.at)


async def answers_in(client: Client, workflow: str, run_id: str | None) -> list[AnswerRecord]:
    """Return the answers in one history of a workflow, in their order. Raises `RPCError`."""
    return await _records(client, await client.get_workflow_handle(workflow, run_id=run_id).fetch_history())


async def read_chain_answers(client: Client, workflow: str) -> list[AnswerRecord]:
    """Return the answers to questions of one workflow, as far back over continue-as-new as Temporal has it, in order.

    Raises `RPCError`, and `ServerUnreachable` if payloads cannot be read.
    """
    return [record for history in await _chain(client, workflow) for record in await _records(client, history)]


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


async def receipts_given(client: Client, workflow: str, update_id: str) -> list[Receipt] | None:
    """Return the receipts that a workflow gave for an update of answers; None if it did not take it."""
    for history in await _chain(client, workflow):
        for event in history.events:
            completed = event.workflow_execution_update_completed_event_attributes
            if completed.meta.update_id == update_id and completed.outcome.HasField("success"):
                payloads = completed.outcome.success.payloads
                receipts: list[Receipt] = (await client.data_converter.decode(payloads, [list[Receipt]]))[0]
                return receipts
    return None


def _failed_updates(events: Iterable[HistoryEvent]) -> set[int]:
    """Return the ids of the acceptance events of updates that failed: the validator let them in, another came first."""
    completed = [event.workflow_execution_update_completed_event_attributes for event in events]
    return {update.accepted_event_id for update in completed if update.outcome.HasField("failure")}


async def _read(client: Client, payloads: Payloads, event: HistoryEvent, via: str, workflow: str) -> list[AnswerRecord]:
    """Return the answers in an update or a signal; none if it cannot be parsed, as it was refused then."""
    at = event.event_time.ToDatetime(UTC)
    try:
        batch: AnswerBatch = read_answers((await client.data_converter.decode(payloads.payloads))[0])
    except (Refusal, IndexError):
        return []
    proved_by = proof_in(batch.token) if via == "update" else UNPROVED
    return [
        AnswerRecord(
            question=answer.question,
            content=answer.content,
            action=answer.action,
            by=batch.by,
            at=at,
            via=via,
            workflow=workflow,
            comment=batch.comment,
            proved_by=proved_by,
            key=batch.key,
        )
        for answer in batch.answers
    ]

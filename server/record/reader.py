"""Read one workflow into the record: its new events, its questions as they are shown, the end of its run."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from temporalio.client import WorkflowExecutionDescription
from temporalio.service import RPCError

from holdfast.blueprint.json_values import JSONObject
from holdfast.client.events import Reading, read_chain
from holdfast.client.history import answers_in, ended_by, started_blueprint
from holdfast.client.obstacles import Obstacle
from holdfast.client.outcomes import final_outcome
from holdfast.client.states import STATUSES, Outcome
from holdfast.client.tree import Tree, UnknownRun
from holdfast.client.whole_answers import find_answer
from holdfast.protocol.events import Event, QuestionAsked, QuestionReplied, is_beginning
from holdfast.protocol.names import SHOWN
from holdfast.protocol.questions import Question
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.errors import ServerUnreachable
from holdfast.runtime.workers import Unanswered
from holdfast.server.record.entries import (
    CHANGED,
    ENDED,
    ENDED_BY_REQUEST,
    GAP,
    REFUSED,
    RESET,
    STUCK,
    RecordedRun,
    RecordEntry,
    event_entry,
)
from holdfast.server.record.progress import Progress, Reset, WorkflowProgress, read_reset_run
from holdfast.server.record.store import RecordStore

log = logging.getLogger(__name__)

AT_A_TIME = 1_000
"""Entries of one transaction: others write between two."""
LARGEST_END = 1 << 20
"""Characters of JSON: a larger outcome is left out of the last entry of its run, and stays with Temporal."""


@dataclass(frozen=True)
class ReadWorkflow:
    """The result of reading a workflow."""

    recorded: int
    """The number of new entries."""
    progress: WorkflowProgress
    view: WorkflowView


class Reader:
    """Reads workflows into a store.

    Args:
        tree: Access to the workflows.
        store: The record.
    """

    def __init__(self, tree: Tree, store: RecordStore) -> None:
        self._tree, self._store = tree, store
        self._progress = Progress(store, tree.client.namespace)
        self._with_blueprint: set[str] = set()
        """The open runs whose blueprint needs no further look."""

    async def read(
        self, progress: WorkflowProgress, described: WorkflowExecutionDescription | None = None
    ) -> ReadWorkflow:
        """Record what a workflow has new; its description is asked for unless it is at hand.

        Raises `UnknownRun` if Temporal has forgotten it, and `NoWorker`.
        """
        read = await read_chain(self._tree, progress.workflow, progress.temporal_run, progress.next_offset, described)
        closed = await self._read_closed_questions(progress.workflow, read)
        entries = [
            *_gap(progress, read),
            *_events(progress.workflow, read, closed, await self._read_whole_answers(progress.workflow, read)),
            *await self._find_changed(progress.run, read.view),
            *_refusals(read.view),
        ]
        recorded = await self.append(progress.run, entries) + await self._keep_blueprint(progress)
        moved = replace(progress, next_offset=read.view.next_offset)
        await asyncio.to_thread(self._progress.keep, moved)
        return ReadWorkflow(recorded, moved, read.view)

    async def _keep_blueprint(self, progress: WorkflowProgress) -> int:
        """Record the blueprint of a run, once; return the number of new entries."""
        run = progress.run
        if progress.workflow != run.run or run.first_run in self._with_blueprint:
            return 0
        recorded = 0
        if not await asyncio.to_thread(self._store.has_blueprint, run):
            try:
                started = await started_blueprint(self._tree.client, run.run, progress.temporal_run)
            except (RPCError, ServerUnreachable) as error:  # its events are recorded all the same
                log.warning("the blueprint of run %s could not be recorded yet: %s", run.run, error)
                return 0
            if started is not None:
                recorded = await asyncio.to_thread(self._store.keep_blueprint, run, started.document, started.at)
        self._with_blueprint.add(run.first_run)
        return recorded

    async def _read_closed_questions(self, workflow: str, read: Reading) -> list[Question]:
        """Return the questions that were asked and closed since the last look, as their workflow still knows them."""
        open_ = {question.id for question in read.view.questions}
        asked: dict[str | None, list[str]] = {}
        for event in read.events:
            if isinstance(event.data, QuestionAsked) and event.data.id not in open_:
                asked.setdefault(read.find_run(event), []).append(event.data.id)
        return [question for run, ids in asked.items() for question in await self._query_shown(workflow, run, ids)]

    async def _query_shown(self, workflow: str, run: str | None, ids: Sequence[str]) -> list[Question]:
        questions: dict[str, Question] = {}
        while missing := [id_ for id_ in ids if id_ not in questions]:
            try:
                more = await self._tree.query(workflow, SHOWN, missing, list[Question], run)
            except (Unanswered, UnknownRun) as error:
                log.info("questions of %s are recorded without their full text: %s", workflow, error)
                break
            if not more:  # they were closed too long ago
                break
            questions |= {question.id: question for question in more}
        return list(questions.values())

    async def _read_whole_answers(self, workflow: str, read: Reading) -> dict[int, JSONObject]:
        """Return the answers of which the events have only the beginning, by offset: from the history, as they came."""
        short: dict[str | None, list[tuple[Event, QuestionReplied]]] = {}
        for event in read.events:
            data = event.data
            if isinstance(data, QuestionReplied) and (is_beginning(data.content) or is_beginning(data.comment)):
                short.setdefault(read.find_run(event), []).append((event, data))
        whole: dict[int, JSONObject] = {}
        for run, events in short.items():
            try:
                given = await answers_in(self._tree.client, workflow, run)
            except ServerUnreachable as error:  # a payload is gone from its store: the beginning is what there is
                log.warning("answers to %s are recorded without their end: %s", workflow, error)
                continue
            found = ((event.offset, find_answer(event.address, data, given)) for event, data in events)
            whole |= {
                offset: {"content": answer.content, "comment": answer.comment}
                for offset, answer in found
                if answer is not None
            }
        return whole

    async def append(self, run: RecordedRun, entries: Sequence[RecordEntry]) -> int:
        """Append entries, some at a time; return the number of new ones."""
        counts = [
            await asyncio.to_thread(self._store.append, run, entries[start : start + AT_A_TIME])
            for start in range(0, len(entries), AT_A_TIME)
        ]
        return sum(counts)

    async def _find_changed(self, run: RecordedRun, view: WorkflowView) -> list[RecordEntry]:
        """Return entries for open questions whose form has changed since it was recorded."""
        if not view.questions:
            return []
        digests = await asyncio.to_thread(
            self._store.read_shown_digests, run, [question.id for question in view.questions]
        )
        changed = [
            question for question in view.questions if digests.get(question.id, question.digest) != question.digest
        ]
        return [_change(question) for question in changed]

    async def end(self, progress: WorkflowProgress, closed: datetime, view: WorkflowView | None = None) -> int:
        """Record the end of a run with its outcome, once; return the number of entries. Raises as `read` does.

        Without a view, as its last events cannot be read, it may be that nor can the outcome, which is left out then.
        """
        described = await self._tree.describe(progress.workflow, progress.temporal_run)
        try:
            outcome = await final_outcome(self._tree, described)
        except ServerUnreachable:
            if view is not None or described.status is None:
                raise
            outcome = Outcome(described.id, STATUSES[described.status])
        how = "" if described.status is None else described.status.name.lower()
        how = how if read_reset_run(described) is None else "reset"
        is_by_request = how in ENDED_BY_REQUEST
        by = await ended_by(self._tree.client, described.id, described.run_id) if is_by_request else None
        entry = RecordEntry(progress.workflow, "ended", ENDED, "", closed, _end(outcome, how, by, view))
        return await self.append(progress.run, [entry])

    async def note_reset(self, progress: WorkflowProgress, reset: Reset) -> int:
        """Record, before all else of the run that goes on, that it began by a reset."""
        data: JSONObject = {"reason": reset.reason, "before": progress.temporal_run}
        return await self.append(
            replace(progress.run, first_run=reset.run),
            [RecordEntry(progress.workflow, f"reset:{reset.run}", RESET, "", reset.at, {"data": data})],
        )

    async def note_obstacles(self, progress: WorkflowProgress, obstacles: Sequence[Obstacle]) -> int:
        """Record what keeps a workflow from going on, each obstacle once; return the number of new entries."""
        now = datetime.now(UTC)
        entries = [
            RecordEntry(
                progress.workflow,
                f"stuck:{progress.temporal_run}:{obstacle.key}",
                STUCK,
                "",
                now,
                {"data": {"type": obstacle.type, "message": obstacle.message}},
            )
            for obstacle in obstacles
        ]
        return await self.append(progress.run, entries)

    async def note_loss(self, progress: WorkflowProgress, at: datetime) -> int:
        """Record that the rest of a workflow's events was gone before it was read; return the number of entries."""
        return await self.append(progress.run, [_make_gap(progress, at, None)])

    async def finish(self, progress: WorkflowProgress) -> None:
        """Note that a closed workflow needs no further look."""
        self._with_blueprint.discard(progress.run.first_run)
        await asyncio.to_thread(self._progress.keep, replace(progress, complete=True))


def _gap(progress: WorkflowProgress, read: Reading) -> list[RecordEntry]:
    """Return an entry for events that are missing before those that were read."""
    first = read.events[0].offset if read.events else read.view.next_offset
    if first <= progress.next_offset:
        return []
    at = read.events[0].time if read.events else progress.closed
    return [_make_gap(progress, at, first)] if at is not None else []


def _make_gap(progress: WorkflowProgress, at: datetime, until: int | None) -> RecordEntry:
    data = {"first": progress.next_offset, "until": until}
    key = f"gap:{progress.next_offset}"
    return RecordEntry(progress.workflow, key, GAP, "", at, {"data": data})


def _events(
    workflow: str, read: Reading, closed: Sequence[Question], answers: Mapping[int, JSONObject]
) -> list[RecordEntry]:
    """Return the entries of events; of a question as it is shown now, or was shown last."""
    questions = {question.id: question for question in (*closed, *read.view.questions)}
    entries: list[RecordEntry] = []
    for event in read.events:
        question = questions.get(event.data.id) if isinstance(event.data, QuestionAsked) else None
        shown = None if question is None else question.model_dump(mode="json")
        entries.append(event_entry(workflow, event, question=shown, answer=answers.get(event.offset)))
    return entries


def _change(question: Question) -> RecordEntry:
    data: JSONObject = {"id": question.id, "kind": question.kind, "message": question.message}
    return RecordEntry(
        workflow=question.owner,
        key=f"changed:{question.id}:{question.digest}",
        type=CHANGED,
        address=question.address,
        at=question.asked_at,
        content={"data": data, "question": question.model_dump(mode="json")},
        question=question.id,
    )


def _refusals(view: WorkflowView) -> Iterator[RecordEntry]:
    """Yield an entry for each refused signal; those of one activation have one time, and count on behind the first."""
    keys: Counter[str] = Counter()
    for refused in view.refused:
        key = f"refused:{refused.at.isoformat()}:{refused.code}"
        keys[key] += 1
        nth = f":{keys[key]}" if keys[key] > 1 else ""
        data = {"code": refused.code, "message": refused.message, "by": refused.by, "via": "signal"}
        content: JSONObject = {"data": data}
        yield RecordEntry(
            view.workflow, key + nth, REFUSED, view.address, refused.at, content, question=refused.question
        )


def _end(outcome: Outcome, how: str, by: str | None, view: WorkflowView | None) -> JSONObject:
    """Return the content of the last entry of a run: its status, and its outcome if that is not too large."""
    error = None if outcome.error is None else outcome.error.model_dump(mode="json")
    last = None if view is None else view.model_dump(mode="json")
    data: JSONObject = {"status": outcome.status, "how": how, **({} if by is None else {"by": by})}
    whole = {"output": outcome.output, "context": outcome.context, "error": error, "view": last}
    if len(json.dumps(whole, ensure_ascii=False)) > LARGEST_END:
        return {"data": data}
    return {"data": data, "outcome": whole}

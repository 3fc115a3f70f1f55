"""The record of a deployment, for those who serve people: pages, the API, commands. It adds what no workflow sees."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError
from temporalio.client import Client
from temporalio.service import RPCError

from holdfast.blueprint.json_values import JSONObject
from holdfast.client.archive import ArchivedEnd, ArchivedEvents
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.access import AccessPolicy, RunAccess
from holdfast.protocol.answers import AnswerBatch, Refusal
from holdfast.protocol.events import CLOSING_TYPES, Event, LoopIteration
from holdfast.protocol.questions import Question
from holdfast.protocol.values import make_digest
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.config import Config
from holdfast.runtime.encryption import load_key_ring
from holdfast.runtime.errors import BadInput
from holdfast.runtime.namespace import read_retention
from holdfast.runtime.outage import NoWorkflows
from holdfast.server.record.checkpoints import SigningKey, load_signing_key, seal
from holdfast.server.record.entries import (
    ASKED,
    CHANGED,
    COMMENTED,
    REFUSED,
    Recorded,
    RecordedComment,
    RecordedRun,
    RecordEntry,
    read_comments,
)
from holdfast.server.record.progress import Progress, describe, follow_resets
from holdfast.server.record.recorder import Recorder
from holdfast.server.record.store import RecordStore, open_store, read_store

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint

log = logging.getLogger(__name__)

SURE_SECONDS = 5.0
"""A run's first run is asked for again after this time: run ids may be used again."""
MOST_REFUSED = 50
"""Answers of a batch that was refused whole that are recorded one by one."""
LONGEST_NAME = 200
"""Characters of what an answer named its question by."""
LONGEST_COMMENT = 10_000
"""Characters of a comment."""


class ErasureRefused(Exception):
    """The record of a run cannot be erased now; the message says why."""


@dataclass(frozen=True)
class Lag:
    """The lag of the record, beside the time for which Temporal keeps closed runs."""

    behind: timedelta
    """The time since the longest closed workflow was closed that is not recorded; zero if all are."""
    retention: timedelta

    @property
    def is_dangerous(self) -> bool:
        """Return whether runs may be forgotten before they are recorded: half of the retention is over."""
        return self.behind > self.retention / 2

    @property
    def warning(self) -> str:
        """Return a message for people; empty while there is no danger."""
        if not self.is_dangerous:
            return ""
        return (
            f"the record is {self.behind.days} days behind, and closed runs are kept for {self.retention.days} days: "
            "run `holdfast serve` with a worker, or what is older will be missing from the record"
        )


class Record:
    """The record of the runs of a namespace.

    Args:
        store: The database.
        client: A client of the namespace.
        key: Signs checkpoints; None where it only reads.
    """

    def __init__(self, store: RecordStore, client: Client, key: SigningKey | None = None) -> None:
        self.store, self.client, self.key = store, client, key
        self._first_runs: dict[str, tuple[float, RecordedRun]] = {}

    @property
    def is_open(self) -> bool:
        """See `Archive`."""
        return True

    @classmethod
    def open(cls, config: Config, client: Client) -> Record:
        """Open the configured record; it is made if there is none. Raises `RecordError` or `ConfigError`."""
        return cls(open_store(config.record_place(), load_key_ring(config)), client, load_signing_key(config))

    @classmethod
    def read(cls, config: Config, client: Client) -> Record | None:
        """Open the configured record to read it; None if nothing has been recorded there. Raises `RecordError`."""
        store = read_store(config.record_place(), load_key_ring(config))
        return None if store is None else cls(store, client)

    def without_temporal(self) -> Record:
        """Return this record as it is while Temporal does not answer; its `client` says that there are no workflows."""
        return Record(self.store, Client(**{**self.client.config(), "interceptors": [NoWorkflows()]}))  # type: ignore[arg-type]

    def recorder(self, tree: Tree, task_queue: str | None = None) -> Recorder:
        """Return a recorder that fills this record; with a task queue only from the workflows on it."""
        return Recorder(tree, self.store, self.key, task_queue)

    async def comment(
        self,
        run: str,
        question: str,
        text: str,
        by: str,
        *,
        owner: str = "",
        proved_by: str | None = None,
        key: str | None = None,
    ) -> None:
        """Add a comment to a question; it changes nothing in the run.

        Args:
            run: The id of the run.
            question: The id of the question.
            text: The comment.
            by: The person, such as `user:ana`.
            owner: The workflow that asks, if it is known.
            proved_by: What proves the person to the door that takes the comment.
            key: Idempotency key: the same text by the same person under the same key is one comment.

        Raises:
            UnknownRun: Neither Temporal nor the record has such a run.
            ValueError: The text is empty or too long, or the run was erased.
        """
        if not text.strip() or len(text) > LONGEST_COMMENT:
            raise ValueError(f"a comment must have 1 to {LONGEST_COMMENT:,} characters")
        recorded = await self.run(run)
        if await asyncio.to_thread(self.store.is_erased, recorded):
            raise ValueError(f"what was recorded of {run} was erased, and nothing is written there again")
        data = {"text": text, "by": by, "proved_by": proved_by}
        name = None if key is None else make_digest(question, by, text, key)
        entry = _make_entry(owner or run, COMMENTED, question, data, name)
        await asyncio.to_thread(self.store.append, recorded, [entry])

    async def comments(self, run: str, question: str | None = None) -> list[RecordedComment]:
        """Return the comments beside a question of a run, or beside all, the oldest first; none of an unknown run."""
        try:
            recorded = await self._find_run(run)
        except UnknownRun:
            return []
        wanted = partial(self.store.entries, first_run=recorded.first_run, question=question, types=[COMMENTED])
        return await asyncio.to_thread(lambda: read_comments(wanted()))

    async def count_comments(self, run: str) -> int:
        """Return the number of comments beside the questions of a run."""
        return await asyncio.to_thread(self.store.count, self.client.namespace, run, COMMENTED)

    async def asked_in(self, question: str) -> tuple[str, str] | None:
        """Return the run and the workflow that asked the question of this id; None if it is not recorded."""
        return await asyncio.to_thread(self.store.asked_in, self.client.namespace, question)

    async def find_shown(self, question: str) -> Question | None:
        """Return a question as it was shown last; None if it is not recorded so, or is recorded as closed."""
        entries = await asyncio.to_thread(lambda: list(self.store.entries(question=question)))
        forms = [entry.shown for entry in entries if entry.type in (ASKED, CHANGED) and entry.shown is not None]
        if not forms or any(entry.type in CLOSING_TYPES for entry in entries):
            return None
        return Question.model_validate(forms[-1])

    # What runs are read from; see `Archive`

    async def events(self, workflow: str, start: int, last_iterations: int | None) -> ArchivedEvents:
        """See `Archive`."""
        try:
            run = await self._find_run(workflow)
        except UnknownRun:
            return ArchivedEvents(next_offset=start)
        return await asyncio.to_thread(self._events, run, workflow, start, last_iterations)

    def _events(self, run: RecordedRun, workflow: str, start: int, last_iterations: int | None) -> ArchivedEvents:
        progress = Progress(self.store, run.namespace).of(run, workflow)
        recorded = self.store.read_events(run, workflow, start, last_iterations)
        if progress is None or any(entry.content is None for entry in recorded):  # erased: Temporal may still have it
            return ArchivedEvents(next_offset=start)
        events = [entry.to_event() for entry in recorded]
        following = events[-1].offset + 1 if events else max(start, progress.next_offset)
        return ArchivedEvents(events, following, progress.complete)

    async def end(self, run: str) -> ArchivedEnd | None:
        """See `Archive`."""
        try:
            recorded = await self._find_run(run)
        except UnknownRun:
            return None
        entry = await asyncio.to_thread(self.store.read_end, recorded)
        if entry is None or entry.content is None:
            return None
        from holdfast.protocol.children import Failure  # noqa: PLC0415  it loads the language

        outcome: JSONObject = entry.content.get("outcome") or {}
        view, error = outcome.get("view"), outcome.get("error")
        return ArchivedEnd(
            run=run,
            status=entry.data["status"],
            blueprint=entry.blueprint,
            output=outcome.get("output"),
            context=outcome.get("context"),
            error=None if error is None else Failure.model_validate(error),
            view=None if view is None else WorkflowView.model_validate(view),
            started=await asyncio.to_thread(self.store.find_start, recorded),
            closed=entry.at,
        )

    async def iterations(self, workflow: str, first: int, before: int) -> list[Event] | None:
        """See `Archive`."""
        try:
            run = await self._find_run(workflow)
        except UnknownRun:
            return None
        return await asyncio.to_thread(self._iterations, run, workflow, first, before)

    def _iterations(self, run: RecordedRun, workflow: str, first: int, before: int) -> list[Event] | None:
        progress = Progress(self.store, run.namespace).of(run, workflow)
        if progress is None:
            return None
        recorded = self.store.read_iterations(run, workflow, first, before, is_whole=progress.complete)
        if recorded is None or any(entry.content is None for entry in recorded):
            return None
        events = [entry.to_event() for entry in recorded]
        # Where events were gone before they were recorded, the iterations are not where they are counted to be.
        begun = [event.data.iteration for event in events if isinstance(event.data, LoopIteration)]
        return events if begun[:1] == [first] else None

    async def blueprint(self, run: str) -> Blueprint | None:
        """See `Archive`."""
        try:
            recorded = await self._find_run(run)
        except UnknownRun:
            return None
        document = await asyncio.to_thread(self.store.blueprint, recorded)
        from holdfast.blueprint.kinds import Blueprint  # noqa: PLC0415  most readers of a record need no language
        from holdfast.blueprint.model_problems import describe_problem  # noqa: PLC0415  see above

        try:
            return None if document is None else Blueprint.model_validate(document)
        except ValidationError as error:
            text = f"the blueprint of run {run} was recorded by another version, and this one cannot read it"
            raise BadInput(f"{text}: {describe_problem(error)}") from None

    async def access(self, run: str) -> RunAccess | None:
        """See `Archive`. What cannot be read any more lets nobody see the run."""
        try:
            recorded = await self._find_run(run)
            blueprint = await self.blueprint(run)
        except UnknownRun:
            return None
        except BadInput:
            blueprint = None
        started = await asyncio.to_thread(self.store.read_start, recorded)
        written = AccessPolicy(see=[]) if blueprint is None else AccessPolicy.read(blueprint)
        by = None if started is None else started.data.get("by")
        name = "" if blueprint is None else blueprint.name
        return RunAccess(blueprint=name, started_by=by, signed_in=True, written=written)

    async def runs_like(self, prefix: str) -> list[str]:
        """See `Archive`."""
        return await asyncio.to_thread(self.store.runs_like, self.client.namespace, prefix, 20)

    async def note_refusal(
        self, run: str, answers: AnswerBatch, refusal: Refusal, user: str | None, proof: str | None
    ) -> None:
        """See `Archive`: the questions are named as the answers named them; contents are not recorded."""
        questions = [answer.question for answer in answers.answers]
        # The reason why a content does not fit quotes the beginning of it: it may be a password that went astray.
        message = "the content does not fit" if refusal.code == "invalid_answer" else refusal.message
        data: JSONObject = {"code": refusal.code, "message": message, "by": user, "proved_by": proof}
        if len(questions) > MOST_REFUSED:
            data["of"] = len(questions)
        names = [name[:LONGEST_NAME] for name in questions[:MOST_REFUSED]]
        entries = [_make_entry(run, REFUSED, name, {"id": name, **data}) for name in names]
        try:
            await asyncio.to_thread(self.store.append, await self.run(run), entries)
        except (SQLAlchemyError, RPCError, UnknownRun) as error:
            log.warning("a refused answer to run %s could not be recorded: %s", run, type(error).__name__)

    async def _find_run(self, workflow: str) -> RecordedRun:
        """Return the run of a workflow, as `run` does; for some seconds without asking Temporal again."""
        name, now = workflow.partition("/")[0], time.monotonic()
        asked, recorded = self._first_runs.get(name, (0.0, None))
        if recorded is None or now - asked > SURE_SECONDS:
            recorded = await self.run(name)
            if len(self._first_runs) > 1000:
                self._first_runs.clear()
            self._first_runs[name] = now, recorded
        return recorded

    async def run(self, run: str) -> RecordedRun:
        """Return the run of an id: the one that Temporal has, else the latest recorded. Raises `UnknownRun`."""
        stored = await asyncio.to_thread(self.store.run, self.client.namespace, run)
        described = await describe(self.client, run)
        if described is not None:
            first = await asyncio.to_thread(follow_resets, self.store, described.chain)
            if stored is None or stored.first_run != first:
                return RecordedRun(self.client.namespace, run, first, described.blueprint)
        if stored is None:
            raise UnknownRun(run)
        return stored

    async def entries(self, run: str) -> list[Recorded]:
        """Return what is recorded of a run, in the order of writing. Raises `UnknownRun`."""
        recorded = await self.run(run)
        return await asyncio.to_thread(lambda: list(self.store.entries(first_run=recorded.first_run)))

    async def erase(self, run: str, by: str | None) -> int:
        """Erase the contents of every recorded run of an id, and return the number of entries.

        Raises `UnknownRun`, or `ErasureRefused` for a run that has not ended or is not wholly recorded.
        """
        return await asyncio.to_thread(self._erase, await self.run(run), by)

    def _erase(self, run: RecordedRun, by: str | None) -> int:
        """Erase, and sign at once that it was done, and by whom."""
        progress, runs = Progress(self.store, run.namespace), self.store.runs(run.namespace, run.run)
        if progress.of(run, run.run) is None or any(progress.is_unread(each.first_run) for each in runs):
            text = f"run {run.run}, or a workflow below it, has not ended, or is not recorded to its end"
            raise ErasureRefused(f"{text}; cancel it, or wait")
        now = datetime.now(UTC)
        count = self.store.erase(runs, now, by)
        if self.key is not None:
            seal(self.store, self.key, now)
        return count

    async def lag(self) -> Lag:
        """Return how far the record is behind, and how far it may be."""
        behind = await asyncio.to_thread(Progress(self.store, self.client.namespace).behind)
        return Lag(behind, await read_retention(self.client, self.client.namespace))


def _make_entry(workflow: str, type_: str, question: str, data: JSONObject, name: str | None = None) -> RecordEntry:
    """Return an entry of what no workflow sees; of several with the same name the first is recorded."""
    return RecordEntry(
        workflow=workflow,
        key=f"{type_}:{name or secrets.token_hex(8)}",
        type=type_,
        address="",
        at=datetime.now(UTC),
        content={"data": {name: value for name, value in data.items() if value is not None}},
        question=question,
    )

"""News for the browsers that look at something: one watch for each thing, however many look at it.

What is watched is read at a pace while somebody looks: the open questions from visibility, the newest of them and a run
by query. Browsers get server-sent events and fetch what has changed. Each person has a limited number of streams, as
each holds a connection.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from temporalio.service import RPCError

from holdfast.client.listing import confirm_all, waiting_workflows
from holdfast.client.question_reader import PATIENCE_SECONDS
from holdfast.client.runs import Runs
from holdfast.client.states import RunState, Waiting
from holdfast.client.tree import CLOSED, UnknownRun
from holdfast.client.views.questions import QuestionView
from holdfast.protocol.questions import Question
from holdfast.protocol.values import make_digest
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.workers import NoWorker
from holdfast.server.record.record import Record

MOST_STREAMS = 50
"""The streams of one person, such as pages that are open in tabs."""
QUESTIONS_PACE = 2.0
RUN_PACE = 1.0
"""Seconds between two looks."""
SHARE = 4
"""A look is followed by a rest of at least this many times its length, so that large runs are read less often."""
MOST_POLLED = 1_000
"""The newest workflows with questions that are compared; of older ones a page learns when it is loaded."""
MOST_CONFIRMED = 50
"""The newest of them that are asked what is still open: those of the first page."""


class Streams:
    """The number of open streams by person."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def open(self, user: str, lines: AsyncIterator[str]) -> AsyncIterator[str]:
        """Return the lines of a stream, counted while they are read. Raises `HTTPException` 429 for one too many."""
        if self._open[user] >= MOST_STREAMS:
            text = f"{user} has {MOST_STREAMS} live streams open; close some of the pages, then load this one again"
            raise HTTPException(429, text, {"Retry-After": "60"})
        return self._count(user, lines)

    async def _count(self, user: str, lines: AsyncIterator[str]) -> AsyncIterator[str]:
        self._open[user] += 1
        try:
            async for line in lines:
                yield line
        finally:
            self._open[user] -= 1
            await lines.aclose()  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Snapshot:
    """The result of a look."""

    seen: str
    """A fingerprint: it changes when what is looked at has changed."""
    has_ended: bool = False
    """True if it changes no more."""


@dataclass
class Watch:
    """Something that is watched, what was seen of it last, and who waits for a change."""

    look: Callable[[], Awaitable[Snapshot]]
    pace: float
    last: Snapshot | None = None
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    readers: int = 0
    task: asyncio.Task[None] | None = None

    async def wait_for_change(self, seen: str | None) -> Snapshot:
        """Wait until something else than this is seen, or the end; return what is seen then."""
        async with self.changed:
            await self.changed.wait_for(
                lambda: self.last is not None and (self.last.has_ended or self.last.seen != seen)
            )
        assert self.last is not None
        return self.last

    async def watch(self) -> None:
        """Look until the end."""
        while self.last is None or not self.last.has_ended:
            began = time.monotonic()
            # A look that fails is followed by the next one, which shows what has happened meanwhile.
            with suppress(NoWorker, RPCError, SQLAlchemyError):
                sight = await self.look()
                async with self.changed:
                    self.last = sight
                    self.changed.notify_all()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.wake.wait(), max(self.pace, SHARE * (time.monotonic() - began)))
            self.wake.clear()


class Live:
    """The runs and lists that browsers look at now.

    Args:
        runs: The runs of the site.
        record: The record, which has the comments.
    """

    def __init__(self, runs: Runs, record: Record | None = None) -> None:
        self.runs, self.record = runs, record
        self._watches: dict[str | None, Watch] = {}

    async def changes(self, run: str | None = None, seen: str | None = None) -> AsyncIterator[Snapshot]:
        """Yield what is seen of a run, or of the open questions, each time that it differs from the time before.

        It ends with the run.

        Args:
            run: The id of the run; None: the open questions.
            seen: The fingerprint of what the reader has; None: what is seen first, which is yielded only if it is the
                end.
        """
        watched = self._watches.setdefault(run, self._new(run))
        watched.readers += 1
        if watched.task is None:
            watched.task = asyncio.create_task(watched.watch())
        try:
            sight = Snapshot(seen) if seen is not None else await watched.wait_for_change(None)
            if sight.has_ended:  # since the page was made: nothing else will tell it
                yield sight
            while not sight.has_ended:
                sight = await watched.wait_for_change(sight.seen)
                yield sight
        finally:
            watched.readers -= 1
            if not watched.readers:
                self._watches.pop(run, None)
                watched.task.cancel()

    def nudge(self) -> None:
        """Look now: something was sent from here."""
        for watched in self._watches.values():
            watched.wake.set()

    async def fingerprint(self, state: RunState) -> str:
        """Return a text that changes when something of a run has happened, or was said of it."""
        comments = 0 if self.record is None else await self.record.count_comments(state.run)
        return make_digest(state.status, comments, *map(_fingerprint, state.views))

    def _new(self, run: str | None) -> Watch:
        if run is None:
            return Watch(self._look_at_questions, QUESTIONS_PACE)
        return Watch(lambda: self._look_at_run(run), RUN_PACE)

    async def _look_at_questions(self) -> Snapshot:
        rows = [row async for row in waiting_workflows(self.runs.client, MOST_POLLED)]
        newest = await confirm_all(self.runs.reader, rows[:MOST_CONFIRMED], PATIENCE_SECONDS)
        return Snapshot(make_digest(*(_describe(row) for row in [*newest, *rows[MOST_CONFIRMED:]])))

    async def _look_at_run(self, run: str) -> Snapshot:
        try:
            state = await self.runs.state(run)
        except UnknownRun:
            return Snapshot("", has_ended=True)
        return Snapshot(await self.fingerprint(state), state.status in CLOSED)


def _describe(row: Waiting) -> str:
    asked = [_describe_question(question) for question in row.open or ()]
    return f"{row.owner} {row.questions} {row.waiting_for} {row.since} {row.deadline} {asked}"


def _fingerprint(view: WorkflowView) -> str:
    asked = [_describe_question(question) for question in view.questions]
    return f"{view.workflow} {view.next_offset} {view.status} {asked}"


def _describe_question(question: Question) -> str:
    """Return what a page shows of an open question that changes without an event, also as time passes."""
    seen = QuestionView(question)
    return f"{question.id} {question.people} {question.answers_so_far} {seen.claimant} {seen.is_near}"

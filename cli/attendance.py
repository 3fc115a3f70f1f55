"""Attend a run from a terminal: print its progress and answer its questions until it ends or parks.

Used by `run` and `attach`.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from holdfast.cli.live_lines import LiveLines
from holdfast.cli.prompts import AnswerFile, AnswerSource, PipedAnswers, Terminal, can_edit
from holdfast.cli.tables import console
from holdfast.client.answer_files import read_entries
from holdfast.client.event_texts import closing_text, progress
from holdfast.client.events import Stream
from holdfast.client.runs import Runs
from holdfast.client.signals import Sent
from holdfast.client.states import STATUSES, Outcome, RunState
from holdfast.client.texts import place
from holdfast.client.tree import CLOSED
from holdfast.protocol.answers import Answer, Receipt, Refusal
from holdfast.protocol.events import Event, QuestionClosed
from holdfast.protocol.people import SIGN_IN, knows_groups, why_not
from holdfast.protocol.questions import Question
from holdfast.runtime.workers import NoWorker, WorkflowNotReadable

SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.3
"""Seconds between two polls: short after a change, longer while nothing happens."""
AGAIN = ("invalid_answer", "question_changed")
"""Codes of refusals after which the same question is asked again."""
ELSEWHERE = ("already_answered", "unknown_question", "expired", "run_closed")
"""Codes of refusals that mean that the question was closed from elsewhere."""


@dataclass
class Parked:
    """A run that waits for a person who does not answer at this terminal."""

    questions: list[Question]


class NotOpenError(Exception):
    """The question at the prompt is not open any more; the message says what became of it."""


async def answer_while_open(
    source: AnswerSource, question: Question, check_open: Callable[[Question], Awaitable[None]]
) -> Answer | None:
    """Return the answer of a source; look meanwhile whether the question is still open.

    Args:
        check_open: Raises `NotOpenError` if the question is answered elsewhere, or changed, or its deadline has passed.
    """
    asking = asyncio.ensure_future(source.answer(question))
    try:
        while not (await asyncio.wait([asking], timeout=LONGEST_PAUSE))[0]:
            await check_open(question)
    finally:
        # Waited for: until it has ended, the prompt holds the terminal and standard error.
        asking.cancel()
        await asyncio.wait([asking])
    return asking.result()


class Attendance:
    """One terminal attending one run."""

    def __init__(
        self, runs: Runs, run: str, *, sources: Sequence[AnswerSource], by: str, out: Console, is_new: bool = False
    ) -> None:
        """With `is_new` the terminal has just started the run: no archive has more of it than Temporal."""
        self.runs, self.run, self.sources, self.by, self.out = runs, run, sources, by, out
        self.state: RunState | None = None
        self._reading = runs.with_archive(None) if is_new else runs
        self._stream = Stream(self._reading.tree, run)
        self._read: dict[str, int] = {}
        self._left_open: set[str] = set()
        self._closed: dict[str, str] = {}
        """What became of questions, by id."""
        self._last_notice = ""
        self._pause = SHORTEST_PAUSE
        self._lines = LiveLines(out)

    async def until_rest(self) -> Outcome | Parked:
        """Attend the run until it has ended, or waits for a person who does not answer here."""
        try:
            return await self._until_rest()
        finally:
            self._lines.hide()

    async def _until_rest(self) -> Outcome | Parked:
        while not await self._has_ended():
            question = self._next_question()
            if question is not None:
                self._lines.hide()
                await self._answer(question)
                self._pause = SHORTEST_PAUSE
            elif self.waits_for_a_person and self.state:
                return Parked(self.state.questions)
            else:
                self._lines.show()
                await asyncio.sleep(self._pause)
                self._pause = min(self._pause * 1.3, LONGEST_PAUSE)
        return await self._reading.result(self.run)

    @property
    def waits_for_a_person(self) -> bool:
        """True if only an answer, or the end of a pause, can make the run go on."""
        state = self.state
        return state is not None and bool(state.questions) and state.status in ("waiting", "paused")

    async def _has_ended(self) -> bool:
        """Poll the run, print its new events, and return whether it has ended."""
        try:
            self.state = await self._reading.state(self.run)
            events = await self._new_events(self.state)
        except WorkflowNotReadable:
            raise
        except NoWorker as error:
            self._notice_once(f"{error} Waiting …", type(error).__name__)  # its text counts seconds
            self.state = None
            return (await self._reading.client.get_workflow_handle(self.run).describe()).status in STATUSES
        if events:
            self._pause = SHORTEST_PAUSE
        closed = (event.data for event in events if isinstance(event.data, QuestionClosed))
        self._closed |= {closing.id: closing_text(closing) for closing in closed}
        self._lines.take(self.state.blueprint, events)
        for line in filter(None, map(progress, events)):
            self.out.print(line)
        paused = self.state.status == "paused"
        self._notice_once(f"paused; resume it with: holdfast resume {shlex.quote(self.run)}" if paused else "")
        return self.state.status in CLOSED

    async def _new_events(self, state: RunState) -> list[Event]:
        """Return the events since the last poll; they are queried only if a view's offset has moved."""
        read = {view.workflow: view.next_offset for view in state.views}
        if read == self._read:
            return []
        self._read = read
        # All of them at once: a person would rather see an event now than have each in its place.
        return await self._stream.round(closed=True)

    def _notice_once(self, text: str, reason: str | None = None) -> None:
        """Print a notice, unless the last one had the same reason, which by default is its text."""
        reason = text if reason is None else reason
        if reason != self._last_notice and text:
            self.out.print(text, style="yellow")
        self._last_notice = reason

    def _next_question(self) -> Question | None:
        open_ = self.state.questions if self.state else []
        return next((question for question in open_ if question.id not in self._left_open), None)

    async def _answer(self, question: Question) -> None:
        """Answer a question from the first source that has an answer.

        It is left open if no source has one, or if this person may not answer it.
        """
        if reason := self._why_not(question):
            self.out.print(f"{place(question.address)}: {reason}", style="yellow")
            self._left_open.add(question.id)
            return None
        try:
            for source in self.sources:
                answer = await answer_while_open(source, question, self._check_open)
                if answer is not None:
                    return await self._send(question, answer, source)
        except NotOpenError as closed:
            self.out.print(f"{place(question.address)}: {closed}", style="yellow")
            return None
        self._left_open.add(question.id)
        return None

    async def _check_open(self, question: Question) -> None:
        """Print what is new, and raise `NotOpenError` unless the question is still open here as it was shown."""
        await self._has_ended()
        if self.state is None:  # no worker responds: the question stands
            return
        current = next((other for other in self.state.questions if other.id == question.id), None)
        if current is None:
            raise NotOpenError(self._closed.get(question.id, "it is not open any more"))
        if current.digest != question.digest:
            raise NotOpenError("it has changed, and is asked again")
        if self._why_not(current):
            raise NotOpenError("it waits for somebody else now")

    def _why_not(self, question: Question) -> str | None:
        """Return the reason not to ask the person at this terminal, if the configuration gives one."""
        people, groups = question.people, self.runs.answering.groups
        if self.by in question.accepted_by:
            return f"{question.so_far}; it waits for another person"
        if question.proof is not None:
            return SIGN_IN
        return why_not(people, self.by, groups) if knows_groups(people, groups) else None

    async def _send(self, question: Question, answer: Answer, source: AnswerSource) -> None:
        try:
            receipts = await self.runs.answer(self.run, [answer], by=self.by)
        except Refusal as refusal:
            self._report_refusal(question, refusal, source)
            return
        if any(isinstance(receipt, Receipt) and receipt.status == "waiting_quorum" for receipt in receipts):
            self._left_open.add(question.id)  # this person has answered it; others have not
        if any(isinstance(receipt, Sent) for receipt in receipts):
            self.out.print(
                "no worker responds: the answer was sent, and is processed as soon as one runs", style="yellow"
            )

    def _report_refusal(self, question: Question, refusal: Refusal, source: AnswerSource) -> None:
        if refusal.code in ELSEWHERE:
            self.out.print(f"{place(question.address)} was closed in the meantime: {refusal}", style="yellow")
        elif refusal.code in AGAIN:
            source.tell_refusal(question, str(refusal))
        else:
            self.out.print(f"not accepted ({refusal.code}): {refusal}", style="red")
            self._left_open.add(question.id)


def answer_sources(answers: Path | None) -> list[AnswerSource]:
    """Return the sources of answers, in the order in which they are asked: a file, then standard input."""
    out = console()
    files: list[AnswerSource] = [] if answers is None else [AnswerFile(read_entries(answers), out)]
    if sys.stdin is None or sys.stdin.closed:
        return files
    if sys.stdin.isatty():
        return [*files, Terminal(out, editing=can_edit())]
    return [*files, PipedAnswers(out)]

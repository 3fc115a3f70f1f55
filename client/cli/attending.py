"""Attending a run: what happens is shown, what it asks is answered from here, until it ends or parks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from client.answering import Sent
from client.events import Stream
from client.prompts import Source
from client.render import place, progress
from client.runs import STATUSES, Outcome, Runs, Standing
from client.tree import NoWorker
from protocol.answers import Answer, Receipt, Refusal
from protocol.people import knows_groups_of, why_not
from protocol.questions import Question
from protocol.runs import Event

SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.3
"""Seconds between two looks: short after something has happened, longer while nothing does."""
AGAIN = ("invalid_answer", "question_changed")
"""Refusals after which the same question is asked again."""
ELSEWHERE = ("already_answered", "unknown_question", "expired", "run_closed")
"""Refusals that say that the question has been closed by somebody else."""


@dataclass
class Parked:
    """The run waits for a person, and nobody here answers."""

    questions: list[Question]


class Attendance:
    """One terminal with one run. `standing` is what was seen last."""

    def __init__(self, runs: Runs, run: str, *, sources: Sequence[Source], by: str, out: Console) -> None:
        self.runs, self.run, self.sources, self.by, self.out = runs, run, sources, by, out
        self.standing: Standing | None = None
        self._stream = Stream(runs.tree, run)
        self._read: dict[str, int] = {}
        self._left_open: set[str] = set()
        self._told = ""
        self._pause = SHORTEST_PAUSE

    async def until_rest(self) -> Outcome | Parked:
        """Stay until the run has ended, or waits for a person who is not here."""
        while not await self._has_ended():
            question = self._next_question()
            if question is not None:
                await self._answer(question)
                self._pause = SHORTEST_PAUSE
            elif self.waits_for_a_person and self.standing:
                return Parked(self.standing.questions)
            else:
                await asyncio.sleep(self._pause)
                self._pause = min(self._pause * 1.3, LONGEST_PAUSE)
        return await self.runs.result(self.run)

    @property
    def waits_for_a_person(self) -> bool:
        """Whether only an answer, or the end of a pause, makes the run go on."""
        standing = self.standing
        return standing is not None and bool(standing.questions) and standing.status in ("waiting", "paused")

    async def _has_ended(self) -> bool:
        """Look at the run, and show what has happened since."""
        try:
            self.standing = await self.runs.standing(self.run)
            events = await self._new_events(self.standing)
        except NoWorker as error:
            self._tell_once(f"{error} Waiting …")
            self.standing = None
            return (await self.runs.handle(self.run).describe()).status in STATUSES
        if events:
            self._pause = SHORTEST_PAUSE
        for line in filter(None, map(progress, events)):
            self.out.print(line)
        paused = self.standing.status == "paused"
        self._tell_once(f"paused; it goes on with: holdfast resume {self.run}" if paused else "")
        return self.standing.status in STATUSES.values()

    async def _new_events(self, standing: Standing) -> list[Event]:
        """What has happened since the last look; asked for only if a workflow of the run has more to tell."""
        read = {view.workflow: view.next_offset for view in standing.views}
        if read == self._read:
            return []
        self._read = read
        return await self._stream.round(closed=True)

    def _tell_once(self, text: str) -> None:
        if text != self._told and text:
            self.out.print(text, style="yellow")
        self._told = text

    def _next_question(self) -> Question | None:
        open_ = self.standing.questions if self.standing else []
        return next((question for question in open_ if question.id not in self._left_open), None)

    async def _answer(self, question: Question) -> None:
        """Answer a question from the first source that has an answer; without one it is left open.

        So is one that this person may not answer.
        """
        if why := self._why_not(question):
            self.out.print(f"{place(question.address)}: {why}", style="yellow")
            self._left_open.add(question.id)
            return None
        for source in self.sources:
            answer = source.answer(question)
            if answer is not None:
                return await self._send(question, answer, source)
        self._left_open.add(question.id)
        return None

    def _why_not(self, question: Question) -> str | None:
        """Why there is no use in asking the person here, as far as this client's configuration tells."""
        people, groups = question.people, self.runs.answering.groups
        if self.by in question.accepted_by:
            return f"{question.so_far}; it waits for somebody else"
        return why_not(people, self.by, groups) if knows_groups_of(people, groups) else None

    async def _send(self, question: Question, answer: Answer, source: Source) -> None:
        try:
            receipts = await self.runs.answer(self.run, [answer], by=self.by)
        except Refusal as refusal:
            self._refused(question, refusal, source)
            return
        if any(isinstance(one, Receipt) and one.status == "waiting_quorum" for one in receipts):
            self._left_open.add(question.id)  # by this person it was answered
        if any(isinstance(receipt, Sent) for receipt in receipts):
            self.out.print("no worker answers: the answer was sent, and waits for one", style="yellow")

    def _refused(self, question: Question, refusal: Refusal, source: Source) -> None:
        if refusal.code in ELSEWHERE:
            self.out.print(f"{place(question.address)} was closed meanwhile: {refusal}", style="yellow")
        elif refusal.code in AGAIN:
            source.refused(question, str(refusal))
        else:
            self.out.print(f"not taken ({refusal.code}): {refusal}", style="red")
            self._left_open.add(question.id)

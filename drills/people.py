"""Somebody who answers every question of the runs under drill: a card's charge that was lost, by what the file says."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from pathlib import Path

from temporalio.service import RPCError

from drills.tools import list_effects
from holdfast.blueprint.json_values import JSON
from holdfast.client.runs import Runs
from holdfast.client.tree import UnknownRun
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.questions import Question
from holdfast.runtime.errors import NothingSent, ServerUnreachable
from holdfast.runtime.workers import NoWorker

OUTAGES = (RPCError, NoWorker, NothingSent, ServerUnreachable, UnknownRun, TimeoutError, RuntimeError)
"""What an outage looks like to a client. The next look finds the question again."""
LOOK_SECONDS = 1.0


class Person:
    """Answers, and remembers what was accepted."""

    def __init__(self, runs: Runs, folder: Path) -> None:
        self._runs, self._folder = runs, folder
        self.given: dict[str, dict[str, JSON]] = defaultdict(dict)
        """The answers that were taken, or sent for the next worker: by run and question, in their order."""

    async def answer_all(self, running: set[str]) -> None:
        """Answer the questions of these runs, until cancelled."""
        while True:
            await asyncio.gather(*(self._answer_run(run) for run in list(running)))
            await asyncio.sleep(LOOK_SECONDS)

    async def _answer_run(self, run: str) -> None:
        try:
            for question in await self._runs.questions(run):
                await self._answer(run, question)
        except OUTAGES:
            return
        except Refusal as refusal:
            if refusal.code == "invalid_answer":  # all others say that it was answered meanwhile
                raise

    async def _answer(self, run: str, question: Question) -> None:
        # The content and the key are the same each time: it is one answer, however often it is sent.
        content = self.choose_content(question)
        await self._runs.answer(run, [Answer(question=question.id, content=content)], key=question.id)
        self.given[run][question.id] = content

    def choose_content(self, question: Question) -> JSON:
        """Return the answer to a question."""
        return self._judge(question) if question.asked.kind == "lost_call" else f"said {question.id}"

    def _judge(self, question: Question) -> JSON:
        key = question.info["input"]["key"]
        if key in list_effects(self._folder):
            return {"outcome": "done", "result": f"charged {key}"}
        return {"outcome": "retry"}

    def said(self, run: str) -> list[JSON]:
        """Return what was answered to a run, without what was said of lost calls."""
        return [content for content in self.given[run].values() if isinstance(content, str)]

    @property
    def judged(self) -> Counter[str]:
        """Return the number of lost calls by outcome."""
        contents = [content for given in self.given.values() for content in given.values()]
        return Counter(
            str(content["outcome"]) for content in contents if isinstance(content, dict) and "outcome" in content
        )

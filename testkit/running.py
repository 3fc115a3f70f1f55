"""One test: its run is started, answered and brought to rest; then it is compared, and replayed."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from temporalio.service import RPCError

from blueprint.changes import with_model
from blueprint.grammar import Blueprint
from client.answering import Sent
from client.config import load_config
from client.errors import BadInput
from client.history import histories
from client.reading import Entry, entries_of, name_of
from client.runs import STATUSES, Outcome, Runs, Standing
from client.tree import NoWorker
from protocol.answers import Refusal
from protocol.guard import DEPLOYMENT
from protocol.people import why_not
from protocol.questions import Question
from protocol.runs import CONTEXT
from testkit.expecting import At, Difference
from testkit.files import Case, CaseFile
from testkit.outcome import Happened, unmet
from testkit.stage import House, Stage

TESTER = "user:tester"
"""Who starts every run, and answers where a test does not say `by`."""
PATIENCE = 60.0
"""Seconds that a run may be at work without coming to rest."""
MOMENT_PATIENCE = 15.0
"""Seconds until the server has told a workflow that its time has come."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.005, 0.1


@dataclass(frozen=True)
class Verdict:
    """How a test went: it passed if it has no differences."""

    file: CaseFile
    case: Case
    differences: list[Difference]
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.differences


class Restless(Exception):
    """A run that goes on and on, or that cannot be asked."""


async def run_case(stage: Stage, file: CaseFile, case: Case) -> Verdict:
    """Run a test. Raises `ConfigError` where its worker cannot be started."""
    start = time.monotonic()
    house = await stage.house(load_config(file.path.parent))
    DEPLOYMENT.groups = {name: list(members) for name, members in house.config.groups.items()}
    rehearsal = _Rehearsal(stage, house, file, case)
    found = await rehearsal.differences()
    house.tools.end(rehearsal.run)
    return Verdict(file, case, found, time.monotonic() - start)


@dataclass
class _Written:
    """One answer of the test."""

    entry: Entry
    by: str
    at: At


@dataclass
class _Rehearsal:
    """A run under test. `asked` and `troubles` grow on the way."""

    stage: Stage
    house: House
    file: CaseFile
    case: Case
    run: str = field(default_factory=lambda: f"test-{secrets.token_hex(6)}")
    asked: dict[str, Question] = field(default_factory=dict)
    passed: set[tuple[str, datetime]] = field(default_factory=set)
    """Moments of questions that are over."""
    troubles: list[Difference] = field(default_factory=list)

    @property
    def runs(self) -> Runs:
        return self.house.runs

    async def differences(self) -> list[Difference]:
        calls = self.house.tools.begin(self.run, self.case.tools)
        try:
            await self.runs.start(self._blueprint(), self.case.input, run=self.run, started_by=TESTER)
        except BadInput as error:
            return [self._trouble(f"the run was not started: {error}", "input")]
        try:
            return [*await self._compared(calls), *await self._replayed()]
        except (Restless, NoWorker) as error:
            return [*self.troubles, self._trouble(f"the run came to no rest: {error}")]
        finally:
            await self._end()

    async def _compared(self, calls: dict[str, list[Any]]) -> list[Difference]:
        answers = self._answers()
        happened = await self._happened(await self._attended(answers), calls)
        found = [*self.troubles, *unmet(self.case, happened)]
        if happened.outcome.status == self.case.status:
            found += [self._unused(one) for one in answers if not one.entry.tried]
        return found

    def _blueprint(self) -> Blueprint:
        """The blueprint, with the test's replies for its models."""
        script = self.case.model
        if script is None:
            return self.file.blueprint
        path = script.file
        if path is None:
            path = self.stage.folder / f"{self.run}.json"
            path.write_text(json.dumps(script.replies))
        return with_model(self.file.blueprint, f"scripted:{path}")

    def _answers(self) -> list[_Written]:
        written = self.case.answers
        if written is None:
            return []
        at = At(self.case.place, f"{self.case.path}.answers")
        return [
            _Written(entry, str(item.get("by", TESTER)), at.item(written, index))
            for index, (entry, item) in enumerate(zip(entries_of(written), written, strict=True))
        ]

    # Answering

    async def _attended(self, answers: Sequence[_Written]) -> Standing:
        """Answer what is asked, one question a time, until the run has ended or waits for a person."""
        while True:
            standing = await self._at_rest()
            self.asked |= {one.id: one for one in standing.questions if one.id not in self.asked}
            if standing.status in STATUSES.values():
                return standing
            if found := self._next(standing.questions, answers):
                await self._answer(*found)
            elif not await self._time_passed(standing.questions):
                return standing

    def _next(self, open_: Sequence[Question], answers: Sequence[_Written]) -> tuple[Question, _Written] | None:
        """The question that has been open longest, as the test saw it, and that an answer fits."""
        known = {question.id: question for question in open_}
        for question in (known[id_] for id_ in self.asked if id_ in known):
            for written in answers:
                if self._fits(written, question):
                    return question, written
        return None

    def _fits(self, written: _Written, question: Question) -> bool:
        """Whether it can be sent; the answer of somebody who is not asked yet is kept for later."""
        if question.id in written.entry.tried or not written.entry.fits(question):
            return False
        may = why_not(question.people, written.by, DEPLOYMENT.groups) is None
        return may or self.case.status == "waiting" or not self._rungs(question)

    async def _answer(self, question: Question, written: _Written) -> None:
        answer = written.entry.answer(question)
        try:
            receipts = await self.runs.answer(self.run, [answer], by=written.by)
        except Refusal as refusal:
            told = f"the answer to {name_of(question)} was refused ({refusal.code}): {refusal}"
            self.troubles.append(Difference(written.at.place, written.at.path, note=told))
            return
        if any(isinstance(receipt, Sent) for receipt in receipts):
            raise Restless("its worker has gone")

    async def _time_passed(self, open_: Sequence[Question]) -> bool:
        """Let time pass until the next moment of a question, unless the test is about the waiting."""
        moments = [(moment, one) for one in open_ for moment in self._moments(one)]
        if not moments or self.case.status == "waiting":
            return False
        moment, question = min(moments, key=lambda one: (one[0], one[1].address))
        self.passed.add((question.id, moment))
        try:
            await self.stage.pass_time(self.runs.handle(question.owner), moment)
        except RPCError as error:
            raise Restless(f"this `temporal` cannot skip time: {error}") from error
        await self._until_noticed(question)
        return True

    def _moments(self, question: Question) -> list[datetime]:
        """When something happens to it if nobody answers: its deadline, the rungs of its ladder."""
        deadline = [] if question.deadline is None else [question.deadline]
        return [one for one in deadline if (question.id, one) not in self.passed] + self._rungs(question)

    def _rungs(self, question: Question) -> list[datetime]:
        ladder = self.file.names.ladders.get(name_of(question), [])
        moments = [question.asked_at + timedelta(seconds=after) for after in ladder]
        return [one for one in moments if (question.id, one) not in self.passed]

    async def _until_noticed(self, question: Question) -> None:
        """Until the question is closed, or put to others."""
        end = time.monotonic() + MOMENT_PATIENCE
        while any(one.id == question.id and one.assignees == question.assignees for one in await self._questions()):
            if time.monotonic() > end:
                raise Restless(f"its time has come, and {name_of(question)} is as open as before")
            await asyncio.sleep(SHORTEST_PAUSE)

    async def _questions(self) -> list[Question]:
        return (await self.runs.standing(self.run)).questions

    async def _at_rest(self) -> Standing:
        """The run, once it has ended or nothing of it moves."""
        end, pause = time.monotonic() + PATIENCE, SHORTEST_PAUSE
        while True:
            try:
                standing = await self.runs.standing(self.run)
                trouble = f"it is still at work after {PATIENCE:.0f} s"
                if standing.status != "running":
                    return standing
            except NoWorker as error:
                trouble = str(error)
            if time.monotonic() > end:
                raise Restless(trouble)
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)

    # What became of it

    async def _happened(self, standing: Standing, calls: dict[str, list[Any]]) -> Happened:
        if standing.status in STATUSES.values():
            outcome = self._told(await self.runs.result(self.run))
        else:
            outcome = Outcome(self.run, standing.status, context=await self.runs.context(standing))
        context = outcome.context
        if context is None:
            context = await self.runs.tree.query(self.run, CONTEXT, None, dict[str, Any])
        trace = await self.runs.trace(standing, last=None)
        return Happened(outcome, list(self.asked.values()), standing.questions, context, trace, calls)

    def _told(self, outcome: Outcome) -> Outcome:
        """The outcome with the replies called as their author knows them."""
        if outcome.error is None or self.case.model is None:
            return outcome
        place = self.case.model.place
        shown = f"{self.file.shown}:{place.line}"
        message = outcome.error.message.replace(str(self.stage.folder / f"{self.run}.json"), shown)
        return replace(outcome, error=outcome.error.model_copy(update={"message": message}))

    def _unused(self, written: _Written) -> Difference:
        asked = ", ".join(name_of(one) for one in self.asked.values()) or "nothing"
        told = f"no question fits {written.entry.pattern!r}; asked: {asked}"
        return Difference(written.at.place, written.at.path, note=told)

    async def _replayed(self) -> list[Difference]:
        """A run that cannot be replayed would be lost with its worker."""
        found = []
        async for history in histories(self.runs.client, self.run):
            failure = await self.stage.replay(history)
            if failure is not None:
                found.append(self._trouble(f"{history.workflow_id} is not followed on replay: {failure}"))
        return found

    def _trouble(self, told: str, key: str = "") -> Difference:
        return Difference(self.case.place, f"{self.case.path}.{key}" if key else self.case.path, note=told)

    async def _end(self) -> None:
        """Leave nothing behind that waits or works."""
        described = await self.runs.handle(self.run).describe()
        if described.status not in STATUSES:
            await self.runs.handle(self.run).terminate("the test is over")

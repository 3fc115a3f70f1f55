"""The runner of one test: it starts a run, answers until the run settles, compares it, and replays it."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from holdfast.blueprint.changes import with_model, with_workflows
from holdfast.blueprint.durations import read_duration, say_duration
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.source import PlacedDict
from holdfast.client.answer_files import Entry, make_entries, waits_for_escalation
from holdfast.client.answering import Sender
from holdfast.client.history import histories
from holdfast.client.runs import Runs
from holdfast.client.signals import Sent
from holdfast.client.states import STATUSES, Outcome, RunState
from holdfast.protocol.address import name_asker
from holdfast.protocol.answers import Refusal
from holdfast.protocol.guard import DEPLOYMENT
from holdfast.protocol.questions import Question
from holdfast.runtime.config import load_config
from holdfast.runtime.errors import BadInput
from holdfast.runtime.workers import NoWorker
from holdfast.testkit.clock import name_signal
from holdfast.testkit.environment import INBOX, ConfiguredRuns, TestEnvironment
from holdfast.testkit.files import Case, CaseFile
from holdfast.testkit.matching import At, Difference
from holdfast.testkit.names import is_pattern
from holdfast.testkit.outcome import ObservedRun, unmet_expectations
from holdfast.testkit.own_workflows import SIGNALLED

TESTER = "user:tester"
"""The user who starts every run, and who answers if a test has no `by`."""
PATIENCE = 60.0
"""Seconds a run may take to settle."""
MOMENT_PATIENCE = 15.0
"""Seconds the server may take to tell a workflow that its time has come."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.005, 0.1
_MOST_TOLD = 8
"""Questions that are named where an answer fits none."""
Observer = Callable[[Runs, RunState], Awaitable[None]]
"""What is called each time the run under test has settled, and once more when it has ended."""


@dataclass(frozen=True)
class CaseResult:
    """The result of a test; it passed if there are no differences."""

    file: CaseFile
    case: Case
    differences: list[Difference]
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.differences


class DidNotSettle(Exception):
    """The failure of a run that does not settle, or cannot be queried."""


async def _ignore(_runs: Runs, _state: RunState) -> None:
    """Observe nothing."""


async def run_case(
    environment: TestEnvironment, file: CaseFile, case: Case, *, observer: Observer = _ignore
) -> CaseResult:
    """Run a test. Raises `ConfigError` if its worker cannot be started."""
    start = time.monotonic()
    configured = await environment.house(load_config(file.path.parent))
    # Workers of all configurations share this process and its guard, so it is set for each test.
    DEPLOYMENT.limits, DEPLOYMENT.inbox = configured.config.limits, INBOX
    DEPLOYMENT.groups = {name: list(members) for name, members in configured.config.groups.items()}
    case_run = CaseRun(environment, configured, file, case, observer)
    differences = await case_run.differences()
    configured.tools.end(case_run.run)
    return CaseResult(file, case, differences, time.monotonic() - start)


@dataclass
class _TestAnswer:
    """An answer of the test, with its position."""

    entry: Entry
    by: str
    at: At
    after: float | None
    """Seconds after the question was asked when it is given; None: as soon as it can be."""
    refused: str | None
    """The code with which it must be refused."""

    def find_moment(self, question: Question) -> datetime | None:
        """Return when it is given, if that is said."""
        return None if self.after is None else question.asked_at + timedelta(seconds=self.after)


@dataclass(frozen=True, order=True)
class Moment:
    """A time to which the clock of a workflow is moved."""

    at: datetime
    owner: str
    question: Question | None = field(default=None, compare=False)
    """The question that has something happen then; without one it is a timer, a deadline or an answer."""


@dataclass
class CaseRun:
    """A run under test; `asked` and `problems` grow while it is attended."""

    environment: TestEnvironment
    configured: ConfiguredRuns
    file: CaseFile
    case: Case
    observer: Observer = _ignore
    run: str = field(default_factory=lambda: f"test-{secrets.token_hex(6)}")
    asked: dict[str, Question] = field(default_factory=dict)
    clocks: dict[str, datetime] = field(default_factory=dict)
    """The moments to which the clocks of workflows were moved, by their ids."""
    problems: list[Difference] = field(default_factory=list)

    @property
    def runs(self) -> Runs:
        return self.configured.runs

    async def differences(self) -> list[Difference]:
        signals: dict[str, list[JSON]] = {name: [None] for name in self.file.names.signals}
        calls = self.configured.tools.begin(self.run, {**signals, **self.case.tools})
        try:
            await self._start_signal_taker()
            await self.start()
        except BadInput as error:
            return [self._problem(f"the run was not started: {error}", "input")]
        try:
            return [*await self._compare(calls), *await self._replay()]
        except (DidNotSettle, NoWorker) as error:
            return [*self.problems, self._problem(f"the run did not settle: {error}")]
        finally:
            await self._end()

    async def start(self) -> None:
        """Start the run. Raises `BadInput`."""
        await self.runs.start(self._blueprint(), self.case.input, run=self.run, started_by=self.case.by or TESTER)

    async def _compare(self, calls: dict[str, list[JSON]]) -> list[Difference]:
        answers = self._answers()
        observed = await self._observe(await self._answer_questions(answers), calls)
        differences = [*self.problems, *unmet_expectations(self.case, observed)]
        return [*differences, *(self._unused_answer(answer) for answer in answers if not answer.entry.tried)]

    def _blueprint(self) -> Blueprint:
        """Return the blueprint, with the test's replies in place of its models."""
        blueprint = with_workflows(self.file.blueprint, self.configured.own_queue, self._signal_taker)
        script = self.case.model
        if script is None:
            return blueprint
        path = script.file
        if path is None:
            path = self.environment.folder / f"{self.run}.json"
            path.write_text(json.dumps(script.replies))
        return with_model(blueprint, f"scripted:{path}")

    @property
    def _signal_taker(self) -> str:
        """The id of the workflow that takes the run's signals to workflows of its author's own."""
        return f"{self.run}/{SIGNALLED}"

    async def _start_signal_taker(self) -> None:
        if self.file.names.signals:
            await self.runs.client.start_workflow(
                SIGNALLED, id=self._signal_taker, task_queue=self.configured.own_queue
            )

    def _answers(self) -> list[_TestAnswer]:
        answers = self.case.answers
        if answers is None:
            return []
        at = At(self.case.place, f"{self.case.path}.answers")
        return [
            _read_answer(entry, item, at.item(answers, index))
            for index, (entry, item) in enumerate(zip(make_entries(answers), answers, strict=True))
        ]

    # Answering

    async def _answer_questions(self, answers: Sequence[_TestAnswer]) -> RunState:
        """Answer one question at a time until the run has ended, or waits for an answer that the test does not have."""
        while True:
            state = await self._wait_until_settled()
            await self.observer(self.runs, state)
            open_ = _list_open(state)
            self.asked |= {question.id: question for question in open_ if question.id not in self.asked}
            if state.status in STATUSES.values():
                return state
            if match := self._next(open_, answers):
                await self._answer(*match)
            elif not await self._let_time_pass(state, answers):
                return state

    def _next(self, open_: Sequence[Question], answers: Sequence[_TestAnswer]) -> tuple[Question, _TestAnswer] | None:
        """Return the question open longest for which there is an answer, with that answer."""
        open_by_id = {question.id: question for question in open_}
        for question in (open_by_id[id_] for id_ in self.asked if id_ in open_by_id):
            for answer in answers:
                if self._may_send(answer, question):
                    return question, answer
        return None

    def _may_send(self, answer: _TestAnswer, question: Question) -> bool:
        """Return whether to send the answer now.

        If its author may answer only after an escalation, it is kept until then, unless the test says otherwise.
        """
        if not answer.entry.can_answer(question):
            return False
        if (moment := answer.find_moment(question)) is not None:
            return self._has_come(moment, question)
        if answer.refused is not None or self.case.status == "waiting":
            return True
        return not waits_for_escalation(question, answer.by, DEPLOYMENT.groups)

    async def _answer(self, question: Question, written_answer: _TestAnswer) -> None:
        by, runs = written_answer.by, self.runs
        if question.proof is not None and by is not None:  # a test has nobody who signs in
            runs = runs.acting_as(Sender(by, proof=question.proof))
        try:
            answer = written_answer.entry.answer(question)
            receipts = await runs.answer(self.run, [answer], by=by)
        except Refusal as refusal:
            if refusal.code != written_answer.refused:
                message = f"the answer to {name_asker(question.address)} was refused ({refusal.code}): {refusal}"
                self.problems.append(Difference(written_answer.at.place, written_answer.at.path, note=message))
            return
        if written_answer.refused is not None:
            message = f"the answer to {name_asker(question.address)} was not refused ({written_answer.refused})"
            self.problems.append(Difference(written_answer.at.place, written_answer.at.path, note=message))
        if any(isinstance(receipt, Sent) for receipt in receipts):
            raise DidNotSettle("its worker is gone")

    async def _let_time_pass(self, state: RunState, answers: Sequence[_TestAnswer]) -> bool:
        """Move the clock to the next moment of a question, an answer, a timer or a deadline; return False without one.

        A test that waits lets time pass only for its answers, and while nobody is asked.
        """
        given = [moment for question in _list_open(state) for moment in self._moments_of_answers(question, answers)]
        moments = [
            *given,
            *(Moment(at, owner) for at, owner in [*state.timers, *state.deadlines]),
            *(Moment(at, question.owner, question) for question in _list_open(state) for at in _list_ends(question)),
        ]
        if state.questions and self.case.status == "waiting":
            moments = [moment for moment in moments if any(moment <= answer for answer in given)]
        if not moments:
            return False
        await self._move_clock(self._find_reminder(state, before=min(moments)) or min(moments))
        return True

    def _moments_of_answers(self, question: Question, answers: Sequence[_TestAnswer]) -> list[Moment]:
        """Return when answers of the test come to an open question, of those that come later."""
        moments = [answer.find_moment(question) for answer in answers if answer.entry.can_answer(question)]
        return [Moment(at, question.owner) for at in moments if at is not None and not self._has_come(at, question)]

    def _find_reminder(self, state: RunState, before: Moment) -> Moment | None:
        """Return the next reminder of a question; reminders alone do not keep a run going."""
        asked = [(question.reminds_at, question) for question in _list_open(state)]
        moments = [Moment(at, question.owner, question) for at, question in asked if at is not None]
        return min((moment for moment in moments if moment < before), default=None)

    def _has_come(self, moment: datetime, question: Question) -> bool:
        """Return whether the clock of the workflow that asks was moved to a moment."""
        return self.clocks.get(question.owner, question.asked_at) >= moment

    async def _move_clock(self, moment: Moment) -> None:
        """Move the clock of a workflow to a moment, and wait until what is due then has happened."""
        self.clocks[moment.owner] = max(moment.at, self.clocks.get(moment.owner, moment.at))
        await self.runs.client.get_workflow_handle(moment.owner).signal(name_signal(moment.at))
        end = time.monotonic() + MOMENT_PATIENCE
        while await self._is_due(moment):
            if time.monotonic() > end:
                what = "a timer" if moment.question is None else name_asker(moment.question.address)
                raise DidNotSettle(f"the time of {what} has come ({moment.at.isoformat()}), but nothing has happened")
            await asyncio.sleep(SHORTEST_PAUSE)

    async def _is_due(self, moment: Moment) -> bool:
        """Return whether a timer, a deadline or a moment of a question is still to come, though its time has come."""
        state = await self.runs.state(self.run)
        if moment.question is None:
            return (moment.at, moment.owner) in [*state.timers, *state.deadlines]
        same = [question for question in _list_open(state) if question.id == moment.question.id]
        return any(at <= moment.at for question in same for at in [*_list_ends(question), question.reminds_at] if at)

    async def _wait_until_settled(self) -> RunState:
        """Return the state of the run once it has ended, or nothing in it moves."""
        end, pause = time.monotonic() + PATIENCE, SHORTEST_PAUSE
        while True:
            try:
                state = await self.runs.state(self.run)
                problem = f"it is still running after {PATIENCE:.0f} s"
                if state.status != "running" or _rests(state):
                    return state
            except NoWorker as error:
                problem = str(error)
            if time.monotonic() > end:
                raise DidNotSettle(problem)
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)

    # The outcome

    async def _observe(self, state: RunState, calls: dict[str, list[JSON]]) -> ObservedRun:
        outcome = self._with_source_named(await self.runs.watch.outcome(state))
        trace = await self.runs.watch.trace(state, last=None)
        has_history = self.case.expect is not None and bool({"questions", "events"} & self.case.expect.keys())
        events = await self.runs.watch.events(self.run) if has_history else []
        return ObservedRun(outcome, list(self.asked.values()), state.questions, trace, calls, events)

    def _with_source_named(self, outcome: Outcome) -> Outcome:
        """Return the outcome with the test file in place of the temporary file of replies."""
        if outcome.error is None or self.case.model is None:
            return outcome
        place = self.case.model.place
        source = f"{self.file.display_path}:{place.line}"
        message = outcome.error.message.replace(str(self.environment.folder / f"{self.run}.json"), source)
        return replace(outcome, error=outcome.error.model_copy(update={"message": message}))

    def _unused_answer(self, answer: _TestAnswer) -> Difference:
        by_address = is_pattern(answer.entry.pattern)
        asked = [question.address if by_address else name_asker(question.address) for question in self.asked.values()]
        told = ", ".join([*asked[:_MOST_TOLD], *(["…"] if len(asked) > _MOST_TOLD else [])]) or "nothing"
        then = "" if answer.after is None else f" and is open {say_duration(answer.after)} after it was asked"
        message = f"no question fits {answer.entry.pattern!r}{then}; asked: {told}"
        return Difference(answer.at.place, answer.at.path, note=message)

    async def _replay(self) -> list[Difference]:
        """Replay every history of the run: one that fails would strand the run when its worker restarts."""
        failures = []
        async for history in histories(self.runs.client, self.run):
            failure = await self.environment.replay(history)
            if failure is not None:
                failures.append(self._problem(f"the replay of {history.workflow_id} failed: {failure}"))
        return failures

    def _problem(self, message: str, key: str = "") -> Difference:
        return Difference(self.case.place, f"{self.case.path}.{key}" if key else self.case.path, note=message)

    async def _end(self) -> None:
        """Terminate the run if it is still open."""
        for workflow in [self.run, *([self._signal_taker] if self.file.names.signals else [])]:
            handle = self.runs.client.get_workflow_handle(workflow)
            if (await handle.describe()).status not in STATUSES:
                await handle.terminate("the test is over")


def _read_answer(entry: Entry, written: PlacedDict, at: At) -> _TestAnswer:
    after = read_duration(written["after"]) if written.get("after") is not None else None
    return _TestAnswer(entry, str(written.get("by", TESTER)), at, after, written.get("refused"))


def _list_open(state: RunState) -> list[Question]:
    """Return the open questions, and the events that are waited for."""
    return [*state.questions, *state.events]


def _list_ends(question: Question) -> list[datetime]:
    """Return when something happens to a question that nobody answers: its deadline and its next escalation."""
    return [at for at in (question.deadline, question.escalates_at) if at is not None]


def _rests(state: RunState) -> bool:
    """Return whether each workflow of a run waits for a timer, an event, a question or a child."""
    waits = state.timers or state.events
    return bool(waits) and all(
        not view.moving and (view.timers or view.events or view.questions or view.children) for view in state.views
    )

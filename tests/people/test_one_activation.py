"""What meets an answer in one activation: a cancel, the deadline, a pause, another answer, in every order.

Each question is closed once, and who answered is told the truth. A cancel comes before an answer, in whatever order
they were sent, and a signal before an update: see `workflows/activation.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest
from temporalio import workflow

from holdfast.protocol.answers import Answer
from holdfast.protocol.names import PAUSE, RESUME
from holdfast.workflows.human import HumanInTheLoop
from tests.conftest import Harness
from tests.people.activations import SIGNAL, UPDATE, FedRun

DEADLINE = timedelta(days=3)
ASK = "{kind: hitl, name: ask, message: Go?%s}"
THEN = "{kind: hitl, name: then, message: And?}"
WAYS = [UPDATE, SIGNAL]
WAITS = ["", ", timeout: 3d, default: nobody", ", remind_every: 1d"]
CLOSED = ("question.answered", "question.expired", "question.cancelled", "question.declined")


def runs(*steps: str, orders: int) -> Iterator[tuple[FedRun, tuple[int, ...]]]:
    """A new run for each order of so many jobs."""
    for order in permutations(range(orders)):
        yield FedRun(f"steps: [{', '.join(steps)}]"), order


def fed(run: FedRun, order: tuple[int, ...], *jobs: Any, after: timedelta = timedelta()) -> None:
    run.feed(*(jobs[index] for index in order), after=after)


def closings(run: FedRun) -> list[str]:
    return [type_ for type_ in run.events if type_ in CLOSED]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wait", WAITS)
def test_an_answer_and_a_cancel(wait: str, way: str) -> None:
    for run, order in runs(ASK % wait, THEN, orders=2):
        fed(run, order, run.answer("me", by=way), run.cancel())
        assert run.ended == "cancelled"
        assert closings(run) == ["question.cancelled"]
        assert run.updates == (["rejected"] if way == UPDATE else [])
        assert len(run.view.refused) == (way == SIGNAL)
        assert run.timers == {}


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_that_ends_the_run_and_a_cancel(way: str) -> None:
    for wait in WAITS:
        for run, order in runs(ASK % wait, orders=2):
            fed(run, order, run.answer("me", by=way), run.cancel())
            assert run.ended == "cancelled"
            assert closings(run) == ["question.cancelled"]


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_and_the_deadline_agree_on_who_won(way: str) -> None:
    for run, order in runs(ASK % WAITS[1], orders=2):
        fed(run, order, run.answer("me", by=way), run.timer(), after=DEADLINE)
        # The validator of an update refuses what comes at the deadline; a signal has none, and is there first.
        assert closings(run) == ["question.expired" if way == UPDATE else "question.answered"]
        assert run.updates == (["rejected"] if way == UPDATE else [])
        assert run.output() == ("nobody" if way == UPDATE else "me")


def test_an_update_taken_before_the_deadline_of_a_later_activation() -> None:
    for run, order in runs(ASK % WAITS[1], orders=2):
        fed(run, order, run.answer("me"), run.timer(), after=DEADLINE - timedelta(milliseconds=1))
        assert (closings(run), run.updates, run.output()) == (["question.answered"], ["completed"], "me")


def test_a_cancel_and_the_deadline() -> None:
    for run, order in runs(ASK % WAITS[1], THEN, orders=2):
        fed(run, order, run.cancel(), run.timer(), after=DEADLINE)
        assert run.ended == "cancelled"
        assert len(closings(run)) == 1
        assert "nobody" not in str(run.events)


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_a_cancel_and_the_deadline(way: str) -> None:
    for run, order in runs(ASK % WAITS[1], THEN, orders=3):
        fed(run, order, run.answer("me", by=way), run.cancel(), run.timer(), after=DEADLINE)
        assert run.ended == "cancelled"
        assert closings(run) == ["question.cancelled"]


@pytest.mark.parametrize("pausing", WAYS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wait", WAITS[:2])
def test_an_answer_and_a_pause(wait: str, way: str, pausing: str) -> None:
    for run, order in runs(ASK % wait, THEN, orders=2):
        fed(run, order, run.answer("me", by=way), run.message(PAUSE, by=pausing))
        assert (closings(run), run.view.status) == (["question.answered"], "paused")
        pause_came_first = order == (1, 0) if way == pausing else pausing == SIGNAL
        assert run.events.count("step.started") == (1 if pause_came_first else 2), "a paused run has begun a step"
        run.feed(run.message(RESUME, by=pausing))
        assert [question.message for question in run.view.questions] == ["And?"]


@pytest.mark.parametrize("wait", WAITS)
def test_two_answers(wait: str) -> None:
    for run, order in runs(ASK % wait, orders=2):
        fed(run, order, run.answer("first"), run.answer("second"))
        assert closings(run) == ["question.answered"]
        assert sorted(run.updates) == ["completed", "rejected"]
        assert run.output() == ["first", "second"][order[0]]


@pytest.mark.parametrize("wait", WAITS[:2])
def test_an_answer_by_signal_and_one_by_update(wait: str) -> None:
    for run, order in runs(ASK % wait, THEN, orders=2):
        fed(run, order, run.answer("signalled", by=SIGNAL), run.answer("updated"))
        assert closings(run) == ["question.answered"]
        refused = len(run.view.refused)
        assert (run.updates, refused) in [(["completed"], 1), (["rejected"], 0)]


BRANCHES = """
steps:
- kind: parallel
  name: both
  branches:
    one: [{kind: hitl, name: a, message: Go?%s}, {kind: hitl, name: again, message: And?}]
    two: [{kind: hitl, name: b, message: Or?}]
"""


@pytest.mark.parametrize("wait", WAITS)
def test_an_answer_and_the_failure_of_the_branch_beside_it(wait: str) -> None:
    for order in permutations(range(2)):
        run = FedRun(BRANCHES % wait)
        fed(run, order, run.answer("me"), run.answer(n=1, action="decline"))
        # Once the branch beside it has failed, the question is closed.
        assert run.updates == ["completed", "completed" if order == (0, 1) else "rejected"]
        assert run.ended == "failed"
        assert run.timers == {}


@workflow.defn
class Hasty(HumanInTheLoop):
    """Asks, and gives the question up at once."""

    @workflow.run
    async def run(self) -> None:
        asking = asyncio.create_task(self.human.ask("Pay?"))
        await asyncio.sleep(0)
        asking.cancel()
        await workflow.wait([asking])
        await workflow.wait_condition(lambda: False)


def test_a_question_that_is_given_up_as_it_is_asked() -> None:
    run = FedRun(Hasty)
    assert run.view.questions == []
    assert closings(run) == ["question.cancelled"]


async def test_a_batch_that_declines_one_branch_and_answers_another(house: Harness) -> None:
    run = await house.start(BRANCHES % WAITS[1])
    a, b = await house.asked(run, 2)
    await house.runs.answer(run, [Answer(question=b.id, action="decline"), Answer(question=a.id, content="me")])
    outcome = await house.result(run)
    assert (outcome.status, outcome.error.type) == ("failed", "question_declined")

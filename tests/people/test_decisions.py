"""Random decisions of several people about the questions of a loop, with time, pauses and cancels among them.

Each seed feeds one loop by hand (see `activations`): one to three jobs an activation, a new history after every one to
three rounds, and each history replayed at its end.
"""

from __future__ import annotations

import json
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob

from holdfast.protocol.answers import Answer, AnswerBatch
from holdfast.protocol.assignment import Claim, Delegation, Reassignment, Release
from holdfast.protocol.events import Event
from holdfast.protocol.names import ANSWER, EVENTS, PAUSE, QUESTIONS_ATTRIBUTE, RESUME
from holdfast.protocol.questions import Question
from holdfast.workflows.loop import LoopWorkflow
from tests.people.activations import FedRun

ROUNDS = 5
LOOP = """
steps:
- kind: loop
  name: l
  loop:
    max_loops: %d
    checkpoint_every: %d
    body:
    - {kind: hitl, name: ask, message: Go?, assignees: ['user:ana', 'user:bob', 'user:cid'], not_by: ['user:cid'],
       quorum: %d, remind_every: 5h, on_timeout: escalate, escalate: [{after: 1d, assignees: ['user:dan', 'user:eve']}],
       timeout: 3d, default: nobody, on_decline: continue}
"""
MAY = ["user:ana", "user:bob", "user:dan", "user:eve", "user:fay"]
MAY_NOT = ["user:cid", "user:zoe"]
"""One of `not_by`, and one to whom nobody ever gives a question."""
DECIDED = ("question.accepted", "question.answered", "question.declined")
CLOSED = ("question.answered", "question.declined", "question.expired", "question.cancelled")


class Decisions:
    """One loop and what happens to it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.every, self.quorum = self.random.randint(1, 3), self.random.randint(1, 2)
        parent = FedRun(LOOP % (ROUNDS, self.every, self.quorum))
        [start] = [one for one in parent.commands if one.HasField("start_child_workflow_execution")]
        self.closed: dict[str, str] = {}
        self.end: str | None = None
        self._enter(FedRun.of(LoopWorkflow, start.start_child_workflow_execution.input, parent.now))

    def _enter(self, run: FedRun) -> None:
        self.run, self._read, self._listed = run, 0, []
        self._check({}, None)

    def live(self) -> None:
        """Do things at random until the loop ends."""
        while self.end is None:
            question = next(iter(self.run.view.questions), None)
            jobs = [self._job(question) for _ in range(self.random.choice([1, 1, 2, 3]))]
            after = timedelta(minutes=self.random.choice([0, 60, 600, 2000]))
            due = [number for number, at in self.run.timers.items() if at <= self.run.now + after]
            self.run.feed(*jobs, *(_fired(number) for number in due), after=after)
            self._check(
                {job.do_update.protocol_instance_id: job for job in jobs},
                question if len(jobs) == 1 and not due else None,
            )
        self.run.replay()

    def _job(self, question: Question | None) -> WorkflowActivationJob:
        chance, by = self.random.random(), self.random.choice(MAY + MAY_NOT)
        if chance < 0.01:
            return self.run.cancel()
        if question is None or chance < 0.15:
            return self.run.message(self.random.choice([PAUSE, RESUME, RESUME]))
        if chance < 0.5:
            action: Any = self.random.choice(["accept"] * 5 + ["decline"])
            answer = Answer(question=question.id, action=action, content="yes" if action == "accept" else None)
            return self.run.message(ANSWER, AnswerBatch(answers=[answer], by=by))
        to = self.random.choice(MAY)
        command = self.random.choice(
            [
                Claim(question=question.id, by=by, seconds=3600),
                Release(question=question.id, by=by),
                Delegation(question=question.id, by=by, to=to),
                Reassignment(question=question.id, by=by, to=self.random.sample(MAY, 2)),
            ]
        )
        return self.run.message(command.name, command)

    def _check(self, updates: dict[str, WorkflowActivationJob], before: Question | None) -> None:
        """See that what the last activation did is right; `before`: the question, if one job was all."""
        decided = self._events(before)
        told = self.run.told
        answered = [id_ for id_, job in updates.items() if id_ and job.do_update.name == ANSWER]
        assert set(told) == {id_ for id_ in updates if id_}, "somebody was told nothing"
        assert len([id_ for id_ in answered if told[id_] == "completed"]) == decided
        if any(job.HasField("cancel_workflow") for job in updates.values()):
            assert self.run.ended in ("cancelled", "completed")
        if self.run.continued:
            self.run.replay()
            arguments = self.run.continued
            return self._enter(FedRun.of(LoopWorkflow, arguments, self.run.now))
        self._see_lists()
        if self.run.ended is not None:
            assert self.run.timers == {}
            self.end = self.run.ended
        return None

    def _events(self, before: Question | None) -> int:
        """Read the new events; return how many decisions of people are among them."""
        events = self.run.query(EVENTS, list[Event])
        new, self._read = events[self._read :], len(events)
        for event in new:
            if event.type in CLOSED:
                assert event.data.id not in self.closed, "closed twice"
                self.closed[event.data.id] = event.type
            if event.type in DECIDED:
                assert event.data.by in MAY, event
                if before is not None:
                    assert event.data.by in before.assignees
                    free = before.claimed_until is None or before.claimed_until <= self.run.now
                    assert free or before.claimed_by == event.data.by
        return len([event for event in new if event.type in DECIDED])

    def _see_lists(self) -> None:
        """A question is open while the loop goes on, and in the lists; these may still name one that was closed."""
        view = self.run.view
        ids = [question.id for question in view.questions]
        for command in self.run.commands:
            if command.HasField("upsert_workflow_search_attributes"):
                fields = command.upsert_workflow_search_attributes.search_attributes.indexed_fields
                if QUESTIONS_ATTRIBUTE in fields:
                    self._listed = json.loads(fields[QUESTIONS_ATTRIBUTE].data or b"[]") or []
        assert len(ids) == (0 if self.run.ended else 1) or (view.status == "paused" and ids == [])
        assert not set(ids) & set(self.closed)
        assert set(ids) <= set(self._listed)


def _fired(number: int) -> WorkflowActivationJob:
    job = WorkflowActivationJob()
    job.fire_timer.seq = number
    return job


def decide(seed: int) -> Decisions:
    decisions = Decisions(seed)
    decisions.live()
    if decisions.end == "completed":
        assert len(decisions.closed) == ROUNDS
    return decisions


def test_random_decisions() -> None:
    ends = {decide(seed).end for seed in range(8)}
    assert "completed" in ends


@pytest.mark.slow
@pytest.mark.parametrize("block", range(3))
def test_many_random_decisions(block: int) -> None:
    for seed in range(100 + 100 * block, 200 + 100 * block):
        decide(seed)

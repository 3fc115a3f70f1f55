"""How many answers of programs are under way at once, and what becomes of an event that several runs wait for."""

import asyncio
from datetime import UTC, datetime
from typing import cast

import pytest

from holdfast.client.runs import Runs
from holdfast.protocol.answers import Refusal
from holdfast.protocol.incoming import EventReceipt, read_event
from holdfast.runtime.workers import NoWorker
from holdfast.server.web.dispatches import MOST_AT_ONCE, Dispatches, EventDelivery


class Answers:
    """Answers that have a place, and stay until they are let go."""

    def __init__(self) -> None:
        self.dispatches, self.inside = Dispatches(), 0
        self.all_inside, self.last_inside, self.let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stay(self) -> None:
        async with self.dispatches.take_place():
            self.inside += 1
            if self.inside == MOST_AT_ONCE:
                self.all_inside.set()
            await self.let_go.wait()

    async def come_last(self) -> None:
        async with self.dispatches.take_place():
            self.last_inside.set()


async def test_an_answer_waits_for_a_place() -> None:
    answers = Answers()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(MOST_AT_ONCE):
            tasks.create_task(answers.stay())
        await answers.all_inside.wait()
        tasks.create_task(answers.come_last())
        await asyncio.sleep(0)
        assert not answers.last_inside.is_set()
        answers.let_go.set()
    assert answers.last_inside.is_set()


async def test_answers_that_last_for_long_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.server.web.dispatches.LONGEST_STAY", 0.0)
    answers = Answers()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(MOST_AT_ONCE):
            tasks.create_task(answers.stay())
        tasks.create_task(answers.come_last())
        await answers.last_inside.wait()
        answers.let_go.set()


class _Waiting:
    """Runs that wait for an event; each replies as it is told."""

    def __init__(self, **replies: str | Exception) -> None:
        self.replies = replies
        self.external_events = self

    async def find_runs(self, *_: str) -> list[str]:
        return list(self.replies)

    async def send(self, run: str, *_: object, id: str, **__: object) -> EventReceipt:
        if isinstance(reply := self.replies[run], Exception):
            raise reply
        return EventReceipt(event=id, run=run, status="taken", question=reply, at=datetime.now(UTC))


async def test_a_run_that_does_not_take_an_event_keeps_no_other_from_it() -> None:
    event = read_event({"name": "paid", "key": "1", "id": "evt-1"})
    unfit, gone = Refusal("invalid_answer", "it does not fit"), Refusal("run_closed", "it has ended")
    delivery, runs = EventDelivery(), _Waiting(a=unfit, b="q1", c=gone, d=NoWorker("no worker answers"))
    with pytest.raises(NoWorker):
        await delivery.deliver(cast(Runs, runs), event)
    runs.replies = {"a": unfit, "b": "q1", "d": "q2"}
    told = await delivery.deliver(cast(Runs, runs), event)
    assert [(one.run, one.status) for one in told] == [("a", "refused"), ("b", "taken"), ("d", "taken")]
    with pytest.raises(Refusal, match="does not fit"):
        await EventDelivery().deliver(cast(Runs, _Waiting(a=unfit)), event)

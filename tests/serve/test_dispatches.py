"""How many answers of programs are under way at once."""

import asyncio

import pytest

from holdfast.server.web.dispatches import MOST_AT_ONCE, Dispatches


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

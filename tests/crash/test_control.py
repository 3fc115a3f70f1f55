"""Every form of process control at once, while the worker is killed twice a round: before and after answers."""

from __future__ import annotations

import pytest

from holdfast.protocol.questions import Question
from tests.conftest import until
from tests.control.matrix import CONTROLS, ROUNDS, Rounds
from tests.crash.machines import Machines, asked

pytestmark = pytest.mark.slow


async def answer(rounds: Rounds, question: Question) -> None:
    """Answer a question through every outage."""

    async def is_closed() -> bool:
        try:
            if question.id in [one.id for one in await rounds.house.runs.questions(rounds.run)]:
                await rounds.send(question)
                return False
            return True
        except Exception:  # noqa: BLE001 whatever an outage, or a second answer, looks like from here
            return False

    await until(is_closed, f"the end of {question.message!r} of {rounds.run}")


async def test_kills_change_nothing_that_any_of_them_does(machines: Machines) -> None:
    house = await machines.house()
    machines.start_worker()
    runs = [Rounds(house, name, machines.folder / name) for name in CONTROLS]
    for rounds in runs:
        await rounds.start()
    for number in range(1, ROUNDS + 1):
        for place, rounds in enumerate(runs):
            question = await asked(house, rounds.run, f"Round {number}?")
            if place % 6 == 0:
                machines.restart_worker()
            await answer(rounds, question)
    for rounds in runs:
        assert await house.output(rounds.run) == "all"
        rounds.expect(ROUNDS)
    await house.replay()

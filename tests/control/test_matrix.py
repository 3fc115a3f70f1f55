"""Every form of process control under what may come between: pause, cancel and deadlines, around continue-as-new."""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import Harness, until
from tests.control.matrix import CONTROLS, ROUNDS, Rounds
from tests.control.undoable import ASK, block
from tests.flows import repeat, written
from tests.progress import ends, has_continued, still_running
from tests.tools import read_done

every_control = pytest.mark.parametrize("name", CONTROLS)


async def begin(house: Harness, name: str, answers: int) -> Rounds:
    """Return a run that waits in the round after so many answers."""
    rounds = Rounds(house, name, house.folder)
    await rounds.start()
    for number in range(1, answers + 1):
        await rounds.answer(number)
    await rounds.find_question(answers + 1)
    return rounds


@pytest.mark.first_row
@every_control
async def test_a_pause_in_each_round_holds_what_follows_the_answer(house: Harness, name: str) -> None:
    rounds = await begin(house, name, 0)
    for number in range(1, ROUNDS + 1):
        await rounds.find_question(number)
        assert (await house.runs.control.pause(rounds.run)).left == []
        await rounds.answer(number)
        assert (await house.runs.state(rounds.run)).status == "paused"
        assert await house.runs.questions(rounds.run) == []
        await house.runs.control.resume(rounds.run)
    assert await house.output(rounds.run) == "all"
    rounds.expect(ROUNDS)
    assert await has_continued(house, f"{rounds.run}/loop:rounds")


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.parametrize("answers", range(ROUNDS))
@every_control
async def test_a_cancel_in_each_round_ends_it_and_undoes(house: Harness, name: str, answers: int) -> None:
    rounds = await begin(house, name, answers)
    await ends(house, rounds.run)
    rounds.expect(answers, cancelled=True)


@pytest.mark.slow
@every_control
async def test_a_cancel_of_a_paused_run_undoes_once_it_is_resumed(house: Harness, name: str) -> None:
    rounds = await begin(house, name, 1)
    await house.runs.control.pause(rounds.run)
    await house.client.get_workflow_handle(rounds.run).cancel()
    if rounds.control.cancelled:

        async def has_no_question() -> bool:
            return not await house.runs.questions(rounds.run)

        await until(has_no_question, "the end of the question")
        assert not {"una2", "end2"} & set(read_done(house.folder))
        await house.runs.control.resume(rounds.run)
    assert (await house.result(rounds.run)).status == "cancelled"
    rounds.expect(1, cancelled=True)


@pytest.mark.slow
@every_control
async def test_a_cancel_beside_an_answer_leaves_nothing_half_done(house: Harness, name: str) -> None:
    rounds = await begin(house, name, 1)
    await rounds.answer(2)
    await ends(house, rounds.run)
    done = [what[:-1] for what in read_done(house.folder)]
    assert done.count("a") <= max(done.count("una") + done.count("b"), done.count("end"))


DEADLINES = {
    "block": lambda step, due: (block(step, deadline=due), {}),
    "loop": lambda step, due: ({**step, "loop": {**step["loop"], "deadline": due}}, {}),
    "run": lambda step, due: (step, {"deadline": due}),
}


async def pass_deadline(house: Harness, run: str) -> None:
    """See that the run ends by its deadline, and that nothing of it is left."""
    result = await house.result(run)
    assert result.error is not None and result.error.type == "deadline_passed"
    assert await still_running(house, run) == []


@pytest.mark.slow
async def test_deadlines_count_over_boundaries(house: Harness) -> None:
    async def pass_boundary(name: str) -> None:
        step, more = DEADLINES[name](repeat({"kind": "timer", "name": "t", "for": "100ms"}), "10s")
        run = await house.start(written(step, **more))
        loop = f"{run}/{'block:all;' if name == 'block' else ''}loop:l"
        await until(lambda: has_continued(house, loop), "a boundary")
        await pass_deadline(house, run)

    await asyncio.gather(*map(pass_boundary, DEADLINES))


@pytest.mark.slow
async def test_deadlines_count_while_they_are_paused(house: Harness) -> None:
    async def pause(name: str) -> None:
        step, more = DEADLINES[name](repeat(ASK), "10s")
        run = await house.start(written(step, **more))
        await house.one(run)
        await house.runs.control.pause(run)
        await pass_deadline(house, run)

    await asyncio.gather(*map(pause, DEADLINES))

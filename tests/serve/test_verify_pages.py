"""An answer that an agent checks, through the inbox to the end: given back, asked again, bounded, marked."""

from __future__ import annotations

import pytest
import yaml

from holdfast.protocol.questions import Question
from holdfast.server.web.addresses import question_address
from tests.conftest import Harness
from tests.flows import written
from tests.people.verified import AGENTS, BACK, PASSED, ask
from tests.serve.pages import Desk, desk, words


async def sent(here: Desk, house: Harness, run: str, text: str) -> Question:
    """Answer the open question of a run on its page; the question."""
    question = await house.one(run)
    answer = await here.send(question, "answer", **{"f:": text})
    assert (answer.status_code, answer.headers["location"]) == (303, question_address(question))
    return question


async def test_an_answer_that_is_given_back_is_asked_for_again_with_the_reason(house: Harness) -> None:
    house.script(yaml.safe_dump({"ask": [BACK, PASSED]}))
    run = await house.start(written(ask(), agents=AGENTS))
    async with desk(house) as here:
        first = await sent(here, house, run, "Rue Haute 1")
        second = await house.one(run)
        closed = words((await here.get(question_address(first))).text)
        again = words((await here.get(question_address(second))).text)
        await sent(here, house, run, "Rue Haute 1, Lyon")
        assert await house.output(run) == "Rue Haute 1, Lyon"
        page = words((await here.get(f"/runs/{run}")).text)
    assert "The city is missing." in closed and "Where to?" in closed
    assert "The answer was returned: The city is missing." in again and "question no. 2 of this step" in again
    assert "not verified" not in page


@pytest.mark.slow
async def test_after_the_last_round_the_answer_stands_and_the_run_marks_it(house: Harness) -> None:
    house.script(yaml.safe_dump({"ask": [BACK]}))
    run = await house.start(written(ask(), agents=AGENTS))
    async with desk(house) as here:
        await sent(here, house, run, "here")
        last = await sent(here, house, run, "there")
        assert await house.output(run) == "there"
        page = words((await here.get(f"/runs/{run}")).text)
        closed = words((await here.get(question_address(last))).text)
        people = words((await here.get(f"/runs/{run}/history")).text)
    assert "not verified" in page and "not verified: The city is missing." in closed
    assert "The city is missing." in people

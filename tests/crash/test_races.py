"""A race whose worker is killed again and again: before, while and after a branch wins."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client.signals import Sent
from holdfast.protocol.answers import Answer, Receipt
from tests.conftest import until
from tests.crash.machines import Machines, asked
from tests.tools import calls

pytestmark = pytest.mark.slow

ROUNDS = 4
"""With a kill after each, and one before every other: six; the loop continues as new between them."""
RACES = """
steps:
  - kind: loop
    name: rounds
    loop:
      max_loops: {rounds}
      checkpoint_every: 3
      body:
        - kind: parallel
          name: race
          until: first
          reduce: keys
          branches:
            asks: [{{kind: hitl, name: ask, message: "Round {{{{ iteration }}}}?"}}]
            loops: [{{kind: loop, name: inner, loop: {{max_loops: 2, body: {{kind: hitl, name: b, message: B?}}}}}}]
        - {{name: count, uses: counted, input: {{folder: "{folder}", name: "won-{{{{ previous_step[0] }}}}"}}}}
"""


async def test_kills_change_no_winner(machines: Machines) -> None:
    house = await machines.house()
    machines.start_worker()
    run = await house.start(RACES.format(folder=machines.folder, rounds=ROUNDS))
    for number in range(1, ROUNDS + 1):
        question = await asked(house, run, f"Round {number}?")
        if number % 2:
            machines.restart_worker()
        [sent] = await house.runs.answer(run, [Answer(question=question.id, content="mine")])
        assert isinstance(sent, Receipt | Sent)  # a signal, if no worker has come back yet
        machines.restart_worker()
    assert await house.output(run) == f"won-asks {ROUNDS}"
    assert calls(machines.folder, "won-asks") == ROUNDS
    types = await until(lambda: house.types(run), "the events")
    assert types.count("branch.superseded") == ROUNDS
    await house.replay()


DEATHS = ("before the losers are cancelled", "after they have ended")
"""Where the worker dies, of the places in `dying.py`, which changes the worker that imports it."""


async def test_deaths_in_the_activation_that_ends_a_race_change_no_winner(machines: Machines) -> None:
    """The answer and the end of the race come with the task that the worker did not complete, each time."""
    machines.imports = "tests.tools,tests.crash.dying"
    house = await machines.house()
    machines.start_worker()
    run = await house.start(RACES.format(folder=machines.folder, rounds=len(DEATHS)))
    for number, place in enumerate(DEATHS, 1):
        question = await asked(house, run, f"Round {number}?")
        (machines.folder / "die").write_text(place)
        answers = asyncio.create_task(house.runs.answer(run, [Answer(question=question.id, content="mine")]))
        await until(lambda: _has_died(machines), "the death of the worker")
        machines.start_worker()
        [sent] = await answers
        assert isinstance(sent, Receipt | Sent)
    assert await house.output(run) == f"won-asks {len(DEATHS)}"
    assert calls(machines.folder, "won-asks") == len(DEATHS)
    types = await until(lambda: house.types(run), "the events")
    assert types.count("branch.superseded") == len(DEATHS)
    await house.replay()


async def _has_died(machines: Machines) -> bool:
    return machines.has_ended("worker")

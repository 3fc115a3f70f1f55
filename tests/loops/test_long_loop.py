"""A long loop with a question in each iteration: numbers contiguous, nothing lost, histories bounded."""

from __future__ import annotations

import pytest

from benchmarks.ground import LOOP
from holdfast.protocol.runs import HistoryLimits
from tests.conftest import Harness


@pytest.mark.parametrize(("iterations", "checkpoint"), [(12, 4), pytest.param(60, 15, marks=pytest.mark.slow)])
async def test_a_long_loop_loses_nothing_and_no_history_grows(house: Harness, iterations: int, checkpoint: int) -> None:
    run = await house.start(LOOP.format(iterations=iterations, checkpoint=checkpoint), "start")
    for n in range(1, iterations + 1):
        question = await house.one(run)
        assert question.iteration == n
        await house.answer(run, f"answer {n}", question)
    assert await house.output(run) == f"answer {iterations}"
    events = await house.runs.watch.events(run)
    assert [one.data.iteration for one in events if one.type == "loop.iteration"] == list(range(1, iterations + 1))
    assert [one.offset for one in events] == list(range(len(events)))
    assert [one.type for one in events].count("question.answered") == iterations
    lengths = [len(history.events) for history in await house.histories(run)]
    assert len(lengths) == 1 + iterations // checkpoint
    assert max(lengths) < checkpoint * 16


@pytest.mark.parametrize(("steps", "events"), [(3, 100), pytest.param(30, 1_000, marks=pytest.mark.slow)])
async def test_a_loop_that_would_outgrow_its_history_continues_before(house: Harness, steps: int, events: int) -> None:
    body = "[" + ", ".join(f"{{name: a{n}, agent: e}}" for n in range(steps)) + "]"
    loop = f"{{max_loops: 12, body: {body}}}"
    (house.folder / "says.yaml").write_text("[x]")
    agents = f"agents: {{e: {{model: 'scripted:{house.folder}/says.yaml'}}}}"
    text = f"{agents}\nsteps: [{{kind: loop, name: l, loop: {loop}}}]"
    run = await house.start(text, "x", history_limits=HistoryLimits(events=events))
    assert await house.output(run) == "x"
    lengths = [len(history.events) for history in await house.histories(run)]
    assert len(lengths) > 2
    assert max(lengths) <= events

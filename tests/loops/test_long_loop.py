"""A long loop with a question in each iteration: numbers contiguous, nothing lost, histories bounded (L12)."""

from __future__ import annotations

from benchmarks.ground import LOOP
from tests.conftest import Harness

ITERATIONS = 60


async def test_a_long_loop_loses_nothing_and_no_history_grows(house: Harness) -> None:
    run = await house.start(LOOP.format(iterations=ITERATIONS, checkpoint=15), "start")
    for n in range(1, ITERATIONS + 1):
        question = await house.one(run)
        assert question.iteration == n
        await house.answer(run, f"answer {n}", question)
    assert await house.output(run) == f"answer {ITERATIONS}"
    events = await house.runs.events(run)
    assert [one.data.iteration for one in events if one.type == "loop.iteration"] == list(range(1, ITERATIONS + 1))
    assert [one.offset for one in events] == list(range(len(events)))
    assert [one.type for one in events].count("question.answered") == ITERATIONS
    lengths = [len(history.events) for history in await house.histories(run)]
    assert len(lengths) == 5
    assert max(lengths) < 15 * 16


async def test_a_loop_that_would_outgrow_its_history_continues_before_a_thousand_events(house: Harness) -> None:
    body = "[" + ", ".join(f"{{name: a{n}, agent: e}}" for n in range(30)) + "]"
    loop = f"{{max_loops: 12, body: {body}}}"
    run = await house.start(f"agents: {{e: {{model: echo}}}}\nsteps: [{{kind: loop, name: l, loop: {loop}}}]", "x")
    assert await house.output(run) == "x"
    lengths = [len(history.events) for history in await house.histories(run)]
    assert len(lengths) > 2
    assert max(lengths) <= 1000

"""Where a run stands, on the graph of its blueprint: seen of runs as they are."""

from __future__ import annotations

from blueprint.graph import graph
from client.marks import marks_of
from tests.blueprint.flowchart import Flowchart, read_flowchart
from tests.conftest import Harness

NESTED = """
name: nested
steps:
  - {name: first}
  - kind: loop
    name: again
    loop:
      max_loops: 5
      exit_expression: output == 'stop'
      body:
        - kind: conditional
          name: way
          condition_expression: iteration
          branches: {1: [{name: early}]}
          default_branch: [{name: late}]
        - {kind: hitl, name: more, message: "Round {{ iteration }}?"}
  - {name: last}
"""
SEVERAL = """
name: several
steps:
  - kind: parallel
    name: both
    branches:
      person: [{kind: hitl, name: ask, message: Which?}]
      machine:
        - kind: map
          name: each
          map: {iterable_input: "[1, 2, 3]", body: [{name: look, when: item > 9}, {name: keep}]}
"""
STOPPING = """
name: stopping
steps:
  - {name: a}
  - {name: b, interrupt_before: true}
  - {name: c, uses: context_get, input: {}, on_error: {fallback: {name: d}}}
"""


async def drawn(house: Harness, run: str, text: str) -> Flowchart:
    standing = await house.runs.standing(run)
    marks = marks_of(await house.runs.trace(standing), standing.questions)
    return read_flowchart(graph(house.load(text), marks))


async def test_a_loop_shows_its_last_iteration_and_where_it_waits(house: Harness) -> None:
    run = await house.start(NESTED)
    await house.answered(run, "one", "two")
    await house.one(run)
    chart = await drawn(house, run, NESTED)
    assert chart.labels[chart.id("again")] == "again\nround 3"
    states = {name: chart.state(name) for name in ("first", "again", "way", "early", "late", "more", "last", "end")}
    assert states == {
        "first": "done",
        "again": "running",
        "way": "done",
        "early": None,
        "late": "done",
        "more": "waiting",
        "last": None,
        "end": None,
    }
    await house.answer(run, "stop")
    assert await house.output(run) == "stop"
    chart = await drawn(house, run, NESTED)
    assert [chart.state(name) for name in ("again", "more", "last", "end")] == ["done", "done", "done", "done"]


async def test_branches_and_items_are_coloured_each_for_itself(house: Harness) -> None:
    run = await house.start(SEVERAL)
    await house.one(run)
    chart = await drawn(house, run, SEVERAL)
    states = {name: chart.state(name) for name in ("both", "ask", "each", "look", "keep")}
    assert states == {"both": "running", "ask": "waiting", "each": "done", "look": "skipped", "keep": "done"}
    await house.answer(run, "this")
    await house.output(run)


async def test_a_stopped_run_waits_at_its_stop_and_a_failed_step_is_seen(house: Harness) -> None:
    run = await house.start(STOPPING)
    question = await house.one(run)
    chart = await drawn(house, run, STOPPING)
    assert (chart.state("stop before b"), chart.state("b")) == ("waiting", None)
    await house.answer(run, None, question)
    await house.output(run)
    chart = await drawn(house, run, STOPPING)
    assert [chart.state(name) for name in ("b", "c", "d", "end")] == ["done", "failed", "done", "done"]

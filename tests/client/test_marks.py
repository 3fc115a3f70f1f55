"""Where a run stands, on the graph of its blueprint: seen of runs as they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.blueprint.graph import graph
from holdfast.client.overlay import mark_steps
from holdfast.client.trace import Repetition, Span, view
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
PLAN = {
    "goal": "Visit them",
    "steps": [
        {"id": "1", "instruction": '["Ann", "Bob", "Eve"]'},
        {"id": "2", "instruction": "Look at CURRENT_ITEM", "dependencies": ["1"]},
        {"id": "3", "instruction": "CONFIRM_ACTION: Visit CURRENT_ITEM?"},
        {"id": "4", "instruction": "Never", "condition": "RESULT_FROM_1 is empty"},
        {
            "id": "5",
            "instruction": "CURRENT_ITEM",
            "loopover": "RESULT_FROM_4",
            "condition": "RESULT_FROM_1 contains Max",
        },
        {"id": "6", "instruction": "RESULT_FROM_all", "dependencies": ["all"]},
    ],
    "loop_blocks": {"all": {"over": "RESULT_FROM_1", "steps": ["2", "3"]}},
}
STOPPING = """
name: stopping
steps:
  - {name: a}
  - {name: b, interrupt_before: true}
  - {name: c, uses: context_get, input: {}, on_error: {fallback: {name: d}}}
"""


STOPPING_BRANCHES = """
name: stopping_branches
steps:
  - kind: parallel
    name: both
    branches:
      left: [{name: a}, {name: b, interrupt_before: true}]
      right: [{name: c, interrupt_after: true}]
"""


async def drawn(house: Harness, run: str, text: str) -> Flowchart:
    standing = await house.runs.state(run)
    marks = mark_steps(await house.runs.watch.trace(standing), standing.questions)
    return read_flowchart(graph(house.load(text), marks))


@pytest.mark.slow
async def test_a_loop_shows_its_last_iteration_and_where_it_waits(house: Harness) -> None:
    run = await house.start(NESTED)
    await house.answered(run, "one", "two")
    await house.one(run)
    chart = await drawn(house, run, NESTED)
    assert chart.labels[chart.id("again")] == "again\niteration 3"
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


@pytest.mark.slow
async def test_a_plan_shows_the_item_that_it_is_at_and_what_it_has_skipped(house: Harness) -> None:
    text = json.dumps({**PLAN, "agent": "echo"})
    run = await house.start(text)
    await house.answered(run, "accept")
    await house.one(run)
    chart = await drawn(house, run, text)
    assert chart.labels[chart.id("loop all")] == "loop all\nitem 2"
    names = ("plan", "step 1", "loop all", "step 2", "step 3", "step 4", "loop_5", "step 5", "step 6", "end")
    assert {name: chart.state(name) for name in names} == {
        "plan": "running",
        "step 1": "done",
        "loop all": "running",
        "step 2": "done",
        "step 3": "waiting",
        "step 4": "skipped",
        "loop_5": "skipped",
        "step 5": None,
        "step 6": None,
        "end": None,
    }
    await house.answered(run, "refuse", "accept")
    await house.output(run)
    chart = await drawn(house, run, text)
    assert [chart.state(name) for name in ("plan", "loop all", "step 3", "step 6", "end")] == ["done"] * 5


def turn(name: str, **args: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "args": args}]}


@pytest.mark.slow
async def test_a_plan_that_an_agent_drives_is_coloured_by_the_same_places(house: Harness) -> None:
    turns = [
        turn("request_user_info", question="How?"),
        turn("start_loop", loop_id="all"),
        turn("finish_step", step_id="2", result_summary="seen"),
        turn("request_user_info", question="Visit?"),
    ]
    house.script(json.dumps({"plan": turns}))
    steps = [{"id": "2", "instruction": "Look"}, {"id": "3", "instruction": "ASK_INFO: Visit?", "dependencies": ["2"]}]
    plan = {"goal": "Visit them", "agent": "scripted:replies.yaml", "driver": "agent", "steps": steps}
    text = json.dumps({**plan, "loop_blocks": {"all": {"over": ["Ann"], "steps": ["2", "3"]}}})
    run = await house.start(text)
    question = await house.one(run)
    assert (await drawn(house, run, text)).state("a person") == "waiting"
    await house.answer(run, "Well", question)
    await house.one(run)
    chart = await drawn(house, run, text)
    states = [chart.state(name) for name in ("a person", "loop all", "step 2", "step 3")]
    assert states == [None, "running", "done", "waiting"]


def test_of_a_loop_with_several_items_at_once_those_under_way_count_too() -> None:
    def step(n: int, status: str) -> Repetition:
        at = f"pipeline:x;plan:p;loop:all:{n};step:look"
        return Repetition(n, [Span("look", "step", at, status)])

    def look(*statuses: str) -> str:
        items = [step(n, status) for n, status in enumerate(statuses, 1)]
        loop = Span("all", "loop", "pipeline:x;plan:p;loop:all", "running", iterations=items)
        trace = Span("x", "pipeline", "pipeline:x", "running", steps=[loop])
        return mark_steps(view(trace), []).states[("p", "all", "look")]

    assert look("failed", "running", "completed") == "running"
    assert look("failed", "completed") == "done"


async def test_a_stopped_run_waits_at_its_stop_and_a_failed_step_is_seen(house: Harness) -> None:
    run = await house.start(STOPPING)
    question = await house.one(run)
    chart = await drawn(house, run, STOPPING)
    assert (chart.state("stop before b"), chart.state("b")) == ("waiting", None)
    await house.answer(run, None, question)
    await house.output(run)
    chart = await drawn(house, run, STOPPING)
    assert [chart.state(name) for name in ("b", "c", "d", "end")] == ["done", "failed", "done", "done"]


async def test_branches_that_have_stopped_wait_each_at_its_stop(house: Harness) -> None:
    run = await house.start(STOPPING_BRANCHES)
    questions = await house.asked(run, 2)
    chart = await drawn(house, run, STOPPING_BRANCHES)
    assert (chart.state("stop before b"), chart.state("stop after c")) == ("waiting", "waiting")
    for question in questions:
        await house.answer(run, None, question)
    await house.output(run)

"""How long loops may go on: 100 iterations in a row without a person, and any number with one, in short histories."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from benchmarks.ground import LOOP
from holdfast.protocol.runs import HistoryLimits
from tests.conftest import Harness

ASK = {"kind": "hitl", "name": "ask", "message": "{{ context.n }}"}
FRIENDLY = """
agents: {assistant: {model: echo}}
steps:
  - kind: loop
    name: clarification
    loop:
      conversation: true
      body: [{name: clarify, agent: assistant, input: "Anything else?"}]
      output: {text: conversation_history}
"""


def endless(*body: Any, **more: Any) -> dict[str, Any]:
    count = {"name": "count", "input": "{{ context.n + 1 }}", "sink_to": "n"}
    block = {"exit_expression": "context.n == 1000", "body": [count, *body], **more}
    return {"kind": "loop", "name": "l", "loop": block}


def document(step: dict[str, Any], **more: Any) -> str:
    return yaml.safe_dump({"context": {"n": 0}, **more, "steps": [step], "output": "{{ context.n }}"})


@pytest.mark.parametrize("checkpoint", [40, 1000, pytest.param(7, marks=pytest.mark.slow)])
async def test_it_fails_after_100_rounds_that_asked_nobody(house: Harness, checkpoint: int) -> None:
    run = await house.start(document(endless(checkpoint_every=checkpoint)))
    error = (await house.result(run)).error
    assert (error.type, error.reason, error.address) == ("no_progress", "no_progress", "pipeline:test;loop:l")
    [ended] = [event for event in await house.runs.watch.events(run) if event.type == "loop.completed"]
    assert (ended.data.reason, ended.data.iterations) == ("no_progress", 100)


@pytest.mark.slow
async def test_the_friendly_loop_ends(house: Harness) -> None:
    run = await house.start(FRIENDLY, "A talk")
    assert (await house.result(run)).error.type == "no_progress"


async def test_an_explicit_limit_has_no_ceiling_beside_it(house: Harness) -> None:
    assert await house.output(await house.start(document(endless(max_loops=130, on_max_loops="finish")))) == 130


@pytest.mark.slow
async def test_on_max_loops_finish_is_heeded(house: Harness) -> None:
    run = await house.start(document(endless(on_max_loops="finish")))
    assert await house.output(run) == 100
    [ended] = [event for event in await house.runs.watch.events(run) if event.type == "loop.completed"]
    assert ended.data.reason == "no_progress"


@pytest.mark.slow
async def test_a_person_grants_as_many_rounds_again(house: Harness) -> None:
    run = await house.start(document(endless(on_max_loops="ask", checkpoint_every=30)))
    question = await house.one(run)
    assert all(option.label not in (None, "", option.id) for option in question.options)
    await house.answer(run, "more", question)
    question = await house.one(run)
    assert question.iteration == 200
    await house.answer(run, "finish", question)
    assert await house.output(run) == 200


AT_40 = {"when": "context.n == 40"}


FURTHER = [pytest.param(where, marks=pytest.mark.slow) for where in ("agent", "map", "import", "failed loop")]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["body", "loop", "long map", *FURTHER])
async def test_a_question_starts_the_count_anew_wherever_it_is_met(house: Harness, where: str) -> None:
    house.script("r: [{tool_calls: [{name: request_user_info, args: {question: Why?}}]}, done]\n")
    (house.folder / "child.yaml").write_text(yaml.safe_dump({"context": {"n": 0}, "steps": [ASK]}))
    items = {"iterable_input": "range(51)" if where == "long map" else "[1]", "body": [{**ASK, "when": "index == 0"}]}
    fails = {"body": [ASK, {"name": "boom", "input": "{{ 1 / 0 }}"}], "max_loops": 1}
    step = {
        "body": ASK,
        "agent": {"name": "r", "agent": "r"},
        "loop": {"kind": "loop", "name": "i", "loop": {"body": [ASK], "max_loops": 1}},
        "map": {"kind": "map", "name": "m", "map": items},
        "long map": {"kind": "map", "name": "m", "map": items},
        "import": {"name": "i", "uses": "imports.child"},
        "failed loop": {"kind": "loop", "name": "i", "on_error": "continue", "loop": fails},
    }[where]
    more = {"agent": {"agents": {"r": {"model": "scripted:replies.yaml", "human": ["ask"]}}}}.get(where, {})
    more |= {"imports": {"child": "./child.yaml"}} if where == "import" else {}
    run = await house.start(document(endless({**step, **AT_40}, checkpoint_every=30), **more))
    await house.answered(run, "go on")
    assert (await house.result(run)).error.type == "no_progress"
    iterations = [
        event.data.iteration for event in await house.runs.watch.events(run) if event.type == "loop.iteration"
    ]
    assert max(iterations) == 140


@pytest.mark.slow
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


@pytest.mark.slow
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

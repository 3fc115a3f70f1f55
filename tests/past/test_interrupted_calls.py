"""A run goes on from another one in which a tool or a graph had asked: each call gets the answers it got then."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

import tests.interrupting  # noqa: F401 registers the tools
from tests.conftest import Harness, until
from tests.past.runs import mend, retry
from tests.tools import calls


async def answer_alone(house: Harness, run: str, message: str, content: Any) -> None:
    """Answer a question, and wait until the tool has run again with that answer alone."""
    question = await find(house, run, message)
    before = [event.type for event in await house.runs.watch.events(run)].count("tool.called")
    await house.answer(run, content, question)

    async def has_run() -> bool:
        state = await house.runs.state(run)
        called = [event.type for event in await house.runs.watch.events(run)].count("tool.called")
        return called > before or state.status != "running"

    await until(has_run, "another run of the tool")


async def find(house: Harness, run: str, message: str) -> Any:
    async def open_() -> Any:
        return {one.message: one for one in await house.runs.questions(run)}.get(message)

    return await until(open_, message)


@pytest.mark.first_row
@pytest.mark.parametrize("tool", ["research", "research_here"])
async def test_a_tool_gets_the_answers_together_that_it_got_together(house: Harness, tool: str) -> None:
    (house.folder / "broken").touch()
    topics = {"folder": str(house.folder), "topics": ["rain", "snow", "wind"]}
    steps = [{"name": "research", "uses": tool, "arguments": topics}, mend(house.folder)]
    run = await house.start(yaml.safe_dump({"steps": steps, "output": "{{ steps.research.output }}"}), check=True)
    await house.asked(run, 3)
    for topic in ("wind", "rain", "snow"):
        await answer_alone(house, run, f"What about {topic}?", topic)
    assert (await house.result(run)).status == "failed"
    new = await retry(house, run)
    assert set(await house.output(new)) == {"rain", "snow", "wind"}
    assert "question.asked" not in await house.types(new)
    assert calls(house.folder, "research") == 4


@pytest.mark.slow
async def test_a_graph_whose_question_was_declined_asks_it_again(house: Harness) -> None:
    uses = {"name": "graph", "uses": "tests.graphs:parallel", "input": {"folder": str(house.folder), "log": []}}
    run = await house.start(yaml.safe_dump({"steps": [uses], "output": "{{ steps.graph.output.log }}"}))
    await house.asked(run, 5)
    await answer_alone(house, run, "One?", "1")
    for message, content in (("Sent b?", "b!"), ("Other?", "o!"), ("Sent a?", "a!"), ("Which way?", "w!")):
        await answer_alone(house, run, message, content)
    await house.decline(run)
    assert (await house.result(run)).status == "failed"
    new = await retry(house, run)
    question = await house.one(new)
    assert (question.message, question.address.rpartition(":")[2]) == ("Two?", "twice~2")
    await house.answer(new, "2", question)
    await house.answer(new, "3", await find(house, new, "Three?"))
    assert sorted(await house.output(new)) == ["1 2 3", "a a!", "answer w!", "b b!", "first", "other o!"]
    assert calls(house.folder, "first") == 1


def graph(house: Harness, name: str) -> dict[str, Any]:
    return {"name": "graph", "uses": f"tests.graphs:{name}", "input": {"folder": str(house.folder), "log": []}}


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("name", ["asking", "owned", "refusing_async"])
async def test_a_retry_takes_the_checkpoints_over_from_any_checkpointer(house: Harness, name: str) -> None:
    run = await house.start(yaml.safe_dump({"steps": [graph(house, name)]}))
    await house.decline(run)
    assert (await house.result(run)).status == "failed"
    new = await retry(house, run)
    await house.answer(new, "left")
    assert (await house.output(new))["log"] == ["first", "answer left", "last"]
    assert calls(house.folder, "first") == 1


@pytest.mark.slow
async def test_a_graph_whose_node_failed_goes_on_from_that_node(house: Harness) -> None:
    run = await house.start(yaml.safe_dump({"steps": [graph(house, "failing")]}))
    assert (await house.result(run)).status == "failed"
    new = await retry(house, run)
    assert (await house.output(new))["log"] == ["first", "mended"]
    assert calls(house.folder, "first") == 1


@pytest.mark.slow
async def test_a_fork_beside_a_graph_that_has_gone_on_since_is_refused(house: Harness) -> None:
    """What was answered in the other run in the meantime is no answer in this one."""
    branches = {"graph": [graph(house, "asking_thrice")], "other": [{"name": "later", "input": 1}]}
    run = await house.start(yaml.safe_dump({"steps": [{"name": "both", "kind": "parallel", "branches": branches}]}))
    await house.answer(run, "1", await find(house, run, "One?"))
    two = await find(house, run, "Two?")
    forked = await house.runs.fork(run, "later")
    house.started.append(forked.run)
    question = await find(house, forked.run, "Two?")
    await house.answer(run, "2", two)
    await find(house, run, "Three?")
    await house.answer(forked.run, "zwei", question)
    error = (await house.result(forked.run)).error
    assert error is not None and error.type == "past_differs"

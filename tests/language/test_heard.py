"""`resume_input`: kept apart between items and branches, passed on by loops, conditionals and imports."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.conftest import Harness

ASK = {"kind": "hitl", "name": "ask", "message": "{{ item }}: {{ resume_input or 'silence' }}?"}
HEARD = {"name": "heard", "input": "{{ resume_input or 'silence' }}"}


def first(*steps: Any) -> str:
    """A question before everything else, then the steps, then what was heard."""
    return yaml.safe_dump({"steps": [{"kind": "hitl", "name": "first", "message": "?"}, *steps, HEARD]})


def mapped(*body: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "map", "name": "m", "map": {"iterable_input": "input.items", "body": [*body], **more}}


def loop(*body: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "loop", "name": "l", "loop": {"max_loops": 1, "body": [*body], **more}}


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 51])
async def test_an_item_hears_what_was_said_before_the_map_and_nothing_of_the_others(house: Harness, count: int) -> None:
    ask = {**ASK, "when": "index in [0, 1, 50]"}
    run = await house.start(first(mapped(ask)), {"items": list(range(count))})
    await house.answered(run, "before")
    asked = [0, 1] if count == 2 else [0, 1, 50]
    assert await house.answered(run, *map(str, asked)) == [f"{n}: before?" for n in asked]
    assert await house.output(run) == "before"


async def test_items_at_once_hear_nothing_of_each_other(house: Harness) -> None:
    again = {**ASK, "name": "again"}
    run = await house.start(first(mapped(ASK, again, max_concurrency=2)), {"items": ["a", "b"]})
    await house.answered(run, "before")
    one, other = await house.asked(run, 2)
    await house.answer(run, "said of a", one)
    other = next(question for question in await house.asked(run, 2) if question.address == other.address)
    assert other.message == "b: before?"
    await house.answer(run, "said of b", other)
    messages = {question.message for question in await house.asked(run, 2)}
    assert messages == {"a: said of a?", "b: said of b?"}
    for question in await house.asked(run, 2):
        await house.answer(run, "end", question)
    assert await house.output(run) == "before"


@pytest.mark.slow
async def test_a_loop_in_an_item_begins_with_what_was_heard_before_the_map(house: Harness) -> None:
    inner = loop(ASK, max_loops=3, checkpoint_every=1)
    run = await house.start(first(mapped(inner, {**ASK, "name": "after"})), {"items": ["a", "b"]})
    await house.answered(run, "before")
    messages = await house.answered(run, *"01234567")
    assert messages == ["a: before?", "a: 0?", "a: 1?", "a: 2?", "b: before?", "b: 4?", "b: 5?", "b: 6?"]
    assert await house.output(run) == "before"


async def test_a_branch_hears_what_was_said_before_and_nothing_of_the_other(house: Harness) -> None:
    ask = {"kind": "hitl", "name": "ask", "message": "{{ resume_input }}?"}
    branches = {"a": [ask, {**HEARD, "name": "x"}], "b": [{**ask, "name": "y"}, {**HEARD, "name": "z"}]}
    run = await house.start(first({"kind": "parallel", "name": "p", "branches": branches, "sink_to": "p"}))
    await house.answered(run, "before")
    for name in ("a", "b"):
        question = (await house.asked(run, 2 if name == "a" else 1))[0]
        assert question.message == "before?"
        await house.answer(run, name, question)
    outcome = await house.result(run)
    assert (outcome.output, outcome.context) == ("before", {"p": {"a": "a", "b": "b"}})


@pytest.mark.first_row
@pytest.mark.parametrize("kind", ["loop", "nested loop", "conditional", "import", "loop that continues as new"])
async def test_it_passes_through_both_ways(house: Harness, kind: str) -> None:
    ask = {"kind": "hitl", "name": "ask", "message": "{{ resume_input }}?"}
    branches = {"true": [ask]}
    step = {
        "loop": loop(ask),
        "nested loop": loop({**loop(ask), "name": "inner"}),
        "conditional": {"kind": "conditional", "name": "c", "condition_expression": "true", "branches": branches},
        "import": {"name": "i", "uses": "imports.child"},
        "loop that continues as new": loop({**ask, "when": "iteration < 2"}, max_loops=3, checkpoint_every=1),
    }[kind]
    (house.folder / "child.yaml").write_text(yaml.safe_dump({"steps": [ask]}))
    imports = {"imports": {"child": "./child.yaml"}} if kind == "import" else {}
    run = await house.start(yaml.safe_dump({**yaml.safe_load(first(step)), **imports}))
    assert await house.answered(run, "before", "inside") == ["?", "before?"]
    assert await house.output(run) == "inside"


@pytest.mark.slow
async def test_a_loop_in_which_nobody_answers_leaves_it_as_it_was(house: Harness) -> None:
    run = await house.start(first(loop({"name": "quiet"})))
    await house.answered(run, "before")
    assert await house.output(run) == "before"

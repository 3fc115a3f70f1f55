"""Steps that run at once in a run that goes on: stops before them, and what does not depend on the place of a fork."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from holdfast.protocol.questions import Question
from tests.conftest import Harness
from tests.control.undoable import plain
from tests.past.runs import mend, retry
from tests.tools import read_done


def hold(name: str, key: str, **more: Any) -> dict[str, Any]:
    """Return a step that gives what is under a key of the context, and a stop before it."""
    return {"name": name, "input": f"{{{{ context[{key}] }}}}", "interrupt_before": True, **more}


def ask(name: str) -> dict[str, Any]:
    return {"kind": "hitl", "name": name, "message": name}


def write_items() -> dict[str, Any]:
    body = [{**ask("go"), "message": "{{ item }}"}, hold("held", "item")]
    block = {"iterable_input": ["a", "b"], "body": body, "max_concurrency": 2}
    return {"steps": [{"kind": "map", "name": "each", "map": block}]}


def write_branches() -> dict[str, Any]:
    branches = {name: [ask(name), hold(f"held_{name}", f"'{name}'")] for name in "ab"}
    return {"steps": [{"kind": "parallel", "name": "both", "branches": branches, "reduce": "values"}]}


def write_needs() -> dict[str, Any]:
    held = [hold(f"held_{name}", f"'{name}'", needs=[name]) for name in "ab"]
    both = {"name": "both", "input": ["{{ steps.held_a.output }}", "{{ steps.held_b.output }}"]}
    whole = [ask("a"), ask("b"), *held, {**both, "needs": ["held_a", "held_b"]}]
    return {"steps": [{"kind": "block", "name": "all", "steps": whole}]}


def find(questions: Sequence[Question], kind: str, message: str = "") -> Question:
    return next(question for question in questions if question.kind == kind and question.message.startswith(message))


@pytest.mark.first_row
@pytest.mark.parametrize("write", [write_items, write_branches, write_needs], ids=["items", "branches", "needs"])
async def test_replies_of_stops_at_once_are_not_swapped(house: Harness, write: Any) -> None:
    """The one that is written last was reached first."""
    written = write()
    written["steps"].append(mend(house.folder))
    written |= {"context": {"a": None, "b": None}, "output": f"{{{{ steps.{written['steps'][0]['name']}.output }}}}"}
    (house.folder / "broken").touch()
    run = await house.start(yaml.safe_dump(written))
    for name in "ba":
        await house.answer(run, name, find(await house.asked(run, 2 if name == "b" else 1), "input", name))
        await house.answer(
            run, {"a": None, "b": None, name: name}, find(await house.asked(run, 2 if name == "b" else 1), "checkpoint")
        )
    assert (await house.result(run)).status == "failed"
    assert await house.output(await retry(house, run)) == ["a", "b"]


def lines(house: Harness) -> list[dict[str, Any]]:
    """Return two lines of steps that each do something, and what needs both."""
    needs = {"a": [], "b": ["a"], "x": [], "y": ["x"], "both": ["b", "y"]}
    return [{**plain(house, name), "needs": wanted} for name, wanted in needs.items()]


WAYS = {"b": ["b", "both"], "x": ["x", "y", "both"], "both": ["both"]}


@pytest.mark.slow
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(("at", "again"), list(WAYS.items()))
@pytest.mark.matrix
async def test_only_what_depends_on_the_place_is_done_again(
    house: Harness, at: str, again: list[str], inside: bool
) -> None:
    steps: list[dict[str, Any]] = lines(house)
    if inside:
        steps = [{"kind": "loop", "name": "l", "loop": {"max_loops": 2, "body": steps}}]
    run = await house.start(yaml.safe_dump({"steps": steps}))
    output = await house.output(run)
    before = read_done(house.folder)
    place = f"loop:l:2;step:{at}" if inside else at
    forked = await house.runs.fork(run, place)
    house.started.append(forked.run)
    assert await house.output(forked.run) == output
    assert sorted(read_done(house.folder)) == sorted([*before, *again])

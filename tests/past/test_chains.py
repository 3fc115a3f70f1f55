"""A run that goes on from one that itself goes on from another: what counts is what the last one had."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from holdfast.client.successors import find_successors
from tests.conftest import Harness, until
from tests.past.runs import ASK, mend, paid, pay, retry


def count(house: Harness, name: str) -> dict[str, Any]:
    """Return a step that says how often it was called, in all runs."""
    return {"name": name, "uses": "counted", "arguments": {"folder": str(house.folder), "name": name}}


async def fork(house: Harness, run: str, at: str, **how: Any) -> str:
    forked = await house.runs.fork(run, at, **how)
    house.started.append(forked.run)
    return forked.run


async def test_the_successors_of_a_run_are_found_among_later_runs_of_its_blueprint(house: Harness) -> None:
    text = "name: {}\nsteps: [{{name: a}}, {{name: b}}]"
    run, other = [await house.start(text.format(name), "x") for name in ("words", "letters")]
    for one in (run, other):
        await house.output(one)
    forked = await fork(house, run, "b")
    for one in (forked, again := await fork(house, forked, "b"), await fork(house, other, "b")):
        await house.output(one)

    async def is_listed() -> bool:
        return await find_successors(house.client, run) == [forked, again]

    await until(is_listed)  # the lists of the server lag
    assert await find_successors(house.client, again) == []


def around(kind: str, body: list[Any]) -> list[Any]:
    """Return steps around a body."""
    match kind:
        case "line":
            return body
        case "loop":
            return [{"kind": "loop", "name": "l", "loop": {"max_loops": 1, "body": body}}]
        case "branch":
            return [{"kind": "parallel", "name": "p", "branches": {"a": body, "b": [{"name": "other"}]}}]
    return [{"kind": "map", "name": "m", "map": {"iterable_input": "[1]", "body": body}}]


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("kind", ["line", "loop", "branch", "map"])
async def test_a_retry_of_a_fork_does_what_only_the_run_before_the_fork_had_done(house: Harness, kind: str) -> None:
    """The fork failed at its first step: what the other run did behind it is not met."""
    steps = around(kind, [pay(house.folder, "ana", "before"), mend(house.folder), pay(house.folder, "bob", "behind")])
    run = await house.start(yaml.safe_dump({"steps": [*steps, pay(house.folder, "eve", "last")]}))
    await house.output(run)
    (house.folder / "broken").touch()
    forked = await fork(house, run, "mend")
    assert (await house.result(forked)).status == "failed"
    assert await house.output(await retry(house, forked)) == {"paid": 1, "to": "eve"}
    assert paid(house) == 3 + 2


@pytest.mark.slow
@pytest.mark.parametrize("at", ["loop:l:2", "loop:l"])
async def test_a_fork_of_a_fork_meets_what_the_fork_did(house: Harness, at: str) -> None:
    """Both runs ran the loop, and the question behind it; the last one has the fork's."""
    body = {"kind": "loop", "name": "l", "loop": {"max_loops": 2, "body": [count(house, "round")]}}
    said = {"kind": "hitl", "name": "said", "message": "What?"}
    end = {"name": "end", "input": "{{ [steps.first.output, steps.l.output, steps.said.output] }}"}
    steps = [count(house, "first"), body, said, {"name": "last"}, end]
    run = await house.start(yaml.safe_dump({"steps": steps}))
    await house.answer(run, "one")
    assert await house.output(run) == ["first 1", "round 2", "one"]
    forked = await fork(house, run, at)
    await house.answer(forked, "two")
    output = await house.output(forked)
    assert output == ["first 1", "round 3" if at == "loop:l:2" else "round 4", "two"]
    last = await fork(house, forked, "last")
    assert await house.output(last) == output
    assert await house.output(await fork(house, last, "end")) == output


@pytest.mark.slow
async def test_a_fork_of_a_retry_meets_what_both_did(house: Harness) -> None:
    (house.folder / "broken").touch()
    run = await house.start(
        yaml.safe_dump({"steps": [pay(house.folder, "ana"), ASK, mend(house.folder), {"name": "end"}]})
    )
    await house.answer(run, {"granted": True})
    assert (await house.result(run)).status == "failed"
    retried = await retry(house, run)
    assert await house.output(retried) == "mended 1"
    assert await house.output(await fork(house, retried, "end")) == "mended 1"
    assert paid(house) == 1

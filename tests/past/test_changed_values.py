"""Runs that go on from a fork whose values were changed: they are changed there again."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.conftest import Harness
from tests.past.runs import mend, paid, pay, retry

ALL = {"append": {"target": "context.all", "value": "{{ steps.says.output }}"}}


def write(house: Harness) -> dict[str, Any]:
    """Return a line, a loop that continues as new, a map and branches, which tell input and context; the end fails."""
    tells = {"input": "{{ input.tone }} {{ context.size }}"}
    body = [{"name": "says", **tells}, pay(house.folder, "ana", "pays")]
    loop = {"max_loops": 4, "checkpoint_every": 1, "body": body, "state": [ALL]}
    branches = {name: [{"name": f"in_{name}", **tells}] for name in "ab"}
    item = {"iterable_input": [1, 2, 3], "body": [{"name": "each", **tells}]}
    steps = [
        {"name": "first", **tells},
        {"kind": "loop", "name": "l", "loop": loop},
        {"kind": "map", "name": "m", "map": item},
        {"kind": "parallel", "name": "p", "branches": branches, "reduce": "values"},
        mend(house.folder),
    ]
    output = ["{{ steps.first.output }}", "{{ context.all }}", "{{ steps.m.output }}", "{{ steps.p.output }}"]
    return {"context": {"size": 1}, "steps": steps, "output": output}


async def begin_changed(house: Harness, at: str) -> tuple[str, Any]:
    """Return a fork whose values were changed, and that has failed at its end, and the output of one that has not."""
    run = await house.start(yaml.safe_dump(write(house)), {"tone": "warm"})
    await house.output(run)
    changes = {"input.tone": "dry", "size": 2}
    whole = await house.runs.fork(run, at, changes=changes)
    house.started.append(whole.run)
    output = await house.output(whole.run)
    (house.folder / "broken").touch()
    changed = await house.runs.fork(run, at, changes=changes)
    house.started.append(changed.run)
    assert (await house.result(changed.run)).status == "failed"
    return changed.run, output


@pytest.mark.slow
@pytest.mark.parametrize("at", ["first", "l", "loop:l:2", "map:m:1", "branch:b", "m"])
async def test_a_retry_changes_them_where_they_were_changed(house: Harness, at: str) -> None:
    run, output = await begin_changed(house, at)
    before = paid(house)
    new = await retry(house, run)
    assert (await house.output(new), paid(house)) == (output, before)
    assert await house.output(await _fork(house, new, "mend")) == output  # and one that goes on from the retry


async def _fork(house: Harness, run: str, at: str, **changes: Any) -> str:
    forked = await house.runs.fork(run, at, changes=changes)
    house.started.append(forked.run)
    return forked.run


async def test_a_fork_before_their_place_has_what_was_before(house: Harness) -> None:
    run, _ = await begin_changed(house, "m")
    (house.folder / "broken").unlink()
    output = await house.output(await _fork(house, run, "first"))
    assert output[0] == "warm 1" and output[2] == ["warm 1"] * 3


@pytest.mark.slow
async def test_a_fork_behind_their_place_changes_more(house: Harness) -> None:
    """Of the input it is the changed one that is changed once more."""
    run, _ = await begin_changed(house, "m")
    (house.folder / "broken").unlink()
    output = await house.output(await _fork(house, run, "p", **{"input.other": 1, "size": 3}))
    assert output[2:] == [["dry 2"] * 3, ["dry 3"] * 2]

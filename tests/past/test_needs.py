"""A fork in a list whose steps say what they need: what does not depend on its place is met."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.conftest import Harness
from tests.control.undoable import plain
from tests.tools import read_done


def lines(house: Harness) -> list[dict[str, Any]]:
    """Return two lines of steps that each do something, and what needs both."""
    needs = {"a": [], "b": ["a"], "x": [], "y": ["x"], "both": ["b", "y"]}
    return [{**plain(house, name), "needs": wanted} for name, wanted in needs.items()]


WAYS = {"b": ["b", "both"], "x": ["x", "y", "both"], "both": ["both"]}


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

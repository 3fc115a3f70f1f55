"""A reader of events goes on from a cursor: nothing twice, nothing lost, and what has ended is not read again."""

from __future__ import annotations

import pytest

from holdfast.client.events import Cursor, Stream
from holdfast.runtime.errors import BadInput
from tests.conftest import Harness

LOOPS = """
name: talk
steps:
  - kind: parallel
    name: both
    branches:
      one: [{kind: loop, name: outer, loop: {max_loops: 2, body: [{kind: hitl, name: ask, message: Well?}]}}]
      two: [{name: calm, uses: passthrough, input: 1}]
  - {kind: hitl, name: last, message: And?}
"""


async def ended(house: Harness) -> str:
    run = await house.start(LOOPS)
    await house.answered(run, "a", "b", "c")
    await house.output(run)
    return run


@pytest.mark.slow
async def test_from_each_cursor_exactly_the_rest_follows(house: Harness) -> None:
    run = await ended(house)
    whole = [placed async for placed in house.runs.watch.follow_from(run)]
    for index, (_, cursor) in enumerate(whole):
        again = Cursor.read(run, str(cursor))
        rest = [event async for event, _ in house.runs.watch.follow_from(run, again)]
        assert rest == [event for event, _ in whole[index + 1 :]]


@pytest.mark.slow
async def test_a_workflow_that_has_ended_is_left_out_and_not_read_again(house: Harness) -> None:
    run = await house.start(LOOPS)
    await house.answered(run, "a", "b")
    await house.asked(run)
    stream = Stream(house.runs.tree, run)
    for _ in range(3):
        await stream.round()
    assert [*stream.cursor.offsets] == [run]


async def test_behind_the_last_event_of_a_run_that_has_ended_there_is_nothing(house: Harness) -> None:
    run = await house.start("{name: calm, steps: [{name: keep, uses: passthrough, input: 1}]}")
    await house.output(run)
    stream = Stream(house.runs.tree, run)
    for _ in range(3):  # after three looks it is sure that nothing follows
        await stream.round()
    behind = Cursor.read(run, str(stream.cursor))
    assert [event async for event, _ in house.runs.watch.follow_from(run, behind)] == []


NO_CURSORS = [
    "",
    "7",
    "nonsense",
    "WzEsMl0",
    str(Cursor("brief", 1, offsets={"brief": -1})),
    "é",
    str(Cursor("letter")),
]


@pytest.mark.parametrize("word", NO_CURSORS)
def test_a_word_that_is_no_cursor_of_the_run_is_refused(word: str) -> None:
    with pytest.raises(BadInput, match="not a cursor of the events of brief"):
        Cursor.read("brief", word)

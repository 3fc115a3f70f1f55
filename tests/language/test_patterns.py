"""docs/patterns.md: each example of a control-flow pattern runs, and its steps complete as the pattern says."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from holdfast.protocol.questions import Question
from tests.conftest import Harness, until
from tests.repository import ROOT

PAGE = (ROOT / "docs" / "patterns.md").read_text()
EXAMPLES = dict(re.findall(r"^### (\d+) [^#]*?```yaml\n(.*?)```$", PAGE, re.MULTILINE | re.DOTALL))
INPUT = {"amount": 7, "teams": ["a", "c"]}


@dataclass(frozen=True)
class Case:
    """What happens to a run of an example.

    Args:
        trace: The steps that complete, in order; of a set in any order.
        answers: To its questions, in order.
        event: Whether the event for which it waits is sent.
        awaited: Whether it is sent only when a step waits for it.
        cancel: Whether it is cancelled while it waits.
    """

    trace: tuple[str | frozenset[str], ...]
    answers: tuple[str, ...] = ()
    event: bool = False
    awaited: bool = False
    cancel: bool = False


def any_order(*names: str) -> frozenset[str]:
    return frozenset(names)


BOTH = any_order("a", "b")
CASES = {
    1: Case(("a", "b")),
    2: Case((BOTH, "split")),
    3: Case((BOTH, "split", "join")),
    4: Case(("b", "choice")),
    5: Case(("b", "choice", "merge")),
    6: Case((any_order("a", "c"), "some")),
    7: Case((any_order("a", "c"), "some", "merge")),
    8: Case((any_order("a", "after_a", "b", "after_b"), "split")),
    10: Case(("a", "verdict", "a", "verdict", "order"), answers=("again", "good")),
    11: Case(("a", any_order("b", "c"))),
    13: Case(("a", "a", "each")),
    14: Case(("a", "a", "each")),
    15: Case(("a", "more", "a", "more", "each"), answers=("yes", "no")),
    16: Case(("transfer", "b", "first"), event=True),
    17: Case(("a", "b", "c", "d")),
    18: Case(("packed", "until_packed", "ship"), event=True),
    19: Case(("stop", "task", "after"), event=True),
    20: Case((), cancel=True),
    21: Case(("a", "a", "rounds")),
    23: Case(("a", "paid", "b"), event=True, awaited=True),
    24: Case(("paid", "a"), event=True),
    25: Case(("a", "stop", "region", "after"), event=True),
    26: Case(("stop", "all", "after"), event=True),
    27: Case(("a", "enough", "votes", "after"), event=True),
    29: Case(("b", "race", "after")),
    32: Case((any_order("a", "c"), "two_of_three", "after")),
    33: Case((any_order("a", "b", "c"), "join")),
    34: Case(("a", "votes", "after"), answers=("go",)),
    35: Case((BOTH, "votes", "after")),
    37: Case(("start", "b", "merge")),
    39: Case(("a", "b", "one", "c", "d", "two", "end")),
    40: Case(("a", "b", "end")),
    41: Case(("a", "a", "each", "merged")),
    42: Case(("split", "a", "a", "each")),
    43: Case(("a", "order")),
}


def test_the_page_has_every_pattern_once_and_counts_those_that_can_be_said() -> None:
    numbers = [int(number) for number in re.findall(r"^### (\d+) ", PAGE, re.MULTILINE)]
    assert sorted(numbers) == list(range(1, 44))
    assert {int(number) for number in EXAMPLES} == CASES.keys()
    assert f"{len(CASES)} of them can be said" in PAGE


async def _list_awaited(house: Harness, run: str) -> list[Question]:
    return (await house.runs.state(run)).events


@pytest.mark.parametrize("number", CASES)
async def test_an_example_does_what_its_pattern_says(house: Harness, number: int) -> None:
    case = CASES[number]
    run = await house.start(EXAMPLES[str(number)], INPUT)
    for answer in case.answers:
        question = (await until(lambda: house.runs.questions(run), "a question"))[0]
        await house.answer(run, answer, question)
    if case.awaited:
        await until(lambda: _list_awaited(house, run), "a wait")
    if case.event:
        await house.runs.external_events.send(run, "paid", "1", {}, id="e1")
    if case.cancel:
        await house.one(run)
        await house.runs.control.cancel(run)
    assert (await house.result(run)).status == ("cancelled" if case.cancel else "completed")
    events = await house.runs.watch.events(run)
    completed = [event.data.name for event in events if event.type == "step.completed"]
    for expected in case.trace:
        if isinstance(expected, str):
            assert completed[:1] == [expected], completed
            del completed[:1]
        else:
            assert sorted(completed[: len(expected)]) == sorted(expected), completed
            del completed[: len(expected)]
    assert completed == []
    assert await house.runs.questions(run) == []

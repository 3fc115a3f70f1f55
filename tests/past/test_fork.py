"""A fork begins in the middle of a run: what was before is met, what comes after is called, paid and asked again."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from holdfast.protocol.events import Event, ItemStarted, LoopIteration, StepStarted
from holdfast.runtime.errors import Ambiguous, BadInput
from tests.conftest import Harness
from tests.past.runs import ASK, fail, finish, mend, paid, pay

PLACES = (StepStarted, LoopIteration, ItemStarted)


def loop(body: list[Any], name: str = "l", **more: Any) -> dict[str, Any]:
    return {"kind": "loop", "name": name, "loop": {"max_loops": 3, "body": body, **more}}


def all_kinds(house: Harness) -> str:
    """Return a blueprint with steps inside everything that works through a list, which pays six times."""
    twice = {"iterable_input": "[1, 2]", "body": [pay(house.folder, "ana", "pay_item")]}
    steps = [
        pay(house.folder, "ana", "first"),
        loop([pay(house.folder, "bob", "pay_round"), {"name": "n", "input": "{{ iteration }}"}], checkpoint_every=2),
        {"kind": "map", "name": "m", "map": twice},
        {
            "kind": "conditional",
            "name": "c",
            "condition_expression": "true",
            "branches": {"true": [{"name": "chosen", "input": "{{ context.kept }}"}]},
        },
        pay(house.folder, "eve", "last"),
        {
            "name": "end",
            "input": "{{ [steps.first.output.to, steps.l.output, steps.m.output | length, context.kept] }}",
        },
    ]
    return yaml.safe_dump({"context": {"kept": "old"}, "steps": steps})


async def fork(house: Harness, run: str, at: str, **how: Any) -> str:
    """Begin a run in the middle of another one."""
    forked = await house.runs.fork(run, at, **how)
    house.started.append(forked.run)
    return forked.run


def count_payments(events: list[Event], at: str) -> int:
    """Return how many payments were begun at a place, or behind it."""
    places = [event.address for event in events if isinstance(event.data, PLACES)]
    behind = places[places.index(at) :]
    return sum(";step:pay" in place or place.endswith((";step:first", ";step:last")) for place in behind)


@pytest.mark.slow
async def test_a_fork_at_each_place_pays_only_what_comes_after_and_ends_the_same(house: Harness) -> None:
    run = await house.start(all_kinds(house))
    output = await house.output(run)
    events = await house.runs.watch.events(run)
    for at in dict.fromkeys(event.address for event in events if isinstance(event.data, PLACES)):
        before = paid(house)
        assert (at, await house.output(await fork(house, run, at))) == (at, output)
        assert (at, paid(house) - before) == (at, count_payments(events, at))


@pytest.mark.parametrize("at", ["first", "loop:l:3", "map:m:1", "last"])
async def test_a_fork_pays_only_what_comes_after(house: Harness, at: str) -> None:
    run = await house.start(all_kinds(house))
    output = await house.output(run)
    events = await house.runs.watch.events(run)
    forked = await house.runs.fork(run, at)
    house.started.append(forked.run)
    assert await house.output(forked.run) == output
    assert paid(house) - 7 == count_payments(events, forked.at)


async def test_the_context_is_changed_at_the_place_and_not_before(house: Harness) -> None:
    run = await house.start(all_kinds(house))
    await house.output(run)
    forked = await fork(house, run, "chosen", changes={"kept": "new"})
    assert (await house.output(forked))[-1] == "new"
    assert paid(house) == 8


async def test_another_branch_is_met_and_asks_nobody(house: Harness) -> None:
    branches = {"a": [pay(house.folder, "ana", "a_pays")], "b": [ASK, pay(house.folder, "bob", "b_pays")]}
    steps = [{"kind": "parallel", "name": "p", "branches": branches}, pay(house.folder, "eve", "last")]
    run = await house.start(yaml.safe_dump({"steps": steps}))
    await house.answer(run, {"granted": True})
    output = await house.output(run)
    assert await house.output(await fork(house, run, "a_pays")) == output
    assert paid(house) == 5


async def test_an_item_beside_others_is_run_alone(house: Harness) -> None:
    item = {"iterable_input": "[1, 2, 3]", "body": [pay(house.folder, "ana")], "max_concurrency": 3}
    run = await house.start(yaml.safe_dump({"steps": [{"kind": "map", "name": "m", "map": item}]}))
    await house.output(run)
    await house.output(await fork(house, run, "map:m:1"))
    assert paid(house) == 4


async def test_a_run_that_waits_is_forked_before_its_question(house: Harness) -> None:
    """The other run goes on."""
    run = await house.start(
        yaml.safe_dump({"steps": [pay(house.folder, "ana"), ASK, pay(house.folder, "bob", "last")]})
    )
    await house.one(run)
    forked = await fork(house, run, "ask")
    for each in (forked, run):
        await house.answer(each, {"granted": True})
        assert await house.output(each) == {"paid": 1, "to": "bob"}
    assert paid(house) == 3


async def test_a_failed_run_is_forked_before_its_failure(house: Harness) -> None:
    run = await fail(house, [pay(house.folder, "ana"), pay(house.folder, "bob", "again"), mend(house.folder)])
    (house.folder / "broken").unlink()
    assert await finish(house, await fork(house, run, "again")) == "mended 1"
    assert paid(house) == 3


async def test_what_cannot_be_forked_says_so(house: Harness) -> None:
    needs = [{"name": "a"}, {"name": "b", "needs": ["a"]}]
    run = await house.start(yaml.safe_dump({"steps": [loop([{"name": "x"}]), *needs]}))
    await house.output(run)
    with pytest.raises(BadInput, match="did you mean 'x'"):
        await house.runs.fork(run, "xx")
    with pytest.raises(Ambiguous, match="several times"):
        await house.runs.fork(run, "x")
    with pytest.raises(BadInput, match="say what they need"):
        await house.runs.fork(run, "b")

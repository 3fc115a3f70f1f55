"""A fork begins in the middle of a run: what was before is met, what comes after is called, paid and asked again."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from holdfast.protocol.events import Event, ItemStarted, LoopIteration, StepStarted
from holdfast.protocol.runs import HistoryLimits
from holdfast.runtime.errors import Ambiguous, BadInput
from tests.conftest import Harness
from tests.control.undoable import BOOM, block, do, plain
from tests.past.runs import ASK, fail, finish, mend, paid, pay
from tests.tools import read_done

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


@pytest.mark.first_row
@pytest.mark.parametrize("at", ["first", "loop:l:3", "map:m:1", "last"])
async def test_a_fork_pays_only_what_comes_after(house: Harness, at: str) -> None:
    run = await house.start(all_kinds(house))
    output = await house.output(run)
    events = await house.runs.watch.events(run)
    forked = await house.runs.fork(run, at)
    house.started.append(forked.run)
    assert await house.output(forked.run) == output
    assert paid(house) - 7 == count_payments(events, forked.at)


@pytest.mark.slow
async def test_the_context_is_changed_at_the_place_and_not_before(house: Harness) -> None:
    run = await house.start(all_kinds(house))
    await house.output(run)
    forked = await fork(house, run, "chosen", changes={"kept": "new"})
    assert (await house.output(forked))[-1] == "new"
    assert paid(house) == 8


@pytest.mark.slow
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


@pytest.mark.parametrize("items", [50, 2])
@pytest.mark.slow
async def test_plans_of_earlier_items_and_iterations_are_met(house: Harness, items: int) -> None:
    """A plan in an item of a map in an iteration of a loop, also where the map is a workflow of pages."""
    arguments = {"folder": str(house.folder), "payee": "ana", "amount": 1}
    steps = [{"id": "pay", "title": "Pay", "tools": ["pay_out"], "arguments": arguments}]
    plan = {"kind": "plan", "name": "party", "plan": {"goal": "Pay", "steps": steps}}
    each = {"kind": "map", "name": "each", "map": {"iterable_input": "[1, 2, 3]", "body": [plan]}}
    twice = loop([each], max_loops=2)
    run = await house.start(yaml.safe_dump({"steps": [twice]}), history_limits=HistoryLimits(items=items))
    await house.output(run)
    await house.output(await fork(house, run, "loop:l:2;map:each:1;plan:party"))
    assert paid(house) == 6 + 2


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


@pytest.mark.slow
async def test_a_failed_run_is_forked_before_its_failure(house: Harness) -> None:
    run = await fail(house, [pay(house.folder, "ana"), pay(house.folder, "bob", "again"), mend(house.folder)])
    (house.folder / "broken").unlink()
    assert await finish(house, await fork(house, run, "again")) == "mended 1"
    assert paid(house) == 3


async def test_a_question_inside_a_clarification_is_no_place(house: Harness) -> None:
    """Its address is what `questions` prints, so that people name it."""
    facts = {"type": "object", "required": ["who"], "properties": {"who": {"type": "string"}}}
    run = await house.start(
        yaml.safe_dump({"steps": [{"kind": "clarify", "name": "brief", "goal": "Go", "schema": facts}]})
    )
    question = await house.one(run)
    for place in (question.address, "hitl:who", "who"):
        with pytest.raises(BadInput, match="cannot begin inside the clarify brief: begin at that step"):
            await house.runs.fork(run, place)


@pytest.mark.slow
async def test_what_cannot_be_forked_says_so(house: Harness) -> None:
    run = await house.start(yaml.safe_dump({"steps": [loop([{"name": "x"}])]}))
    await house.output(run)
    with pytest.raises(BadInput, match="did you mean 'x'"):
        await house.runs.fork(run, "xx")
    with pytest.raises(Ambiguous, match="several times"):
        await house.runs.fork(run, "x")


@pytest.mark.slow
async def test_a_step_of_a_plan_that_stands_in_several_items_is_no_place(house: Harness) -> None:
    steps = [{"id": "1", "instruction": "ASK_INFO: Who?", "pause_for_response": True, "loopover": ["a", "b"]}]
    run = await house.start(json.dumps({"goal": "Ask", "agent": "echo", "steps": steps, "max_parallel": 2}))
    for _ in steps[0]["loopover"]:
        await house.answer(run, "me")
    await house.result(run)
    with pytest.raises(BadInput, match="cannot begin inside the plan"):
        await house.runs.fork(run, "1")


INPUT = """
inputs: {type: object, properties: {tone: {type: string}, to: {type: string}}}
imports: {}
steps:
  - {name: first, input: "{{ input.tone }}"}
  - kind: loop
    name: l
    loop:
      max_loops: 4
      checkpoint_every: 1
      body:
        - {name: round, input: "{{ input.tone }}"}
        - {name: told, input: "{{ steps.round.output }}{{ previous_step }}", sink_to: "log"}
      state: [{append: {target: "context.all", value: "{{ steps.round.output }}"}}]
  - {name: last, input: "{{ input.tone }} {{ input.to }}"}
output: ["{{ steps.first.output }}", "{{ context.all }}", "{{ steps.last.output }}", "{{ input.tone }}"]
"""


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize(
    ("at", "output"),
    [
        ("first", ["dry", ["dry", "dry", "dry"], "dry Ana", "dry"]),
        ("loop:l:2", ["warm", ["warm", "dry", "dry"], "dry Ana", "dry"]),
        ("last", ["warm", ["warm", "warm", "warm"], "dry Ana", "dry"]),
    ],
)
async def test_the_input_is_changed_from_the_place_on(house: Harness, at: str, output: list[Any]) -> None:
    """The loop's next histories have it, too."""
    run = await house.start(INPUT, {"tone": "warm", "to": "Ana"})
    await house.output(run)
    assert await house.output(await fork(house, run, at, changes={"input.tone": "dry"})) == output


@pytest.mark.slow
@pytest.mark.parametrize("behind", ["last", "loop:l:4"])
async def test_a_changed_input_stays_in_later_forks_that_do_not_come_to_its_place(house: Harness, behind: str) -> None:
    """They meet the loop as a whole, or begin with its later state."""
    run = await house.start(INPUT, {"tone": "warm", "to": "Ana"})
    await house.output(run)
    run = await fork(house, run, "loop:l:2", changes={"input.tone": "dry"})
    output = await house.output(run)
    for _ in range(3):
        run = await fork(house, run, behind)
        assert await house.output(run) == output


async def test_a_first_step_without_an_input_of_its_own_gets_the_changed_one(house: Harness) -> None:
    run = await house.start("steps: [{name: a}, {name: b}]", "old")
    assert await house.output(run) == "old"
    assert await house.output(await fork(house, run, "a", changes={"input": "new"})) == "new"


DEFAULTS = """
inputs:
  properties: {size: {default: 3}, place: {properties: {city: {default: Rome}}, default: {}}}
steps: [{name: a, input: "{{ input.size }}"}, {name: b, input: "{{ input }}"}]
"""


async def test_a_changed_input_has_the_defaults_of_its_schema(house: Harness) -> None:
    """Those of what the run was started with, and those of what is new."""
    run = await house.start(DEFAULTS, {})
    assert await house.output(run) == {"size": 3, "place": {}}
    changed = await fork(house, run, "b", changes={"input.place.street": "Via Roma"})
    assert await house.output(changed) == {"size": 3, "place": {"city": "Rome", "street": "Via Roma"}}


@pytest.mark.parametrize(("kind", "inside"), [("map", "map:m:1"), ("branch", "parallel:p;branch:b")])
async def test_the_input_is_changed_in_one_branch_or_from_one_item_on(house: Harness, kind: str, inside: str) -> None:
    body = [{"name": "say", "input": "{{ input.tone }}"}]
    around: dict[str, Any] = {"kind": "map", "name": "m", "map": {"iterable_input": "[1, 2, 3]", "body": body}}
    if kind == "branch":
        around = {"kind": "parallel", "name": "p", "branches": {"a": body, "b": body}}
    end = {"name": "end", "input": "{{ [previous_step, input.tone] }}"}
    run = await house.start(yaml.safe_dump({"steps": [around, end]}), {"tone": "warm"})
    await house.output(run)
    met, tone = await house.output(await fork(house, run, inside, changes={"input.tone": "dry"}))
    assert (met, tone) == ({"a": "warm", "b": "dry"} if kind == "branch" else ["warm", "dry", "dry"], "dry")


async def test_the_input_is_not_changed_inside_an_import(house: Harness) -> None:
    (house.folder / "part.yaml").write_text("steps: [{name: inner}]")
    run = await house.start("imports: {part: part.yaml}\nsteps: [{name: a, uses: imports.part}]", "old")
    await house.output(run)
    with pytest.raises(BadInput, match="stands in an import"):
        await house.runs.fork(run, "inner", changes={"input": "new"})


@pytest.mark.slow
async def test_an_input_that_does_not_fit_is_refused(house: Harness) -> None:
    run = await house.start(INPUT, {"tone": "warm", "to": "Ana"})
    await house.output(run)
    with pytest.raises(BadInput, match="a key in it is empty"):
        await house.runs.fork(run, "last", changes={"x.y.": 1})
    with pytest.raises(BadInput, match="tne cannot be set to 3: the context has no tne"):
        await house.runs.fork(run, "last", changes={"tne": 3})
    with pytest.raises(BadInput, match="does not fit: tone"):
        await house.runs.fork(run, "last", changes={"input.tone": 3})


def undone(house: Harness) -> list[dict[str, Any]]:
    """Return steps of which a block fails and is undone, and what comes after it."""
    whole = block(plain(house, "look"), do(house, "book"), BOOM, on_error="continue")
    return [
        plain(house, "before"),
        whole,
        plain(house, "after"),
        {"name": "end", "input": "{{ steps.all.error.type }}"},
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "again"),
    [
        ("before", ["before", "look", "book", "unbook", "after"]),
        ("look", ["look", "book", "unbook", "after"]),
        ("book", ["book", "unbook", "after"]),
        ("after", ["after"]),
    ],
)
async def test_a_fork_before_what_was_undone_or_behind_its_block_does_nothing_twice(
    house: Harness, at: str, again: list[str]
) -> None:
    run = await house.start(yaml.safe_dump({"steps": undone(house)}))
    output = await house.output(run)
    first = read_done(house.folder)
    assert first == ["before", "look", "book", "unbook", "after"]
    assert await house.output(await fork(house, run, at)) == output
    assert read_done(house.folder) == [*first, *again]


async def test_a_fork_between_a_step_and_its_undo_is_refused(house: Harness) -> None:
    run = await house.start(yaml.safe_dump({"steps": undone(house)}))
    await house.output(run)
    with pytest.raises(BadInput, match="undone later what it did at pipeline:test;block:all;step:book"):
        await house.runs.fork(run, "boom")


@pytest.mark.slow
async def test_a_branch_that_had_lost_is_open_again_where_the_fork_decides_the_race_in_another_way(
    house: Harness,
) -> None:
    race = {
        "kind": "parallel",
        "name": "race",
        "until": "first",
        "on_branch_failure": "ignore",
        "branches": {
            "slow": [pay(house.folder, "ana"), {"kind": "hitl", "name": "ask", "message": "Slow?"}],
            "quick": [
                {"kind": "hitl", "name": "start", "message": "Start?"},
                {"name": "work", "input": "{{ 1 / context.n }}"},
            ],
        },
    }
    text = yaml.safe_dump({"context": {"n": 1}, "steps": [race], "output": "{{ steps.race.output }}"})
    run = await house.start(text)
    questions = await house.asked(run, 2)
    start = next(question for question in questions if question.message == "Start?")
    await house.answer(run, "now", start)
    assert (await house.output(run))["outputs"] == {"quick": 1.0}
    forked = await fork(house, run, "work", changes={"n": 0})
    assert (await house.one(forked)).message == "Slow?"
    await house.answer(forked, "done")
    assert (await house.output(forked))["outputs"] == {"slow": "done"}
    assert paid(house) == 1

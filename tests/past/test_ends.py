"""What a retry goes on from beside a failed step: a call in its middle, a lost race, a timer, an end from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.runtime.errors import BadInput
from tests.conftest import Harness, until
from tests.control.undoable import BOOM, block, do
from tests.past.runs import ASK, fail, mend, paid, pay, retry
from tests.tools import calls, read_done


async def is_called(folder: Path, name: str) -> bool:
    return calls(folder, name) > 0


async def test_of_a_call_in_its_middle_a_person_says_what_came_of_it(house: Harness) -> None:
    """The run was terminated while a tool was at work that may not run twice."""
    (house.folder / "hang").touch()
    hangs = {"name": "slow", "uses": "hangs_once", "arguments": {"folder": str(house.folder), "name": "slow"}}
    run = await house.start(yaml.safe_dump({"steps": [pay(house.folder, "ana"), hangs]}))
    await until(lambda: is_called(house.folder, "slow"))
    await house.runs.control.cancel(run, force=True)
    (house.folder / "hang").unlink()
    new = await retry(house, run)
    question = await house.one(new)
    assert "when the earlier run ended" in question.message
    await house.answer(new, {"outcome": "done", "result": "it was"}, question)
    assert (await house.output(new), paid(house), calls(house.folder, "slow")) == ("it was", 1, 1)


@pytest.mark.slow
async def test_a_call_of_unknown_outcome_is_asked_about_before_it_is_made_again(house: Harness) -> None:
    """A person let the run fail, as nobody knew whether the call had taken effect."""
    (house.folder / "hang").touch()
    hangs = {"name": "slow", "uses": "hangs_once", "arguments": {"folder": str(house.folder), "name": "slow"}}
    run = await house.start(yaml.safe_dump({"steps": [{**hangs, "timeout": "1s"}]}))
    question = await house.one(run)
    (house.folder / "hang").unlink()
    await house.answer(run, {"outcome": "fail"}, question)
    assert (await house.result(run)).error.type == "outcome_unknown"
    new = await retry(house, run)
    question = await house.one(new)
    await house.answer(new, {"outcome": "done", "result": "it was"}, question)
    assert (await house.output(new), calls(house.folder, "slow")) == ("it was", 1)


@pytest.mark.slow
async def test_a_cancelled_run_asks_again_what_was_open(house: Harness) -> None:
    run = await house.start(yaml.safe_dump({"steps": [pay(house.folder, "ana"), ASK]}))
    await house.one(run)
    await house.runs.control.cancel(run)
    new = await retry(house, run)
    await house.answer(new, {"granted": True})
    assert (await house.output(new), paid(house)) == (True, 1)


@pytest.mark.slow
async def test_a_lost_race_is_not_run_again(house: Harness) -> None:
    """The branch that lost was asking when the other paid; it asks nobody in the retry."""
    race = {
        "kind": "parallel",
        "name": "race",
        "until": "first",
        "branches": {"asks": [ASK], "pays": [pay(house.folder, "ana")]},
    }
    run = await fail(house, [race, mend(house.folder)])
    new = await retry(house, run)
    assert (await house.output(new), paid(house)) == ("mended 1", 1)
    assert "question.asked" not in await house.types(new)


@pytest.mark.slow
async def test_a_race_lost_in_the_task_of_a_failure_is_not_run_again(house: Harness) -> None:
    """The branch that lost was asking as the expression behind the race failed."""
    branches = {"asks": [ASK], "quick": [mend(house.folder)]}
    race = {"kind": "parallel", "name": "race", "until": "first", "branches": branches}

    def write(divisor: int) -> str:
        return yaml.safe_dump({"steps": [race, {"name": "end", "input": f"{{{{ 4 / {divisor} }}}}"}]})

    run = await house.start(write(0))
    assert (await house.result(run)).error.type == "expression_error"
    new = await retry(house, run, blueprint=house.load(write(2)))
    assert (await house.output(new), calls(house.folder, "mended")) == (2, 1)
    assert "question.asked" not in await house.types(new)


@pytest.mark.slow
async def test_facts_that_a_person_gave_are_not_asked_for_again(house: Harness) -> None:
    facts = {"type": "object", "required": ["who", "size"], "properties": {"who": {}, "size": {"type": "integer"}}}
    clarify = {"kind": "clarify", "name": "facts", "goal": "A brief", "schema": facts, "confirm": False}
    steps = [clarify, {"name": "kept", "input": "{{ steps.facts.output }}", "sink_to": "kept"}, mend(house.folder)]
    run = await fail(house, steps, 3, "ana")
    new = await retry(house, run)
    outcome = await house.result(new)
    assert (outcome.output, outcome.context) == ("mended 1", {"kept": {"who": "ana", "size": 3}})


@pytest.mark.slow
async def test_a_timer_that_has_passed_is_not_waited_for_again(house: Harness) -> None:
    run = await fail(house, [{"kind": "timer", "name": "wait", "for": "1s"}, mend(house.folder)])
    new = await retry(house, run)
    assert await house.output(new) == "mended 1"
    [history] = await house.histories(new)
    assert not any(event.HasField("timer_started_event_attributes") for event in history.events)


@pytest.mark.slow
async def test_an_answer_of_several_people_is_met_whole(house: Harness) -> None:
    asks: dict[str, Any] = {**ASK, "quorum": 2}
    seen = {"name": "seen", "input": "{{ steps.ask.reply.by }}", "sink_to": "by"}
    (house.folder / "broken").touch()
    run = await house.start(yaml.safe_dump({"steps": [asks, seen, mend(house.folder)]}))
    question = await house.one(run)
    for person in ("user:ana", "user:bob"):
        await house.answer(run, {"granted": True}, question, by=person)
    await house.result(run)
    new = await retry(house, run)
    outcome = await house.result(new)
    assert (outcome.output, outcome.context) == ("mended 1", {"by": ["user:ana", "user:bob"]})


@pytest.mark.slow
async def test_a_plan_goes_on_where_it_failed(house: Harness) -> None:
    folder = str(house.folder)
    plan = {
        "goal": "Pay, then mend",
        "steps": [
            {
                "id": "1",
                "title": "Pay",
                "tools": ["pay_out"],
                "arguments": {"folder": folder, "payee": "ana", "amount": 1},
            },
            {
                "id": "2",
                "title": "Mend",
                "tools": ["mendable"],
                "arguments": {"folder": folder, "name": "mended"},
                "dependencies": ["1"],
            },
        ],
    }
    steps = [{"kind": "plan", "name": "plan", "plan": plan}]
    run = await fail(house, steps)
    new = await retry(house, run)
    assert ((await house.result(new)).status, paid(house), calls(house.folder, "mended")) == ("completed", 1, 1)


@pytest.mark.slow
async def test_a_plan_goes_on_in_the_loop_that_failed(house: Harness) -> None:
    folder = str(house.folder)
    pays = {"id": "pay", "tools": ["pay_out"], "arguments": {"folder": folder, "payee": "CURRENT_ITEM", "amount": 1}}
    mends = {"id": "mend", "tools": ["mendable"], "arguments": {"folder": folder, "name": "mended"}}
    steps = [{"title": "Pay", **pays}, {"title": "Mend", **mends, "dependencies": ["pay"]}]
    each = {"over": ["ana", "bob"], "steps": ["pay", "mend"], "on_item_error": "fail"}
    plan = {"goal": "Pay all", "steps": steps, "loop_blocks": {"each": each}}
    run = await fail(house, [{"kind": "plan", "name": "plan", "plan": plan}])
    assert paid(house) == 1
    new = await retry(house, run)
    assert ((await house.result(new)).status, paid(house), calls(house.folder, "mended")) == ("completed", 2, 2)


@pytest.mark.slow
async def test_a_cancelled_plan_asks_again_what_was_open_in_its_loop(house: Harness) -> None:
    step = {"id": "day", "instruction": "Which day suits CURRENT_ITEM?", "pause_for_response": True}
    plan = {"goal": "Meet", "steps": [step], "loop_blocks": {"each": {"over": ["ana"], "steps": ["day"]}}}
    run = await house.start(yaml.safe_dump({"steps": [{"kind": "plan", "name": "plan", "plan": plan}]}))
    await house.one(run)
    await house.runs.control.cancel(run)
    new = await retry(house, run)
    await house.answer(new, "Monday")
    assert (await house.result(new)).status == "completed"


@pytest.mark.slow
async def test_hundreds_of_calls_are_met_bit_by_bit(house: Harness) -> None:
    """More than one activation may take: the workflow rests in between."""
    pays = [pay(house.folder, "ana", f"pay_{number}") for number in range(9)]
    item = {"iterable_input": "range(25)", "body": pays, "max_concurrency": 5}
    run = await fail(house, [{"kind": "map", "name": "each", "map": item}, mend(house.folder)])
    new = await retry(house, run)
    assert (await house.output(new), paid(house)) == ("mended 1", 225)


@pytest.mark.slow
async def test_what_was_undone_before_the_failure_is_met_with_its_undo(house: Harness) -> None:
    whole = block(do(house, "book"), BOOM, on_error="continue")
    run = await fail(house, [whole, mend(house.folder)])
    assert await house.output(await retry(house, run)) == "mended 1"
    assert read_done(house.folder) == ["book", "unbook"]


async def test_a_run_whose_failure_undid_what_it_had_done_is_not_gone_on_with(house: Harness) -> None:
    run = await fail(house, [block(do(house, "book"), mend(house.folder))])
    with pytest.raises(BadInput, match="undone later what it did at pipeline:test;block:all;step:book"):
        await retry(house, run)


@pytest.mark.slow
async def test_winners_keep_their_order(house: Harness) -> None:
    """The branch that is declared last was answered first."""
    branches = {name: [{"kind": "hitl", "name": f"ask_{name}", "message": name}] for name in "abc"}
    race = {"kind": "parallel", "name": "race", "until": 2, "branches": branches}
    steps = [race, {"name": "who", "input": "{{ steps.race.output.winner }}"}, mend(house.folder)]
    (house.folder / "broken").touch()
    output = "{{ steps.who.output }}"
    run = await house.start(yaml.safe_dump({"steps": steps, "output": output}))
    await house.asked(run, 3)
    for name in "cb":
        asked = (await house.runs.state(run)).questions
        await house.answer(run, name, next(question for question in asked if question.message == name))
    assert (await house.result(run)).status == "failed"
    assert await house.output(await retry(house, run)) == ["c", "b"]

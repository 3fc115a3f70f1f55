"""Going back at odd moments: `finally` that ran after a failure, lost races, deadlines that passed, continued loops."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from holdfast.client.differences import compare_runs
from holdfast.runtime.errors import BadInput
from tests.conftest import Harness
from tests.control.undoable import block, do, plain
from tests.past.runs import ASK, fail, mend, paid, pay, retry
from tests.tools import read_done


async def fork(house: Harness, run: str, at: str, **how: Any) -> str:
    forked = await house.runs.fork(run, at, **how)
    house.started.append(forked.run)
    return forked.run


async def test_what_a_failure_made_a_block_do_last_is_done_again_at_its_end(house: Harness) -> None:
    """The block goes on in the retry: its last steps come after what it does."""
    whole = block(plain(house, "take"), mend(house.folder), plain(house, "use"), **{"finally": [plain(house, "give")]})
    run = await fail(house, [whole])
    assert read_done(house.folder) == ["take", "give"]
    assert await house.output(await retry(house, run)) is not None
    assert read_done(house.folder) == ["take", "give", "use", "give"]


@pytest.mark.slow
async def test_of_a_fork_that_begins_in_a_continued_loop_nothing_differs(house: Harness) -> None:
    """The iterations before are in the state that its loop begins with."""
    body = [pay(house.folder, "ana"), {"name": "n", "input": "{{ iteration }}"}]
    loop = {"kind": "loop", "name": "l", "loop": {"max_loops": 4, "body": body, "checkpoint_every": 2}}
    run = await house.start(yaml.safe_dump({"steps": [loop]}))
    await house.output(run)
    forked = await fork(house, run, "loop:l:4")
    await house.output(forked)
    compared = compare_runs(await house.runs.watch.view(run), await house.runs.watch.view(forked))
    assert (list(compared.differences), paid(house)) == ([], 5)


@pytest.mark.slow
async def test_no_fork_begins_in_a_branch_that_has_lost(house: Harness) -> None:
    race = {
        "kind": "parallel",
        "name": "race",
        "until": "first",
        "branches": {"asks": [{"name": "begun"}, ASK], "pays": [pay(house.folder, "ana")]},
    }
    run = await house.start(yaml.safe_dump({"steps": [race, {"name": "end"}]}))
    await house.output(run)
    with pytest.raises(BadInput, match="has lost"):
        await house.runs.fork(run, "begun")
    await house.output(await fork(house, run, "pays"))
    assert paid(house) == 2


@pytest.mark.slow
async def test_a_deadline_that_has_passed_is_not_waited_for_again(house: Harness) -> None:
    """The block had been ended by it, and the run went on."""
    waits = block(pay(house.folder, "ana"), ASK, deadline="1s", on_deadline="finish")
    run = await fail(house, [waits, mend(house.folder)])
    new = await retry(house, run)
    assert (await house.output(new), paid(house)) == ("mended 1", 1)
    [history] = await house.histories(new)
    assert not any(event.HasField("timer_fired_event_attributes") for event in history.events)


@pytest.mark.slow
async def test_a_fork_inside_a_block_that_a_deadline_ended_has_time_again(house: Harness) -> None:
    waits = block(pay(house.folder, "ana"), pay(house.folder, "bob", "again"), ASK, deadline="2s", on_deadline="finish")
    run = await house.start(yaml.safe_dump({"steps": [waits, {"name": "end", "input": "done"}]}))
    assert await house.output(run) == "done"
    assert (await house.output(await fork(house, run, "again")), paid(house)) == ("done", 3)


@pytest.mark.slow
async def test_a_loop_of_a_plan_that_was_cancelled_goes_on(house: Harness) -> None:
    """What it handed over when it was cancelled is not its result."""
    steps = [{"id": "pay", "tools": ["pay_out"], "arguments": {"folder": str(house.folder), "payee": "a", "amount": 1}}]
    steps.append({"id": "sure", "instruction": "Which day?", "pause_for_response": True, "dependencies": ["pay"]})
    each = {"over": ["a", "b"], "steps": ["pay", "sure"]}
    plan = {"goal": "A party", "steps": steps, "loop_blocks": {"each": each}}
    run = await house.start(
        yaml.safe_dump({"steps": [{"kind": "plan", "name": "party", "plan": plan}, {"name": "end"}]})
    )
    await house.one(run)
    await house.runs.control.cancel(run)
    new = await retry(house, run)
    await house.answered(new, "Monday", "Tuesday")
    assert ((await house.result(new)).status, paid(house)) == ("completed", 2)


@pytest.mark.slow
async def test_what_a_block_did_last_before_a_cancel_came_is_met(house: Harness) -> None:
    """Its steps had completed, so that its end is the one that the retry comes to."""
    last = [ASK, pay(house.folder, "ana")]
    run = await house.start(yaml.safe_dump({"steps": [block(plain(house, "take"), **{"finally": last})]}))
    question = await house.one(run)
    await house.client.get_workflow_handle(run).cancel()
    await house.answer(run, "yes", question)
    assert ((await house.result(run)).status, paid(house)) == ("cancelled", 1)
    await house.output(await retry(house, run))
    assert (read_done(house.folder), paid(house)) == (["take"], 1)


@pytest.mark.slow
async def test_a_failure_of_what_a_block_does_last_undoes_nothing(house: Harness) -> None:
    """Its steps had completed; the retry does again what had failed."""
    last = [pay(house.folder, "ana"), mend(house.folder)]
    run = await fail(house, [block(do(house, "a"), **{"finally": last})])
    await house.output(await retry(house, run))
    assert (read_done(house.folder), paid(house)) == (["a"], 1)

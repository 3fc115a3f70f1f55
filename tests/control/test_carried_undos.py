"""What loops, maps and machines in a block have done is undone by the block, in whichever history it was."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.agents.turns import call, turn
from tests.conftest import Harness, until
from tests.control.undoable import ASK, BOOM, block, do, plain
from tests.flows import repeat, written
from tests.progress import ends, limits
from tests.tools import read_done


def do_each(house: Harness, what: str, **more: Any) -> dict[str, Any]:
    """A step in an iteration, which says of which."""
    step = do(house, what, **more)
    return {**step, "arguments": {"folder": str(house.folder), "what": what + "{{ iteration }}"}}


def do_item(house: Harness, what: str = "i") -> dict[str, Any]:
    return {**do(house, what), "arguments": {"folder": str(house.folder), "what": what + "{{ item }}"}}


def over(*body: dict[str, Any], at_once: int = 1, **more: Any) -> dict[str, Any]:
    items = {"iterable_input": "input", "body": list(body), "max_concurrency": at_once, **more}
    return {"kind": "map", "name": "m", "map": items}


def fails_in(iteration: int) -> dict[str, Any]:
    return {"name": "boom", "input": f"{{{{ 1 / (iteration - {iteration}) }}}}"}


async def test_what_a_loop_did_is_undone_when_the_block_fails_later(house: Harness) -> None:
    loop = repeat(do_each(house, "b"), do_each(house, "c"), most=3)
    run = await house.start(written(block(do(house, "a"), loop, do(house, "d"), BOOM)))
    assert (await house.result(run)).error.type == "expression_error"
    done = ["a", "b1", "c1", "b2", "c2", "b3", "c3", "d"]
    assert read_done(house.folder) == [*done, *(f"un{what}" for what in reversed(done))]
    assert (await house.types(run)).count("step.undone") == len(done)


async def test_or_when_the_loop_itself_fails_after_boundaries(house: Harness) -> None:
    loop = repeat(do_each(house, "b"), fails_in(3), most=5)
    run = await house.start(written(block(do(house, "a"), loop)))
    error = (await house.result(run)).error
    assert (error.type, error.address) == ("expression_error", "pipeline:test;block:all;loop:l:3;step:boom")
    assert read_done(house.folder) == ["a", "b1", "b2", "b3", "unb3", "unb2", "unb1", "una"]


@pytest.mark.slow
async def test_or_is_cancelled_while_it_waits(house: Harness) -> None:
    run = await house.start(written(block(do(house, "a"), repeat(do_each(house, "b"), ASK))))
    await house.answered(run, "1", "2")
    await house.one(run)
    await ends(house, run)
    assert read_done(house.folder) == ["a", "b1", "b2", "b3", "unb3", "unb2", "unb1", "una"]


async def test_or_is_cancelled_alone(house: Harness) -> None:
    run = await house.start(written(block(do(house, "a"), repeat(do_each(house, "b"), ASK))))
    await house.answered(run, "1")
    owner = (await house.one(run)).owner
    await house.client.get_workflow_handle(owner).cancel()  # as by Temporal's own tools
    await house.result(run)
    assert read_done(house.folder) == ["a", "b1", "b2", "unb2", "unb1", "una"]


async def test_nothing_is_undone_where_the_block_completes(house: Harness) -> None:
    run = await house.start(written(block(repeat(do_each(house, "b"), most=3)), plain(house, "after")))
    await house.output(run)
    assert read_done(house.folder) == ["b1", "b2", "b3", "after"]


async def test_a_loop_that_failed_and_was_passed_over_is_undone_with_the_block(house: Harness) -> None:
    loop = {**repeat(do_each(house, "b"), fails_in(2), most=5), "on_error": "continue"}
    run = await house.start(written(block(loop, do(house, "c"), {**BOOM, "name": "late"})))
    await house.result(run)
    assert read_done(house.folder) == ["b1", "b2", "c", "unc", "unb2", "unb1"]


async def test_loops_in_loops_and_blocks_in_them_hand_on(house: Harness) -> None:
    inner = repeat(block(do_each(house, "b"), name="inside"), name="inner", most=2)
    run = await house.start(written(block(repeat(inner, do_each(house, "c"), name="outer", most=2), BOOM)))
    await house.result(run)
    done = ["b1", "b2", "c1", "b1", "b2", "c2"]
    assert read_done(house.folder) == [*done, *(f"un{what}" for what in reversed(done))]


async def test_a_block_of_a_loop_undoes_its_own_iteration_alone(house: Harness) -> None:
    inner = block(do_each(house, "b"), fails_in(2), name="inside", on_error="continue")
    run = await house.start(written(block(repeat(inner, most=3), plain(house, "after"))))
    await house.output(run)
    assert read_done(house.folder) == ["b1", "b2", "unb2", "b3", "after"]


@pytest.mark.parametrize("items", [50, 2], ids=["here", "in pages"])
@pytest.mark.parametrize("at_once", [1, 3])
async def test_what_a_map_did_is_undone(house: Harness, items: int, at_once: int) -> None:
    document = written(block(over(do_item(house), at_once=at_once), BOOM))
    run = await house.start(document, [1, 2, 3, 4, 5], history_limits=limits(items=items))
    await house.result(run)
    done, undone = read_done(house.folder)[:5], read_done(house.folder)[5:]
    assert sorted(done) == ["i1", "i2", "i3", "i4", "i5"]
    assert sorted(undone) == sorted(f"un{what}" for what in done)
    assert at_once > 1 or undone == [f"un{what}" for what in reversed(done)]


@pytest.mark.slow
async def test_a_map_in_pages_that_fails_or_is_cancelled(house: Harness) -> None:
    """An item that failed, and is passed over, has done something all the same."""
    fails = {"name": "boom", "input": "{{ 1 / (item - 3) }}"}
    body = over(do_item(house), fails, on_item_error="continue")
    asking = {**over(ASK), "name": "asking"}
    run = await house.start(written(block(body, asking)), [1, 2, 3, 4, 5], history_limits=limits(items=2))
    await house.answered(run, "1", "2", "3")
    await house.one(run)
    await ends(house, run)
    assert read_done(house.folder) == [f"i{n}" for n in range(1, 6)] + [f"uni{n}" for n in range(5, 0, -1)]


@pytest.mark.slow
async def test_what_a_machine_did_is_undone(house: Harness) -> None:
    states = {
        "draft": {"steps": [do_each(house, "d")], "next": "check"},
        "check": {
            "steps": [do_each(house, "c")],
            "next": {"value": "iteration > 3", "to": {"true": "end"}, "else": "draft"},
        },
    }
    machine = {
        "kind": "states",
        "name": "s",
        "start": "draft",
        "ends": ["end"],
        "states": states,
        "checkpoint_every": 1,
    }
    run = await house.start(written(block(machine, BOOM)))
    await house.result(run)
    assert read_done(house.folder) == ["d1", "c2", "d3", "c4", "unc4", "und3", "unc2", "und1"]


async def test_a_loop_that_lost_a_race_is_undone_at_once(house: Harness) -> None:
    lost = [repeat(do_each(house, "b"), {"kind": "hitl", "name": "slow", "message": "Slow?"})]
    won = [{"kind": "hitl", "name": "fast", "message": "Fast?"}]
    race = {"kind": "parallel", "name": "race", "until": "first", "branches": {"lost": lost, "won": won}}
    run = await house.start(written(block(race, plain(house, "after"))))
    slow, fast = await house.asked(run, 2)
    await house.answer(run, "yes", slow)
    await house.asked(run, 2)
    await house.answer(run, "yes", fast)
    await house.output(run)
    assert read_done(house.folder) == ["b1", "b2", "unb2", "unb1", "after"]


@pytest.mark.slow
@pytest.mark.parametrize("on_deadline", ["fail", "finish"])
async def test_a_loop_that_its_deadline_ends_is_undone_with_the_block(house: Harness, on_deadline: str) -> None:
    loop = repeat(do_each(house, "b"), ASK)
    loop["loop"] |= {"deadline": "2s", "on_deadline": on_deadline}
    run = await house.start(written(block(loop, {**BOOM, "name": "late"})))
    await house.answered(run, "1")
    assert (await house.result(run)).status == "failed"
    assert read_done(house.folder) == ["b1", "b2", "unb2", "unb1"]


async def test_no_step_starts_that_the_block_could_not_undo(house: Harness) -> None:
    document = written(block(do(house, "a"), repeat(do_each(house, "b"), most=5)))
    run = await house.start(document, history_limits=limits(undos=3))
    assert (await house.result(run)).error.type == "too_many_undos"
    assert read_done(house.folder) == ["a", "b1", "b2", "unb2", "unb1", "una"]


@pytest.mark.slow
async def test_what_a_run_takes_over_from_another_is_undone_by_it(house: Harness) -> None:
    """The loop is met as it ended in the other run: its undos come with its result."""
    run = await house.start(written(block(do(house, "a"), repeat(do_each(house, "b"), most=2), ASK)))
    await house.answered(run, "yes")
    await house.output(run)
    forked = (await house.runs.fork(run, "ask")).run
    house.started.append(forked)
    await house.one(forked)
    await ends(house, forked)
    assert read_done(house.folder) == ["a", "b1", "b2", "unb2", "unb1", "una"]


async def test_of_an_import_that_is_cancelled_half_done_a_person_says_whether_it_acted(house: Harness) -> None:
    """What one of its steps gave is no output of the import, with which it could be undone."""
    (house.folder / "inner.yaml").write_text(written(plain(house, "a"), ASK))
    undo = {"uses": "does", "arguments": {"folder": str(house.folder), "what": "una"}}
    inner = {"name": "inner", "uses": "imports.inner", "undo": undo}
    run = await house.start(written(block(inner), imports={"inner": "./inner.yaml"}))
    await house.one(run)
    await house.client.get_workflow_handle(run).cancel()

    async def asked() -> Any:
        return [one for one in await house.runs.questions(run) if "unknown whether inner" in one.message]

    [question] = await until(asked, "the question")
    await house.answer(run, {"action": "edit", "input": {"folder": str(house.folder), "what": "una"}}, question)
    assert (await house.result(run)).status == "cancelled"
    assert read_done(house.folder) == ["a", "una"]


@pytest.mark.slow
@pytest.mark.parametrize("acts", [True, False])
async def test_and_of_an_agent_that_has_called_a_tool(house: Harness, acts: bool) -> None:
    did = call("does", folder=str(house.folder), what="a")
    house.script(
        yaml.safe_dump({"worker": [turn(*([did] if acts else []), call("request_user_info", question="And?"))]})
    )
    worker = {"model": "scripted:replies.yaml", "tools": ["does"], "human": ["ask"]}
    undo = {"uses": "does", "arguments": {"folder": str(house.folder), "what": "una"}}
    step = {"name": "work", "agent": "worker", "undo": undo}
    run = await house.start(written(block(step), agents={"worker": worker}), "Go")
    await house.one(run)
    await house.client.get_workflow_handle(run).cancel()
    if acts:

        async def asked() -> Any:
            return [one for one in await house.runs.questions(run) if "unknown whether work" in one.message]

        [question] = await until(asked, "the question")
        await house.answer(run, {"action": "skip"}, question)
    assert (await house.result(run)).status == "cancelled"

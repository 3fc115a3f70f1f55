"""Several steps as one: what is undone when they fail or are cancelled, what is done in any case, and deadlines."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.client.trace import view_run
from holdfast.runtime.errors import BadInput
from tests.conftest import Harness, until
from tests.control.undoable import ASK, BOOM, block, do, plain
from tests.flows import repeat, written
from tests.progress import at_work, ends, is_told_to_end, still_running
from tests.tools import calls, read_done


async def test_a_block_is_several_steps_as_one(house: Harness) -> None:
    first = block({"name": "one", "input": 1, "sink_to": "n"}, {"name": "two", "input": "{{ steps.one.output + 1 }}"})
    run = await house.start(written(first, {"name": "end", "input": "{{ previous_step }} {{ context.n }}"}))
    assert await house.output(run) == "2 1"


async def test_what_was_done_is_undone_the_last_first_when_the_block_fails(house: Harness) -> None:
    last = [{"name": "last", "uses": "does", "arguments": {"folder": str(house.folder), "what": "{{ error.type }}"}}]
    run = await house.start(written(block(do(house, "a"), do(house, "b"), BOOM, **{"finally": last})))
    error = (await house.result(run)).error
    assert (error.type, error.address) == ("expression_error", "pipeline:test;block:all;step:boom")
    assert read_done(house.folder) == ["a", "b", "unb", "una", "expression_error"]
    view = view_run(await house.runs.state(run), await house.runs.watch.events(run), None)
    [step] = view.groups[0].steps
    assert [(inner.name, inner.mark) for inner in step.groups[0].steps] == [
        ("a", "undone"),
        ("b", "undone"),
        ("boom", "failed"),
        ("last", "completed"),
    ]


async def test_nothing_is_undone_when_it_completes_but_the_end_comes(house: Harness) -> None:
    last = [{"name": "last", "uses": "does", "arguments": {"folder": str(house.folder), "what": "end{{ error }}"}}]
    run = await house.start(written(block(do(house, "a"), **{"finally": last})))
    assert (await house.output(run))["what"] == "a"
    assert read_done(house.folder) == ["a", "endnull"]


@pytest.mark.parametrize("on_error", ["continue", {"fallback": {"name": "plan_b", "input": "other"}}])
async def test_what_follows_a_failure_comes_after_the_undos(house: Harness, on_error: Any) -> None:
    after = plain(house, "after")
    run = await house.start(written(block(do(house, "a"), BOOM, on_error=on_error), after))
    await house.output(run)
    assert read_done(house.folder) == ["a", "una", "after"]


@pytest.mark.slow
async def test_a_cancel_runs_the_undos_and_the_end_and_nothing_else(house: Harness) -> None:
    last = [plain(house, "end"), repeat(plain(house, "more"), most=2)]
    run = await house.start(
        written(block(do(house, "a"), do(house, "b"), ASK, plain(house, "never"), **{"finally": last}))
    )
    await house.one(run)
    await ends(house, run)
    assert read_done(house.folder) == ["a", "b", "unb", "una", "end", "more", "more"]
    assert (await house.types(run)).count("step.undone") == 2


async def test_a_decline_is_a_failure_and_undoes(house: Harness) -> None:
    run = await house.start(written(block(do(house, "a"), ASK)))
    await house.one(run)
    await house.decline(run)
    assert (await house.result(run)).error.type == "question_declined"
    assert read_done(house.folder) == ["a", "una"]


async def test_the_undos_of_a_block_inside_pass_to_the_one_around_it(house: Harness) -> None:
    inner = block(do(house, "b"), do(house, "c"), name="inner")
    run = await house.start(written(block(do(house, "a"), inner, do(house, "d"), BOOM)))
    assert (await house.result(run)).status == "failed"
    assert read_done(house.folder) == ["a", "b", "c", "d", "und", "unc", "unb", "una"]


async def test_steps_of_branches_and_conditionals_are_undone(house: Harness) -> None:
    way = {"kind": "conditional", "name": "way", "condition_expression": "true", "branches": {"true": [do(house, "a")]}}
    both = {"kind": "parallel", "name": "both", "branches": {"x": [do(house, "b")], "y": [{"name": "y"}]}}
    run = await house.start(written(block(way, both, BOOM)))
    assert (await house.result(run)).status == "failed"
    assert read_done(house.folder) == ["a", "b", "unb", "una"]


async def test_what_a_branch_that_lost_did_is_undone_at_once(house: Harness) -> None:
    lost = [do(house, "a"), {"kind": "hitl", "name": "slow", "message": "Slow?"}]
    won = [{"kind": "hitl", "name": "fast", "message": "Fast?"}]
    race = {"kind": "parallel", "name": "race", "until": "first", "branches": {"lost": lost, "won": won}}
    run = await house.start(written(block(race, plain(house, "after"))))
    [_, fast] = await house.asked(run, 2)
    await house.answer(run, "yes", fast)
    await house.output(run)
    assert read_done(house.folder) == ["a", "una", "after"]


async def test_no_run_goes_on_between_a_step_and_its_undo(house: Harness) -> None:
    run = await house.start(written(block(do(house, "a"), BOOM)))
    await house.result(run)
    for going_back in (house.runs.retry(run), house.runs.fork(run, "boom")):
        with pytest.raises(BadInput, match="would take it for done"):
            await going_back


async def test_an_undo_that_fails_asks_a_person(house: Harness) -> None:
    (house.folder / "shut").touch()
    run = await house.start(written(block(do(house, "a"), do(house, "b", undo="cannot_undo"), BOOM)))
    question = await house.one(run)
    assert "b could not be undone by cannot_undo" in question.message
    (house.folder / "shut").unlink()
    await house.answer(run, {"action": "retry"}, question)
    assert (await house.result(run)).error.type == "expression_error"
    assert read_done(house.folder) == ["a", "b", "unb", "una"]


async def test_or_goes_on_with_the_next_and_tells(house: Harness) -> None:
    (house.folder / "shut").touch()
    steps = [do(house, "a"), do(house, "b", undo="cannot_undo"), BOOM]
    run = await house.start(written(block(*steps, on_undo_error="continue")))
    await house.result(run)
    assert read_done(house.folder) == ["a", "b", "una"]
    told = [event.data.error for event in await house.runs.watch.events(run) if event.type == "step.undone"]
    assert told == ["tool_error", None]


@pytest.mark.slow
async def test_also_after_a_cancel(house: Harness) -> None:
    (house.folder / "shut").touch()
    run = await house.start(written(block(do(house, "a"), do(house, "b", undo="cannot_undo"), ASK)))
    await house.one(run)
    await house.client.get_workflow_handle(run).cancel()

    async def asked() -> Any:
        return [one for one in await house.runs.questions(run) if "could not be undone" in one.message]

    [question] = await until(asked, "the question")
    await house.client.get_workflow_handle(run).cancel()  # a second one stops nothing
    (house.folder / "shut").unlink()
    await house.answer(run, {"action": "retry"}, question)
    assert (await house.result(run)).status == "cancelled"
    assert read_done(house.folder) == ["a", "b", "unb", "una"]


async def test_a_call_that_ends_all_the_same_is_undone(house: Harness) -> None:
    hang = {"uses": "hangs_once", "arguments": {"folder": str(house.folder), "name": "calls"}}
    undo = {"uses": "does", "arguments": {"folder": str(house.folder), "what": "un{{ output }}"}}
    (house.folder / "hang").touch()
    run = await house.start(written(block({"name": "hang", **hang, "undo": undo})))
    await at_work(house)
    await house.client.get_workflow_handle(run).cancel()
    await until(lambda: is_told_to_end(house, run), "the cancellation")
    (house.folder / "hang").unlink()
    assert (await house.result(run)).status == "cancelled"
    assert read_done(house.folder) == ["undone"]
    assert "tool.returned" in await house.types(run)


@pytest.mark.slow
async def test_of_a_call_that_was_cut_off_a_person_says_whether_it_acted(house: Harness) -> None:
    wait = {"uses": "waits_to_be_cancelled", "arguments": {"folder": str(house.folder), "name": "calls"}}
    undo = {"uses": "does", "arguments": {"folder": str(house.folder), "what": "un{{ output }}"}}
    run = await house.start(written(block({"name": "wait", **wait, "undo": undo})))
    await at_work(house)
    await house.client.get_workflow_handle(run).cancel()
    question = await house.one(run)
    assert "It is unknown whether wait took effect" in question.message
    given = {"folder": str(house.folder), "what": "unwait"}
    await house.answer(run, {"action": "edit", "input": given}, question)
    assert (await house.result(run)).status == "cancelled"
    assert read_done(house.folder) == ["unwait"]


@pytest.mark.slow
async def test_what_was_cut_off_is_told_while_undos_run(house: Harness) -> None:
    wait = {"uses": "waits_to_be_cancelled", "arguments": {"folder": str(house.folder), "name": "calls"}}
    (house.folder / "shut").touch()
    run = await house.start(written(block(do(house, "b", undo="cannot_undo"), {"name": "wait", **wait})))
    await at_work(house)
    steered = await house.runs.control.cancel(run, wait=0.5)
    told = [name for workflow in [*steered.left, *steered.undone] for name in workflow.in_flight]
    assert (steered.status, told) == ("running", ["wait"])
    await house.answer(run, {"action": "skip"}, await house.one(run))
    await house.result(run)
    step = (await house.runs.watch.view(run)).trace.find("pipeline:test;block:all;step:wait")
    assert step is not None and step.error is not None
    assert (step.mark, step.error.type) == ("cancelled", "outcome_unknown")


@pytest.mark.slow
async def test_a_pause_holds_the_undos(house: Harness) -> None:
    run = await house.start(written(block(do(house, "a"), ASK)))
    await house.one(run)
    await house.runs.control.pause(run)
    await house.client.get_workflow_handle(run).cancel()
    await until(lambda: _closed(house, run), "the end of the question")
    assert read_done(house.folder) == ["a"]
    await house.runs.control.resume(run)
    assert (await house.result(run)).status == "cancelled"
    assert read_done(house.folder) == ["a", "una"]


@pytest.mark.slow
@pytest.mark.parametrize("cancels", [True, False], ids=["cancelled", "answered"])
async def test_a_pause_holds_what_is_done_in_any_case(house: Harness, cancels: bool) -> None:
    run = await house.start(written(block(plain(house, "a"), ASK, **{"finally": [plain(house, "end")]})))
    question = await house.one(run)
    await house.runs.control.pause(run)
    if cancels:
        await house.client.get_workflow_handle(run).cancel()
    else:
        await house.answer(run, "yes", question)
    await until(lambda: _closed(house, run), "the end of the question")
    assert read_done(house.folder) == ["a"]
    await house.runs.control.resume(run)
    assert (await house.result(run)).status == ("cancelled" if cancels else "completed")
    assert read_done(house.folder) == ["a", "end"]


@pytest.mark.slow
async def test_what_is_done_in_any_case_may_ask(house: Harness) -> None:
    last = [{"kind": "hitl", "name": "why", "message": "Why?"}, {**plain(house, "{{ previous_step }}"), "name": "told"}]
    run = await house.start(written(block(do(house, "a"), ASK, **{"finally": last})))
    await house.one(run)
    await house.client.get_workflow_handle(run).cancel()

    async def asked() -> Any:
        return [one for one in await house.runs.questions(run) if one.message == "Why?"]

    [question] = await until(asked, "the question")
    await house.client.get_workflow_handle(run).cancel()  # a second one stops nothing
    await house.answer(run, "late", question)
    assert (await house.result(run)).status == "cancelled"
    assert read_done(house.folder) == ["a", "una", "late"]


async def _closed(house: Harness, run: str) -> bool:
    return not await house.runs.questions(run)


@pytest.mark.slow
async def test_a_block_in_a_loop_that_is_cancelled_after_a_boundary(house: Harness) -> None:
    run = await house.start(written(repeat(block(do(house, "a"), ASK))))
    await house.answered(run, "1", "2")
    await house.one(run)
    await ends(house, run)
    assert read_done(house.folder) == ["a", "a", "a", "una"]


@pytest.mark.slow
@pytest.mark.parametrize(("on_deadline", "output"), [("fail", None), ("finish", "end: null")])
async def test_a_deadline_ends_a_block(house: Harness, on_deadline: str, output: Any) -> None:
    slow = block(do(house, "a"), ASK, deadline="1s", on_deadline=on_deadline)
    run = await house.start(written(slow, {"name": "end", "input": "end: {{ previous_step }}"}))
    result = await house.result(run)
    assert result.output == output
    assert read_done(house.folder) == (["a", "una"] if on_deadline == "fail" else ["a"])
    assert output is not None or result.error.type == "deadline_passed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "output"), [("more", "yes"), ("finish", None), ("fail", "deadline_passed")], ids=str
)
async def test_a_person_may_give_more_time(house: Harness, answer: str, output: Any) -> None:
    run = await house.start(written(block(ASK, deadline="1s", on_deadline="ask")))

    async def late() -> Any:
        return [one for one in await house.runs.questions(run) if one.address.endswith("hitl:deadline")]

    [question] = await until(late, "the deadline")
    await house.answer(run, answer, question)
    if answer == "more":
        [question] = [one for one in await house.runs.questions(run) if one.address.endswith("ask")]
        await house.answer(run, "yes", question)
    result = await house.result(run)
    assert (result.output if result.error is None else result.error.type) == output


@pytest.mark.slow
async def test_work_that_ends_while_a_person_is_asked_needs_no_more_time(house: Harness) -> None:
    run = await house.start(written(block(ASK, deadline="1s", on_deadline="ask")))
    await house.asked(run, 2)
    [question] = [one for one in await house.runs.questions(run) if one.address.endswith("ask")]
    await house.answer(run, "yes", question)
    assert await house.output(run) == "yes"
    assert (await house.types(run)).count("question.superseded") == 1


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("on_deadline", ["fail", "finish"])
async def test_a_loop_and_a_run_have_deadlines(house: Harness, on_deadline: str) -> None:
    loop = repeat(ASK)
    loop["loop"] |= {"deadline": "1s", "on_deadline": on_deadline}
    run = await house.start(written(loop, {"name": "end", "input": "end"}))
    result = await house.result(run)
    assert (result.output == "end") == (on_deadline == "finish")
    run = await house.start(written(repeat(ASK), deadline="{{ input }}", on_deadline=on_deadline), "1s")
    result = await house.result(run)
    assert result.status == ("completed" if on_deadline == "finish" else "failed")
    assert await still_running(house, run) == []


@pytest.mark.slow
async def test_the_output_of_a_run_that_its_deadline_finishes_is_rendered(house: Harness) -> None:
    first = {"name": "first", "input": "so far", "sink_to": "found"}
    ended = {"deadline": "1s", "on_deadline": "finish", "output": {"found": "{{ context.found }}"}}
    run = await house.start(written(first, repeat(ASK), **ended))
    assert await house.output(run) == {"found": "so far"}


async def test_a_deadline_that_is_no_time_fails_the_block(house: Harness) -> None:
    run = await house.start(written(block(ASK, deadline="{{ input }}")), "soon")
    assert (await house.result(run)).error.type == "bad_time"


@pytest.mark.slow
async def test_a_step_that_is_repeated_by_a_person_is_undone_as_often_as_it_was_done(house: Harness) -> None:
    run = await house.start(written(block(do(house, "a"), BOOM, on_error="ask")))
    await house.answer(run, {"action": "retry"})
    await house.answer(run, {"action": "abort"})
    assert (await house.result(run)).status == "failed"
    assert read_done(house.folder) == ["a", "una", "a", "una"]
    assert calls(house.folder, "done") == 4

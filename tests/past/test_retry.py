"""A retry goes on with a failed run at its failed step: what was called, paid and asked before is met."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest
import yaml

from holdfast.protocol.runs import HistoryLimits
from holdfast.runtime.errors import BadInput
from tests.conftest import Harness
from tests.past.runs import ASK, fail, finish, mend, paid, pay, retry
from tests.progress import limits
from tests.tools import calls


async def test_what_was_before_the_failure_is_met(house: Harness) -> None:
    run = await fail(house, [pay(house.folder, "ana"), ASK, mend(house.folder)], {"granted": True})
    new = await retry(house, run)
    assert await house.output(new) == "mended 1"
    assert (new, paid(house)) == (f"{run}~2", 1)
    assert "question.asked" not in await house.types(new)


def loop(body: list[Any], name: str = "l", **more: Any) -> dict[str, Any]:
    return {"kind": "loop", "name": name, "loop": {"max_loops": 3, "body": body, **more}}


def map_(body: list[Any], items: str = "[1, 2, 3]", **more: Any) -> dict[str, Any]:
    return {"kind": "map", "name": "m", "map": {"iterable_input": items, "body": body, **more}}


def branches(kind: str, body: list[Any], **more: Any) -> dict[str, Any]:
    return {"kind": kind, "name": kind, "branches": {"true": body, "other": [{"name": "other"}]}, **more}


NESTED: dict[str, tuple[Callable[[list[Any]], dict[str, Any]], str, int]] = {
    "loop": (loop, "iteration == 3", 3),
    "loop that continues": (lambda body: loop(body, checkpoint_every=1), "iteration == 3", 3),
    "loop in loop": (lambda body: loop([loop(body, checkpoint_every=2)], "outer"), "iteration == 3", 9),
    "map": (map_, "item == 3", 3),
    "map at once": (lambda body: map_(body, max_concurrency=3), "item == 2", 3),
    "map in pages": (lambda body: map_(body, "range(7)"), "item == 5", 7),
    "map in pages at once": (lambda body: map_(body, "range(7)", max_concurrency=2), "item == 5", 7),
    "parallel": (lambda body: branches("parallel", body), "true", 1),
    "conditional": (lambda body: branches("conditional", body, condition_expression="true"), "true", 1),
}
"""By kind: the step around a body, when the step in it fails, and the rounds of the body."""


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("kind", NESTED)
async def test_a_nested_step_goes_on_where_it_failed(house: Harness, kind: str) -> None:
    around, condition, rounds = NESTED[kind]
    # Where rounds run at once, all others are done when the one fails.
    after = 2 * rounds - 1 if kind == "map at once" else 0
    body = [pay(house.folder, "ana"), mend(house.folder, after=after, when=condition)]
    body.append(pay(house.folder, "bob", "again"))
    steps = [around(body), {"name": "end", "input": "done"}]
    run = await fail(house, steps, history_limits=HistoryLimits(items=3))
    new = await retry(house, run)
    assert (await finish(house, new), paid(house)) == ("done", 2 * rounds)


@pytest.mark.slow
async def test_a_retry_that_fails_is_retried(house: Harness) -> None:
    """The second failure is another one: what the first run and the second did is met."""
    second = {**mend(house.folder, "second"), "name": "mend_again"}
    steps = [
        pay(house.folder, "ana"),
        mend(house.folder),
        loop([ASK, pay(house.folder, "bob", "again")], max_loops=1),
        second,
    ]
    run = await fail(house, steps)
    (house.folder / "broken-second").touch()
    new = await retry(house, run)
    await house.answer(new, {"granted": True})
    assert (await house.result(new)).status == "failed"
    (house.folder / "broken-second").unlink()
    last = await retry(house, new)
    assert (last, await house.output(last)) == (f"{run}~3", "second 1")
    assert (paid(house), calls(house.folder, "mended")) == (2, 1)


async def test_the_same_retry_twice_is_one_run(house: Harness) -> None:
    run = await fail(house, [mend(house.folder), ASK])
    assert await retry(house, run) == await retry(house, run)
    assert not (await house.runs.retry(run)).is_new


@pytest.mark.slow
@pytest.mark.parametrize("events", [1_000, 10])
async def test_an_agent_goes_on_in_its_conversation(house: Harness, events: int) -> None:
    """The agent's turns, its calls and what it was allowed are met; the tool that failed is called again.

    After ten events the first turn is in the history of the run, and the others in those of the agent's workflow.
    """
    folder = str(house.folder)
    turns = [
        {"tool_calls": [{"name": "pay_out", "args": {"folder": folder, "payee": "ana", "amount": 1}}]},
        {"tool_calls": [{"name": "pay_out", "args": {"folder": folder, "payee": "bob", "amount": 1}}]},
        {"tool_calls": [{"name": "mendable", "args": {"folder": folder, "name": "mended"}}]},
        "{{ messages[-1].content }}",
    ]
    house.script(yaml.safe_dump({"boss": turns}))
    tools = ["mendable", {"name": "pay_out", "approve": "always"}]
    boss = {"model": "scripted:replies.yaml", "tools": tools, "tool_errors": {"other": "fail"}}
    steps = [{"name": "boss", "agent": "boss"}]
    yes = {"granted": True}
    how = {"blueprint": {"agents": {"boss": boss}}, "history_limits": limits(events=events)}
    run = await fail(house, steps, yes, yes, **how)
    new = await retry(house, run)
    assert (await house.output(new), paid(house)) == ("mended 1", 2)
    assert (len(await house.histories(new)) > 1) == (events == 10)


@pytest.mark.slow
async def test_a_question_that_expired_is_asked_again(house: Harness) -> None:
    expiring = {**ASK, "timeout": "1s", "on_timeout": "fail"}
    steps = [pay(house.folder, "ana"), expiring, pay(house.folder, "bob", "again")]
    run = await house.start(yaml.safe_dump({"steps": steps}))
    assert (await house.result(run)).status == "failed"
    new = await retry(house, run)
    await house.answer(new, {"granted": True})
    assert (await house.output(new), paid(house)) == ({"paid": 1, "to": "bob"}, 2)


@pytest.mark.slow
async def test_a_question_at_a_limit_is_asked_again(house: Harness) -> None:
    """A person let the run fail; asked again, one may grant more."""
    limits = {"steps": 1, "on_limit": "ask"}
    run = await house.start(yaml.safe_dump({"limits": limits, "steps": [pay(house.folder, "ana"), mend(house.folder)]}))
    await house.answer(run, "fail", await house.one(run))
    outcome = await house.result(run)
    assert outcome.error is not None and outcome.error.type == "limit_reached"
    new = await retry(house, run)
    await house.answer(new, "more", await house.one(new))
    assert (await house.output(new), paid(house)) == ("mended 1", 1)


@pytest.mark.slow
async def test_a_failure_that_was_handled_is_met(house: Harness) -> None:
    """A step and a loop failed, and the run went on: neither is tried again."""
    broken = {"name": "never", "uses": "fails_always"}
    inside = loop([{**broken, "name": "inner"}])
    handled = [broken | {"on_error": "continue"}, inside | {"on_error": "continue"}]
    seen = {"name": "seen", "input": "{{ [steps.never.error.type, steps.l.error.type] }}", "sink_to": "seen"}
    run = await fail(house, [*handled, seen, mend(house.folder)])
    new = await retry(house, run)
    outcome = await house.result(new)
    assert (outcome.output, outcome.context) == ("mended 1", {"seen": ["tool_error", "tool_error"]})
    [history] = await house.histories(new)
    assert sum(event.HasField("activity_task_scheduled_event_attributes") for event in history.events) == 1


async def test_what_would_only_fail_again_is_refused(house: Harness) -> None:
    run = await house.start("steps: [{name: bad, input: '{{ 1 / 0 }}'}]")
    await house.result(run)
    with pytest.raises(BadInput, match="would fail the same way"):
        await house.runs.retry(run)


async def test_a_mended_blueprint_goes_on(house: Harness) -> None:
    steps: list[Any] = [pay(house.folder, "ana"), {"name": "bad", "input": "{{ 1 / 0 }}"}]
    run = await house.start(yaml.safe_dump({"steps": steps}))
    await house.result(run)
    steps[1]["input"] = "{{ 1 / 1 }}"
    new = await retry(house, run, blueprint=house.load(yaml.safe_dump({"steps": steps})))
    assert (await house.output(new), paid(house)) == (1, 1)


@pytest.mark.slow
async def test_a_mended_step_stops_before_it_once_more(house: Harness) -> None:
    bad = {"name": "bad", "input": "{{ 1 / 0 }}", "interrupt_before": True, "needs": ["one"]}
    steps: list[Any] = [{"name": "one"}, bad]
    run = await house.start(yaml.safe_dump({"steps": steps}))
    await house.answered(run, {})
    await house.result(run)
    bad["input"] = "{{ 1 / 1 }}"
    new = await retry(house, run, blueprint=house.load(yaml.safe_dump({"steps": steps})))
    await house.answered(new, {})
    assert await house.output(new) == 1


async def test_a_blueprint_that_did_something_else_before_is_stopped(house: Harness) -> None:
    run = await fail(house, [pay(house.folder, "ana"), mend(house.folder)])
    other = house.load(yaml.safe_dump({"steps": [pay(house.folder, "bob"), mend(house.folder)]}))
    new = await retry(house, run, blueprint=other)
    outcome = await house.result(new)
    assert outcome.error is not None
    assert (outcome.error.type, paid(house)) == ("past_differs", 1)


@pytest.mark.slow
async def test_a_run_that_has_the_name_of_a_retry_is_in_nobodys_way(house: Harness) -> None:
    run = await fail(house, [pay(house.folder, "ana"), mend(house.folder)])
    other = await house.start("steps: [{name: other}]", run=f"{run}~2")
    again = await retry(house, run)
    assert (again, await retry(house, run)) == (f"{run}~3", f"{run}~3")
    await house.output(again)
    names = [(await house.runs.watch.view(one)).retried_as for one in (run, other)]
    assert (names, paid(house)) == ([again, None], 1)


class UnopenedArchive:
    """An archive that nobody may ask."""

    is_open = False

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"the archive was asked for {name}")


@pytest.mark.slow
async def test_neither_a_retry_nor_a_fork_opens_an_archive_of_what_temporal_has(house: Harness) -> None:
    steps = [loop([pay(house.folder, "ana"), mend(house.folder, when="iteration == 2")], checkpoint_every=1)]
    run = await fail(house, [*steps, {"name": "end", "input": "done"}])
    archive: Any = UnopenedArchive()
    runs = house.runs.with_archive(archive)
    (house.folder / "broken").unlink()
    begun = [(await runs.retry(run)).run, (await runs.fork(run, "pipeline:test;loop:l:2;step:pay")).run]
    house.started += begun
    assert [await house.output(new) for new in begun] == ["done"] * 2

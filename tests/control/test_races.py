"""Branches of which not all must end: who wins, what becomes of the others, and what may come between."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.client.trace import view_run
from holdfast.protocol.answers import Answer
from tests.conftest import Harness, until
from tests.flows import repeat, written
from tests.progress import at_work, has_continued, is_told_to_end, still_running
from tests.tools import calls


def ask(name: str, **more: Any) -> dict[str, Any]:
    return {"kind": "hitl", "name": name, "message": f"{name}?", **more}


def gives(name: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "input": value, **more}


def race(branches: dict[str, Any], wanted: Any = "first", **more: Any) -> dict[str, Any]:
    return {"kind": "parallel", "name": "race", "until": wanted, "branches": branches, **more}


async def answer(house: Harness, run: str, name: str, content: Any) -> None:
    """Answer the question of a step."""
    [question] = [one for one in await house.runs.questions(run) if one.address.endswith(f":{name}")]
    await house.answer(run, content, question)


async def test_the_first_answer_wins_and_the_other_questions_are_superseded(house: Harness) -> None:
    after = ask("after")
    run = await house.start(written(race({"hand": [ask("a")], "bank": [ask("b"), after]}), ask("last")))
    [lost, _] = await house.asked(run, 2)
    await answer(house, run, "a", "paid")
    [question] = await house.asked(run, 1)
    refusal = await house.refused(run, "late", lost)
    assert (refusal.code, refusal.message.partition(" since ")[0]) == (
        "already_answered",
        f"question {lost.id} is not needed",
    )
    await house.answer(run, "!", question)
    result = await house.result(run)
    assert result.output == "!"
    types = await house.types(run)
    assert (types.count("question.superseded"), types.count("branch.superseded")) == (1, 1)
    assert "question.cancelled" not in types


async def test_the_output_tells_who_won_and_only_what_winners_wrote_is_kept(house: Harness) -> None:
    branches = {
        "lost": [gives("x", 1, sink_to="x"), ask("h")],
        "won": [gives("y", 2, sink_to="y")],
    }
    outcome = await house.result(await house.start(written(race(branches))))
    assert outcome.output == {"winner": ["won"], "outputs": {"won": 2}}
    assert outcome.context == {"y": 2}


async def test_n_of_m_in_the_order_of_their_ends(house: Harness) -> None:
    run = await house.start(written(race({"a": ask("x"), "b": ask("y"), "c": ask("z")}, 2)))
    await house.asked(run, 3)
    await answer(house, run, "z", "3")
    await answer(house, run, "x", "1")
    assert await house.output(run) == {"winner": ["c", "a"], "outputs": {"a": "1", "c": "3"}}


async def test_an_expression_on_the_outputs_so_far(house: Harness) -> None:
    run = await house.start(written(race({"a": ask("x"), "b": ask("y")}, "output.b == 'yes' or output | length == 2")))
    await house.asked(run, 2)
    await answer(house, run, "y", "yes")
    assert await house.output(run) == {"winner": ["b"], "outputs": {"b": "yes"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loser", "reason"),
    [
        (gives("l", None), "gave no result"),
        (gives("l", 1, when="input == 'never'"), "gave no result"),
        (gives("l", "{{ 1 / 0 }}"), "failed"),
        (ask("l", timeout="1s", on_timeout="skip"), "gave no result"),
    ],
    ids=["null", "skipped", "failed", "expired"],
)
async def test_a_branch_without_a_result_does_not_win(house: Harness, loser: Any, reason: str) -> None:
    ignore = {"on_branch_failure": "ignore"}
    run = await house.start(written(race({"a": loser, "b": ask("h")}, **ignore)))
    await house.asked(run) if loser.get("kind") is None else await until(lambda: _has_one(house, run), "the deadline")
    await answer(house, run, "h", "yes")
    assert (await house.output(run))["winner"] == ["b"]
    error = (await house.result(await house.start(written(race({"a": loser, "b": gives("n", None)}, **ignore))))).error
    assert error.type == "no_winner"
    assert error.message.endswith(f"a {reason}, b gave no result") or error.message.endswith(f"a {reason}")


async def _has_one(house: Harness, run: str) -> bool:
    return len(await house.runs.questions(run)) == 1


@pytest.mark.slow
async def test_a_timer_wins_also_where_it_passes_nothing_on(house: Harness) -> None:
    run = await house.start(written(race({"hand": ask("h"), "late": {"kind": "timer", "name": "t", "for": "1s"}})))
    assert await house.output(run) == {"winner": ["late"], "outputs": {"late": None}}


async def test_a_failing_branch_fails_the_race(house: Harness) -> None:
    run = await house.start(written(race({"a": ask("h"), "b": gives("x", "{{ 1 / 0 }}")})))
    assert (await house.result(run)).error.address.endswith("branch:b;step:x")


@pytest.mark.parametrize("first", ["long", "short"])
async def test_of_two_that_end_at_once_the_first_declared_wins(house: Harness, first: str) -> None:
    deep = {"kind": "parallel", "name": "deep", "branches": {"x": gives("one", 1), "y": gives("two", 2)}}
    long, short = [deep, gives("three", 3)], [gives("four", 4)]
    run = await house.start(written(race({"a": long, "b": short} if first == "long" else {"a": short, "b": long})))
    assert (await house.output(run))["winner"] == ["a"]


@pytest.mark.slow
async def test_a_loop_that_has_continued_as_new_is_superseded_with_its_question(house: Harness) -> None:
    inner = repeat(repeat(ask("deep"), name="inner"), name="outer")
    run = await house.start(written(race({"lost": inner, "won": ask("h")}), ask("last")))
    await house.asked(run, 2)
    for n in "12":
        await answer(house, run, "deep", n)
        await house.asked(run, 2)
    [lost] = [one for one in await house.runs.questions(run) if one.address.endswith("deep")]
    await until(lambda: has_continued(house, lost.owner), "a boundary")
    await answer(house, run, "h", "mine")
    await house.one(run)
    assert len(await still_running(house, run)) == 1
    types = await house.types(run)
    assert types.count("question.superseded") == 1, " ".join(types)
    refusal = await house.refused(run, "late", lost)
    assert "another branch came first" in refusal.message or refusal.code == "run_closed"


@pytest.mark.slow
async def test_a_call_under_way_is_cancelled_and_waited_for(house: Harness) -> None:
    hang = {"name": "hang", "uses": "waits_to_be_cancelled", "input": {"folder": str(house.folder), "name": "calls"}}
    run = await house.start(written(race({"lost": [hang], "won": ask("h")}), ask("last")))
    await at_work(house)
    await until(lambda: _has_one(house, run), "the question")
    await answer(house, run, "h", "mine")
    await house.one(run)
    view = view_run(await house.runs.state(run), await house.runs.watch.events(run), None)
    [step, _] = view.groups[0].steps
    marks = {group.branch: group.mark for group in step.groups}
    assert marks == {"lost": "superseded", "won": "completed"}
    assert calls(house.folder, "calls") == 1


@pytest.mark.slow
async def test_a_race_in_a_loop_over_boundaries(house: Harness) -> None:
    run = await house.start(written(repeat(race({"a": ask("x"), "b": ask("y")}, reduce="keys"), most=3)))
    for name in "xyx":
        await house.asked(run, 2)
        await answer(house, run, name, name)
    assert await house.output(run) == ["a"]


@pytest.mark.slow
async def test_a_pause_holds_the_losers_and_the_winner(house: Harness) -> None:
    run = await house.start(written(race({"a": [ask("x"), gives("more", 1)], "b": repeat(ask("y"))})))
    await house.asked(run, 2)
    await house.runs.control.pause(run)
    await answer(house, run, "x", "mine")
    assert (await house.runs.state(run)).status == "paused"
    await house.runs.control.resume(run)
    assert await house.output(run) == {"winner": ["a"], "outputs": {"a": 1}}


@pytest.mark.slow
async def test_a_cancel_while_losers_end(house: Harness) -> None:
    hang = {"name": "hang", "uses": "hangs_once", "input": {"folder": str(house.folder), "name": "calls"}}
    (house.folder / "hang").touch()
    run = await house.start(written(race({"lost": [hang], "won": ask("h")}), gives("never", 1)))
    await at_work(house)
    await until(lambda: _has_one(house, run), "the question")
    await answer(house, run, "h", "mine")
    await until(lambda: is_told_to_end(house, run), "the end of the race")
    await house.client.get_workflow_handle(run).cancel()
    (house.folder / "hang").unlink()
    assert (await house.result(run)).status == "cancelled"


async def test_a_race_in_a_race(house: Harness) -> None:
    inner = race({"x": ask("x"), "y": ask("y")}) | {"name": "inner"}
    run = await house.start(written(race({"deep": [inner], "flat": ask("z")})))
    await house.asked(run, 3)
    await answer(house, run, "z", "mine")
    assert (await house.output(run))["winner"] == ["flat"]
    assert (await house.types(run)).count("question.superseded") == 2


@pytest.mark.parametrize(
    ("chosen", "output"),
    [(["c", "a"], {"a": 1, "c": 3}), ("b", {"b": 2}), ([], {})],
    ids=["list", "text", "none"],
)
async def test_a_router_runs_the_branches_that_are_named(house: Harness, chosen: Any, output: Any) -> None:
    branches = {"a": gives("x", 1), "b": gives("y", 2), "c": gives("z", 3)}
    step = {"kind": "parallel", "name": "route", "choose": "{{ input.to }}", "branches": branches}
    assert await house.output(await house.start(written(step), {"to": chosen})) == output


@pytest.mark.parametrize("chosen", ["d", ["a", "d"], 3, None])
async def test_a_name_of_no_branch_is_an_error(house: Harness, chosen: Any) -> None:
    step = {"kind": "parallel", "name": "route", "choose": "{{ input.to }}", "branches": {"a": gives("x", 1)}}
    error = (await house.result(await house.start(written(step), {"to": chosen}))).error
    assert error.type == "unknown_branch"


@pytest.mark.slow
async def test_first_of_those_that_are_chosen(house: Harness) -> None:
    branches = {"a": ask("x"), "b": ask("y"), "c": ask("z")}
    run = await house.start(written(race(branches, choose=["a", "c"])))
    await house.asked(run, 2)
    [_, other] = await house.runs.questions(run)
    await house.runs.answer(run, [Answer(question=other.id, content="mine")])
    assert (await house.output(run))["winner"] == ["c"]

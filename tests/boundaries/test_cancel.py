"""A cancel ends a run: whatever it does, and however often it has continued as new."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.protocol.runs import HistoryLimits
from tests.agents.turns import agent, call, turn
from tests.conftest import Harness, until
from tests.flows import ASK, counting, repeat, written
from tests.plans.conftest import Plans, loop, plans, says, step  # noqa: F401
from tests.progress import ends, has_continued, limits
from tests.tools import calls

NOTHING = {"name": "nothing", "uses": "flujo.builtins.passthrough"}


async def test_a_loop_that_waits_for_a_person(house: Harness) -> None:
    run = await house.start(written(repeat(ASK)))
    await house.answered(run, "1", "2", "3")
    await house.one(run)
    await ends(house, run)


@pytest.mark.slow
async def test_a_loop_that_is_paused(house: Harness) -> None:
    run = await house.start(written(repeat(ASK)))
    await house.answered(run, "1", "2")
    await house.one(run)
    await house.runs.control.pause(run)
    await ends(house, run)


@pytest.mark.slow
async def test_a_loop_at_work_calls_nothing_any_more(house: Harness) -> None:
    run = await house.start(written(repeat(counting(house), every=2)))
    await until(lambda: has_continued(house, f"{run}/loop:l"), "a boundary")
    await ends(house, run)
    before = calls(house.folder, "calls")
    await asyncio.sleep(0.5)
    assert calls(house.folder, "calls") == before


@pytest.mark.slow
async def test_a_loop_that_never_waits_for_anything(house: Harness) -> None:
    run = await house.start(written(repeat(NOTHING, every=20)))
    await until(lambda: has_continued(house, f"{run}/loop:l"), "a boundary")
    await ends(house, run)


@pytest.mark.slow
async def test_loops_nested_four_deep(house: Harness) -> None:
    inner = ASK
    for level in ("d", "c", "b", "a"):
        inner = repeat(inner, name=level, most=2)
    run = await house.start(written(inner))
    await house.answered(run, *"123456789")
    question = await house.one(run)
    assert "loop:a:2" in question.address
    await ends(house, run)


@pytest.mark.slow
async def test_an_agent(house: Harness) -> None:
    looks = [turn(call("look_up", folder=str(house.folder), word=f"w{n}")) for n in range(6)]
    turns = [*looks, turn(call("request_user_info", question="Go on?")), "done"]
    text = agent(house, turns, tools=["look_up"], human=["ask"], max_turns=99)
    run = await house.start(text, "Go", history_limits=HistoryLimits(rounds=3))
    await house.one(run)
    assert await has_continued(house, f"{run}/agent:boss")
    await ends(house, run)


@pytest.mark.slow
@pytest.mark.parametrize("beside", [[ASK], [repeat(NOTHING, name="other", every=20)]])
async def test_loops_in_branches(house: Harness, beside: list[dict[str, Any]]) -> None:
    branches = {"one": [repeat(ASK)], "two": beside}
    run = await house.start(written({"kind": "parallel", "name": "both", "branches": branches}))
    [question, *_] = await until(lambda: house.runs.questions(run), "a question")
    await house.answer(run, "1", question)
    await until(lambda: house.runs.questions(run), "the next question")
    await ends(house, run)


@pytest.mark.slow
async def test_before_the_child_has_started(house: Harness) -> None:
    run = await house.start(written(repeat(ASK)))
    await ends(house, run)


@pytest.mark.slow
async def test_twice_and_after_the_end(house: Harness) -> None:
    run = await house.start(written(repeat(ASK)))
    await house.one(run)
    await house.runs.control.cancel(run)
    await ends(house, run)
    await ends(house, run)


@pytest.mark.slow
async def test_a_loop_in_an_imported_blueprint(house: Harness) -> None:
    (house.folder / "child.yaml").write_text(written(repeat(ASK)))
    run = await house.start(written({"name": "import", "uses": "imports.child"}, imports={"child": "./child.yaml"}))
    await house.answered(run, "1", "2", "3")
    question = await house.one(run)
    assert question.iteration == 4
    assert await has_continued(house, question.owner)
    await ends(house, run)


@pytest.mark.slow
async def test_a_loop_around_an_imported_blueprint(house: Harness) -> None:
    (house.folder / "child.yaml").write_text(written(repeat(ASK, name="inner", most=1)))
    step = {"name": "import", "uses": "imports.child"}
    run = await house.start(written(repeat(step), imports={"child": "./child.yaml"}))
    await house.answered(run, "1", "2", "3")
    await house.one(run)
    await ends(house, run)


@pytest.mark.slow
async def test_a_plan_that_has_continued_as_new_with_a_question_below_it(plans: Plans) -> None:  # noqa: F811
    ids = ["a", "b", "c", "d"]
    steps = [*(step(id_, f"Say {id_}") for id_ in ids), step("e", "ASK_INFO: Which CURRENT_ITEM?", dependencies=["d"])]
    plan = {"steps": steps, "loop_blocks": {"all": loop(["x", "y"], "e")}}
    run = await plans.start(plan, says(*ids), history_limits=limits(events=20))
    question = await plans.harness.one(run)
    assert question.owner != f"{run}/plan:plan"
    assert await has_continued(plans.harness, f"{run}/plan:plan")
    await ends(plans.harness, run)

"""What people say to a run counts over every boundary: pause, resume, permits, limits, edits, answers."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest
import yaml
from temporalio.client import Client
from temporalio.worker import Worker

from holdfast.protocol.answers import Answer
from holdfast.protocol.runs import HistoryLimits
from holdfast.workflows.pipeline import PipelineWorkflow
from tests.agents.turns import call, turn
from tests.boundaries.conftest import BrokenLoop
from tests.conftest import RUNNERS, Harness, until, worker_for
from tests.flows import ASK, counting, repeat, written
from tests.progress import ends, has_child, has_continued
from tests.tools import calls

ASKS = "steps: [{kind: hitl, name: ask, message: Go on?}]"


async def test_a_pause_holds_over_boundaries_until_it_is_resumed(house: Harness) -> None:
    run = await house.start(written(repeat(counting(house), every=2)))
    await until(lambda: has_continued(house, f"{run}/loop:l"), "a boundary")
    assert (await house.runs.control.pause(run)).left == []
    views = (await house.runs.state(run)).views
    assert [view.status for view in views] == ["paused", "paused"]

    async def at_rest() -> bool:
        return not any(view.moving for view in await house.runs.tree.views(run))

    await until(at_rest, "the end of what had begun")
    before = calls(house.folder, "calls")
    assert (await house.runs.state(run)).views[1].iteration is not None
    assert calls(house.folder, "calls") == before

    async def goes_on() -> bool:
        return calls(house.folder, "calls") > before + 4

    assert (await house.runs.control.resume(run)).left == []
    await until(goes_on, "the next calls")
    await ends(house, run)


@pytest.mark.slow
async def test_a_paused_run_takes_an_answer_and_goes_on_behind_the_boundary_when_resumed(house: Harness) -> None:
    run = await house.start(written(repeat(ASK)))
    await house.answered(run, "1")
    question = await house.one(run)
    assert (await house.runs.control.pause(run)).left == []
    await house.answer(run, "2", question)
    assert (await house.runs.state(run)).questions == []
    await house.runs.control.resume(run)
    assert (await house.one(run)).iteration == 3
    await ends(house, run)


@pytest.mark.slow
async def test_a_permit_for_the_run_counts_behind_the_boundary(house: Harness) -> None:
    pay = turn(call("pay_out", folder=str(house.folder), payee="Ana", amount=1))
    house.script(yaml.safe_dump({"boss": [pay, "done"] * 3}))
    boss = {"model": "scripted:replies.yaml", "tools": [{"name": "pay_out", "approve": "always"}]}
    run = await house.start(written(repeat({"name": "boss", "agent": "boss"}, most=3), agents={"boss": boss}))
    await house.answer(run, {"granted": True, "scope": "run"})
    await house.result(run)
    assert calls(house.folder, "pay") == 3


@pytest.mark.slow
async def test_what_a_limit_was_raised_to_counts_behind_the_boundary(house: Harness) -> None:
    text = written(repeat(counting(house), most=9), limits={"steps": 3, "on_limit": "ask"})
    run = await house.start(text)
    first = await house.one(run)
    await house.answer(run, "more", first)
    second = await house.one(run)
    assert second.id != first.id
    assert "6 steps" in second.message
    assert calls(house.folder, "calls") == 5
    await ends(house, run)


@pytest.mark.slow
async def test_an_edit_at_a_stop_is_seen_behind_the_boundary(house: Harness) -> None:
    shown = {
        "name": "shown",
        "uses": "stringify",
        "input": "{{ context.n }}",
        "sink_to": "last",
        "interrupt_before": True,
    }
    run = await house.start(written(repeat(shown, most=3), context={"n": 1}))
    await house.one(run)
    await house.runs.control.edit(run, {"n": 7})
    for _ in range(2):
        question = await house.one(run)
        assert question.info["n"] == 7
        await house.runs.control.resume(run)
    assert (await house.result(run)).context["last"] == "7"


@pytest.mark.slow
async def test_an_answer_that_makes_a_loop_continue_as_new_is_taken_once(house: Harness) -> None:
    run = await house.start(written(repeat(ASK)))
    question = await house.one(run)
    for _ in range(2):
        await house.runs.answer(run, [Answer(question=question.id, content="1")], key="k")
    following = await house.one(run)
    assert following.iteration == 2
    await house.runs.answer(run, [Answer(question=question.id, content="1")], key="k", owner=question.owner)
    assert (await house.one(run)).id == following.id
    events = await house.types(run)
    assert events.count("question.answered") == 1
    await ends(house, run)


@pytest.mark.slow
async def test_a_clarification_in_a_loop_that_has_continued_as_new_ends(house: Harness) -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}
    clarify = {"kind": "clarify", "name": "c", "goal": "Why?", "schema": schema, "confirm": False}
    run = await house.start(written(repeat(clarify)))
    await house.answered(run, {"a": "1"})
    await house.one(run)
    await ends(house, run)


@pytest.mark.slow
async def test_a_plan_ends_in_a_loop_that_has_continued_as_new(house: Harness) -> None:
    house.script(json.dumps({"1": {"output": [f"i{n}" for n in range(500)]}, "2": "done"}))
    steps = [{"id": "1", "instruction": "list"}, {"id": "2", "instruction": "CURRENT_ITEM"}]
    plan = {"goal": "A test", "agent": "scripted:replies.yaml", "steps": steps}
    text = json.dumps({**plan, "loop_blocks": {"l": {"over": "RESULT_FROM_1", "steps": ["2"]}}})
    run = await house.start(text, history_limits=HistoryLimits(rounds=5))
    continued = f"WorkflowId STARTS_WITH '{run}/' AND ExecutionStatus = 'ContinuedAsNew'"

    async def over_a_boundary() -> bool:
        return bool([one async for one in house.client.list_workflows(continued)])

    await until(over_a_boundary, "a boundary")
    await ends(house, run)


@pytest.mark.slow
async def test_a_question_that_is_asked_again_behind_a_boundary_has_another_id(house: Harness) -> None:
    """An answer that comes late must not reach it."""
    looks = [turn(call("look_up", folder=str(house.folder), word=f"w{n}")) for n in range(24)]
    house.script(yaml.safe_dump({"boss": looks}))
    limits = {"model_calls": 8, "on_limit": "ask"}
    boss = {"model": "scripted:replies.yaml", "tools": ["look_up"], "max_turns": 200, "limits": limits}
    text = written({"name": "boss", "agent": "boss"}, agents={"boss": boss})
    run = await house.start(text, history_limits=HistoryLimits(rounds=10))
    first = await house.one(run)
    await house.answer(run, "more", first)
    second = await house.one(run)
    assert (second.address, second.id != first.id) == (first.address, True)
    await ends(house, run)


@pytest.mark.slow
async def test_a_plan_that_an_agent_drives_ends_after_it_has_continued_as_new(house: Harness) -> None:
    turns = [turn(call("update_state", **{f"vars.v{n}": n})) for n in range(7)]
    house.script(yaml.safe_dump({"plan": [*turns, turn(call("request_user_info", question="Go on?"))]}))
    steps = [{"id": "1", "instruction": "Do it"}]
    plan = {"goal": "A test", "agent": "scripted:replies.yaml", "driver": "agent", "steps": steps}
    run = await house.start(json.dumps(plan), history_limits=HistoryLimits(rounds=5))
    question = await house.one(run)
    assert await has_continued(house, question.owner)
    await ends(house, run)


async def listed(house: Harness, run: str) -> str:
    return next((one.status for one in await house.runs.lists.all() if one.run == run), "none")


@pytest.mark.slow
async def test_a_list_says_that_a_run_is_paused_until_it_is_resumed(house: Harness) -> None:
    run = await house.start(written(repeat(ASK)))
    await house.one(run)

    async def paused() -> bool:
        return await listed(house, run) == "paused"

    async def waiting() -> bool:
        return await listed(house, run) == "waiting"

    await house.runs.control.pause(run)
    await until(paused, "the list")
    assert run in [one.run for one in await house.runs.lists.all(waiting=True)]
    await house.runs.control.resume(run)
    await until(waiting, "the list")
    await house.runs.control.pause(run)
    await ends(house, run)

    async def cancelled() -> bool:
        return await listed(house, run) == "cancelled"

    await until(cancelled, "the list")


@pytest.mark.slow
async def test_the_memo_of_a_pause_survives_a_worker_that_replays(temporal: Client, tmp_path: Path) -> None:
    away = Harness(temporal, f"test-{uuid4().hex[:8]}", tmp_path)
    async with worker_for(temporal, away.runs.task_queue):
        run = await away.start(written(repeat(ASK)))
        await away.one(run)
        await away.runs.control.pause(run)
    assert await away.runs.control.is_paused(run)
    async with worker_for(temporal, away.runs.task_queue):
        await away.answered(run, "1")
        assert await away.runs.control.is_paused(run)
        assert (await away.runs.control.resume(run)).left == []
        assert not await away.runs.control.is_paused(run)
        await ends(away, run)
    await away.replay()


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
async def test_a_pause_just_after_the_worker_was_lost_waits_for_the_next_one(temporal: Client, tmp_path: Path) -> None:
    away = Harness(temporal, f"test-{uuid4().hex[:8]}", tmp_path)
    async with worker_for(temporal, away.runs.task_queue):
        run = await away.start(written(repeat(ASK)))
        question = await away.one(run)
    assert await away.runs.tree.worker_polls(run)  # the server remembers who polled a moment ago
    left = (await away.runs.control.pause(run, wait=0)).left
    assert [workflow.workflow for workflow in left] == [run, f"{run}/loop:l"]
    async with worker_for(temporal, away.runs.task_queue):
        await until(lambda: away.runs.control.is_paused(run), "the pause")
        await away.answer(run, "1", question)
        assert (await away.runs.state(run)).status == "paused"
        await ends(away, run)
    await away.replay()


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
async def test_a_pause_that_takes_no_signal_says_that_it_waits_for_nobody(temporal: Client, tmp_path: Path) -> None:
    away = Harness(temporal, f"test-{uuid4().hex[:8]}", tmp_path)
    async with worker_for(temporal, away.runs.task_queue):
        run = await away.start("access: {steer: ['user:ana']}\n" + ASKS)
        await away.one(run)
    [left] = (await away.runs.control.pause(run, "user:ana", wait=0)).left
    assert left.reason.endswith("send the command again once a worker answers")
    async with worker_for(temporal, away.runs.task_queue):
        assert (await away.runs.state(run)).views[0].refused == []
        await ends(away, run, "user:ana")


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
async def test_what_a_resume_does_not_reach_is_returned(temporal: Client, tmp_path: Path) -> None:
    away = Harness(temporal, f"test-{uuid4().hex[:8]}", tmp_path)
    queue = away.runs.task_queue
    async with Worker(temporal, task_queue=queue, workflows=[PipelineWorkflow, BrokenLoop], **RUNNERS):
        run = await away.start(written(repeat(ASK)))
        await until(lambda: has_child(away, run), "the child")
        for command in (away.runs.control.pause, away.runs.control.unpause):
            left = (await command(run, wait=0.5)).left
            assert [one.workflow for one in left] == [f"{run}/loop:l"]
        await away.runs.control.pause(run, wait=0.1)
        assert (await away.runs.control.resume(run)).left
        await away.runs.control.cancel(run, force=True)


@pytest.mark.slow
async def test_a_run_whose_only_child_at_work_is_paused_by_itself_is_paused_and_can_be_resumed(house: Harness) -> None:
    run = await house.start(written(repeat(ASK, counting(house))))
    question = await house.one(run)
    await house.client.get_workflow_handle(f"{run}/loop:l").execute_update("pause")
    assert (await house.runs.state(run)).status == "waiting"
    await house.answer(run, "yes", question)
    assert (await house.runs.state(run)).status == "paused"
    await house.runs.control.resume(run)
    await until(lambda: has_called(house), "the step after the pause")
    assert (await house.runs.state(run)).status != "paused"
    await house.runs.control.cancel(run)


async def has_called(house: Harness) -> bool:
    return calls(house.folder, "calls") > 0

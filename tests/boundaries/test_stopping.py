"""What `cancel` says of a run that does not end, and how it ends all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.worker import Worker

from holdfast.client.states import Steered
from holdfast.client.stopping import RunWorkflows
from holdfast.client.tree import UnknownRun
from holdfast.protocol.answers import Answer, AnswerBatch, Refusal
from holdfast.protocol.names import ANSWER
from holdfast.workflows.pipeline import PipelineWorkflow
from tests.agents.turns import agent, call, turn
from tests.boundaries.conftest import BrokenLoop
from tests.conftest import RUNNERS, Harness, ask_briefly, until, worker_for
from tests.flows import ASK, hanging, repeat, written
from tests.progress import at_work, has_child, is_told_to_end, still_running
from tests.tools import calls


@pytest.fixture
def hang(house: Harness) -> Iterator[Path]:
    """The file for as long as which the tool does not end."""
    path = house.folder / "hang"
    path.touch()
    yield path
    path.unlink(missing_ok=True)


def by_workflow(stopped: Steered) -> dict[str, str]:
    return {one.workflow: one.reason for one in stopped.left}


@pytest.mark.slow
async def test_without_a_worker_it_says_what_waits_and_ends_once_one_comes(away: Harness) -> None:
    async with worker_for(away.client, away.runs.task_queue):
        run = await away.start(written(repeat(ASK)))
        await away.answered(run, "1", "2")
        await away.one(run)
    with ask_briefly():
        stopped = await away.runs.control.cancel(run, wait=0.5)
    assert stopped.status == "running"
    assert set(by_workflow(stopped)) == {run, f"{run}/loop:l"}
    assert all("waits for a worker" in reason for reason in by_workflow(stopped).values())
    async with worker_for(away.client, away.runs.task_queue):
        assert (await away.runs.control.cancel(run)).left == []


async def test_where_a_workflow_task_fails_it_says_so_and_force_ends_it(away: Harness) -> None:
    queue = away.runs.task_queue
    async with Worker(away.client, task_queue=queue, workflows=[PipelineWorkflow, BrokenLoop], **RUNNERS):
        run = await away.start(written(repeat(ASK)))

        async def failing() -> bool:
            described = await away.client.get_workflow_handle(f"{run}/loop:l").describe()
            return described.raw_description.pending_workflow_task.attempt > 1

        await until(lambda: has_child(away, run), "the child")
        await until(failing, "a failed task")
        with ask_briefly():
            stopped = await away.runs.control.cancel(run, wait=0.5)
        assert "a bug" in by_workflow(stopped)[f"{run}/loop:l"]
        forced = await away.runs.control.cancel(run, force=True)
    assert (forced.status, forced.left, forced.undone) == ("failed", [], [])
    assert await still_running(away, run) == []


@pytest.mark.slow
async def test_a_tool_at_work_is_named_and_waited_for(house: Harness, hang: Path) -> None:
    run = await house.start(written(repeat(hanging(house))))
    await at_work(house)
    stopped = await house.runs.control.cancel(run, wait=4)
    loop = next(one for one in stopped.left if one.workflow.endswith("loop:l"))
    assert loop.in_flight == ("l 1 · hang",)
    hang.unlink()
    assert (await house.runs.control.cancel(run)).left == []
    assert calls(house.folder, "calls") == 1


async def test_a_tool_that_completes_after_the_cancel_is_told(house: Harness, hang: Path) -> None:
    run = await house.start(written(repeat(hanging(house))))
    await at_work(house)
    cancelling = asyncio.create_task(house.runs.control.cancel(run, wait=60))
    await until(lambda: is_told_to_end(house, f"{run}/loop:l"), "the cancel")
    hang.unlink()
    stopped = await cancelling
    [left] = stopped.undone
    assert (stopped.status, stopped.left, left.in_flight) == ("cancelled", [], ("l 1 · hang",))
    assert left.reason == "at work when it was cancelled: l 1 · hang (completed)"


async def test_a_tool_that_completes_before_the_first_look_is_told(
    house: Harness, hang: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await house.start(written(hanging(house)))
    await at_work(house)
    look = RunWorkflows._is_running

    async def look_late(workflows: RunWorkflows) -> bool:
        hang.unlink(missing_ok=True)
        await house.result(run)
        return await look(workflows)

    monkeypatch.setattr(RunWorkflows, "_is_running", look_late)
    [left] = (await house.runs.control.cancel(run)).undone
    assert left.reason == "at work when it was cancelled: hang (completed)"


@pytest.mark.slow
async def test_of_a_tool_that_was_cancelled_the_outcome_is_not_known(house: Harness) -> None:
    waits = {"name": "wait", "uses": "waits_to_be_cancelled", "input": {"folder": str(house.folder), "name": "calls"}}
    run = await house.start(written(repeat(waits)))
    await at_work(house)
    stopped = await house.runs.control.cancel(run, wait=60)
    assert [left.reason for left in stopped.undone] == ["at work when it was cancelled: l 1 · wait (outcome unknown)"]


async def test_force_says_which_tools_may_be_left_undone(house: Harness, hang: Path) -> None:
    run = await house.start(written(repeat(hanging(house))))
    await at_work(house)
    forced = await house.runs.control.cancel(run, force=True)
    hang.unlink()
    assert forced.left == []
    assert [one.workflow for one in forced.undone] == [f"{run}/loop:l"]
    assert await still_running(house, run) == []


@pytest.mark.parametrize("force", [False, True])
async def test_what_has_ended_or_never_was(house: Harness, force: bool) -> None:
    run = await house.start(written(ASK))
    await house.answered(run, "yes")
    await house.output(run)
    stopped = await house.runs.control.cancel(run, force=force)
    assert (stopped.status, stopped.left) == ("completed", [])
    with pytest.raises(UnknownRun):
        await house.runs.control.cancel("nobody-knows-it", force=force)


def approving(house: Harness) -> str:
    pay = turn(call("pay_out", folder=str(house.folder), payee="Ana", amount=1))
    return agent(house, [pay, "done"], tools=[{"name": "pay_out", "approve": "always"}])


@pytest.mark.slow
async def test_a_stop_before_the_approval_lets_nobody_approve(house: Harness) -> None:
    run = await house.start(approving(house), "Go")
    question = await house.one(run)
    await house.runs.control.cancel(run)
    with pytest.raises(Refusal):
        await house.answer(run, {"granted": True}, question)
    assert calls(house.folder, "pay") == 0


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
async def test_a_stop_after_the_approval_and_before_the_call_prevents_the_call(away: Harness) -> None:
    async with worker_for(away.client, away.runs.task_queue):
        run = await away.start(approving(away), "Go")
        question = await away.one(run)
    granted = Answer(question=question.id, content={"granted": True})
    await away.runs.answer(run, [granted], signal=True, owner=question.owner)
    await away.runs.control.cancel(run, wait=0.1)
    async with worker_for(away.client, away.runs.task_queue):
        assert (await away.runs.control.cancel(run)).left == []
    assert (await away.result(run)).status == "cancelled"
    assert calls(away.folder, "pay") == 0


@pytest.mark.slow
@pytest.mark.parametrize("first", ["answer", "cancel"])
async def test_a_cancel_that_comes_with_the_answer_before_a_new_history_is_obeyed(away: Harness, first: str) -> None:
    async with worker_for(away.client, away.runs.task_queue):
        run = await away.start(written(repeat(ASK)))
        question = await away.one(run)
    loop = away.client.get_workflow_handle(question.owner)
    answers = AnswerBatch(answers=[Answer(question=question.id, content="1")])
    # Nobody polls: both come in one workflow task. Temporal's own tools send a cancel once, as a failing branch does.
    for send in ("answer", "cancel") if first == "answer" else ("cancel", "answer"):
        await (loop.signal(ANSWER, answers) if send == "answer" else loop.cancel())

    async def cancelled() -> bool:
        return (await loop.describe()).status is WorkflowExecutionStatus.CANCELED

    async with worker_for(away.client, away.runs.task_queue):
        await until(cancelled, "the end of the loop")

"""What is told of a run that undoes what it did, and of one that is terminated and leaves it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client

from holdfast.client import stopping
from holdfast.client.states import Steered
from holdfast.protocol.undos import OpenUndo, UndoProgress
from tests.conftest import Harness, until, worker_for
from tests.control.undoable import ASK, block, do
from tests.flows import repeat, written
from tests.progress import still_running

HALF = UndoProgress(number=1, total=2)


async def undoing(house: Harness) -> str:
    """A run that was cancelled, has done two things, and cannot undo the last of them."""
    (house.folder / "shut").touch()
    run = await house.start(written(block(do(house, "a"), do(house, "b", undo="cannot_undo"), ASK)))
    await house.one(run)
    await house.client.get_workflow_handle(run).cancel()

    async def asks() -> bool:
        return any("could not be undone" in one.message for one in await house.runs.questions(run))

    await until(asks, "the question")
    return run


def names(undos: list[OpenUndo] | None) -> list[str]:
    assert undos is not None
    return [undo.name for undo in undos]


@pytest.mark.slow
async def test_how_far_it_has_come_is_told(house: Harness) -> None:
    run = await undoing(house)
    assert (await house.runs.state(run)).undoing == HALF
    assert (await house.runs.watch.view(run)).to_json()["undoing"] == {"number": 1, "total": 2}
    metadata = await house.client.get_workflow_handle(run).query("__temporal_workflow_metadata")
    assert "undoing 1 of 2" in metadata.current_details
    cancelled = await house.runs.control.cancel(run, wait=0)
    assert (cancelled.undoing, len(cancelled.left), cancelled.to_json()["undoing"]) == (HALF, 1, HALF.model_dump())
    [question] = await house.runs.questions(run)
    await house.answer(run, {"action": "skip"}, question)
    assert (await house.result(run)).status == "cancelled"
    told = [event.data for event in await house.runs.watch.events(run) if event.type == "step.undoing"]
    assert [(one.tool, one.number, one.total) for one in told] == [("cannot_undo", 1, 2), ("does", 2, 2)]


async def test_what_nobody_is_asked_any_more_is_shown_as_cancelled(house: Harness) -> None:
    run = await undoing(house)
    [all_] = (await house.runs.watch.view(run)).trace.steps
    assert {step.name: step.mark for step in all_.steps} == {"a": "completed", "b": "completed", "ask": "cancelled"}


@pytest.mark.slow
async def test_an_undo_was_not_at_work_when_its_run_was_cancelled(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "GRACE_SECONDS", 0.0)  # it looks again each time
    looks: list[bool] = []
    found = stopping._at_work

    def look(workflow: Any) -> Any:
        looks.append(bool(found(workflow)))
        return found(workflow)

    monkeypatch.setattr(stopping, "_at_work", look)
    undo = {"uses": "hangs_once", "arguments": {"folder": str(house.folder), "name": "a"}}
    run = await house.start(written(block({**do(house, "a"), "undo": undo}, ASK)))
    await house.one(run)
    (house.folder / "hang").touch()
    cancel = asyncio.create_task(house.runs.control.cancel(run, wait=60))

    async def sees() -> bool:
        return True in looks

    await until(sees, "a look at the undo at work")
    (house.folder / "hang").unlink()
    cancelled = await cancel
    assert (cancelled.status, cancelled.left, cancelled.undone) == ("cancelled", [], [])


@pytest.mark.slow
async def test_what_is_not_undone_is_listed_before_it_is_terminated(house: Harness) -> None:
    run = await undoing(house)
    warned: list[Any] = []
    ended = await house.runs.control.cancel(run, force=True, warn=warned.append)
    assert await still_running(house, run) == []
    assert names(ended.open_undos) == names(warned[0]) == ["b", "a"]
    assert [(one["name"], one["tool"]) for one in ended.to_json()["open_undos"] or []] == [
        ("b", "cannot_undo"),
        ("a", "does"),
    ]


@pytest.mark.slow
async def test_what_loops_in_it_have_done_comes_first(house: Harness) -> None:
    run = await house.start(written(block(do(house, "a"), repeat(do(house, "b"), ASK))))
    await house.answered(run, "1")
    await house.one(run)
    listed = await house.runs.control.list_open_undos(run)
    assert names(listed) == ["b", "b", "a"]
    assert [undo.address.split(";")[-2] for undo in listed or []] == ["loop:l:2", "loop:l:1", "block:all"]


@pytest.mark.slow
async def test_many_are_read_in_pages(house: Harness) -> None:
    run = await house.start(written(block(repeat(do(house, "b"), most=120, every=100), ASK)))
    await house.one(run)
    assert len(await house.runs.control.list_open_undos(run) or []) == 120


async def test_a_block_that_has_completed_leaves_nothing(house: Harness) -> None:
    run = await house.start(written(block(do(house, "a")), ASK))
    await house.one(run)
    assert (await house.runs.control.cancel(run, force=True)).open_undos == []


@pytest.mark.slow
async def test_without_a_worker_it_is_not_known(temporal: Client, tmp_path: Path, impatient: None) -> None:
    away = Harness(temporal, f"test-{uuid4().hex[:8]}", tmp_path)
    async with worker_for(away.client, away.runs.task_queue):
        done = await away.start(written(block(do(away, "a"), ASK)))
        plain = await away.start(written(ASK))
        await away.one(done)
        await away.one(plain)
    ended: list[Steered] = [await away.runs.control.cancel(run, force=True) for run in (done, plain)]
    assert [one.open_undos for one in ended] == [None, []]

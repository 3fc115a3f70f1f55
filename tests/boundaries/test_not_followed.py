"""A run whose history the code cannot follow, after a change of it: it says so with the way out, and can be ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.client import Client

from holdfast.client.obstacles import find_obstacles
from holdfast.protocol.answers import Receipt
from holdfast.protocol.names import ANSWER
from holdfast.runtime.workers import TaskFailing
from holdfast.workflows import calls
from tests.conftest import Harness, until, worker_for

FAILURES = 5
"""So many failures of a task the server reports; from the third on it refuses updates."""
TEXT = "agents: {a: {model: echo}}\nsteps: [{name: draft, agent: a}, {kind: hitl, name: ask, message: Go?}]"


@pytest_asyncio.fixture
async def unfollowed(
    temporal: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Harness, str]]:
    """A run with a worker that does not follow its history."""
    away = Harness(temporal, f"test-{uuid4().hex[:8]}", tmp_path)
    async with worker_for(temporal, away.runs.task_queue):
        run = await away.start(TEXT, "x")
        question = await away.one(run)
    monkeypatch.setattr(calls, "make_digest", lambda *parts: "changed")
    async with worker_for(temporal, away.runs.task_queue):
        await temporal.get_workflow_handle(run).signal("answer", {"question": question.id, "content": "go"})
        yield away, run
        forced = await away.runs.control.cancel(run, force=True)
    assert (forced.status, forced.left) == ("failed", [])


async def test_a_run_that_is_not_followed_says_the_way_out_and_force_ends_it(unfollowed: tuple[Harness, str]) -> None:
    away, run = unfollowed

    async def failing() -> TaskFailing | None:
        reason = await away.runs.tree.silence(run)
        return reason if isinstance(reason, TaskFailing) else None

    text = str(await until(failing, "a failed task"))
    assert "TMPRL1100" in text
    assert f"holdfast replay {run}" in text
    assert f"holdfast cancel {run} --force" in text


@pytest.mark.slow  # the server reports it from the fifth failure on, after half a minute
async def test_updates_lists_and_doctor_say_that_it_is_stuck(unfollowed: tuple[Harness, str]) -> None:
    away, run = unfollowed

    async def is_reported() -> bool:
        described = await away.runs.tree.describe(run)
        return described.raw_description.pending_workflow_task.attempt > FAILURES

    async def is_listed_as_stuck() -> bool:
        whole, [row] = await away.runs.lists.all(), [row for row in (await away.runs.lists.page())[0] if row.run == run]
        return row.stuck and next(row for row in whole if row.run == run).stuck

    await until(is_reported, "a task that has failed often")
    await until(is_listed_as_stuck, "the report")
    with pytest.raises(TaskFailing, match=f"holdfast cancel {run} --force"):
        await away.runs.tree.update(run, ANSWER, {}, list[Receipt], id="late")
    [obstacle] = await find_obstacles(away.client, await away.runs.tree.describe(run))
    assert (obstacle.type, f"holdfast cancel {run} --force" in obstacle.message) == ("task_fails", True)

"""A run whose history the code cannot follow, after a change of it: it says so with the way out, and can be ended."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client

from holdfast.client.workers import TaskFailing
from holdfast.workflows import calls
from tests.conftest import Harness, until, worker_for

TEXT = "agents: {a: {model: echo}}\nsteps: [{name: draft, agent: a}, {kind: hitl, name: ask, message: Go?}]"


async def test_a_run_that_is_not_followed_says_so_and_force_ends_it(
    temporal: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Harness(temporal, f"test-{uuid4().hex[:8]}", tmp_path)
    async with worker_for(temporal, away.runs.task_queue):
        run = await away.start(TEXT, "x")
        question = await away.one(run)
    monkeypatch.setattr(calls, "digest_of", lambda *parts: "changed")
    async with worker_for(temporal, away.runs.task_queue):
        await temporal.get_workflow_handle(run).signal("answer", {"question": question.id, "content": "go"})

        async def failing() -> TaskFailing | None:
            reason = await away.runs.tree.silence(run)
            return reason if isinstance(reason, TaskFailing) else None

        text = str(await until(failing, "a failed task"))
        forced = await away.runs.cancel(run, force=True)
    assert (forced.status, forced.left) == ("failed", [])
    assert "TMPRL1100" in text
    assert f"holdfast replay {run}" in text
    assert f"holdfast cancel {run} --force" in text

"""`holdfast doctor` compares the record with Temporal, which knows what no recorder has written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.cli.doctor import examine
from holdfast.runtime.config import load_config
from holdfast.server.record.store import open_store
from tests.conftest import Harness, until


async def test_a_closed_run_that_no_recorder_has_listed(
    house: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "HOLDFAST_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEMPORAL_ADDRESS", house.client.service_client.config.target_host)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", house.client.namespace)
    monkeypatch.setenv("HOLDFAST_TASK_QUEUE", house.runs.task_queue)
    open_store(load_config().record_place()).close()
    await house.output(await house.start("steps: [{name: done}]"))

    async def lag() -> str | None:
        [message] = [finding.message for finding in await examine(load_config()) if finding.check == "record"]
        return message if "every closed run is recorded" not in message else None

    assert "ago is not recorded" in await until(lag, "visibility")
    monkeypatch.setenv("HOLDFAST_TASK_QUEUE", f"beside-{house.runs.task_queue}")
    assert await lag() is None  # a recorder records the runs of its own queue

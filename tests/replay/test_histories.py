"""Recorded histories lead to the same commands: a change that breaks parked runs is seen here.

`python -m tests.replay.record` records them anew; do so only for flows that are new, never to make this pass.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from client.connection import DATA_CONVERTER
from workflows import RUNNER, WORKFLOWS

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))


def test_there_are_recorded_histories() -> None:
    assert len(HISTORIES) >= 10


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path) -> None:
    replayer = Replayer(workflows=WORKFLOWS, workflow_runner=RUNNER, data_converter=DATA_CONVERTER)
    recorded = json.loads(path.read_text())
    started = recorded["events"][0]["workflowExecutionStartedEventAttributes"]
    await replayer.replay_workflow(WorkflowHistory.from_json(started["workflowId"], recorded))

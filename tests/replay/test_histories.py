"""Recorded histories lead to the same commands: a change that breaks parked runs is seen here.

`python -m tests.replay.record` records them anew; do so only for flows that are new, never to make this pass.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from holdfast.client.connection import DATA_CONVERTER
from holdfast.workflows import RUNNER, WORKFLOWS

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json.gz"))


def test_there_are_recorded_histories() -> None:
    assert len(HISTORIES) >= 10


async def _recorded() -> AsyncIterator[WorkflowHistory]:
    for path in HISTORIES:
        recorded = json.loads(gzip.decompress(path.read_bytes()))
        started = recorded["events"][0]["workflowExecutionStartedEventAttributes"]
        yield WorkflowHistory.from_json(started["workflowId"], recorded)


@pytest_asyncio.fixture(scope="module")
async def failures() -> dict[str, Exception | None]:
    """What the replay of each found; one worker does them all, one after the other, for it takes long to start."""
    replayer = Replayer(workflows=WORKFLOWS, workflow_runner=RUNNER, data_converter=DATA_CONVERTER)
    async with replayer.workflow_replay_iterator(_recorded()) as results:
        found = [result.replay_failure async for result in results]
    return {path.name: failure for path, failure in zip(HISTORIES, found, strict=True)}


@pytest.mark.parametrize("name", [path.name for path in HISTORIES])
def test_a_recorded_history_replays(name: str, failures: dict[str, Exception | None]) -> None:
    if (failure := failures[name]) is not None:
        raise failure

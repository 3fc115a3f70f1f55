"""Recorded histories lead to the same commands and results, however core groups the jobs of their tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from examples.invite_guests.workflow import Invitations
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.testkit.clock import CLOCK_RUNNER
from holdfast.workflows import RUNNER, WORKFLOWS
from tests.replay import recordings
from tests.replay.groupings import Recorded, Recorder

QUICK = ["several", "continued"]


async def replay(name: str) -> list[Recorded]:
    """Replay the histories of a recording; what their instances were fed."""
    own, authors = Recorder(CLOCK_RUNNER), Recorder(RUNNER)
    replayer = Replayer(
        workflows=[*WORKFLOWS, Invitations],
        workflow_runner=authors,
        unsandboxed_workflow_runner=own,
        data_converter=DATA_CONVERTER,
    )

    async def histories() -> AsyncIterator[WorkflowHistory]:
        for history in recordings.histories(name):
            yield history

    await replayer.replay_workflows(histories(), raise_on_replay_failure=False)
    return own.recorded + authors.recorded


def regroup(recorded: Recorded) -> int:
    """Group each activation anew in each way; return in how many."""
    expected, ways = recorded.commands(), 0
    for index, activation in enumerate(recorded.activations):
        found = [recorded.commands_by_query(index, most) for most in range(1, len(activation.jobs) + 1)]
        found.append(recorded.commands_merged(index))
        for commands in found:
            if commands is not None:
                ways += 1
                assert commands == expected, (recorded.details.info.workflow_id, index)
    return ways


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in recordings.names()],
)
async def test_a_history_leads_to_the_same_however_it_is_grouped(name: str) -> None:
    recorded = await replay(name)
    ways = await asyncio.to_thread(lambda: sum(map(regroup, recorded)))
    assert recorded and (ways or name not in QUICK)

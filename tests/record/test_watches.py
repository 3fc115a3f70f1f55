"""Which open workflows the recorder looks at, and when: with very many of them it looks at a part at a time."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from temporalio.api.workflow.v1 import WorkflowExecutionInfo

from holdfast.server.record import progress, watches
from holdfast.server.record.progress import read_listed
from holdfast.server.record.watches import LONGEST_PAUSE, OpenWatch, OpenWatches
from tests.conftest import Harness, until
from tests.record.ground import ASK


async def find(watched: OpenWatches) -> set[str]:
    """Look at the next part; return the ids of the runs that are known then."""
    await watched.find()
    return {watch.listed.run for watch in watched.choose_due(100)}


async def test_more_than_a_part_are_found_part_by_part_and_the_ended_ones_go(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {await house.start(ASK) for _ in range(3)}
    for run in runs:
        await house.one(run)

    async def are_listed() -> bool:
        return await find(OpenWatches(house.client, house.runs.task_queue)) == runs

    await until(are_listed, "visibility to list the runs")
    monkeypatch.setattr(watches, "A_PART", 2)
    monkeypatch.setattr(progress, "OVERLAP", -timedelta(hours=1))  # nothing is new
    watched = OpenWatches(house.client, house.runs.task_queue)
    assert len(await find(watched)) == 2
    assert await find(watched) == runs
    ended = min(runs)
    await house.runs.control.cancel(ended)

    async def is_gone() -> bool:
        return await find(watched) == runs - {ended}

    await until(is_gone, "the ended run to be forgotten")


async def test_what_is_new_is_found_at_once_however_many_there_are(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "A_PART", 1)
    runs = {await house.start(ASK) for _ in range(3)}

    async def are_found() -> bool:
        return await find(OpenWatches(house.client, house.runs.task_queue)) == runs

    await until(are_found, "one look to find all three")


def test_a_round_reads_what_moves_first_and_leaves_a_share_for_what_is_still() -> None:
    watched = OpenWatches.__new__(OpenWatches)
    listed = read_listed(WorkflowExecutionInfo())
    still = [OpenWatch(due=float(n), pause=LONGEST_PAUSE, listed=listed, look=0) for n in range(30)]
    lively = [OpenWatch(due=1_000.0 - n, listed=listed, look=0) for n in range(30)]
    later = OpenWatch(due=time.monotonic() + 3600, listed=listed, look=0)
    watched._watches = {str(n): watch for n, watch in enumerate([*still, *lively, later])}
    assert watched.choose_due(20) == [*sorted(lively, key=lambda watch: watch.due)[:18], *still[:2]]
    assert watched.choose_due(100) == [*sorted(lively, key=lambda watch: watch.due), *still]

"""The reads of workflows by the recorder, a few at a time: one that takes long goes on beside those of the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

log = logging.getLogger(__name__)

SLOW_SECONDS = 10.0
"""The time that others wait for a read: less than a lease is good for, so that none runs out meanwhile."""
LONGEST_SECONDS = 600.0
"""The time after which a read is given up, and begun anew: what was parked for months may have much to read."""


@dataclass(frozen=True)
class ReadJob:
    """A read of one workflow, which returns the number of new entries."""

    workflow: str
    temporal_run: str
    read: Callable[[], Awaitable[int]]


@dataclass(frozen=True)
class _RunningRead:
    workflow: str
    task: asyncio.Task[int]


class WorkflowReads:
    """The reads that have not ended."""

    def __init__(self) -> None:
        self._running: dict[str, _RunningRead] = {}
        """By Temporal's run id of the workflow."""

    @property
    def workflows(self) -> list[str]:
        """The ids of the workflows that are being read, in order: between two batches those whose read is slow."""
        return sorted(read.workflow for read in self._running.values())

    async def read(self, jobs: Sequence[ReadJob]) -> int:
        """Do these at the same time; return the number of new entries, those of slow reads that have ended included.

        What takes longer than `SLOW_SECONDS` goes on behind it, and is not begun again before its end. Raises the
        first failure of a read.
        """
        fresh = [job for job in jobs if job.temporal_run not in self._running]
        for job in fresh:
            self._running[job.temporal_run] = _RunningRead(job.workflow, asyncio.create_task(_limit(job)))
        if fresh:
            await asyncio.wait([self._running[job.temporal_run].task for job in fresh], timeout=SLOW_SECONDS)
        return self._take_ended()

    async def close(self) -> None:
        """Give up what has not ended."""
        tasks = [read.task for read in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._running.clear()

    def _take_ended(self) -> int:
        ended = [read.task for read in self._running.values() if read.task.done()]
        self._running = {run: read for run, read in self._running.items() if not read.task.done()}
        failures = [failure for task in ended if (failure := task.exception()) is not None]
        if failures:
            raise failures[0]
        return sum(task.result() for task in ended)


async def _limit(job: ReadJob) -> int:
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            return await job.read()
    except TimeoutError:
        log.warning(
            "workflow %s could not be read into the record in %d s; it is tried again", job.workflow, LONGEST_SECONDS
        )
        return 0

"""The recorder: reads what is new in the runs of a deployment into the record. `serve` and the embedded set run one.

It asks visibility for what may have changed, and the workflows themselves by query: it costs no event in any history,
and works for runs that were parked before it was there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy.exc import SQLAlchemyError
from temporalio.client import WorkflowExecutionDescription
from temporalio.service import RPCError

from holdfast.client.obstacles import find_obstacles
from holdfast.client.states import STATUSES
from holdfast.client.tree import Tree, UnknownRun
from holdfast.runtime.errors import ServerUnreachable, is_missing
from holdfast.runtime.workers import NoWorker, Unanswered
from holdfast.server.record.checkpoints import SigningKey, is_due, seal
from holdfast.server.record.jobs import LastingTrouble, Lease, renewing
from holdfast.server.record.progress import (
    FirstRuns,
    ListedWorkflow,
    Progress,
    WorkflowProgress,
    describe,
    find_reset,
    list_closed_workflows,
    make_scope,
    name_lease,
    read_listed,
)
from holdfast.server.record.reader import Reader
from holdfast.server.record.reads import ReadJob, WorkflowReads
from holdfast.server.record.store import RecordStore
from holdfast.server.record.watches import LONGEST_PAUSE, OpenWatch, OpenWatches, WorkflowWatch

log = logging.getLogger(__name__)

PACE_SECONDS = 1.0
"""The shortest pause between two rounds; the longest is that between two reads of a workflow."""
AWAY_PAUSE = 10.0
"""The longest pause while something waits for a worker: it may be back at any time, and people wait for the news."""
IDLE_SHARE = 10
"""Times the length of a round that is the pause after one that had nothing to record: looking is not to take a server's
time. After one that had, it is as long as the round: with ten times that, 320 answers were recorded 77 s after them."""
AT_ONCE = 8
"""Workflows that are begun to be read at the same time."""
A_ROUND = 200
"""Workflows that are read in one round: what has changed comes before what may have."""
MISSING_PACE = 60.0
"""Seconds between two looks for workflows of the record that visibility lists no more."""
MOST_MISSING = 100
"""Those that are looked for at a time; the next look is for those behind them."""
UNREAD = (NoWorker, RPCError, ServerUnreachable)
"""Why a workflow cannot be read now: its worker, Temporal, or the keys and the store of its values."""
STUCK_AFTER = timedelta(hours=1)
"""The end of a run is recorded without its last events once they could not be read for so long."""


class Recorder:
    """Records the runs of a namespace, if no other process does.

    Args:
        tree: Access to the workflows.
        store: The record.
        key: Signs the checkpoints; None writes none.
        task_queue: Record only the workflows on this queue.
    """

    def __init__(
        self, tree: Tree, store: RecordStore, key: SigningKey | None = None, task_queue: str | None = None
    ) -> None:
        self.tree, self.store, self._key = tree, store, key
        self._queue = task_queue
        namespace = tree.client.namespace
        scope = make_scope(namespace, task_queue)
        self.progress = Progress(store, namespace, scope)
        self.lease = Lease(store, name_lease(scope))
        self._reader = Reader(tree, store)
        self._trouble = LastingTrouble(log, "bringing the record up to date")
        self._runs = FirstRuns(tree.client, store)
        self._watches = OpenWatches(tree.client, task_queue)
        self._reads = WorkflowReads()
        self._slow: list[str] | None = None
        """The slow reads that are noted; None before the first round, as another process may have noted some."""
        self._listed: set[str] = set()
        self._has_closed = False
        self._lacks_worker = False
        """True if something could not be read in this round because its worker did not answer."""
        self._put_off: dict[str, WorkflowWatch] = {}
        """Closed workflows that could not be read yet."""
        self._missing_due, self._sought = 0.0, ""
        """When the next look for missing workflows is, on the monotonic clock; the last one that was looked for."""

    async def run(self) -> None:
        """Record until cancelled; what fails is logged and tried again."""
        async with renewing(self.lease):
            try:
                while True:
                    began = time.monotonic()
                    recorded = await self._round_if_ours()
                    await asyncio.sleep(choose_pause(time.monotonic() - began, recorded, self._lacks_worker))
            finally:
                await self._reads.close()

    async def _round_if_ours(self) -> int:
        with self._trouble.note_failure(*UNREAD, SQLAlchemyError):
            if await asyncio.to_thread(self.lease.hold):
                return await self.round()
        return 0

    async def round(self) -> int:
        """Read what has changed, then some of what may have; return the number of new entries."""
        self._lacks_worker = False
        await self._list_closed()
        await self._watches.find()
        await self._note_missing()
        jobs = [
            ReadJob(watch.listed.workflow, watch.listed.temporal_run, partial(self._read_open, watch))
            for watch in self._watches.choose_due(A_ROUND)
        ]
        jobs += [
            ReadJob(progress.workflow, progress.temporal_run, partial(self._read_closed, progress))
            for progress in await self._unread()
        ]
        recorded = 0
        for start in range(0, max(len(jobs), 1), AT_ONCE):
            recorded += await self._reads.read(jobs[start : start + AT_ONCE])
            await self._note_slow_reads()  # here and not behind the round: the end of a run waits for no other run
            await self._seal()
        return recorded

    async def _note_slow_reads(self) -> None:
        """Note which workflows take long to be read, if they are others than before: `doctor` and metrics tell."""
        slow = self._reads.workflows
        if slow != self._slow:
            await asyncio.to_thread(self.progress.note_slow_reads, slow)
            self._slow = slow

    async def _seal(self) -> None:
        """Write a checkpoint if one is due."""
        now = datetime.now(UTC)
        if self._key is not None and (self._has_closed or await asyncio.to_thread(is_due, self.store, now)):
            await asyncio.to_thread(seal, self.store, self._key, now)
        self._has_closed = False

    async def catch_up(self, run: str) -> int:
        """Read one run with all of its workflows, now; return the number of new entries.

        It needs no lease, as an entry is recorded once whoever reads it. Raises `UnknownRun` or `NoWorker`.
        """
        recorded, workflows, seen = 0, [run], set[str]()
        while workflows:
            workflow = workflows.pop()
            seen.add(workflow)
            recorded += await self._read_now(run, workflow)
            children = await asyncio.to_thread(self.progress.list_children, run, workflow)
            workflows += [child for child in children if child not in seen]
        await self._seal()
        return recorded

    async def _read_now(self, run: str, workflow: str) -> int:
        """Read one workflow, unless there is nothing more to read of it."""
        try:
            described = await self.tree.describe(workflow)
        except UnknownRun:
            if workflow == run:
                raise
            return 0  # its retention has ended: what was recorded of it is all there is
        sighting = read_listed(described.raw_info)
        progress = await self._read_progress(sighting)
        if progress.complete:
            return 0
        if sighting.closed is None or described.status not in STATUSES:
            return (await self._reader.read(progress, described)).recorded
        return await self._finish(replace(progress, closed=sighting.closed), sighting.closed)

    async def _list_closed(self) -> None:
        """Note the workflows that were closed since the last round, so that they are read however long that takes."""
        since = await asyncio.to_thread(lambda: self.progress.watermark)
        latest, listed = since, set()
        async for sighting in list_closed_workflows(self.tree.client, since, self._queue):
            listed.add(sighting.temporal_run)
            if sighting.temporal_run not in self._listed:
                await self._note_closed(sighting)
            latest = max(filter(None, (latest, sighting.closed)), default=None)
        self._listed = listed
        if latest is not None and latest != since:
            await asyncio.to_thread(self.progress.list_closed, latest)

    async def _note_closed(self, sighting: ListedWorkflow) -> None:
        self._watches.forget(sighting.temporal_run)
        stored = await asyncio.to_thread(self.progress.by_temporal_run, sighting.temporal_run)
        if stored is None or stored.closed is None:
            progress = replace(await self._read_progress(sighting), closed=sighting.closed, complete=False)
            await asyncio.to_thread(self.progress.keep, progress)
            if sighting.is_terminated:
                await self._note_reset(progress)

    async def _note_missing(self) -> None:
        """Note the workflows that Temporal has deleted before their end was recorded: nothing lists them any more."""
        if time.monotonic() < self._missing_due:
            return
        rows = await asyncio.to_thread(self.progress.list_open, self._sought, MOST_MISSING)
        for row in [row for row in rows if row.temporal_run not in self._watches]:
            found = await describe(self.tree.client, row.workflow)
            if found is None or (await self._runs.of(found)).first_run != row.run.first_run:
                log.warning("Temporal has deleted %s before its end was recorded", row.workflow)
                await asyncio.to_thread(self.progress.keep, replace(row, closed=datetime.now(UTC)))
            elif found.closed is not None:
                await self._note_closed(found)
        self._sought = rows[-1].workflow if len(rows) == MOST_MISSING else ""
        self._missing_due = time.monotonic() + MISSING_PACE

    async def _read_progress(self, sighting: ListedWorkflow) -> WorkflowProgress:
        run = await self._runs.of(sighting)
        if (own := await asyncio.to_thread(self.progress.by_temporal_run, sighting.temporal_run)) is not None:
            return replace(own, run=replace(run, first_run=own.run.first_run))
        stored = await asyncio.to_thread(self.progress.of, run, sighting.workflow)
        if stored is not None and await self._note_reset(stored):
            return await self._read_progress(sighting)
        if stored is None:
            return WorkflowProgress(run, sighting.workflow, 0, sighting.temporal_run, None, complete=False)
        return replace(stored, run=run, temporal_run=sighting.temporal_run)

    async def _note_reset(self, progress: WorkflowProgress) -> bool:
        """Note that a run was reset, if it was; return whether it was. What follows is recorded as a run of its own."""
        if progress.workflow != progress.run.run:
            return False
        reset = await find_reset(self.tree.client, progress.workflow, progress.temporal_run)
        if reset is None or reset.run == progress.run.first_run:
            return False
        await self._runs.note_reset(progress.run.first_run, reset)
        await self._reader.note_reset(progress, reset)
        return True

    async def _read_open(self, watch: OpenWatch) -> int:
        """Read an open workflow if its history has grown; return the number of new entries."""
        sighting = watch.listed
        described = await self._describe(sighting)
        if described is not None:
            sighting = read_listed(described.raw_info)  # it says more than a list does
        length = 0 if described is None else described.history_length
        recorded = 0
        try:
            if described is not None:
                recorded += await self._note_obstacles(sighting, described)
            if length == watch.length:
                watch.put_off(moved=False)
                return recorded
            recorded += (await self._reader.read(await self._read_progress(sighting), described)).recorded
        except Exception as error:  # noqa: BLE001  see `_put_off_unread`
            self._put_off_unread(sighting.workflow, watch, error)
            return recorded
        watch.length = length
        watch.put_off(moved=recorded > 0)
        return recorded

    async def _note_obstacles(self, sighting: ListedWorkflow, described: WorkflowExecutionDescription) -> int:
        """Record what keeps a workflow from going on, each obstacle once; return the number of new entries."""
        obstacles = await find_obstacles(self.tree.client, described)
        if not obstacles:
            return 0
        return await self._reader.note_obstacles(await self._read_progress(sighting), obstacles)

    async def _describe(self, sighting: ListedWorkflow) -> WorkflowExecutionDescription | None:
        """Return the server's description of an open workflow; None if it is forgotten."""
        handle = self.tree.client.get_workflow_handle(sighting.workflow, run_id=sighting.temporal_run)
        try:
            return await handle.describe()
        except RPCError as error:
            if not is_missing(error):
                raise
            return None

    async def _unread(self) -> list[WorkflowProgress]:
        """Return the closed workflows that can be read now."""
        unread = await asyncio.to_thread(self.progress.unread, A_ROUND)
        self._put_off = {
            progress.temporal_run: self._put_off.get(progress.temporal_run, WorkflowWatch()) for progress in unread
        }
        return [progress for progress in unread if self._put_off[progress.temporal_run].due <= time.monotonic()]

    async def _read_closed(self, progress: WorkflowProgress) -> int:
        """Read the rest of a closed workflow, and the end of its run; return the number of new entries."""
        closed, watch = progress.closed or datetime.now(UTC), self._put_off[progress.temporal_run]
        try:
            recorded = await self._finish(progress, closed)
        except UnknownRun:
            recorded = await self._reader.note_loss(progress, closed)
            await self._reader.finish(progress)
        except Exception as error:  # noqa: BLE001  see `_put_off_unread`
            self._put_off_unread(progress.workflow, watch, error)
            return await self._end_if_stuck(progress, closed)
        return recorded

    async def _finish(self, progress: WorkflowProgress, closed: datetime) -> int:
        read = await self._reader.read(progress)
        recorded = read.recorded
        if progress.workflow == progress.run.run:
            recorded += await self._reader.end(progress, closed, read.view)
            self._has_closed = True
        await self._reader.finish(read.progress)
        return recorded

    async def _end_if_stuck(self, progress: WorkflowProgress, closed: datetime) -> int:
        """Record that a run has ended though its last events cannot be read, after a while."""
        if progress.workflow != progress.run.run or datetime.now(UTC) - closed < STUCK_AFTER:
            return 0
        try:
            return await self._reader.end(progress, closed)
        except (UnknownRun, *UNREAD):
            return 0

    def _put_off_unread(self, workflow: str, watch: WorkflowWatch, error: Exception) -> None:
        """Have a workflow that could not be read tried again later; it keeps no other one from being recorded.

        Raises the error of the database again.
        """
        if isinstance(error, SQLAlchemyError):
            raise error
        cause = None if isinstance(error, (UnknownRun, *UNREAD)) else error
        level = logging.INFO if cause is None else logging.ERROR
        log.log(level, "workflow %s could not be read into the record yet: %s", workflow, error, exc_info=cause)
        is_away = isinstance(error, NoWorker) and not isinstance(error, Unanswered)
        self._lacks_worker |= is_away
        watch.put_off(moved=False, longest=AWAY_PAUSE if is_away else LONGEST_PAUSE)


def choose_pause(seconds: float, recorded: int, lacks_worker: bool) -> float:
    """Return the seconds until the next round.

    Args:
        seconds: The length of the last one.
        recorded: The entries that it has written.
        lacks_worker: Whether it could not read something because a worker did not answer.
    """
    longest = AWAY_PAUSE if lacks_worker else LONGEST_PAUSE
    return min(max(PACE_SECONDS, seconds * (1 if recorded else IDLE_SHARE)), longest)

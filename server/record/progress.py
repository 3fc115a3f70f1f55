"""Which workflows have something new, and how far each has been read into the record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Row, and_, func, insert, select, update
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.listing import OPEN, OURS
from holdfast.client.visibility import list_executions
from holdfast.protocol.events import ChildStarted
from holdfast.protocol.names import BLUEPRINT_ATTRIBUTE, SINCE_ATTRIBUTE
from holdfast.runtime.errors import is_missing
from holdfast.runtime.namespace import quote
from holdfast.runtime.workers import read_last_events
from holdfast.server.record.database import begin_write
from holdfast.server.record.entries import RecordedRun, format_time
from holdfast.server.record.jobs import Lease
from holdfast.server.record.store import RecordStore, set_mark
from holdfast.server.record.tables import ENTRIES, RUNS, WORKFLOWS

ENDS = ("Completed", "Failed", "Canceled", "Terminated", "TimedOut")
"""The statuses of a workflow that is over: not of one that continues as new."""
OVERLAP = timedelta(minutes=2)
"""Visibility may list a workflow some time after it was closed, and its `SINCE_ATTRIBUTE` may be a minute too early."""


@dataclass(frozen=True)
class ListedWorkflow:
    """A workflow as visibility lists it."""

    workflow: str
    temporal_run: str
    root: tuple[str, str]
    """The outermost workflow above it: its id, and Temporal's id of its run."""
    blueprint: str
    closed: datetime | None
    signature: int
    """Changes when the people change that are awaited, or the run is paused: at once with every question."""
    first_run: str | None = None
    """Temporal's id of the first run of its chain; None from visibility, which does not tell it."""
    is_terminated: bool = False
    """Whether it was terminated, as is one that was reset."""

    @property
    def chain(self) -> str:
        """Return Temporal's id of the first run of its chain, as far as that was told."""
        return self.first_run or self.temporal_run

    @property
    def run(self) -> str:
        """Return the id of the run that the workflow belongs to."""
        # A pipeline may be the child of an author's own workflow, which is no part of its run.
        root, _ = self.root
        if self.workflow == root or self.workflow.startswith(f"{root}/"):
            return root
        return self.workflow.partition("/")[0]


def match_open(task_queue: str | None) -> str:
    """Return the query for the open workflows of every run; with a task queue only those on it."""
    return OPEN + _on(task_queue)


def match_recent(task_queue: str | None, since: datetime) -> str:
    """Return the query for those of them that were started since a time, or have asked since."""
    time = _write_time(since - OVERLAP)
    return f"{match_open(task_queue)} AND (StartTime > '{time}' OR {SINCE_ATTRIBUTE} > '{time}')"


async def list_closed_workflows(
    client: Client, since: datetime | None, task_queue: str | None
) -> AsyncIterator[ListedWorkflow]:
    """Yield the workflows that were closed since a time, or all that are retained."""
    statuses = ", ".join(f"'{status}'" for status in ENDS)
    wanted = f"{OURS} AND ExecutionStatus IN ({statuses}){_on(task_queue)}"
    if since is not None:
        wanted += f" AND CloseTime > '{_write_time(since - OVERLAP)}'"
    async for execution in list_executions(client, wanted):
        yield read_listed(execution.info)


def _write_time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="seconds")


def make_scope(namespace: str, task_queue: str | None) -> str:
    """Return the name of the runs that a recorder lists: those of a task queue, or of the whole namespace."""
    return namespace if task_queue is None else f"{namespace}/{task_queue}"


def name_lease(scope: str) -> str:
    """Return the name of the lease of the recorder of these runs."""
    return f"recorder:{scope}"


def _on(task_queue: str | None) -> str:
    return "" if task_queue is None else f" AND TaskQueue = '{quote(task_queue)}'"


def read_listed(info: WorkflowExecutionInfo) -> ListedWorkflow:
    """Return a workflow as the server lists or describes it."""
    own, above, attributes = info.execution, info.root_execution, info.search_attributes.indexed_fields
    root = above if above.workflow_id else own
    blueprint = json.loads(attributes[BLUEPRINT_ATTRIBUTE].data) if BLUEPRINT_ATTRIBUTE in attributes else None
    values = sorted((name, value.data) for name, value in attributes.items() if name != "BuildIds")
    return ListedWorkflow(
        own.workflow_id,
        own.run_id,
        (root.workflow_id, root.run_id),
        blueprint or info.type.name,
        info.close_time.ToDatetime(UTC) if info.HasField("close_time") else None,
        hash((*values, *sorted(info.memo.fields))),
        info.first_run_id or None,
        info.status == WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TERMINATED,
    )


class FirstRuns:
    """Finds out which run a workflow belongs to, for ever: run ids may be used again."""

    MOST = 10_000

    def __init__(self, client: Client, store: RecordStore) -> None:
        self._client, self._store = client, store
        self._cached: dict[tuple[str, str], tuple[str, str]] = {}

    async def note_reset(self, first: str, reset: Reset) -> None:
        """Note that the run goes on as another one: what is recorded from there on is a run of its own."""
        await asyncio.to_thread(self._store.set_mark, f"reset:{first}", reset.run)
        self._cached.clear()

    async def of(self, sighting: ListedWorkflow) -> RecordedRun:
        """Return the run of a workflow; the workflow counts as a run of its own if the run is forgotten."""
        _, root_run = sighting.root
        place = (sighting.run, root_run)
        if place not in self._cached:
            if len(self._cached) >= self.MOST:
                self._cached.clear()
            self._cached[place] = await self._find(sighting)
        first, blueprint = self._cached[place]
        return RecordedRun(self._client.namespace, sighting.run, first, blueprint)

    async def _find(self, sighting: ListedWorkflow) -> tuple[str, str]:
        """Return the first run of the run's own workflow, and the blueprint: a child's may be another's, an import."""
        is_run = sighting.workflow == sighting.run
        described = sighting if is_run and sighting.first_run else None
        described = described or await describe(self._client, sighting.run, sighting.temporal_run if is_run else None)
        if described is None:
            first, blueprint = sighting.temporal_run, sighting.blueprint if is_run else ""
        else:
            first, blueprint = described.chain, described.blueprint
        return await asyncio.to_thread(follow_resets, self._store, first), blueprint


def follow_resets(store: RecordStore, first: str) -> str:
    """Return under which run a chain is recorded: its first, or that with which it went on after a reset. Blocks."""
    while (later := store.mark(f"reset:{first}")) is not None:
        first = later
    return first


class Reset(NamedTuple):
    """A reset by Temporal's own means: a run was terminated, and another one began in the midst of it."""

    run: str
    """Temporal's id of the run that goes on."""
    reason: str
    at: datetime


def read_reset_run(described: WorkflowExecutionDescription) -> str | None:
    """Return Temporal's id of the run that goes on where a reset has ended the described one; None if none has."""
    return described.raw_description.workflow_extended_info.reset_run_id or None


async def find_reset(client: Client, workflow: str, run: str) -> Reset | None:
    """Return the reset that has ended a run; None if none has, or the run is forgotten.

    Args:
        client: The connection.
        workflow: The workflow's id.
        run: Temporal's id of the run.
    """
    try:
        described = await client.get_workflow_handle(workflow, run_id=run).describe()
    except RPCError as error:
        if not is_missing(error):
            raise
        return None
    later = read_reset_run(described)
    if later is None:
        return None
    reasons = [
        event.workflow_execution_terminated_event_attributes.reason
        for event in await read_last_events(client, workflow, run, 1)
    ]
    return Reset(later, next(iter(reasons), ""), described.close_time or datetime.now(UTC))


async def describe(client: Client, workflow: str, run: str | None = None) -> ListedWorkflow | None:
    """Return a workflow as the server describes it; None if it is forgotten."""
    try:
        described = await client.get_workflow_handle(workflow, run_id=run).describe()
    except RPCError as error:
        if not (is_missing(error) or error.status == RPCStatusCode.INVALID_ARGUMENT):
            raise
        return None
    return read_listed(described.raw_info)


@dataclass(frozen=True)
class WorkflowProgress:
    """The progress in one workflow."""

    run: RecordedRun
    workflow: str
    next_offset: int
    temporal_run: str
    """Temporal's id of the run of its chain that was seen last."""
    closed: datetime | None
    """When it was closed; None while it is open."""
    complete: bool
    """True once it is closed and every event has been read."""


@dataclass(frozen=True)
class Progress:
    """The part of a store that the recorder keeps for itself. Its functions block; see `RecordStore`."""

    store: RecordStore
    namespace: str
    scope: str = ""
    """The runs that a recorder lists, such as those of a task queue: each has a watermark of its own."""

    @property
    def watermark(self) -> datetime | None:
        """Return the time up to which closed workflows were listed; None at first."""
        value = self.store.mark(f"closed:{self.scope or self.namespace}")
        return None if value is None else datetime.fromisoformat(value)

    def list_closed(self, upto: datetime) -> None:
        """Note that every workflow that was closed before this time is known."""
        with begin_write(self.store.engine) as connection:
            set_mark(connection, f"closed:{self.scope or self.namespace}", format_time(upto))

    def note_slow_reads(self, workflows: Sequence[str]) -> None:
        """Note the workflows that the recorder has been reading for longer than others wait."""
        self.store.set_mark(f"slow:{self.scope or self.namespace}", json.dumps(workflows))

    @property
    def is_at_work(self) -> bool | None:
        """Return whether a recorder of these runs is at work; None if it gave up its lease, or there never was one."""
        return Lease(self.store, name_lease(self.scope or self.namespace)).is_held()

    @property
    def slow_reads(self) -> list[str]:
        """Return the ids of those workflows; none where no recorder is at work, as what was noted is stale then."""
        if not self.is_at_work:
            return []
        workflows: list[str] = json.loads(self.store.mark(f"slow:{self.scope or self.namespace}") or "[]")
        return workflows

    def of(self, run: RecordedRun, workflow: str) -> WorkflowProgress | None:
        """Return the progress of a workflow; None if it is new."""
        return self._first(and_(WORKFLOWS.c.first_run == run.first_run, WORKFLOWS.c.workflow == workflow))

    def by_temporal_run(self, temporal_run: str) -> WorkflowProgress | None:
        """Return the progress of the workflow whose latest run this is; None if that is not known."""
        return self._first(WORKFLOWS.c.temporal_run == temporal_run)

    def list_children(self, run: str, workflow: str) -> list[str]:
        """Return the workflows whose start a workflow of the latest run of this id has recorded."""
        recorded = self.store.run(self.namespace, run)
        if recorded is None:
            return []
        of_workflow = and_(ENTRIES.c.first_run == recorded.first_run, ENTRIES.c.workflow == workflow)
        query = select(ENTRIES.c.content).where(of_workflow, ENTRIES.c.type.in_(_CHILD_STARTED))
        with self.store.engine.connect() as connection:
            contents = connection.execute(query.order_by(ENTRIES.c.id)).scalars().all()
        return [json.loads(content)["data"]["workflow"] for content in contents if content is not None]

    def unread(self, limit: int) -> list[WorkflowProgress]:
        """Return the closed workflows that still have something to read, the longest closed first."""
        of_ours = and_(RUNS.c.namespace == self.namespace, WORKFLOWS.c.complete.is_(False))
        query = _SELECT.where(of_ours, WORKFLOWS.c.closed.is_not(None)).order_by(WORKFLOWS.c.closed).limit(limit)
        with self.store.engine.connect() as connection:
            return [_read_progress(row) for row in connection.execute(query)]

    def list_open(self, after: str, limit: int) -> list[WorkflowProgress]:
        """Return workflows that are not known to have ended, in the order of their ids, behind one."""
        of_ours = and_(RUNS.c.namespace == self.namespace, WORKFLOWS.c.closed.is_(None))
        query = _SELECT.where(of_ours, WORKFLOWS.c.workflow > after).order_by(WORKFLOWS.c.workflow).limit(limit)
        with self.store.engine.connect() as connection:
            return [_read_progress(row) for row in connection.execute(query)]

    def longest_unread(self) -> datetime | None:
        """Return when the workflow was closed that has waited longest to be read; None if none waits."""
        of_ours = and_(RUNS.c.namespace == self.namespace, WORKFLOWS.c.complete.is_(False))
        query = select(func.min(WORKFLOWS.c.closed)).join(RUNS, _SAME_RUN).where(of_ours)
        with self.store.engine.connect() as connection:
            closed = connection.execute(query).scalar_one()
        return None if closed is None else datetime.fromisoformat(closed)

    def behind(self) -> timedelta:
        """Return the time since that workflow was closed; zero if none waits."""
        since = self.longest_unread()
        return timedelta() if since is None else max(datetime.now(UTC) - since, timedelta())

    def is_unread(self, first_run: str) -> bool:
        """Return whether a workflow of this run still has something to read."""
        query = select(WORKFLOWS.c.workflow).where(WORKFLOWS.c.first_run == first_run, WORKFLOWS.c.complete.is_(False))
        with self.store.engine.connect() as connection:
            return connection.execute(query.limit(1)).first() is not None

    def keep(self, progress: WorkflowProgress) -> None:
        """Store the progress of a workflow."""
        self.store.enter(progress.run)
        which = and_(WORKFLOWS.c.first_run == progress.run.first_run, WORKFLOWS.c.workflow == progress.workflow)
        values = {
            "next_offset": progress.next_offset,
            "temporal_run": progress.temporal_run,
            "closed": None if progress.closed is None else format_time(progress.closed),
            "complete": progress.complete,
        }
        with begin_write(self.store.engine) as connection:
            if connection.execute(update(WORKFLOWS).where(which).values(**values)).rowcount == 0:
                names = {"first_run": progress.run.first_run, "workflow": progress.workflow}
                connection.execute(insert(WORKFLOWS).values(**names, **values))

    def _first(self, which: Any) -> WorkflowProgress | None:
        with self.store.engine.connect() as connection:
            row = connection.execute(_SELECT.where(which)).first()
        return None if row is None else _read_progress(row)


_CHILD_STARTED = [kind.type for kind in ChildStarted.__subclasses__()]
_SAME_RUN = RUNS.c.first_run == WORKFLOWS.c.first_run
_SELECT = select(WORKFLOWS, RUNS.c.namespace, RUNS.c.run, RUNS.c.blueprint).join(RUNS, _SAME_RUN)


def _read_progress(row: Row[Any]) -> WorkflowProgress:
    run = RecordedRun(row.namespace, row.run, row.first_run, row.blueprint)
    closed = None if row.closed is None else datetime.fromisoformat(row.closed)
    return WorkflowProgress(run, row.workflow, row.next_offset, row.temporal_run, closed, row.complete)

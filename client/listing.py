"""Lists of runs and of open questions, found by visibility and confirmed by the workflows that may wait.

The search attributes of a workflow name all that is open in it, and may name what was closed since.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from holdfast.blueprint.expressions.texts import fold
from holdfast.client.permissions import Permissions, read_access
from holdfast.client.question_reader import PATIENCE_SECONDS, QuestionReader
from holdfast.client.states import STATUSES, Listed, Waiting
from holdfast.client.tree import UnknownRun
from holdfast.client.visibility import LARGEST_PAGE, ListedExecution, get_page, list_executions
from holdfast.protocol.address import read_run
from holdfast.protocol.incoming import make_label
from holdfast.protocol.names import (
    BLUEPRINT_ATTRIBUTE,
    DEADLINE_ATTRIBUTE,
    EVENTS_ATTRIBUTE,
    PAUSED_MEMO,
    QUESTIONS_ATTRIBUTE,
    SINCE_ATTRIBUTE,
    WAITING_ATTRIBUTE,
)
from holdfast.protocol.people import MANY, list_awaited, listed_ids
from holdfast.protocol.questions import Question
from holdfast.protocol.values import make_digest
from holdfast.protocol.views import Status
from holdfast.runtime.errors import Ambiguous, BadCursor
from holdfast.runtime.namespace import quote

Row = TypeVar("Row")
PROBLEMS_ATTRIBUTE = "TemporalReportedProblems"
"""Set by the server while a workflow task fails, from the fifth time on."""
STUCK = f"{PROBLEMS_ATTRIBUTE} IS NOT NULL AND ExecutionStatus = 'Running'"
ALL_RUNS = f"{BLUEPRINT_ATTRIBUTE} IS NOT NULL AND ParentWorkflowId IS NULL AND ExecutionStatus != 'ContinuedAsNew'"
"""Runs, and authors' own workflows once they have asked; a workflow inside one of them has a parent.

A history that ended by continue-as-new is not listed: the one after it is.
"""
OURS = f"({BLUEPRINT_ATTRIBUTE} IS NOT NULL OR {WAITING_ATTRIBUTE} IS NOT NULL)"
"""Every workflow of a run, children too."""
OPEN = f"{OURS} AND ExecutionStatus = 'Running'"
CHUNK = 50
"""Rows that are looked at together."""
MOST_BEHIND = 1_000
"""Rows behind which a page ends that is not full: whoever wants more goes on from there."""
SEAL_LENGTH = 8
"""Characters of a cursor that are the digest of its list and its place."""
_EXECUTION_STATUSES: dict[Status, str] = {
    "running": "'Running'",
    "waiting": "'Running'",
    "paused": "'Running'",
    "completed": "'Completed'",
    "failed": "'Failed', 'Terminated', 'TimedOut'",
    "cancelled": "'Canceled'",
}
"""Temporal's statuses of a run, as a query has them."""


async def listed_runs(reader: QuestionReader, blueprint: str | None, *, waiting: bool) -> list[Listed]:
    """Return the runs, newest first; see `RunLists.all`."""
    client = reader.tree.client
    waits = _join_names(await confirm_all(reader, [row async for row in waiting_workflows(client)], PATIENCE_SECONDS))
    stuck = {read_run(execution.id) async for execution in list_executions(client, STUCK)}
    rows = [_row(execution, waits, stuck) async for execution in list_executions(client, _filter_blueprint(blueprint))]
    return [row for row in rows if row.waiting_for or not waiting]


def _row(execution: ListedExecution, waits: dict[str, set[str]], stuck: Container[str]) -> Listed:
    status = _status(execution, execution.id in waits)
    assignees = sorted(waits.get(execution.id, ())) if status in ("waiting", "paused") else []
    name = execution.read_word(BLUEPRINT_ATTRIBUTE) or ""
    is_stuck = execution.id in stuck
    return Listed(execution.id, name, status, execution.start_time, execution.close_time, assignees, is_stuck)


def _status(execution: ListedExecution, has_questions: bool) -> Status:
    """Return the status of a run as far as visibility has it."""
    if execution.status in STATUSES:
        return STATUSES[execution.status]
    if _is_paused(execution):
        return "paused"
    return "waiting" if has_questions else "running"


def _is_paused(execution: ListedExecution) -> bool:
    return execution.has_memo(PAUSED_MEMO)


@dataclass(frozen=True)
class RunsFilter:
    """The runs to list. Visibility evaluates all of it but whether a run waits or is paused."""

    blueprint: str | None = None
    status: Status | None = None
    permissions: Permissions | None = None
    """Those of who looks; None: they may see all."""
    beginning: str = ""
    """Only runs whose ids begin with it."""

    @property
    def query(self) -> str:
        """Return the query in the language of Temporal's visibility."""
        conditions = [_filter_blueprint(self.blueprint)]
        if self.beginning:
            conditions.append(f"WorkflowId STARTS_WITH '{quote(self.beginning)}'")
        if self.permissions is not None and (seen := self.permissions.condition()) is not None:
            conditions.append(seen)
        if self.status is not None:
            conditions.append(f"ExecutionStatus IN ({_EXECUTION_STATUSES[self.status]})")
        return " AND ".join(conditions)

    @property
    def is_whole(self) -> bool:
        """True if visibility evaluates all of it."""
        limited = self.permissions is not None and self.permissions.rules.enforced
        return not limited and self.status not in ("running", "waiting", "paused")

    async def select_fitting(
        self, reader: QuestionReader, chunk: Sequence[ListedExecution]
    ) -> list[tuple[int, Listed]]:
        """Return the runs of a part of visibility's list that fit, each with its index there."""
        asking = [
            execution
            for execution in chunk
            if execution.status not in STATUSES and (self.status != "paused" or _is_paused(execution))
        ]
        waits, stuck = await _read_standing(reader, asking)
        rows = [
            (index, _row(execution, waits, stuck))
            for index, execution in enumerate(chunk)
            if await self._shows(execution)
        ]
        return [(index, row) for index, row in rows if self.status in (None, row.status)]

    async def _shows(self, execution: ListedExecution) -> bool:
        return self.permissions is None or self.permissions.may("see", await read_access(execution))


class _ListFilter(Protocol[Row]):
    """The rows of a list: what visibility finds by `query`, and of that what fits."""

    @property
    def query(self) -> str:
        """Return the query in the language of Temporal's visibility."""

    @property
    def is_whole(self) -> bool:
        """True if visibility evaluates all of it."""

    async def select_fitting(self, reader: QuestionReader, chunk: Sequence[ListedExecution]) -> list[tuple[int, Row]]:
        """Return the rows of a part of visibility's list that fit, each with its index there."""


async def read_page(
    reader: QuestionReader, wanted: _ListFilter[Row], size: int, *, page: int = 1, cursor: str | None = None
) -> tuple[list[Row], str | None]:
    """Return a page of a list, newest first, and the cursor of the next one.

    Args:
        reader: Reads what workflows wait for.
        wanted: Which rows.
        size: The rows of a page.
        page: The page, from 1; all before it are read.
        cursor: In place of `page`, what an earlier page gave; nothing is read again.

    Returns:
        The rows, fewer than `size` at the end and where they are very rare, and a cursor; None after the last page.

    Raises:
        BadCursor: The cursor is none of this list.
    """
    place = None if cursor is None else _read_cursor(cursor, wanted)
    if cursor is None and page > 1:
        place = await _place_behind(reader, wanted, (page - 1) * size)
        if place is None:
            return [], None
    rows, after = await _rows_behind(reader, wanted, place, size)
    return rows, None if after is None else make_cursor(after, wanted)


async def _rows_behind(
    reader: QuestionReader, wanted: _ListFilter[Row], place: bytes | None, size: int
) -> tuple[list[Row], bytes | None]:
    """Return the rows behind a place in visibility's list, and the place behind them; None if no row comes after."""
    rows: list[Row] = []
    client, part, looked_at = reader.tree.client, 0, 0
    while len(rows) < size:
        if looked_at >= size + MOST_BEHIND:
            return rows, place
        part = _choose_part(size - len(rows), part)
        chunk, after = await _part(client, wanted.query, place, part)
        looked_at += len(chunk)
        fitting = await wanted.select_fitting(reader, chunk)
        taken = fitting[: size - len(rows)]
        rows += [row for _, row in taken]
        if len(taken) < len(fitting):
            # Visibility names places only behind what it gives: it is asked for so much of this part once more.
            return rows, (await _part(client, wanted.query, place, taken[-1][0] + 1))[1]
        if after is None:
            return rows, None
        place = after
    return rows, place if await _any_behind(reader, wanted, place) else None


def _choose_part(missing: int, before: int) -> int:
    """Return how many rows to look at for the missing ones: each may cost a query, and where few fit, more are read."""
    return min(CHUNK, max(missing, 2 * before))


async def _any_behind(reader: QuestionReader, wanted: _ListFilter[Row], place: bytes | None) -> bool:
    """Return whether a row comes behind a place; after very many that do not fit one may."""
    part, looked_at = 0, 0
    while place is not None:
        part = _choose_part(1, part)
        chunk, place = await _part(reader.tree.client, wanted.query, place, part)
        looked_at += len(chunk)
        if looked_at >= MOST_BEHIND or (chunk if wanted.is_whole else await wanted.select_fitting(reader, chunk)):
            return True
    return False


async def _place_behind(reader: QuestionReader, wanted: _ListFilter[Row], count: int) -> bytes | None:
    """Return the place behind the first so many rows, all of which are read; None if there are no more."""
    if not wanted.is_whole:
        return (await _rows_behind(reader, wanted, None, count))[1]
    place: bytes | None = None
    while count > 0:
        chunk, place = await _part(reader.tree.client, wanted.query, place, min(count, LARGEST_PAGE))
        count -= len(chunk)
        if place is None:  # the next page would be the first one again
            return None
    return place


async def _part(
    client: Client, query: str, place: bytes | None, size: int
) -> tuple[Sequence[ListedExecution], bytes | None]:
    """Return a part of a list of visibility's, and the place behind it. Raises `BadCursor` for a place of none."""
    try:
        return await get_page(client, query, size, place or b"")
    except RPCError as error:
        if place is None or error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        raise BadCursor from None


async def _read_standing(
    reader: QuestionReader, runs: Sequence[ListedExecution]
) -> tuple[dict[str, set[str]], set[str]]:
    """Return whom each of some open runs waits for, without those that wait for nobody, and which are stuck."""
    told = [*runs, *await _list_telling_children(reader.tree.client, runs)]
    stuck = {read_run(execution.id) for execution in told if execution.read_words(PROBLEMS_ATTRIBUTE)}
    rows = [row for execution in told if (row := _read_waiting(execution)) is not None]
    return _join_names(await confirm_all(reader, rows, PATIENCE_SECONDS)), stuck


async def _list_telling_children(client: Client, runs: Sequence[ListedExecution]) -> list[ListedExecution]:
    """Return the workflows in some runs that wait for a person or are stuck, as visibility has them.

    They are found by the outermost workflow above them, which an SQL database looks up; it goes through all workflows
    to compare the beginnings of their ids.
    """
    if not runs:
        return []
    roots = ", ".join(f"'{quote(root)}'" for root in dict.fromkeys(run.root for run in runs))
    told = f"{WAITING_ATTRIBUTE} IS NOT NULL OR {PROBLEMS_ATTRIBUTE} IS NOT NULL"
    wanted = (
        f"({told}) AND ExecutionStatus = 'Running' AND ParentWorkflowId IS NOT NULL AND RootWorkflowId IN ({roots})"
    )
    inside = tuple(f"{run.id}/" for run in runs)
    return [execution async for execution in list_executions(client, wanted) if execution.id.startswith(inside)]


def _join_names(rows: Iterable[Waiting]) -> dict[str, set[str]]:
    """Return whom runs wait for, by run."""
    names: dict[str, set[str]] = {}
    for row in rows:
        names.setdefault(row.run, set()).update(row.waiting_for)
    return names


async def running_runs(client: Client, blueprint: str | None) -> list[str]:
    """Return the ids of the runs that have not ended."""
    wanted = f"{_filter_blueprint(blueprint)} AND ExecutionStatus = 'Running'"
    return [execution.id async for execution in list_executions(client, wanted)]


async def runs_beginning(client: Client, prefix: str, limit: int) -> list[str]:
    """Return the ids of the newest runs that begin with `prefix`, at most so many."""
    wanted = f"WorkflowId STARTS_WITH '{quote(prefix)}' AND {ALL_RUNS}"
    return [execution.id async for execution in list_executions(client, wanted if prefix else ALL_RUNS, limit)]


async def only_match(client: Client, prefix: str) -> str:
    """Return the id of the only run whose id starts with `prefix`. Raises `UnknownRun` or `Ambiguous`."""
    matches = sorted(set(await runs_beginning(client, prefix, 20)))
    if not matches:
        raise UnknownRun(prefix)
    if len(matches) > 1:
        raise Ambiguous(f"{prefix!r} could be any of {', '.join(matches)}; type more of it")
    return matches[0]


@dataclass(frozen=True)
class WaitingFilter:
    """The workflows with open questions to list. Visibility finds those that may fit, and each of them confirms it."""

    names: Sequence[str] = ()
    """Only those that wait for one of these: users, groups, `anyone`, `many` (more than a search attribute holds)."""
    blueprint: str | None = None
    """Only those of runs of the blueprint with this name."""
    since: datetime | None = None
    """Only those with a question that was asked at this time or before."""
    deadline: datetime | None = None
    """Only those with a question whose deadline is at this time or before."""
    fits: Callable[[Question], bool] | None = field(default=None, compare=False)
    """Of their questions only those for which it returns true."""
    text: str = ""
    """Of their questions only those that have it in what a list shows of them; upper and lower case are alike."""
    question: str | None = None
    """Only those that may ask the question of this id: that have it, or more than are listed."""
    permissions: Permissions | None = None
    """Those of who looks; None: they may see all."""
    select: Callable[[Waiting], Awaitable[Waiting | None]] | None = field(default=None, compare=False)
    """Returns a confirmed row with the questions that the list is for; None for one that it has nothing of."""
    patience: float | None = field(default=None, compare=False)
    """Seconds after which a workflow that does not answer has no worker; None: as long as a query takes."""

    @property
    def query(self) -> str:
        """Return the query in the language of Temporal's visibility."""
        conditions = [f"{WAITING_ATTRIBUTE} IS NOT NULL", "ExecutionStatus = 'Running'"]
        if self.names:
            listed = ", ".join(f"'{quote(name)}'" for name in self.names)
            conditions.append(f"{WAITING_ATTRIBUTE} IN ({listed})")
        if self.permissions is not None:
            asked = sorted(self.permissions.person.names) + [MANY]
            conditions += filter(None, [self.permissions.condition(asked)])
        if self.blueprint is not None:
            conditions.append(f"{BLUEPRINT_ATTRIBUTE} = '{quote(self.blueprint)}'")
        if self.since is not None:
            conditions.append(f"{SINCE_ATTRIBUTE} <= '{_stamp(self.since)}'")
        if self.deadline is not None:
            conditions.append(f"{DEADLINE_ATTRIBUTE} <= '{_stamp(self.deadline)}'")
        if self.question is not None:
            conditions.append(f"{QUESTIONS_ATTRIBUTE} IN ('{quote(self.question)}', '{MANY}')")
        return " AND ".join(conditions)

    @property
    def is_whole(self) -> bool:
        """False: visibility does not know what was closed."""
        return False

    async def select_fitting(
        self, reader: QuestionReader, chunk: Sequence[ListedExecution]
    ) -> list[tuple[int, Waiting]]:
        """Return the rows of a part of visibility's list that fit, each with its index there."""
        rows = await asyncio.gather(*(self._confirm(reader, execution) for execution in chunk))
        return [(index, row) for index, row in enumerate(rows) if row is not None]

    async def _confirm(self, reader: QuestionReader, execution: ListedExecution) -> Waiting | None:
        listed = _read_waiting(execution)
        row = None if listed is None else await confirm(reader, listed, self.patience)
        if row is None or not self._fits(row):
            return None
        return row if self.select is None else await self.select(row)

    def finds(self, question: Question, blueprint: str) -> bool:
        """Return whether the text is in a question: its message, place, run, label, people, or the blueprint's name."""
        shown = [question.message, question.address, question.run, blueprint, question.label or "", *question.assignees]
        return fold(self.text) in fold("\n".join(shown))

    def _fits(self, row: Waiting) -> bool:
        return (
            (not self.names or not {*self.names}.isdisjoint(row.waiting_for))
            and (self.since is None or row.since <= self.since)
            and (self.deadline is None or (row.deadline is not None and row.deadline <= self.deadline))
            and (self.question is None or not {self.question, MANY}.isdisjoint(row.questions))
        )


async def confirm(reader: QuestionReader, row: Waiting, patience: float | None = None) -> Waiting | None:
    """Return a row as its workflow has it now; None if it waits for nobody any more.

    Where no worker can be asked, it is returned as visibility has it.
    """
    questions = await reader.read(row.owner, patience, row.task_queue)
    if questions is None:
        return row
    if not questions:
        return None
    return replace(
        row,
        waiting_for=list_awaited(question.people for question in questions),
        since=min(question.asked_at for question in questions),
        questions=listed_ids([question.id for question in questions]),
        deadline=min((question.deadline for question in questions if question.deadline), default=None),
        open=questions,
    )


async def confirm_all(reader: QuestionReader, rows: Iterable[Waiting], patience: float | None = None) -> list[Waiting]:
    """Return rows as their workflows have them now, without those that wait for nobody any more."""
    return [row for row in await asyncio.gather(*(confirm(reader, row, patience) for row in rows)) if row is not None]


async def waiting_workflows(
    client: Client, limit: int | None = None, wanted: WaitingFilter | None = None
) -> AsyncIterator[Waiting]:
    """Yield the workflows with open questions as visibility has them, newest first: some were closed since."""
    query = (wanted or WaitingFilter()).query
    async for execution in list_executions(client, query, limit):
        if (row := _read_waiting(execution)) is not None:
            yield row


def _read_waiting(execution: ListedExecution) -> Waiting | None:
    if not (waiting_for := execution.read_words(WAITING_ATTRIBUTE)):
        return None
    return Waiting(
        run=read_run(execution.id),
        owner=execution.id,
        waiting_for=waiting_for,
        since=execution.read_time(SINCE_ATTRIBUTE) or execution.start_time,
        questions=execution.read_words(QUESTIONS_ATTRIBUTE),
        deadline=execution.read_time(DEADLINE_ATTRIBUTE),
        blueprint=execution.read_word(BLUEPRINT_ATTRIBUTE) or "",
        task_queue=execution.info.task_queue,
    )


def make_cursor(place: bytes, wanted: _ListFilter[Row]) -> str:
    """Return the text by which a program goes on from a place in a list; it is good for this list alone."""
    text = urlsafe_b64encode(place).decode().rstrip("=")
    return f"{_seal(text, wanted)}{text}"


def _read_cursor(cursor: str, wanted: _ListFilter[Row]) -> bytes:
    """Return the place that a cursor names. Raises `BadCursor` for one of another list or one that was changed.

    Temporal's server takes a place that it cannot read for trouble of its own, and its client repeats the request.
    """
    text = cursor[SEAL_LENGTH:]
    if not text or cursor[:SEAL_LENGTH] != _seal(text, wanted):
        raise BadCursor
    try:
        return b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise BadCursor from None


def _seal(text: str, wanted: _ListFilter[Row]) -> str:
    """Return the digest of a list and a place in it, without times: "an hour ago" is another time on each page."""
    searched = ""
    if isinstance(wanted, WaitingFilter):
        wanted, searched = replace(wanted, since=None, deadline=None), wanted.text
    return make_digest(type(wanted).__name__, wanted.query, searched, text)[:SEAL_LENGTH]


def open_runs(client: Client) -> AsyncIterator[ListedExecution]:
    """Return every run that has not ended."""
    return list_executions(client, f"{ALL_RUNS} AND ExecutionStatus = 'Running'")


def open_workflows(client: Client) -> AsyncIterator[ListedExecution]:
    """Return every workflow that has not ended, of all runs."""
    return list_executions(client, OPEN)


async def runs_waiting_for(reader: QuestionReader, name: str, key: str) -> list[str]:
    """Return the ids of the runs with a step that waits for this event; of one that nobody can be asked, that may."""
    wanted = f"{EVENTS_ATTRIBUTE} IN ('{quote(make_label(name, key))}', '{MANY}') AND ExecutionStatus = 'Running'"
    workflows = [execution.id async for execution in list_executions(reader.tree.client, wanted)]
    awaits = await asyncio.gather(*(reader.read_events(workflow) for workflow in workflows))
    waiting = [
        read_run(workflow)
        for workflow, events in zip(workflows, awaits, strict=True)
        if events is None or any(event.asked.awaits == (name, key) for event in events)
    ]
    return list(dict.fromkeys(waiting))


def _filter_blueprint(blueprint: str | None) -> str:
    return ALL_RUNS if blueprint is None else f"{ALL_RUNS} AND {BLUEPRINT_ATTRIBUTE} = '{quote(blueprint)}'"


def _stamp(time: datetime) -> str:
    """Return a time as visibility reads it, rounded up to milliseconds; one without a zone is local."""
    # SQLite keeps milliseconds: a question that was asked at exactly this time would not be found. It compares texts:
    # its own have three digits, while the server cuts zeros off those of a query, and ".120" is not "<= .12".
    up = time.astimezone(UTC) + timedelta(microseconds=999)
    if up.microsecond // 1000 % 10 == 0:
        up += timedelta(milliseconds=1)
    return up.isoformat(timespec="milliseconds")

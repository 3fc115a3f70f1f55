"""The store of the record: appends entries to the chains of their runs, and reads them. Recorder and doors write to it.

Its functions block; `asyncio.to_thread` takes them off the loop. One transaction writes at a time: it holds the counter
of entries, so that their numbers are without gaps and in the order of writing, which a feed needs.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Row, Select, and_, delete, func, insert, inspect, select, update
from sqlalchemy.exc import DatabaseError

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.events import LoopIteration, RunStarted
from holdfast.runtime.encryption import KeyRing
from holdfast.runtime.errors import RecordError
from holdfast.server.record.blueprints import blueprint_entry, drop_unused, keep_document, read_document
from holdfast.server.record.database import begin_write, make_engine, truncate_log
from holdfast.server.record.entries import (
    ASKED,
    BLUEPRINT,
    CHANGED,
    ENDED,
    ERASED,
    Recorded,
    RecordedRun,
    RecordEntry,
    compute_chain_start,
    compute_content_digest,
    compute_entry_hash,
)
from holdfast.server.record.migrations import is_newest, migrate
from holdfast.server.record.tables import COUNTERS, ENTRIES, MARKS, OUTBOX, RUNS, seal_engine

READ_AT_ONCE = 5_000
"""Rows that one query fetches."""
SALT_BYTES = 16


class RecordStore:
    """The database of a record.

    Args:
        engine: Its engine; see `open_store`.
        place: Its place, for messages.
    """

    def __init__(self, engine: Engine, place: str) -> None:
        self.engine, self.place = engine, place

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()

    def append(self, run: RecordedRun, entries: Sequence[RecordEntry]) -> int:
        """Append entries to the chain of a run, and return how many are new: each key is recorded once.

        Entries of a workflow with offsets are expected in their order. Nothing is added to a run that was erased.
        """
        if not entries:
            return 0
        with begin_write(self.engine) as connection:
            return _append(connection, run, entries)

    def keep_blueprint(self, run: RecordedRun, document: JSONObject, at: datetime) -> int:
        """Add the blueprint that a run was started with, once; return the number of new entries."""
        with begin_write(self.engine) as connection:
            added = _append(connection, run, [blueprint_entry(run, document, at)])
            if added:
                keep_document(connection, document)
            return added

    def has_blueprint(self, run: RecordedRun) -> bool:
        """Return whether the blueprint of a run is recorded."""
        return next(self.entries(first_run=run.first_run, types=[BLUEPRINT], limit=1), None) is not None

    def blueprint(self, run: RecordedRun) -> JSONObject | None:
        """Return the blueprint that a run was started with, as JSON; None if the record does not have it."""
        with self.engine.connect() as connection:
            return read_document(connection, run)

    def enter(self, run: RecordedRun) -> None:
        """Add a run that has no entries yet; one that is there stays as it is."""
        with begin_write(self.engine) as connection:
            lock_counter(connection)
            _Chain(connection, run, 0)

    def entries(
        self,
        *,
        after: int = 0,
        first_run: str | None = None,
        question: str | None = None,
        types: Sequence[str] = (),
        limit: int | None = None,
    ) -> Iterator[Recorded]:
        """Yield entries in the order of writing.

        Args:
            after: Only entries with greater numbers.
            first_run: Only those of this run (see `RecordedRun`).
            question: Only those of the question of this id.
            types: Only those of these types.
            limit: At most so many.
        """
        query = _select_entries().where(ENTRIES.c.id > after).order_by(ENTRIES.c.id).limit(limit)
        if first_run is not None:
            query = query.where(ENTRIES.c.first_run == first_run)
        if question is not None:
            query = query.where(ENTRIES.c.question == question)
        if types:
            query = query.where(ENTRIES.c.type.in_(types))
        with self.engine.connect() as connection:
            for rows in connection.execution_options(yield_per=READ_AT_ONCE).execute(query).partitions():
                yield from map(_read_entry, rows)

    def last(self) -> int:
        """Return the number of the last entry; 0 if there is none."""
        with self.engine.connect() as connection:
            return int(connection.execute(select(func.coalesce(func.max(ENTRIES.c.id), 0))).scalar_one())

    def run(self, namespace: str, run: str) -> RecordedRun | None:
        """Return the latest recorded run of this id; None if there is none."""
        return next(iter(self.runs(namespace, run)), None)

    def runs(self, namespace: str, run: str) -> list[RecordedRun]:
        """Return the recorded runs of this id, the latest first: a reset begins one, and ids may be used again."""
        entries = select(func.max(ENTRIES.c.id)).where(ENTRIES.c.first_run == RUNS.c.first_run).scalar_subquery()
        query = select(RUNS).where(RUNS.c.namespace == namespace, RUNS.c.run == run).order_by(entries.desc())
        with self.engine.connect() as connection:
            rows = connection.execute(query).all()
        return [RecordedRun(row.namespace, row.run, row.first_run, row.blueprint) for row in rows]

    def is_erased(self, run: RecordedRun) -> bool:
        """Return whether the contents of a run were erased."""
        with self.engine.connect() as connection:
            return _is_erased(connection, run)

    def count(self, namespace: str, run: str, type_: str) -> int:
        """Return the number of entries of a type in the runs of this id."""
        ours = and_(RUNS.c.namespace == namespace, RUNS.c.run == run, ENTRIES.c.type == type_)
        joined = ENTRIES.join(RUNS, RUNS.c.first_run == ENTRIES.c.first_run)
        with self.engine.connect() as connection:
            return int(connection.execute(select(func.count()).select_from(joined).where(ours)).scalar_one())

    def asked_in(self, namespace: str, question: str) -> tuple[str, str] | None:
        """Return the run and the workflow of the question of this id; None if it is not recorded."""
        if not question.isalnum():  # no id is like that, and PostgreSQL takes no text with a zero byte
            return None
        of_it = and_(RUNS.c.namespace == namespace, ENTRIES.c.question == question, ENTRIES.c.offset.is_not(None))
        query = select(RUNS.c.run, ENTRIES.c.workflow).join(RUNS, RUNS.c.first_run == ENTRIES.c.first_run).where(of_it)
        with self.engine.connect() as connection:
            row = connection.execute(query.order_by(ENTRIES.c.id.desc()).limit(1)).first()
        return None if row is None else (row.run, row.workflow)

    def read_shown_digests(self, run: RecordedRun, questions: Sequence[str]) -> dict[str, str]:
        """Return the digest of the form in which each of these questions was recorded last, by question."""
        of_run = and_(ENTRIES.c.first_run == run.first_run, ENTRIES.c.question.in_(questions))
        query = select(ENTRIES.c.question, ENTRIES.c.content).where(of_run, ENTRIES.c.type.in_((ASKED, CHANGED)))
        with self.engine.connect() as connection:
            rows = connection.execute(query.order_by(ENTRIES.c.id)).all()
        questions_by_id = {
            row.question: json.loads(row.content).get("question") for row in rows if row.content is not None
        }
        return {id_: question["digest"] for id_, question in questions_by_id.items() if question is not None}

    def runs_like(self, namespace: str, prefix: str, limit: int) -> list[str]:
        """Return the ids of recorded runs that begin so."""
        ours = and_(RUNS.c.namespace == namespace, RUNS.c.run.startswith(prefix, autoescape=True))
        with self.engine.connect() as connection:
            return list(connection.execute(select(RUNS.c.run).where(ours).distinct().limit(limit)).scalars())

    def read_events(
        self, run: RecordedRun, workflow: str, start: int, last_iterations: int | None = None
    ) -> list[Recorded]:
        """Return the events of a workflow from an offset on; with `last_iterations` those of so many at its end."""
        of_workflow = and_(ENTRIES.c.first_run == run.first_run, ENTRIES.c.workflow == workflow)
        with self.engine.connect() as connection:
            if last_iterations is not None:
                iterations = select(ENTRIES.c.offset).where(of_workflow, ENTRIES.c.type == LoopIteration.type)
                nth = iterations.order_by(ENTRIES.c.offset.desc()).offset(last_iterations - 1).limit(1)
                start = max(start, connection.execute(nth).scalar_one_or_none() or 0)
            query = _select_entries().where(of_workflow, ENTRIES.c.offset >= start).order_by(ENTRIES.c.offset)
            return [_read_entry(row) for row in connection.execute(query)]

    def read_iterations(
        self, run: RecordedRun, workflow: str, first: int, before: int, *, is_whole: bool
    ) -> list[Recorded] | None:
        """Return the events of a loop's workflow from its n-th iteration up to another one; None if it has not so many.

        Args:
            run: The run.
            workflow: The workflow of the loop.
            first: The first iteration, from 1.
            before: The iteration to end before.
            is_whole: True if the loop has ended and all of it is recorded: then it may end before that iteration.
        """
        of_workflow = and_(ENTRIES.c.first_run == run.first_run, ENTRIES.c.workflow == workflow)
        begun = select(ENTRIES.c.offset).where(of_workflow, ENTRIES.c.type == LoopIteration.type)
        with self.engine.connect() as connection:
            start, end = (
                connection.execute(begun.order_by(ENTRIES.c.offset).offset(n - 1).limit(1)).scalar_one_or_none()
                for n in (first, before)
            )
            if start is None or (end is None and not is_whole):
                return None
            query = _select_entries().where(of_workflow, ENTRIES.c.offset >= start).order_by(ENTRIES.c.offset)
            return [
                _read_entry(row)
                for row in connection.execute(query if end is None else query.where(ENTRIES.c.offset < end))
            ]

    def find_start(self, run: RecordedRun) -> datetime | None:
        """Return the time of the first recorded event of a run."""
        of_run = and_(
            ENTRIES.c.first_run == run.first_run, ENTRIES.c.workflow == run.run, ENTRIES.c.offset.is_not(None)
        )
        query = select(ENTRIES.c.at).where(of_run).order_by(ENTRIES.c.offset).limit(1)
        with self.engine.connect() as connection:
            at = connection.execute(query).scalar_one_or_none()
        return None if at is None else datetime.fromisoformat(at)

    def read_start(self, run: RecordedRun) -> Recorded | None:
        """Return the entry of the start of a run; None if there is none."""
        started = self.entries(first_run=run.first_run, types=[RunStarted.type])
        return next((entry for entry in started if entry.workflow == run.run), None)

    def read_end(self, run: RecordedRun) -> Recorded | None:
        """Return the entry of the end of a run; None if there is none."""
        return next(self.entries(first_run=run.first_run, types=[ENDED], limit=1), None)

    def mark(self, name: str) -> str | None:
        """Return the value of a mark, such as the place up to which a feed was read; None if it was never set."""
        with self.engine.connect() as connection:
            return connection.execute(select(MARKS.c.value).where(MARKS.c.name == name)).scalar_one_or_none()

    def set_mark(self, name: str, value: str) -> None:
        """Set a mark."""
        with begin_write(self.engine) as connection:
            set_mark(connection, name, value)

    def check_writable(self) -> None:
        """Write something and remove it again. Raises `RecordError`, as where the disk is full."""
        try:
            self.set_mark(_PROBE, "-" * _PROBE_BYTES)
            with begin_write(self.engine) as connection:
                connection.execute(delete(MARKS).where(MARKS.c.name == _PROBE))
        except DatabaseError as error:
            raise RecordError(f"the record at {self.place} cannot be written: {error.orig}") from None

    def erase(self, runs: Sequence[RecordedRun], at: datetime, by: str | None) -> int:
        """Erase the contents of the entries of runs for ever and return their number. The chains stay whole.

        An entry of each notes the erasure and who asked for it; it is never erased itself. What Temporal still has of
        the runs is not touched.
        """
        chains = [run.first_run for run in runs]
        with begin_write(self.engine) as connection:
            lock_counter(connection)
            with_content = and_(
                ENTRIES.c.first_run.in_(chains), ENTRIES.c.type != ERASED, ENTRIES.c.content.is_not(None)
            )
            count = connection.execute(update(ENTRIES).where(with_content).values(content=None, salt=None)).rowcount
            drop_unused(connection)
            unsent = and_(OUTBOX.c.first_run.in_(chains), OUTBOX.c.body.is_not(None))
            dropped = {"state": "dropped", "reason": "the run was erased", "done": at.timestamp(), "body": None}
            connection.execute(update(OUTBOX).where(unsent).values(**dropped))
            for run in runs:
                key = f"erased:{secrets.token_hex(8)}"
                _extend(connection, run, [RecordEntry(run.run, key, ERASED, "", at, {"data": {"by": by}})])
        truncate_log(self.engine)
        return count


def open_store(place: str, ring: KeyRing | None = None) -> RecordStore:
    """Open the record at a place (see `Config.record_place`) and bring its tables to this version.

    Raises `RecordError`.
    """
    engine = make_engine(place)
    seal_engine(engine, ring or KeyRing())
    try:
        with begin_write(engine) as connection:
            if connection.dialect.name == "postgresql":  # two servers may start at the same moment
                # The number is "hold" in ASCII: any would do that no other program takes in this database.
                connection.execute(select(func.pg_advisory_xact_lock(0x686F6C64)))
            migrate(connection)
    except DatabaseError as error:
        raise _make_open_error(engine, error.orig) from None
    except RecordError as error:
        raise _make_open_error(engine, error) from None
    return RecordStore(engine, show_place(engine))


def _make_open_error(engine: Engine, reason: object) -> RecordError:
    return RecordError(f"the record at {show_place(engine)} cannot be opened: {reason}")


def read_store(place: str, ring: KeyRing | None = None) -> RecordStore | None:
    """Open the record at a place to read it; None if nothing has been recorded there. Raises `RecordError`.

    A record of an earlier version is brought to this one: its tables would lack what is read.
    """
    if place.startswith("sqlite:") and not Path(place.removeprefix("sqlite:")).exists():
        return None
    engine = make_engine(place)
    seal_engine(engine, ring or KeyRing())
    try:
        with engine.connect() as connection:
            if not inspect(connection).has_table(ENTRIES.name):
                return None
            newest = is_newest(connection)
    except DatabaseError as error:
        raise _make_open_error(engine, error.orig) from None
    except RecordError as error:
        raise _make_open_error(engine, error) from None
    return RecordStore(engine, show_place(engine)) if newest else open_store(place, ring)


def show_place(engine: Engine) -> str:
    """Return the place of a database as messages show it, without a password."""
    return engine.url.render_as_string(hide_password=True)


def lock_counter(connection: Connection) -> int:
    """Return the number of the last entry, and keep other writers out until the transaction ends."""
    query = select(COUNTERS.c.value).where(COUNTERS.c.name == "entries").with_for_update()
    return int(connection.execute(query).scalar_one())


_PROBE = "probe"
_PROBE_BYTES = 64 * 1024
"""More than what SQLite has left in a file that it has made large enough before."""


def set_mark(connection: Connection, name: str, value: str) -> None:
    """Set a mark in a transaction of the caller's."""
    changed = connection.execute(update(MARKS).where(MARKS.c.name == name).values(value=value))
    if changed.rowcount == 0:
        connection.execute(insert(MARKS).values(name=name, value=value))


def _append(connection: Connection, run: RecordedRun, entries: Sequence[RecordEntry]) -> int:
    """Append entries in a transaction of the caller's; see `RecordStore.append`."""
    lock_counter(connection)
    return 0 if _is_erased(connection, run) else _extend(connection, run, entries)


def _is_erased(connection: Connection, run: RecordedRun) -> bool:
    of_run = and_(ENTRIES.c.first_run == run.first_run, ENTRIES.c.type == ERASED)
    return connection.execute(select(ENTRIES.c.id).where(of_run).limit(1)).first() is not None


def _extend(connection: Connection, run: RecordedRun, entries: Sequence[RecordEntry]) -> int:
    """Append entries, also to a run that was erased; see `_append`."""
    number = lock_counter(connection)
    chain = _Chain(connection, run, number)
    chain.extend(entries)
    connection.execute(update(COUNTERS).where(COUNTERS.c.name == "entries").values(value=chain.number))
    return chain.number - number


class _Chain:
    """The chain of one run, while entries are appended to it."""

    def __init__(self, connection: Connection, run: RecordedRun, number: int) -> None:
        self._connection, self._run = connection, run
        self.number = number
        self._length, self._head = self._place()

    def _place(self) -> tuple[int, str]:
        """Return length and head; adds the run where it is new."""
        query = select(RUNS.c.entries, RUNS.c.head, RUNS.c.blueprint).where(RUNS.c.first_run == self._run.first_run)
        row = self._connection.execute(query).first()
        if row is None:
            head = compute_chain_start(self._run.namespace, self._run.run)
            new = {**asdict(self._run), "entries": 0, "head": head, "sealed": 0}
            self._connection.execute(insert(RUNS).values(**new))
            return 0, head
        return row.entries, row.head

    def extend(self, entries: Sequence[RecordEntry]) -> None:
        stored = self._find_stored(entries)
        rows: list[dict[str, Any]] = []
        for entry in entries:
            if (entry.workflow, entry.key) not in stored:
                stored.add((entry.workflow, entry.key))
                rows.append(self._link(entry))
        if rows:
            self._connection.execute(insert(ENTRIES), rows)
        values: dict[str, Any] = {"entries": self._length, "head": self._head}
        if self._run.blueprint:
            values["blueprint"] = self._run.blueprint
        self._connection.execute(update(RUNS).where(RUNS.c.first_run == self._run.first_run).values(**values))

    def _find_stored(self, entries: Sequence[RecordEntry]) -> set[tuple[str, str]]:
        """Return which of these keys are recorded."""
        stored: set[tuple[str, str]] = set()
        # SQLite before 3.32 takes no more than 999 variables in a statement.
        for start in range(0, len(entries), 500):
            keys = [entry.key for entry in entries[start : start + 500]]
            of_run = and_(ENTRIES.c.first_run == self._run.first_run, ENTRIES.c.key.in_(keys))
            stored |= {(row.workflow, row.key) for row in self._connection.execute(_select_keys().where(of_run))}
        return stored

    def _link(self, entry: RecordEntry) -> dict[str, Any]:
        """Return the row of an entry at the end of the chain."""
        salt = secrets.token_hex(SALT_BYTES)
        content = json.dumps(entry.content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        digest = compute_content_digest(salt, content)
        self._head = compute_entry_hash(self._head, self._run.first_run, self._length, entry.metadata, digest)
        self.number += 1
        self._length += 1
        own = {"digest": digest, "hash": self._head, "salt": salt, "content": content}
        return {
            **entry.metadata,
            **own,
            "id": self.number,
            "first_run": self._run.first_run,
            "n": self._length - 1,
        }


def _select_keys() -> Select[Any]:
    return select(ENTRIES.c.workflow, ENTRIES.c.key)


def _select_entries() -> Select[Any]:
    run = (RUNS.c.namespace, RUNS.c.run, RUNS.c.blueprint)
    return select(ENTRIES, *run).join(RUNS, RUNS.c.first_run == ENTRIES.c.first_run)


def _read_entry(row: Row[Any]) -> Recorded:
    values = row._mapping
    own = {name: values[name] for name in _COPIED}
    content = None if row.content is None else json.loads(row.content)
    return Recorded(**own, at=datetime.fromisoformat(row.at), content=content)


_COPIED = (
    *("id", "namespace", "run", "first_run", "blueprint", "n", "workflow", "type", "address", "offset", "question"),
)

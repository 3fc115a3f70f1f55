"""Verification finds what was changed, removed or put in behind the record's back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import OperationalError

from holdfast.runtime.encryption import KeyRing
from holdfast.server.record.checkpoints import RecordCheckpoint, SigningKey, is_due, seal
from holdfast.server.record.database import begin_write
from holdfast.server.record.entries import ENDED, ERASED, RecordedRun, RecordEntry
from holdfast.server.record.store import RecordStore, open_store
from holdfast.server.record.tables import BLUEPRINTS, CHECKPOINTS, COUNTERS, ENTRIES, RUNS
from holdfast.server.record.verification import RecordCheck, verify
from tests.record.ground import KEY, NOON, RUN, entry, filled

OTHER = replace(RUN, run="trip-2", first_run="first-2")


@pytest.fixture
def sealed(store: RecordStore) -> RecordStore:
    """A record of two runs of five entries, with a checkpoint."""
    filled(store, 5)
    filled(store, 5, OTHER)
    seal(store, KEY, NOON)
    return store


def tamper(store: RecordStore, *statements: Any) -> None:
    with begin_write(store.engine) as connection:
        for statement in statements:
            connection.execute(statement)


def checked(store: RecordStore, exported: RecordCheckpoint | None = None) -> RecordCheck:
    return verify(store, [KEY.public], exported)


def faults(store: RecordStore, exported: RecordCheckpoint | None = None) -> set[tuple[str, str]]:
    return {(fault.fault, fault.run) for fault in checked(store, exported).faults}


def at(n: int) -> Any:
    return (ENTRIES.c.first_run == RUN.first_run) & (ENTRIES.c.n == n)


def test_a_record_as_it_was_written_is_whole(sealed: RecordStore) -> None:
    assert checked(sealed) == RecordCheck([], entries=10, checkpoints=1, uncovered=0)


def test_entries_after_the_last_checkpoint_are_counted(sealed: RecordStore) -> None:
    sealed.append(RUN, [entry(5), entry(6)])
    assert checked(sealed) == RecordCheck([], entries=12, checkpoints=1, uncovered=2)


def test_a_changed_content_is_found(sealed: RecordStore) -> None:
    tamper(sealed, update(ENTRIES).where(at(2)).values(content='{"data":{"by":"user:eve"}}'))
    assert faults(sealed) == {("changed", "trip-1")}


def test_a_changed_time_is_found(sealed: RecordStore) -> None:
    tamper(sealed, update(ENTRIES).where(at(2)).values(at="2020-01-01T00:00:00.000000+00:00"))
    assert faults(sealed) == {("changed", "trip-1")}


def test_a_content_that_was_removed_without_an_erasure_is_found(sealed: RecordStore) -> None:
    tamper(sealed, update(ENTRIES).where(at(2)).values(content=None, salt=None))
    assert faults(sealed) == {("changed", "trip-1")}


def test_a_missing_entry_is_found(sealed: RecordStore) -> None:
    tamper(sealed, delete(ENTRIES).where(at(2)))
    assert ("missing", "trip-1") in faults(sealed)


def test_missing_last_entries_are_found(sealed: RecordStore) -> None:
    tamper(sealed, delete(ENTRIES).where(at(4)), update(RUNS).values(entries=4))
    assert faults(sealed) == {
        ("truncated", "trip-1"),
    }


def test_a_missing_run_is_found(sealed: RecordStore) -> None:
    tamper(
        sealed,
        delete(ENTRIES).where(ENTRIES.c.first_run == OTHER.first_run),
        delete(RUNS).where(RUNS.c.first_run == OTHER.first_run),
    )
    assert faults(sealed) == {("missing_run", "of first run first-2")}


def test_an_entry_that_was_put_in_is_found(sealed: RecordStore) -> None:
    with sealed.engine.connect() as connection:
        row = dict(connection.execute(select(ENTRIES).where(at(4))).one()._mapping)
    tamper(
        sealed,
        delete(ENTRIES).where(ENTRIES.c.id == 10),
        insert(ENTRIES).values(**row | {"id": 10, "n": 5, "key": "x"}),
    )
    assert ("inserted", "trip-1") in faults(sealed)


def test_a_chain_that_was_written_anew_is_found(sealed: RecordStore) -> None:
    """With every hash made again, only the signature of the checkpoint tells."""
    tamper(
        sealed,
        delete(ENTRIES).where(ENTRIES.c.first_run == RUN.first_run),
        delete(RUNS).where(RUNS.c.first_run == RUN.first_run),
    )
    sealed.append(RUN, [entry(n, by="user:eve") for n in range(5)])
    assert ("changed", "trip-1") in faults(sealed)


def test_a_changed_checkpoint_is_found(sealed: RecordStore) -> None:
    tamper(sealed, update(CHECKPOINTS).values(body=CHECKPOINTS.c.body + " "))
    assert faults(sealed) == {("checkpoint", "")}


def test_a_missing_checkpoint_is_found(sealed: RecordStore) -> None:
    sealed.append(RUN, [entry(5)])
    seal(sealed, KEY, NOON)
    tamper(sealed, delete(CHECKPOINTS).where(CHECKPOINTS.c.number == 1))
    assert ("checkpoint", "") in faults(sealed)


def test_a_checkpoint_of_another_key_is_not_believed(store: RecordStore) -> None:
    filled(store, 1)
    seal(store, SigningKey(Ed25519PrivateKey.generate()), NOON)
    assert faults(store) == {("checkpoint", "")}


def test_a_record_that_was_cut_back_is_found_by_an_exported_checkpoint(sealed: RecordStore) -> None:
    with sealed.engine.connect() as connection:
        head = connection.execute(select(RUNS.c.head).where(RUNS.c.first_run == RUN.first_run)).scalar_one()
    sealed.append(RUN, [entry(5)])
    exported = seal(sealed, KEY, NOON)
    tamper(
        sealed,
        delete(CHECKPOINTS).where(CHECKPOINTS.c.number == 2),
        delete(ENTRIES).where(at(5)),
        update(RUNS).where(RUNS.c.first_run == RUN.first_run).values(entries=5, head=head, sealed=5),
        update(COUNTERS).values(value=10),
    )
    assert (faults(sealed), faults(sealed, exported)) == (set(), {("truncated", "")})


def test_an_erasure_that_nobody_noted_is_found(sealed: RecordStore) -> None:
    tamper(sealed, update(ENTRIES).where(ENTRIES.c.first_run == RUN.first_run).values(content=None, salt=None))
    assert faults(sealed) == {("changed", "trip-1")}


def test_who_erased_a_run_can_neither_be_erased_nor_removed(sealed: RecordStore) -> None:
    sealed.erase([RUN], NOON, "user:ana")
    sealed.erase([RUN], NOON, "user:bob")
    by = [recorded.data.get("by") for recorded in sealed.entries(first_run=RUN.first_run, types=[ERASED])]
    assert (by, faults(sealed)) == (["user:ana", "user:bob"], set())
    tamper(sealed, update(ENTRIES).where(at(5)).values(content=None, salt=None))
    assert faults(sealed) == {("changed", "trip-1")}


def test_names_of_runs_that_were_swapped_are_found(sealed: RecordStore) -> None:
    def named(run: RecordedRun, name: str) -> Any:
        return update(RUNS).where(RUNS.c.first_run == run.first_run).values(run=name)

    tamper(sealed, named(RUN, "trip-2"), named(OTHER, "trip-1"))
    assert faults(sealed) == {("changed", "trip-1"), ("changed", "trip-2")}


@pytest.mark.parametrize("name", ["holiday", ""])
def test_another_blueprint_of_a_run_is_found(sealed: RecordStore, name: str) -> None:
    tamper(sealed, update(RUNS).where(RUNS.c.first_run == RUN.first_run).values(blueprint=name))
    assert faults(sealed) == {("changed", "trip-1")}


def ended(store: RecordStore) -> None:
    """Record the end of a run, and cover it with a checkpoint."""
    store.append(RUN, [RecordEntry(RUN.run, "ended", ENDED, "", NOON, {"data": {"status": "completed"}})])
    seal(store, KEY, NOON)


def test_a_last_checkpoint_that_is_missing_is_found(sealed: RecordStore) -> None:
    ended(sealed)
    tamper(sealed, delete(CHECKPOINTS).where(CHECKPOINTS.c.number == 2))
    assert faults(sealed) == {("checkpoint", "trip-1")}


def test_the_end_of_a_run_without_any_checkpoint_is_a_fault(sealed: RecordStore) -> None:
    ended(sealed)
    tamper(sealed, delete(CHECKPOINTS), update(RUNS).values(sealed=0))
    assert faults(sealed) == {("unsealed", "trip-1")}


def test_an_erased_run_is_whole_and_its_content_is_in_no_file(sealed: RecordStore, tmp_path) -> None:
    sealed.append(RUN, [entry(5, text="the-private-word")])
    assert sealed.erase([RUN], NOON, "user:ana") == 6
    assert faults(sealed) == set()
    assert not any(b"the-private-word" in file.read_bytes() for file in tmp_path.glob("record.sqlite*"))


def test_nothing_is_erased_that_cannot_be_noted(sealed: RecordStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OperationalError("INSERT", {}, OSError("no space left"))

    with monkeypatch.context() as patch, pytest.raises(OperationalError):
        patch.setattr("holdfast.server.record.store._extend", fail)
        sealed.erase([RUN], NOON, "user:ana")
    assert all(recorded.content is not None for recorded in sealed.entries())
    assert faults(sealed) == set()


def test_a_checkpoint_is_due_after_a_number_of_entries(store: RecordStore) -> None:
    seal_now = filled(store, 1) and seal(store, KEY, NOON)
    filled(store, 1_000)
    assert seal_now and not is_due(store, NOON)
    filled(store, 1_001)
    assert is_due(store, NOON)


def test_nothing_new_needs_no_checkpoint(sealed: RecordStore) -> None:
    assert seal(sealed, KEY, NOON) is None


DAMAGES = ("X'ff00'", "cast(X'ff' as text)", "'enc:é'", "'{}'")
"""What somebody may write into a cell: no text, no UTF-8, nothing that can be decrypted or is JSON, other JSON."""


def test_whatever_is_in_a_cell_is_a_fault_and_hides_no_other(tmp_path: Path) -> None:
    store = open_store(f"sqlite:{tmp_path / 'record.sqlite'}", KeyRing({"k1": "k" * 32}))
    store.keep_blueprint(RUN, {"name": "trip"}, NOON)
    store.append(RUN, [entry(n) for n in range(1, 4)])
    filled(store, 2, OTHER)
    seal(store, KEY, NOON)
    assert faults(store) == set()
    tamper(store, update(ENTRIES).where(ENTRIES.c.first_run == OTHER.first_run, ENTRIES.c.n == 1).values(at="2020"))
    cells = [(column, f"first_run = '{RUN.first_run}' and n = 2") for column in ENTRIES.c if column.name != "id"]
    cells += [(column, f"first_run = '{RUN.first_run}'") for column in RUNS.c]
    cells += [(column, "true") for column in (*BLUEPRINTS.c, CHECKPOINTS.c.body, CHECKPOINTS.c.signature)]
    with closing(sqlite3.connect(tmp_path / "record.sqlite", isolation_level=None)) as database:
        database.execute("PRAGMA synchronous=OFF")
        for column, where in cells:
            table = column.table.name
            [[row, before]] = database.execute(f'select rowid, "{column.name}" from {table} where {where}')
            set_it = f'update {table} set "{column.name}" = {{}} where rowid = {row}'
            for damage in DAMAGES:
                database.execute(set_it.format(damage))
                found = checked(store).faults
                assert ("changed", OTHER.run, 1) in [(fault.fault, fault.run, fault.n) for fault in found]
                assert len(found) > 1, f"{column} = {damage}"
                database.execute(set_it.format("?"), (before,))
    assert [fault.n for fault in checked(store).faults] == [1]

"""Verify the record: every chain entry by entry, and all of them against the signed checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from types import SimpleNamespace
from typing import Literal

from sqlalchemy import Connection, select

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.address import parts
from holdfast.server.record.blueprints import PREFIX, find_whole_documents
from holdfast.server.record.checkpoints import CheckpointContent, RecordCheckpoint, is_signed
from holdfast.server.record.entries import (
    BLUEPRINT,
    ENDED,
    ERASED,
    METADATA_NAMES,
    compute_chain_start,
    compute_content_digest,
    compute_entry_hash,
)
from holdfast.server.record.store import READ_AT_ONCE, RecordStore
from holdfast.server.record.stored_cells import list_stored, open_cells, read_as_stored
from holdfast.server.record.tables import CHECKPOINTS, ENTRIES, RUNS

Fault = Literal["changed", "unreadable", "missing", "inserted", "truncated", "missing_run", "checkpoint", "unsealed"]
CONTENT_NAMES = {"salt", "content"}
"""The columns of an entry that its hash covers by their digest."""


@dataclass(frozen=True)
class FaultInRecord:
    """Something in the record that is not as it was written."""

    fault: Fault
    run: str
    """Id of the run; empty for a checkpoint."""
    n: int | None
    """The place in the chain of its run, from 0, or the number of the checkpoint; None if it cannot be told."""
    message: str

    def to_json(self) -> JSONObject:
        """Return the JSON object of `history --verify --json`."""
        return dict(vars(self))


@dataclass
class RecordCheck:
    """The result: the record is whole if there are no faults."""

    faults: list[FaultInRecord] = field(default_factory=list)
    entries: int = 0
    checkpoints: int = 0
    uncovered: int = 0
    """Entries that are newer than the last checkpoint: their chains are whole, and no signature covers them yet."""

    def to_json(self) -> JSONObject:
        """Return the JSON object of `history --verify --json`."""
        return {**vars(self), "ok": not self.faults, "faults": [fault.to_json() for fault in self.faults]}


@dataclass
class _Sealed:
    """The content of the checkpoints: the length and the head of each chain, and the number of the last entry."""

    heads: dict[str, tuple[int, str]] = field(default_factory=dict)
    last: int = 0


def verify(store: RecordStore, trusted: Sequence[str], exported: RecordCheckpoint | None = None) -> RecordCheck:
    """Check the whole record.

    Args:
        store: The record.
        trusted: The public keys of checkpoints that are trusted.
        exported: A checkpoint that was kept elsewhere: the record must still hold it.
    """
    result = RecordCheck()
    with read_as_stored(store.engine) as connection:
        sealed = _check_checkpoints(connection, trusted, exported, result)
        documents = find_whole_documents(connection)
        unseen = dict(sealed.heads)
        for first_run, rows in groupby(_read_rows(connection), key=lambda row: row.first_run):
            unseen.pop(first_run, None)
            _check_chain(list(rows), sealed, documents, result)
        names = {row.first_run: row.run for row in connection.execute(select(RUNS.c.first_run, RUNS.c.run))}
    for first_run, (length, _) in unseen.items():
        name = _name_run(names.get(first_run), first_run)
        text = f"run {name}: all of its {length} entries are missing"
        result.faults.append(FaultInRecord("missing_run", name, None, text))
    return result


def _check_checkpoints(
    connection: Connection, trusted: Sequence[str], exported: RecordCheckpoint | None, result: RecordCheck
) -> _Sealed:
    sealed, before, is_exported_there = _Sealed(), "", exported is None
    for number, row in enumerate(connection.execute(select(CHECKPOINTS).order_by(CHECKPOINTS.c.number)), 1):
        cells, damage = open_cells(row, CHECKPOINTS, connection)
        checkpoint = RecordCheckpoint(cells["body"] or "", cells["signature"] or "")
        try:
            content = checkpoint.content
        except ValueError:
            damage.setdefault("body", "its body is none of a checkpoint")
        else:
            if not damage and (reason := _why_bad(checkpoint, content, row.number, number, before, trusted)):
                damage["signature"] = reason
            sealed.heads |= content.heads
            sealed.last = content.last
        for reason in damage.values():
            result.faults.append(FaultInRecord("checkpoint", "", number, f"checkpoint {number}: {reason}"))
        before = checkpoint.hash
        is_exported_there |= checkpoint == exported
        result.checkpoints += 1
    if exported is not None and not is_exported_there:
        number = exported.content.number
        text = f"checkpoint {number}, which was exported, is not in the record any more"
        result.faults.append(FaultInRecord("truncated", "", number, text))
    return sealed


def _why_bad(
    checkpoint: RecordCheckpoint,
    content: CheckpointContent,
    stored_number: int,
    number: int,
    before: str,
    trusted: Sequence[str],
) -> str:
    """Return the reason not to believe a checkpoint; empty if there is none."""
    if (content.number, stored_number, content.before) != (number, number, before):
        return "it does not follow the one before: one was changed, removed or inserted"
    if content.key not in trusted:
        return f"signed with the key {content.key}, which is not trusted; add it to [record] public_keys if it is"
    if not is_signed(content.key, checkpoint.body, checkpoint.signature):
        return "its signature is not valid"
    return ""


def _check_chain(rows: list[SimpleNamespace], sealed: _Sealed, documents: Collection[str], result: RecordCheck) -> None:
    """Check the entries of one run."""
    first = rows[0]
    name = _name_run(first.run, first.first_run)
    for reason in first.damage_of_run.values():
        text = f"run {name}: in the list of runs {reason}"
        result.faults.append(FaultInRecord("unreadable", name, None, text))
    length, head = sealed.heads.get(first.first_run, (0, ""))
    before, expected = compute_chain_start(first.namespace or "", first.run or ""), 0
    placed = [row for row in rows if row.n is not None]
    for row in rows:
        if row.n is None:
            text = f"run {name}, entry of number {row.id} in the record: {row.damage['n']}"
            result.faults.append(FaultInRecord("unreadable", name, None, text))
    erased = max((row.n for row in placed if row.type == ERASED), default=0)
    for row in placed:
        is_erased = row.n < erased and row.type != ERASED
        for fault, message in _find_faults(row, before, expected, documents, is_erased=is_erased):
            result.faults.append(FaultInRecord(fault, name, row.n, f"run {name}, entry {row.n}: {message}"))
        before, expected = row.hash or "", row.n + 1
        if row.n == length - 1 and row.hash != head:
            text = f"run {name}: its first {length} entries are not those that a checkpoint signed"
            result.faults.append(FaultInRecord("changed", name, row.n, text))
        if row.n >= length and row.id <= sealed.last:
            text = f"run {name}, entry {row.n}: inserted after the entries that a checkpoint signed"
            result.faults.append(FaultInRecord("inserted", name, row.n, text))
        result.uncovered += row.n >= length
    result.entries += len(rows)
    wanted = max(length, first.entries or 0)
    if expected < wanted:
        text = f"run {name}: the last {wanted - expected} of its {wanted} entries are missing"
        result.faults.append(FaultInRecord("truncated", name, expected, text))
    elif first.head not in (None, before):
        text = f"run {name}: the list of runs gives another hash for its last entry: the next one would not follow it"
        result.faults.append(FaultInRecord("changed", name, expected - 1, text))
    result.faults += _find_unsealed(first, placed, name, length)


def _name_run(name: object, first_run: object) -> str:
    if isinstance(name, str) and name:
        return name
    return f"of first run {first_run}" if isinstance(first_run, str) else "that cannot be told"


def _find_unsealed(
    first: SimpleNamespace, rows: Sequence[SimpleNamespace], name: str, length: int
) -> Iterator[FaultInRecord]:
    """Yield what a checkpoint should cover and none does: what was covered before, or the end of the run."""
    if (first.sealed or 0) > length:
        text = f"run {name}: a checkpoint covered its first {first.sealed} entries, and it is missing or unreadable"
        yield FaultInRecord("checkpoint", name, length, text)
        return
    ends = (row.n for row in rows if row.type == ENDED and row.n >= length)
    for n in ends:
        text = (
            f"run {name}, entry {n}: no checkpoint covers the end of the run. The recorder writes one a moment after "
            "it: if this is still so after a minute, checkpoints were removed, or no recorder runs (holdfast serve)"
        )
        yield FaultInRecord("unsealed", name, n, text)


def _find_faults(
    row: SimpleNamespace, before: str, expected: int, documents: Collection[str], *, is_erased: bool
) -> Iterator[tuple[Fault, str]]:
    """Yield what is wrong with one entry, seen from the one before.

    Args:
        row: The entry, with the run that it belongs to.
        before: The hash of the one before.
        expected: Its place in the chain.
        documents: The digests of the blueprints that are as they were recorded.
        is_erased: True if a later entry of the chain says that its content was erased.
    """
    for reason in row.damage.values():
        yield "unreadable", reason
    if row.n > expected:
        yield "missing", f"{row.n - expected} before it are missing"
        return
    if not row.damage.keys() <= CONTENT_NAMES:
        return
    metadata = {name: getattr(row, name) for name in METADATA_NAMES}
    if compute_entry_hash(before, row.first_run, row.n, metadata, row.digest) != row.hash:
        what = "the one before it" if row.n else "the name of its run"
        yield "changed", f"it was changed, or {what} was"
    elif (
        row.workflow == row.run
        and row.offset is not None
        and row.blueprint is not None
        and parts(row.address)[0][1] != row.blueprint
    ):
        yield "changed", f"it was noted under another blueprint than {row.blueprint!r}, which the run is listed under"
    if row.damage:
        return
    if row.content is None:
        if not is_erased:
            yield "changed", "its content is gone, and no erasure is recorded"
    elif compute_content_digest(row.salt or "", row.content) != row.digest:
        yield "changed", "its content was changed"
    elif row.type == BLUEPRINT and row.key.removeprefix(PREFIX) not in documents:
        yield "changed", "the blueprint that it names was changed, or is gone"


def _read_rows(connection: Connection) -> Iterator[SimpleNamespace]:
    """Yield all entries by run and place, with what is stored of their run beside its chain."""
    of_run = [column.label(f"run_{column.name}") for column in RUNS.c]
    query = select(*list_stored(ENTRIES), *of_run).join(RUNS, RUNS.c.first_run == ENTRIES.c.first_run, isouter=True)
    ordered = query.order_by(ENTRIES.c.first_run, ENTRIES.c.n)
    for row in connection.execution_options(yield_per=READ_AT_ONCE).execute(ordered):
        values, damage = open_cells(row, ENTRIES, connection)
        run, damage_of_run = open_cells(row, RUNS, connection, "run_")
        if row.run_first_run is None:
            damage_of_run = {}  # no such run is listed
        yield SimpleNamespace(**run | values, damage=damage, damage_of_run=damage_of_run)

"""Verify the record: every chain entry by entry, and all of them against the signed checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from sqlalchemy import Row, select

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.address import parts
from holdfast.server.record.blueprints import find_changed_documents
from holdfast.server.record.checkpoints import RecordCheckpoint, is_signed, read_checkpoints
from holdfast.server.record.entries import (
    ENDED,
    ERASED,
    METADATA_NAMES,
    compute_chain_start,
    compute_content_digest,
    compute_entry_hash,
)
from holdfast.server.record.store import READ_AT_ONCE, RecordStore
from holdfast.server.record.tables import ENTRIES, RUNS

Fault = Literal["changed", "missing", "inserted", "truncated", "missing_run", "checkpoint", "unsealed"]


@dataclass(frozen=True)
class FaultInRecord:
    """Something in the record that is not as it was written."""

    fault: Fault
    run: str
    """Id of the run; empty for a checkpoint."""
    n: int | None
    """The place in the chain of its run, from 0, or the number of the checkpoint."""
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
    sealed = _check_checkpoints(read_checkpoints(store), trusted, exported, result)
    unseen = dict(sealed.heads)
    for first_run, rows in groupby(_read_rows(store), key=lambda row: row.first_run):
        unseen.pop(first_run, None)
        _check_chain(list(rows), sealed, result)
    _check_blueprints(store, result)
    names = _names(store)
    for first_run, (length, _) in unseen.items():
        name = names.get(first_run, f"of first run {first_run}")
        text = f"run {name}: all of its {length} entries are missing"
        result.faults.append(FaultInRecord("missing_run", name, None, text))
    return result


def _check_checkpoints(
    checkpoints: Sequence[RecordCheckpoint],
    trusted: Sequence[str],
    exported: RecordCheckpoint | None,
    result: RecordCheck,
) -> _Sealed:
    sealed, before = _Sealed(), ""
    for number, checkpoint in enumerate(checkpoints, 1):
        content = checkpoint.content
        if reason := _why_bad(checkpoint, number, before, trusted):
            result.faults.append(FaultInRecord("checkpoint", "", number, f"checkpoint {number}: {reason}"))
        sealed.heads |= {run: (length, head) for run, (length, head) in content["heads"].items()}
        sealed.last, before = content["last"], checkpoint.hash
    result.checkpoints = len(checkpoints)
    if exported is not None and exported not in checkpoints:
        number = exported.content["number"]
        text = f"checkpoint {number}, which was exported, is not in the record any more"
        result.faults.append(FaultInRecord("truncated", "", number, text))
    return sealed


def _why_bad(checkpoint: RecordCheckpoint, number: int, before: str, trusted: Sequence[str]) -> str:
    """Return the reason not to believe a checkpoint; empty if there is none."""
    content = checkpoint.content
    if content["number"] != number or content["before"] != before:
        return "it does not follow the one before: one was changed, removed or inserted"
    if content["key"] not in trusted:
        return f"signed with the key {content['key']}, which is not trusted; add it to [record] public_keys if it is"
    if not is_signed(content["key"], checkpoint.body, checkpoint.signature):
        return "its signature is not valid"
    return ""


def _check_blueprints(store: RecordStore, result: RecordCheck) -> None:
    """Check that each blueprint is the one that was recorded."""
    with store.engine.connect() as connection:
        for run, n in find_changed_documents(connection):
            text = f"run {run}, entry {n}: the blueprint that it names was changed, or is gone"
            result.faults.append(FaultInRecord("changed", run, n, text))


def _check_chain(rows: list[Row[Any]], sealed: _Sealed, result: RecordCheck) -> None:
    """Check the entries of one run."""
    first = rows[0]
    name = first.run or f"of first run {first.first_run}"
    length, head = sealed.heads.get(first.first_run, (0, ""))
    before, expected = compute_chain_start(first.namespace or "", first.run or ""), 0
    erased = max((row.n for row in rows if row.type == ERASED), default=0)
    for row in rows:
        for fault, message in _find_faults(row, before, expected, is_erased=row.n < erased and row.type != ERASED):
            result.faults.append(FaultInRecord(fault, name, row.n, f"run {name}, entry {row.n}: {message}"))
        before, expected = row.hash, row.n + 1
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
    result.faults += _find_unsealed(rows, name, length)


def _find_unsealed(rows: Sequence[Row[Any]], name: str, length: int) -> Iterator[FaultInRecord]:
    """Yield what a checkpoint should cover and none does: what was covered before, or the end of the run."""
    first = rows[0]
    if (first.sealed or 0) > length:
        text = f"run {name}: a checkpoint covered its first {first.sealed} entries, and it is missing"
        yield FaultInRecord("checkpoint", name, length, text)
        return
    ends = (row.n for row in rows if row.type == ENDED and row.n >= length)
    for n in ends:
        text = (
            f"run {name}, entry {n}: no checkpoint covers the end of the run. The recorder writes one a moment after "
            "it: if this is still so after a minute, checkpoints were removed, or no recorder runs (holdfast serve)"
        )
        yield FaultInRecord("unsealed", name, n, text)


def _find_faults(row: Row[Any], before: str, expected: int, *, is_erased: bool) -> Iterator[tuple[Fault, str]]:
    """Yield what is wrong with one entry, seen from the one before.

    Args:
        row: The entry, with the run that it belongs to.
        before: The hash of the one before.
        expected: Its place in the chain.
        is_erased: True if a later entry of the chain says that its content was erased.
    """
    if row.n > expected:
        yield "missing", f"{row.n - expected} before it are missing"
        return
    metadata = {name: row._mapping[name] for name in METADATA_NAMES}
    if compute_entry_hash(before, row.first_run, row.n, metadata, row.digest) != row.hash:
        what = "the one before it" if row.n else "the name of its run"
        yield "changed", f"it was changed, or {what} was"
    if row.workflow == row.run and row.offset is not None and parts(row.address)[0][1] != row.blueprint:
        yield "changed", f"it was noted under another blueprint than {row.blueprint!r}, which the run is listed under"
    if row.content is None:
        if not is_erased:
            yield "changed", "its content is gone, and no erasure is recorded"
    elif compute_content_digest(row.salt or "", row.content) != row.digest:
        yield "changed", "its content was changed"


def _read_rows(store: RecordStore) -> Iterator[Row[Any]]:
    """Yield all entries by run and place, with what is stored of their run beside its chain."""
    run = (RUNS.c.namespace, RUNS.c.run, RUNS.c.blueprint, RUNS.c.entries, RUNS.c.sealed)
    query = select(ENTRIES, *run).join(RUNS, RUNS.c.first_run == ENTRIES.c.first_run, isouter=True)
    with store.engine.connect() as connection:
        ordered = query.order_by(ENTRIES.c.first_run, ENTRIES.c.n)
        for rows in connection.execution_options(yield_per=READ_AT_ONCE).execute(ordered).partitions():
            yield from rows


def _names(store: RecordStore) -> dict[str, str]:
    with store.engine.connect() as connection:
        return {row.first_run: row.run for row in connection.execute(select(RUNS.c.first_run, RUNS.c.run))}

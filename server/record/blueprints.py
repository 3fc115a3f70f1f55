"""The blueprints of recorded runs: a document is stored once, and each of its runs has an entry with its digest.

The digest stands in the key of that entry, which the chain of the run covers: a document that was changed is found.
"""

from __future__ import annotations

import json
from datetime import datetime

from sqlalchemy import Connection, delete, insert, inspect, select

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.values import make_digest
from holdfast.server.record.entries import BLUEPRINT, RecordedRun, RecordEntry
from holdfast.server.record.stored_cells import list_stored, open_cells
from holdfast.server.record.tables import BLUEPRINTS, ENTRIES

PREFIX = "blueprint:"


def blueprint_entry(run: RecordedRun, document: JSONObject, at: datetime) -> RecordEntry:
    """Return the entry that says which blueprint a run was started with."""
    digest = make_digest(document)
    return RecordEntry(run.run, f"{PREFIX}{digest}", BLUEPRINT, "", at, {"data": {"digest": digest}})


def keep_document(connection: Connection, document: JSONObject) -> None:
    """Store a document, unless it is there."""
    digest = make_digest(document)
    if connection.execute(select(BLUEPRINTS.c.digest).where(BLUEPRINTS.c.digest == digest)).first() is None:
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        connection.execute(insert(BLUEPRINTS).values(digest=digest, document=text))


def read_document(connection: Connection, run: RecordedRun) -> JSONObject | None:
    """Return the blueprint of a run; None if it was not recorded, is erased, or is not the one that was recorded."""
    if not _is_there(connection):
        return None
    digest = _find_digest(connection, run)
    query = select(BLUEPRINTS.c.document).where(BLUEPRINTS.c.digest == digest)
    text = None if digest is None else connection.execute(query).scalar_one_or_none()
    document: JSONObject | None = None if text is None else json.loads(text)
    return document if document is not None and make_digest(document) == digest else None


def _is_there(connection: Connection) -> bool:
    """Return whether the table is there: a record of an earlier version that is opened to be read is not migrated."""
    return inspect(connection).has_table(BLUEPRINTS.name)


def _find_digest(connection: Connection, run: RecordedRun) -> str | None:
    of_run = ENTRIES.c.first_run == run.first_run, ENTRIES.c.type == BLUEPRINT, ENTRIES.c.content.is_not(None)
    key = connection.execute(select(ENTRIES.c.key).where(*of_run).limit(1)).scalar_one_or_none()
    return None if key is None else key.removeprefix(PREFIX)


def drop_unused(connection: Connection) -> None:
    """Delete the documents whose runs are all erased."""
    if not _is_there(connection):
        return
    query = select(ENTRIES.c.key).where(ENTRIES.c.type == BLUEPRINT, ENTRIES.c.content.is_not(None))
    kept = {key.removeprefix(PREFIX) for key in connection.execute(query).scalars()}
    for digest in connection.execute(select(BLUEPRINTS.c.digest)).scalars().all():
        if digest not in kept:
            connection.execute(delete(BLUEPRINTS).where(BLUEPRINTS.c.digest == digest))


def find_whole_documents(connection: Connection) -> set[str]:
    """Return the digests of the documents that are as they were recorded."""
    if not _is_there(connection):
        return set()
    rows = (open_cells(row, BLUEPRINTS, connection)[0] for row in connection.execute(select(*list_stored(BLUEPRINTS))))
    return {row["digest"] for row in rows if row["digest"] and _is_whole(row["digest"], row["document"] or "")}


def _is_whole(digest: str, document: str) -> bool:
    try:
        return make_digest(json.loads(document)) == digest
    except (ValueError, RecursionError):
        return False

"""Engines for the record's database: a SQLite file, or PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url

WAIT_MS = 10_000
"""Milliseconds that a command waits for another process's transaction on a SQLite file."""
_WRITES = "holdfast_writes"


def engine_for(place: str) -> Engine:
    """Return the engine for `sqlite:PATH` or `postgresql://…`. A SQLite file is made if there is none."""
    if not place.startswith("sqlite:"):
        url = make_url(place).set(drivername="postgresql+psycopg")
        # A database that was restarted has closed the connections of the pool: each is tested before it is used.
        return create_engine(url, pool_pre_ping=True)
    path = Path(place.removeprefix("sqlite:"))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # It holds what people answered: for its owner alone, from the first moment.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    # The store blocks, so it is called in threads, of which any may get a connection of the pool.
    engine = create_engine(f"sqlite:///{path}", connect_args={"check_same_thread": False})
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _: object) -> None:
    # The driver's own BEGIN comes too late for a transaction that reads before it writes.
    connection.isolation_level = None
    for pragma in (f"busy_timeout={WAIT_MS}", "journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that writes; SQLite lets one at a time begin, so that none fails for another's sake."""
    with engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
        yield connection


def truncate_log(engine: Engine) -> None:
    """Empty SQLite's write-ahead log, which keeps what has been overwritten; nothing on PostgreSQL."""
    if engine.dialect.name != "sqlite":
        return
    connection = engine.raw_connection()
    try:
        connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()

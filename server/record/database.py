"""Engines for the record's database, a SQLite file or PostgreSQL, and its time, which all that share it agree on.

Leases and the outbox count by that time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Float, create_engine, event, make_url, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from holdfast.protocol.sqlite_log import turn_on_log

WAIT_MS = 10_000
"""Milliseconds that a command waits for another process's transaction on a SQLite file."""
_WRITES = "holdfast_writes"


def make_engine(place: str) -> Engine:
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
    connection.execute(f"PRAGMA busy_timeout={WAIT_MS}")
    turn_on_log(connection, WAIT_MS / 1000)
    for pragma in ("synchronous=NORMAL", "secure_delete=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def begin_write(engine: Engine) -> Iterator[Connection]:
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


class DatabaseTime(FunctionElement[float]):
    """The time of the database's machine, in seconds since 1970."""

    type = Float()
    inherit_cache = True


@compiles(DatabaseTime, "sqlite")
def _in_sqlite(*_: Any, **__: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(DatabaseTime, "postgresql")
def _in_postgres(*_: Any, **__: Any) -> str:
    return "extract(epoch from clock_timestamp())"


def database_time(connection: Connection) -> float:
    """Return the time of the database's machine, in seconds since 1970."""
    if connection.dialect.name == "sqlite":
        # The file is on this machine; the function of SQLite counts in milliseconds: two notices would be of one time.
        return time.time()
    return connection.execute(select(DatabaseTime())).scalar_one()

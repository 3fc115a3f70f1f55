"""The time of the record's database, which all processes that share it agree on. Leases and the outbox use it."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Connection, Float, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


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

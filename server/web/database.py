"""The tables of the web servers: sessions, API tokens, one-time links, in the database of the record.

All servers of a deployment share them, so that of several behind one address each knows whom another has let in.
"""

from __future__ import annotations

import hmac
import logging
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Connection, Engine, Row, Update
from sqlalchemy.exc import OperationalError

from holdfast.blueprint.json_values import JSON
from holdfast.runtime.config import Config
from holdfast.runtime.encryption import key_ring
from holdfast.server.record.engine import writing
from holdfast.server.record.store import RecordStore, open_store
from holdfast.server.web.keys import serve_key

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WebStore:
    """The rows of the web servers. Reading and writing block."""

    engine: Engine
    key: bytes
    """The key of the servers. A deployment with another key may use the same database: its rows do not count here."""

    def reading(self) -> AbstractContextManager[Connection]:
        """Open a transaction that reads."""
        return self.engine.connect()

    def writing(self) -> AbstractContextManager[Connection]:
        """Open a transaction that writes."""
        return writing(self.engine)

    def note_use(self, statement: Update) -> None:
        """Note that something was used, or leave it to the next use: no request fails because the database is busy."""
        try:
            with self.writing() as database:
                database.execute(statement)
        except OperationalError as error:
            log.info("a use was not noted: %s", type(error).__name__)

    def seal(self, *values: JSON) -> str:
        """Return what proves that a server with this key wrote these values."""
        return hmac.new(self.key, to_json(["web", *values]), sha256).hexdigest()

    def is_sealed(self, row: Row[Any], *names: str) -> bool:
        """Return whether a row is as a server with this key wrote it, by the values of these columns."""
        return hmac.compare_digest(self.seal(*(getattr(row, name) for name in names)), row.seal)


def open_web_store(config: Config, store: RecordStore | None = None) -> WebStore:
    """Return the tables of a configuration; they are made if they are missing. Raises `RecordError` or `ConfigError`.

    Args:
        config: The configuration: it names the key of the servers, and the database.
        store: The record, if it is open.
    """
    return WebStore((store or open_store(config.record_place(), key_ring(config))).engine, serve_key(config))

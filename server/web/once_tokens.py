"""One-time tokens that `serve` makes: in the database, so that every server of a deployment takes them."""

from __future__ import annotations

import hashlib
import secrets
import time

from sqlalchemy import delete, insert, select

from holdfast.server.record.tables import WEB_ONCE
from holdfast.server.web.database import WebStore
from holdfast.server.web.once import LIFE


class OnceTokens:
    """The one-time tokens in the database; those of commands are files, see `once`."""

    def __init__(self, store: WebStore) -> None:
        self._store = store

    def create(self, user: str) -> str:
        """Make a token that signs one browser in as this user, and return it."""
        token, now = secrets.token_urlsafe(32), time.time()
        values = {"digest": _digest(token), "user": user, "expires": now + LIFE}
        values["seal"] = self._store.seal(*values.values())
        with self._store.writing() as database:
            database.execute(delete(WEB_ONCE).where(WEB_ONCE.c.expires <= now))
            database.execute(insert(WEB_ONCE).values(values))
        return token

    def take(self, token: str) -> str | None:
        """Use up a token and return its user; None if it is unknown, used or too old."""
        ours = WEB_ONCE.c.digest == _digest(token)
        with self._store.reading() as database:
            row = database.execute(select(WEB_ONCE).where(ours)).one_or_none()
        if row is None or row.expires <= time.time() or not self._store.is_sealed(row, "digest", "user", "expires"):
            return None
        with self._store.writing() as database:  # of two requests one deletes it
            is_ours = database.execute(delete(WEB_ONCE).where(ours)).rowcount == 1
        return str(row.user) if is_ours else None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()

"""Sessions of browsers, kept by the server, so that they can be ended: by signing out, by disuse, by age."""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, insert, select, update

from holdfast.blueprint.json_values import JSON
from holdfast.client.answering import Sender
from holdfast.server.record.tables import WEB_SESSIONS
from holdfast.server.web.database import WebStore

OLDEST = 30 * 86400.0
"""Seconds after which a session ends however much it is used."""
COARSE = 300.0
"""Seconds by which the time of the last use may be behind: a write for each request would cost more than it tells."""
SEALED = ("id", "user", "groups", "proof", "only", "created", "expires")
"""The columns that nobody may change; a use and an end are noted in others."""


@dataclass(frozen=True)
class BrowserSession:
    """The session of one browser."""

    id: str
    """The digest of the cookie's value."""
    sender: Sender
    only: str | None = None
    """The only page that it may see, for a session that a link in a message began; None: all."""


class Sessions:
    """The sessions in the database.

    Args:
        store: The database.
        idle: Seconds after which an unused session ends.
    """

    def __init__(self, store: WebStore, idle: float) -> None:
        self._store, self._idle = store, idle

    def begin(self, sender: Sender, *, only: str | None = None, until: float | None = None) -> str:
        """Begin a session and return the value of its cookie; `until` is Unix time, by default the longest life."""
        cookie, now = secrets.token_urlsafe(32), time.time()
        values: dict[str, JSON] = {
            "id": _digest(cookie),
            "user": sender.user,
            "groups": list(sender.groups),
            "proof": sender.proof,
            "only": only,
            "created": now,
            "used": now,
            "expires": min(until or now + OLDEST, now + OLDEST),
        }
        values["seal"] = self._store.seal(*(values[name] for name in SEALED))
        with self._store.writing() as database:
            database.execute(delete(WEB_SESSIONS).where(WEB_SESSIONS.c.expires <= now))
            database.execute(insert(WEB_SESSIONS).values(values))
        return cookie

    def find(self, cookie: str) -> BrowserSession | None:
        """Return the session of a cookie and note its use; None if it is unknown or over."""
        now, id_ = time.time(), _digest(cookie)
        with self._store.reading() as database:
            row = database.execute(
                select(WEB_SESSIONS).where(WEB_SESSIONS.c.id == id_, ~self._is_over(now))
            ).one_or_none()
        if row is None or not self._store.is_sealed(row, *SEALED):
            return None
        if now - row.used > COARSE:
            self._store.note_use(update(WEB_SESSIONS).where(WEB_SESSIONS.c.id == id_).values(used=now))
        return BrowserSession(id_, Sender(row.user, tuple(row.groups), row.proof), row.only)

    def end(self, id: str) -> None:
        """End a session."""
        with self._store.writing() as database:
            database.execute(delete(WEB_SESSIONS).where(WEB_SESSIONS.c.id == id))

    def _is_over(self, now: float) -> ColumnElement[bool]:
        return (WEB_SESSIONS.c.expires <= now) | (WEB_SESSIONS.c.used <= now - self._idle)


def _digest(cookie: str) -> str:
    """Return the digest under which a session is kept: a copy of the database signs nobody in."""
    return hashlib.sha256(cookie.encode()).hexdigest()

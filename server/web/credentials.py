"""The sessions, API tokens and one-time tokens of the web servers, and the key that seals them: all in one database.

The gate checks them, `holdfast token` makes and lists them. They are in the database of the record, so that of several
servers behind one address each knows whom another has let in. A row holds digests, and a seal by the key of the
servers.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal

from pydantic_core import to_json
from sqlalchemy import ColumnElement, Connection, Engine, Row, Update, delete, insert, select, update
from sqlalchemy.exc import OperationalError

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.client.answering import Sender
from holdfast.runtime.config import Config
from holdfast.runtime.encryption import load_key_ring
from holdfast.runtime.own_files import own_key
from holdfast.server.record.database import begin_write
from holdfast.server.record.store import RecordStore, open_store
from holdfast.server.record.tables import WEB_ONCE, WEB_SESSIONS, WEB_TOKENS
from holdfast.server.web.addresses import ONCE_SECONDS

log = logging.getLogger(__name__)

WebScope = Literal["read", "answer", "steer", "metrics"]
ALL_WEB_SCOPES: frozenset[WebScope] = frozenset(("read", "answer", "steer"))
"""What somebody who has signed in may do, within `[access]`. `metrics` counts runs whoever may see them: for tokens."""
KEY_FILE = "serve.key"
LONGEST_SESSION = 30 * 86400.0
"""Seconds after which a session ends however much it is used."""
SESSION_USE_SECONDS = 300.0
"""Seconds by which the time of the last use may be behind: a write for each request would cost more than it tells."""
SEALED_OF_SESSION = ("id", "user", "groups", "proof", "only", "created", "expires")
"""The columns that nobody may change; a use and an end are noted in others."""
TOKEN_PREFIX = "hft_"
"""So that a token in a file or a log is known for what it is."""
TOKEN_USE_SECONDS = 3600.0
"""Seconds by which the time of the last use may be behind."""
SEALED_OF_TOKEN = ("id", "digest", "user", "groups", "scopes", "is_service", "created", "expires")
"""The columns that nobody may change; a use and a revocation are noted in others."""


def serve_key(config: Config) -> bytes:
    """Return the key; one in the state folder is made if it is missing. Raises `ConfigError`."""
    name = config.serve.key_env
    text = own_key(config.home / KEY_FILE) if name is None else config.variable("serve.key_env", name)
    return text.encode()


@dataclass(frozen=True)
class WebStore:
    """The rows of the web servers. Reading and writing block."""

    engine: Engine
    key: bytes
    """The key of the servers. A deployment with another key may use the same database: its rows do not count here."""

    def begin_read(self) -> AbstractContextManager[Connection]:
        """Open a transaction that reads."""
        return self.engine.connect()

    def begin_write(self) -> AbstractContextManager[Connection]:
        """Open a transaction that writes."""
        return begin_write(self.engine)

    def note_use(self, statement: Update) -> None:
        """Note that something was used, or leave it to the next use: no request fails because the database is busy."""
        try:
            with self.begin_write() as database:
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
    return WebStore((store or open_store(config.record_place(), load_key_ring(config))).engine, serve_key(config))


class OnceTokens:
    """The one-time tokens in the database; those of commands are files, see `once`."""

    def __init__(self, store: WebStore) -> None:
        self._store = store

    def create(self, user: str) -> str:
        """Make a token that signs one browser in as this user, and return it."""
        token, now = secrets.token_urlsafe(32), time.time()
        values = {"digest": _digest_token(token), "user": user, "expires": now + ONCE_SECONDS}
        values["seal"] = self._store.seal(*values.values())
        with self._store.begin_write() as database:
            database.execute(delete(WEB_ONCE).where(WEB_ONCE.c.expires <= now))
            database.execute(insert(WEB_ONCE).values(values))
        return token

    def take(self, token: str) -> str | None:
        """Use up a token and return its user; None if it is unknown, used or too old."""
        ours = WEB_ONCE.c.digest == _digest_token(token)
        with self._store.begin_read() as database:
            row = database.execute(select(WEB_ONCE).where(ours)).one_or_none()
        if row is None or row.expires <= time.time() or not self._store.is_sealed(row, "digest", "user", "expires"):
            return None
        with self._store.begin_write() as database:  # of two requests one deletes it
            is_ours = database.execute(delete(WEB_ONCE).where(ours)).rowcount == 1
        return str(row.user) if is_ours else None


def _digest_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


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
            "id": _digest_cookie(cookie),
            "user": sender.user,
            "groups": list(sender.groups),
            "proof": sender.proof,
            "only": only,
            "created": now,
            "used": now,
            "expires": min(until or now + LONGEST_SESSION, now + LONGEST_SESSION),
        }
        values["seal"] = self._store.seal(*(values[name] for name in SEALED_OF_SESSION))
        with self._store.begin_write() as database:
            database.execute(delete(WEB_SESSIONS).where(WEB_SESSIONS.c.expires <= now))
            database.execute(insert(WEB_SESSIONS).values(values))
        return cookie

    def find(self, cookie: str) -> BrowserSession | None:
        """Return the session of a cookie and note its use; None if it is unknown or over."""
        now, id_ = time.time(), _digest_cookie(cookie)
        with self._store.begin_read() as database:
            row = database.execute(
                select(WEB_SESSIONS).where(WEB_SESSIONS.c.id == id_, ~self._is_over(now))
            ).one_or_none()
        if row is None or not self._store.is_sealed(row, *SEALED_OF_SESSION):
            return None
        if now - row.used > SESSION_USE_SECONDS:
            self._store.note_use(update(WEB_SESSIONS).where(WEB_SESSIONS.c.id == id_).values(used=now))
        return BrowserSession(id_, Sender(row.user, tuple(row.groups), row.proof), row.only)

    def end(self, id: str) -> None:
        """End a session."""
        with self._store.begin_write() as database:
            database.execute(delete(WEB_SESSIONS).where(WEB_SESSIONS.c.id == id))

    def _is_over(self, now: float) -> ColumnElement[bool]:
        return (WEB_SESSIONS.c.expires <= now) | (WEB_SESSIONS.c.used <= now - self._idle)


def _digest_cookie(cookie: str) -> str:
    """Return the digest under which a session is kept: a copy of the database signs nobody in."""
    return hashlib.sha256(cookie.encode()).hexdigest()


@dataclass(frozen=True)
class ApiToken:
    """An API token as it is stored: everything but its secret."""

    id: str
    user: str
    """Such as `user:ana`."""
    groups: tuple[str, ...]
    """Such as `group:editors`; the groups of the configuration if it names none."""
    scopes: frozenset[WebScope]
    is_service: bool
    """True for a program, which may not consent."""
    created: float
    """Unix seconds, as all times here."""
    expires: float | None
    """None: never."""
    used: float | None = None
    """The time of the last use, to the hour."""
    revoked: float | None = None

    @property
    def status(self) -> str:
        """Return `valid`, `expired` or `revoked`."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= time.time() else "valid"

    def to_json(self) -> JSONObject:
        """Return the token as `holdfast token list --json` prints it."""
        return {
            "id": self.id,
            "user": self.user,
            "groups": list(self.groups),
            "scopes": sorted(self.scopes),
            "kind": "service" if self.is_service else "person",
            "status": self.status,
            "created": _format_time(self.created),
            "expires": _format_time(self.expires),
            "used": _format_time(self.used),
        }


class ApiTokens:
    """The API tokens in the database."""

    def __init__(self, store: WebStore) -> None:
        self._store = store

    def create(
        self,
        user: str,
        *,
        groups: Collection[str] = (),
        scopes: Collection[WebScope],
        life: float | None,
        is_service: bool = False,
    ) -> tuple[ApiToken, str]:
        """Make a token, valid for `life` seconds (None: until it is revoked); return it and its secret text.

        The text is kept nowhere.
        """
        now, id_, secret = time.time(), secrets.token_hex(6), secrets.token_urlsafe(32)
        expires = None if life is None else now + life
        token = ApiToken(id_, user, tuple(groups), frozenset(scopes), is_service, now, expires)
        values = vars(token) | {"groups": list(groups), "scopes": sorted(scopes), "digest": _digest_secret(id_, secret)}
        values["seal"] = self._store.seal(*(values[name] for name in SEALED_OF_TOKEN))
        with self._store.begin_write() as database:
            database.execute(insert(WEB_TOKENS).values(values))
        return token, f"{TOKEN_PREFIX}{id_}_{secret}"

    def check(self, text: str) -> ApiToken | None:
        """Return the token of a secret text and note its use; None if it is unknown, expired or revoked."""
        id_, _, secret = text.removeprefix(TOKEN_PREFIX).partition("_")
        with self._store.begin_read() as database:
            row = database.execute(select(WEB_TOKENS).where(WEB_TOKENS.c.id == id_)).one_or_none()
        # An unknown id takes as long as a wrong secret.
        right = hmac.compare_digest(row.digest if row else "", _digest_secret(id_, secret))
        if (
            row is None
            or not right
            or not self._store.is_sealed(row, *SEALED_OF_TOKEN)
            or _read_token(row).status != "valid"
        ):
            return None
        if time.time() - (row.used or 0) > TOKEN_USE_SECONDS:
            self._store.note_use(update(WEB_TOKENS).where(WEB_TOKENS.c.id == id_).values(used=time.time()))
        return _read_token(row)

    def list(self) -> list[ApiToken]:
        """Return every token that was made, oldest first."""
        with self._store.begin_read() as database:
            rows = database.execute(select(WEB_TOKENS).order_by(WEB_TOKENS.c.created)).all()
        return [_read_token(row) for row in rows if self._store.is_sealed(row, *SEALED_OF_TOKEN)]

    def revoke(self, id: str) -> bool:
        """Make a token invalid, now and for ever; return False if there is no such token."""
        of_it = WEB_TOKENS.c.id == id
        with self._store.begin_write() as database:
            row = database.execute(select(WEB_TOKENS).where(of_it)).one_or_none()
            if row is None or not self._store.is_sealed(row, *SEALED_OF_TOKEN):
                return False
            still_valid = update(WEB_TOKENS).where(of_it, WEB_TOKENS.c.revoked.is_(None))
            database.execute(still_valid.values(revoked=time.time()))
        return True


def _read_token(row: Row[tuple[object, ...]]) -> ApiToken:
    fields = {name: getattr(row, name) for name in ApiToken.__dataclass_fields__}
    return ApiToken(**fields | {"groups": tuple(row.groups), "scopes": frozenset(row.scopes)})


def _digest_secret(id_: str, secret: str) -> str:
    """Return the digest of a secret of 256 random bits, which no list of passwords holds; the id is its salt."""
    return hashlib.sha256(f"{id_}:{secret}".encode()).hexdigest()


def _format_time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

"""API tokens: made, listed and revoked by `holdfast token`, checked by the gate; kept as digests."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Row, insert, select, update

from holdfast.blueprint.json_values import JSONObject
from holdfast.server.record.tables import WEB_TOKENS
from holdfast.server.web.database import WebStore
from holdfast.server.web.identity import WebScope

PREFIX = "hft_"
"""So that a token in a file or a log is known for what it is."""
COARSE = 3600.0
"""Seconds by which the time of the last use may be behind."""
SEALED = ("id", "digest", "user", "groups", "scopes", "is_service", "created", "expires")
"""The columns that nobody may change; a use and a revocation are noted in others."""


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
            "created": _moment(self.created),
            "expires": _moment(self.expires),
            "used": _moment(self.used),
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
        values = vars(token) | {"groups": list(groups), "scopes": sorted(scopes), "digest": _digest(id_, secret)}
        values["seal"] = self._store.seal(*(values[name] for name in SEALED))
        with self._store.writing() as database:
            database.execute(insert(WEB_TOKENS).values(values))
        return token, f"{PREFIX}{id_}_{secret}"

    def check(self, text: str) -> ApiToken | None:
        """Return the token of a secret text and note its use; None if it is unknown, expired or revoked."""
        id_, _, secret = text.removeprefix(PREFIX).partition("_")
        with self._store.reading() as database:
            row = database.execute(select(WEB_TOKENS).where(WEB_TOKENS.c.id == id_)).one_or_none()
        # An unknown id takes as long as a wrong secret.
        right = hmac.compare_digest(row.digest if row else "", _digest(id_, secret))
        if row is None or not right or not self._store.is_sealed(row, *SEALED) or _token(row).status != "valid":
            return None
        if time.time() - (row.used or 0) > COARSE:
            self._store.note_use(update(WEB_TOKENS).where(WEB_TOKENS.c.id == id_).values(used=time.time()))
        return _token(row)

    def list(self) -> list[ApiToken]:
        """Return every token that was made, oldest first."""
        with self._store.reading() as database:
            rows = database.execute(select(WEB_TOKENS).order_by(WEB_TOKENS.c.created)).all()
        return [_token(row) for row in rows if self._store.is_sealed(row, *SEALED)]

    def revoke(self, id: str) -> bool:
        """Make a token invalid, now and for ever; return False if there is no such token."""
        of_it = WEB_TOKENS.c.id == id
        with self._store.writing() as database:
            row = database.execute(select(WEB_TOKENS).where(of_it)).one_or_none()
            if row is None or not self._store.is_sealed(row, *SEALED):
                return False
            still_valid = update(WEB_TOKENS).where(of_it, WEB_TOKENS.c.revoked.is_(None))
            database.execute(still_valid.values(revoked=time.time()))
        return True


def _token(row: Row[tuple[object, ...]]) -> ApiToken:
    fields = {name: getattr(row, name) for name in ApiToken.__dataclass_fields__}
    return ApiToken(**fields | {"groups": tuple(row.groups), "scopes": frozenset(row.scopes)})


def _digest(id_: str, secret: str) -> str:
    """Return the digest of a secret of 256 random bits, which no list of passwords holds; the id is its salt."""
    return hashlib.sha256(f"{id_}:{secret}".encode()).hexdigest()


def _moment(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

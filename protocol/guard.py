"""What validators may know of the deployment: the answer key and the groups. Set once, by worker.py.

Consulted in update validators only, which replay never runs.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass
class Guard:
    """The deployment's secrets about answering."""

    answer_key: str | None = None
    groups: dict[str, list[str]] = field(default_factory=dict)


DEPLOYMENT = Guard()


class BadToken(ValueError):
    """The token was not made for this answer with the deployment's key, or it is too old."""


def sign(key: str, *, run: str, question: str, by: str | None, expiry: datetime) -> str:
    """A token that lets `by` answer this question of this run until the expiry.

    >>> soon = datetime(2030, 1, 1, tzinfo=UTC)
    >>> sign("k", run="r", question="q", by="user:ana", expiry=soon).partition(".")[0]
    '1893456000'
    """
    until = str(int(expiry.timestamp()))
    return f"{until}.{_mac(key, run, question, by, until)}"


def check_token(key: str, token: str | None, *, run: str, question: str, by: str | None) -> None:
    """Raises `BadToken` unless the token was signed with the key for exactly this, and is not expired."""
    if token is None:
        raise BadToken("this deployment takes answers only with a token; set the answer key where you answer")
    until, _, mac = token.partition(".")
    if not hmac.compare_digest(mac.encode(), _mac(key, run, question, by, until).encode()):
        raise BadToken("the token was not made for this answer with this deployment's key")
    if int(until) < datetime.now(UTC).timestamp():
        raise BadToken("the token has expired; make a new one")


def _mac(key: str, run: str, question: str, by: str | None, until: str) -> str:
    text = "\x1f".join((run, question, by or "", until))
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()

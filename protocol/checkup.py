"""Argument and result of the check of a worker: `holdfast doctor` asks a worker what it can use."""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime

from holdfast.protocol.values import Value

CHECK_WORKER = "check_worker"
"""Name of the activity."""
FILLER_BYTES = 20_000
"""More than a payload may have that stays in Temporal, so that both ways lead through the store for large values."""


class CheckWorker(Value):
    """A request to check a worker."""

    nonce: str
    proofs: dict[str, str] = {}
    """For each key of the client, by its id, `make_proof` it."""
    encryption: dict[str, str] = {}
    """For each key by which it reads what is encrypted, the same."""
    secret: str | None = None
    """The id of a secret that the client has just kept in the store that it shares with workers."""
    filler: str = ""


class WorkerState(Value):
    """The findings of a worker about itself."""

    now: datetime
    """Its clock, with time zone."""
    keys: list[str] = []
    """Ids of the keys that its validators accept."""
    encryption: list[str] = []
    """Ids of the keys by which it reads what is encrypted."""
    unlike: list[str] = []
    """Ids of such keys that the client and the worker both have, with different values."""
    unproved: list[str] = []
    """Ids of keys that the client and the worker both have, with different values."""
    troubles: list[str] = []
    """What the worker cannot use, a sentence each."""
    secret: bool = False
    """Whether it can read the client's secret."""
    filler: str = ""


def make_proof(key: bytes, nonce: str) -> str:
    """Return what shows that its maker holds the key, without the key."""
    return hmac.new(key, f"check:{nonce}".encode(), hashlib.sha256).hexdigest()

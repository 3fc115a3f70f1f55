"""Signed checkpoints of the record: the heads of the chains that have grown since the checkpoint before.

Each covers the one before it by its hash, so the last vouches for all of them, and they together for every chain. The
key that signs them is never in the database that it vouches for.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import BaseModel
from sqlalchemy import insert, select, update

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.guard import canonical
from holdfast.runtime.config import Config, ConfigError
from holdfast.runtime.own_files import own_key
from holdfast.server.record.database import begin_write
from holdfast.server.record.entries import format_time
from holdfast.server.record.store import RecordStore, lock_counter
from holdfast.server.record.tables import CHECKPOINTS, RUNS

FILE = "record.key"
EVERY = 1_000
"""Entries after which a checkpoint is due."""
AGE = timedelta(minutes=10)
"""Time after which a checkpoint is due if there is a new entry."""


@dataclass(frozen=True)
class SigningKey:
    """An Ed25519 key."""

    private: Ed25519PrivateKey

    @property
    def public(self) -> str:
        """Return the public key as 64 hexadecimal digits."""
        return self.private.public_key().public_bytes_raw().hex()

    def sign(self, text: str) -> str:
        """Return the signature of a text, in hexadecimal."""
        return self.private.sign(text.encode()).hex()


def load_signing_key(config: Config) -> SigningKey:
    """Return the key that `[record] key_env` names, else that of the state folder, which is made if there is none.

    Raises `ConfigError`.
    """
    text = config.record_key() or own_key(config.home / FILE)
    if not re.fullmatch("[0-9a-f]{64}", text):
        place = config.record.key_env or str(config.home / FILE)
        raise ConfigError(f"the record's key in {place} must be 64 hexadecimal digits: openssl rand -hex 32")
    return SigningKey(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text)))


def find_signing_key(config: Config) -> SigningKey | None:
    """Return the key that is named or kept here; None where there is none, such as beside a copy of the record."""
    is_here = config.record.key_env is not None or (config.home / FILE).exists()
    return load_signing_key(config) if is_here else None


def is_signed(public: str, text: str, signature: str) -> bool:
    """Return whether a text was signed with the key of this public key; all but the text in hexadecimal."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), text.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


class CheckpointContent(BaseModel):
    """What a checkpoint says."""

    number: int
    last: int
    """The number of the last entry."""
    at: datetime
    key: str
    before: str
    """The hash of the checkpoint before."""
    heads: dict[str, tuple[int, str]]
    """Length and last hash of each chain that had grown, by the first run of its run."""


@dataclass(frozen=True)
class RecordCheckpoint:
    """A checkpoint: the text that is signed, and the signature in hexadecimal."""

    body: str
    signature: str

    @property
    def content(self) -> CheckpointContent:
        """Return what the text says. Raises `ValueError` if it is none of a checkpoint."""
        return CheckpointContent.model_validate_json(self.body, strict=True)

    @property
    def hash(self) -> str:
        """Return the hash that the next checkpoint carries."""
        return hashlib.sha256(self.body.encode()).hexdigest()

    def to_json(self) -> JSONObject:
        """Return the JSON object of an export."""
        return {"body": self.body, "signature": self.signature}


def seal(store: RecordStore, key: SigningKey, at: datetime) -> RecordCheckpoint | None:
    """Write a checkpoint of every chain that has grown, and return it; None if none has."""
    with begin_write(store.engine) as connection:
        last = lock_counter(connection)
        grown = connection.execute(select(RUNS).where(RUNS.c.entries > RUNS.c.sealed).order_by(RUNS.c.first_run)).all()
        if not grown:
            return None
        before = connection.execute(select(CHECKPOINTS).order_by(CHECKPOINTS.c.number.desc()).limit(1)).first()
        number = 1 if before is None else before.number + 1
        document = {
            "number": number,
            "last": last,
            "at": format_time(at),
            "key": key.public,
            "before": "" if before is None else RecordCheckpoint(before.body, before.signature).hash,
            "heads": {run.first_run: [run.entries, run.head] for run in grown},
        }
        body = canonical(document)
        checkpoint = RecordCheckpoint(body, key.sign(body))
        connection.execute(insert(CHECKPOINTS).values(number=number, **checkpoint.to_json()))
        connection.execute(update(RUNS).where(RUNS.c.entries > RUNS.c.sealed).values(sealed=RUNS.c.entries))
    return checkpoint


def read_last_checkpoint(store: RecordStore) -> RecordCheckpoint | None:
    """Return the newest checkpoint; None if there is none."""
    with store.engine.connect() as connection:
        row = connection.execute(select(CHECKPOINTS).order_by(CHECKPOINTS.c.number.desc()).limit(1)).first()
    return None if row is None else RecordCheckpoint(row.body, row.signature)


def is_due(store: RecordStore, now: datetime) -> bool:
    """Return whether a checkpoint is due by number or by age of the entries that none covers."""
    checkpoint = read_last_checkpoint(store)
    last = 0 if checkpoint is None else checkpoint.content.last
    first_open = next(store.entries(after=last, limit=1), None)
    if first_open is None:
        return False
    since = None if checkpoint is None else checkpoint.content.at
    return store.last() - last >= EVERY or since is None or now - since > AGE

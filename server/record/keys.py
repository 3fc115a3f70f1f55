"""The key that signs the checkpoints of a record. It is never in the database that it vouches for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from holdfast.runtime.config import Config, ConfigError
from holdfast.runtime.own_files import own_key

FILE = "record.key"


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


def signing_key(config: Config) -> SigningKey:
    """Return the key that `[record] key_env` names, else that of the state folder, which is made if there is none.

    Raises `ConfigError`.
    """
    text = config.record_key() or own_key(config.home / FILE)
    if not re.fullmatch("[0-9a-f]{64}", text):
        place = config.record.key_env or str(config.home / FILE)
        raise ConfigError(f"the record's key in {place} must be 64 hexadecimal digits: openssl rand -hex 32")
    return SigningKey(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text)))


def stored_key(config: Config) -> SigningKey | None:
    """Return the key that is named or kept here; None where there is none, such as beside a copy of the record."""
    is_here = config.record.key_env is not None or (config.home / FILE).exists()
    return signing_key(config) if is_here else None


def is_signed(public: str, text: str, signature: str) -> bool:
    """Return whether a text was signed with the key of this public key; all but the text in hexadecimal."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), text.encode())
    except (InvalidSignature, ValueError):
        return False
    return True

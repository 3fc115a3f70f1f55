"""Encryption of the secret store at rest, by a key of the environment or of a file beside the store."""

from __future__ import annotations

from holdfast.runtime.sealing import KeySource, Seal

MARK = b"\x00holdfast:secret:1\x00"
"""The beginning of an encrypted file; text, as files held it before they were encrypted, has no NUL."""
PURPOSE = b"holdfast secret store"


class SecretUnreadable(ValueError):
    """An encrypted value that the key here does not open, or for which there is none. It names no value."""


class SecretCipher:
    """Encrypts and decrypts the values of one store; the id of a value is authenticated with it."""

    def __init__(self, key: KeySource) -> None:
        self._key = key

    def seal(self, value: str, id: str) -> bytes:
        """Return the bytes to keep for a value: encrypted, or its text where no key is set. Raises `ConfigError`."""
        if (key := self._key(True)) is None:
            return value.encode()
        return MARK + Seal(key, PURPOSE).seal(value.encode(), id.encode())

    def open(self, data: bytes, id: str) -> str:
        """Return the value that was kept as these bytes. Raises `SecretUnreadable`."""
        if not is_sealed(data):
            return data.decode()
        if (key := self._key(False)) is None:
            raise SecretUnreadable("the value is encrypted, and there is no key for it here")
        try:
            return Seal(key, PURPOSE).open(data[len(MARK) :], id.encode()).decode()
        except ValueError:
            raise SecretUnreadable("the value was encrypted with another key, or has been changed") from None


def is_sealed(data: bytes) -> bool:
    """Return whether these bytes are an encrypted value."""
    return data.startswith(MARK)

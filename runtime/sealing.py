"""Sources of keys, and encryption by them (AES-256-GCM): of payloads, of the record, of the store of secrets."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from holdfast.runtime.config import ConfigError
from holdfast.runtime.own_files import own_key

NONCE_BYTES = 12
TAG_BYTES = 16
SHORTEST_KEY = 32
"""Characters."""
COMMAND_SECONDS = 30.0

KeySource = Callable[[bool], str | None]
"""Returns the text of the key, or None; called with True it may make one."""


class Unsealable(ValueError):
    """Sealed bytes that the key does not open: it is another key, or they have been changed."""


class Seal:
    """Encrypts and decrypts by a key that is derived from a text for one purpose."""

    def __init__(self, key: str, purpose: bytes) -> None:
        self._aead = AESGCM(derived(key, purpose))

    def seal(self, data: bytes, context: bytes) -> bytes:
        """Return the data encrypted; the same context is needed to open it."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, data, context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Return the data that was sealed. Raises `Unsealable`."""
        try:
            return self._aead.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], context)
        except (InvalidTag, ValueError):
            raise Unsealable("it was encrypted with another key, or has been changed") from None


def derived(key: str, purpose: bytes) -> bytes:
    """Return a key of 32 bytes for one purpose, from which neither the text nor the key of another purpose follows."""
    return HKDF(SHA256(), 32, salt=None, info=purpose).derive(key.encode())


def key_in_environment(name: str, setting: str) -> KeySource:
    """Return the source of a key that a variable holds. Raises `ConfigError` when it is used, if it is no good."""

    def key(_: bool) -> str:
        text = os.environ.get(name, "").strip()
        if not text:
            hint = "make one with: openssl rand -base64 32"
            raise ConfigError(f"{setting}: the variable {name} is not set; clients and workers need it: {hint}")
        return _long_enough(text, f"{setting}: the variable {name}")

    return key


def key_in_file(path: Path, what: str, *, makes: bool) -> KeySource:
    """Return the source of a key in a file that only its owner may read; `makes`: it is made when it is needed.

    Args:
        what: The key, for messages: `the key of the secret store`.
    """

    def key(is_needed: bool) -> str | None:
        if is_needed and makes:
            _make(path, what)
        try:
            mode, text = path.stat().st_mode, path.read_text().strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{path}: {what} cannot be read: {error.strerror}") from None
        if stat.S_IMODE(mode) & 0o077:
            raise ConfigError(f"{path}: others may read {what}. Type: chmod 600 {path}")
        return _long_enough(text, f"{path}: {what}")

    return key


def key_by_command(command: Sequence[str], setting: str) -> KeySource:
    """Return the source of a key that a command prints, such as that of a key management service."""

    def key(_: bool) -> str:
        try:
            text = _output_of(tuple(command))
        except (OSError, subprocess.SubprocessError) as error:
            printed = error.stderr if isinstance(error, subprocess.CalledProcessError) else None
            reason = (printed or str(error)).strip()[-300:]
            raise ConfigError(f"{setting}: {command[0]} returned no key: {reason}") from None
        return _long_enough(text, f"{setting}: what {command[0]} prints")

    return key


@cache  # payloads, record and cache ask for the same key, and a key management service may be slow, or ask a person
def _output_of(command: tuple[str, ...]) -> str:
    """Return what a command prints. Raises as `subprocess.run`."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True)
    return done.stdout.strip()


def _long_enough(text: str, place: str) -> str:
    if len(text) < SHORTEST_KEY:
        hint = "make a key with: openssl rand -base64 32"
        raise ConfigError(f"{place} is shorter than {SHORTEST_KEY} characters; {hint}")
    return text


def _make(path: Path, what: str) -> None:
    try:
        own_key(path)
    except OSError as error:
        raise ConfigError(f"{path}: {what} cannot be kept: {error.strerror}") from None

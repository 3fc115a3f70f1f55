"""The key of the secret store in the system's keyring: for stores that one person uses on one machine."""

from __future__ import annotations

import importlib
import secrets
import time
from pathlib import Path
from typing import Protocol

from holdfast.runtime.config import ConfigError
from holdfast.runtime.sealing import KeySource

SERVICE, ACCOUNT = "holdfast", "secret store"
"""The names of the key in the keyring: one key for all stores of this person."""
PATIENCE = 5.0
"""Seconds for another process to put the key there that it has begun to make."""
WAY_OUT = "or name a variable that holds the key by key_env"


class _Keyring(Protocol):
    """The module `keyring`."""

    errors: _KeyringErrors

    def get_password(self, service_name: str, username: str) -> str | None: ...
    def set_password(self, service_name: str, username: str, password: str) -> None: ...


class _KeyringErrors(Protocol):
    KeyringError: type[Exception]
    NoKeyringError: type[Exception]


def key_in_keyring(folder: Path) -> KeySource:
    """Return the source of a key in the keyring, which makes it when the store first needs it. Raises `ConfigError`."""

    def key(is_needed: bool) -> str | None:
        keyring = _keyring()
        try:
            secret = keyring.get_password(SERVICE, ACCOUNT)
            if secret is None and is_needed:
                return _made(keyring, folder.with_name(f"{folder.name}.keyring"))
        except keyring.errors.NoKeyringError:
            text = "there is no keyring here: it takes a desktop session, or a backend of the keyring package"
            raise ConfigError(f"[secrets] key: {text}; install one, {WAY_OUT}") from None
        except keyring.errors.KeyringError as error:
            reason = str(error) or type(error).__name__
            raise ConfigError(f"[secrets] key: the keyring cannot be used ({reason}); unlock it, {WAY_OUT}") from None
        return secret

    return key


def _keyring() -> _Keyring:
    # When it is used: the package is an extra, and takes a moment that other commands can save.
    try:
        keyring: _Keyring = importlib.import_module("keyring")
    except ModuleNotFoundError as error:
        text = f"the system's keyring needs the keyring package ({error}): pip install 'holdfast[keyring]'"
        raise ConfigError(f"[secrets] key: {text}, {WAY_OUT}") from None
    return keyring


def _made(keyring: _Keyring, mark: Path) -> str:
    """Make the key, put it into the keyring and return it; of two processes that do so at once, one does.

    A mark beside the store tells later that there was a key: with another one the old values could not be read.
    """
    mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        mark.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        return _made_elsewhere(keyring, mark)
    except OSError as error:
        raise ConfigError(f"{mark}: it cannot be written: {error.strerror}") from None
    keyring.set_password(SERVICE, ACCOUNT, secrets.token_hex(32))
    return _made_elsewhere(keyring, mark)


def _made_elsewhere(keyring: _Keyring, mark: Path) -> str:
    deadline = time.monotonic() + PATIENCE
    while (secret := keyring.get_password(SERVICE, ACCOUNT)) is None:
        if time.monotonic() > deadline:
            lost = f"the keyring has no key {SERVICE!r} for {ACCOUNT!r}, and had one when {mark} was made"
            raise ConfigError(f"[secrets] key: {lost}; put it back, or remove that file to make a new key")
        time.sleep(0.05)
    return secret

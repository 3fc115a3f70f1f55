"""The stores for answers to `ask: secret`: clients write the values, tools on workers read them.

A history holds references only. `[secrets]` in `holdfast.toml` names the store; the embedded server uses the folder
`secrets` in its state folder. The key that encrypts a store comes from a variable, a file, or the system's keyring.
"""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import time
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from holdfast.blueprint.questions import Asked, InvalidAnswer
from holdfast.blueprint.questions.secret import DIRECTORY, ENVIRONMENT, SecretReference, reference_in
from holdfast.protocol.answers import Answer, Refusal
from holdfast.runtime.config import Config, ConfigError
from holdfast.runtime.encryption import KeySource, Seal, make_environment_source, make_file_source
from holdfast.runtime.own_files import is_open_to_others, write_whole

log = logging.getLogger("holdfast.secrets")

MARK = b"\x00holdfast:secret:1\x00"
"""The beginning of an encrypted file; text, as files held it before they were encrypted, has no NUL."""
SECRET_PURPOSE = b"holdfast secret store"
KEYRING_SERVICE, KEYRING_ACCOUNT = "holdfast", "secret store"
"""The names of the key in the keyring: one key for all stores of this person."""
KEYRING_PATIENCE = 5.0
"""Seconds for another process to put the key there that it has begun to make."""
WAY_OUT = "or name a variable that holds the key by key_env"
UNSET = (
    "no secret store is set, so the value could not be stored; nothing was sent. Set store in [secrets] of "
    "holdfast.toml, or HOLDFAST_SECRETS, to dir:PATH, a folder that clients and workers share; or set a variable where "
    "the worker runs, list it in env of [secrets], and answer with secret:env/NAME"
)


class SecretNotKept(ConfigError):
    """Values that could not be stored here, so that their answer is not sent; the message may name the folder."""


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
        return MARK + Seal(key, SECRET_PURPOSE).seal(value.encode(), id.encode())

    def open(self, data: bytes, id: str) -> str:
        """Return the value that was kept as these bytes. Raises `SecretUnreadable`."""
        if not is_encrypted(data):
            return data.decode()
        if (key := self._key(False)) is None:
            raise SecretUnreadable("the value is encrypted, and there is no key for it here")
        try:
            return Seal(key, SECRET_PURPOSE).open(data[len(MARK) :], id.encode()).decode()
        except ValueError:
            raise SecretUnreadable("the value was encrypted with another key, or has been changed") from None


def is_encrypted(data: bytes) -> bool:
    """Return whether these bytes are an encrypted value."""
    return data.startswith(MARK)


class _Keyring(Protocol):
    """The module `keyring`."""

    errors: _KeyringErrors

    def get_password(self, service_name: str, username: str) -> str | None: ...
    def set_password(self, service_name: str, username: str, password: str) -> None: ...


class _KeyringErrors(Protocol):
    KeyringError: type[Exception]
    NoKeyringError: type[Exception]


def make_keyring_source(folder: Path) -> KeySource:
    """Return the source of a key in the keyring, which makes it when a store first needs it. Raises `ConfigError`.

    A mark beside each store that uses it tells later that there was a key: with another one the old values could not be
    read.
    """
    mark = folder.with_name(f"{folder.name}.keyring")

    def key(is_needed: bool) -> str | None:
        keyring = _load_keyring()
        try:
            secret = keyring.get_password(KEYRING_SERVICE, KEYRING_ACCOUNT)
            if is_needed:
                is_first = _leave_mark(mark)  # of two processes that do so at once, one makes the key
                if secret is None and is_first:
                    keyring.set_password(KEYRING_SERVICE, KEYRING_ACCOUNT, secrets.token_hex(32))
                return secret or _await_key(keyring, mark)
        except keyring.errors.NoKeyringError:
            text = "there is no keyring here: it takes a desktop session, or a backend of the keyring package"
            raise ConfigError(f"[secrets] key: {text}; install one, {WAY_OUT}") from None
        except keyring.errors.KeyringError as error:
            reason = str(error) or type(error).__name__
            raise ConfigError(f"[secrets] key: the keyring cannot be used ({reason}); unlock it, {WAY_OUT}") from None
        return secret

    return key


def _load_keyring() -> _Keyring:
    # When it is used: the package is an extra, and takes a moment that other commands can save.
    try:
        keyring: _Keyring = importlib.import_module("keyring")
    except ModuleNotFoundError as error:
        text = f"the system's keyring needs the keyring package ({error}): pip install 'holdfast[keyring]'"
        raise ConfigError(f"[secrets] key: {text}, {WAY_OUT}") from None
    return keyring


def _leave_mark(mark: Path) -> bool:
    """Make a mark; return whether it was not there."""
    mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        mark.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigError(f"{mark}: it cannot be written: {error.strerror}") from None
    return True


def _await_key(keyring: _Keyring, mark: Path) -> str:
    deadline = time.monotonic() + KEYRING_PATIENCE
    while (secret := keyring.get_password(KEYRING_SERVICE, KEYRING_ACCOUNT)) is None:
        if time.monotonic() > deadline:
            lost = (
                f"the keyring has no key {KEYRING_SERVICE!r} for {KEYRING_ACCOUNT!r}, and had one when {mark} was made"
            )
            raise ConfigError(f"[secrets] key: {lost}; put it back, or remove that file to make a new key")
        time.sleep(0.05)
    return secret


class SecretBackend(Protocol):
    """A store that tools read values from, by id. A new one: a row in `open_backends` and in `IDS`."""

    def read(self, id: str) -> str | None:
        """Return the value; None if there is none. Raises OSError."""


class SecretDirectory:
    """A folder that only its owner may read, with a file for each value, named by 128 random bits.

    Args:
        folder: The folder.
        cipher: Encrypts the files. Those that are not encrypted stay readable.
    """

    def __init__(self, folder: Path, cipher: SecretCipher | None = None) -> None:
        self.folder = folder
        self._cipher = cipher or SecretCipher(lambda _: None)

    def put(self, value: str) -> str:
        """Write a value, whole or not at all, and return its reference. Raises ConfigError."""
        id_ = secrets.token_hex(16)
        self._write(id_, value)
        return str(SecretReference(DIRECTORY, id_))

    def rotate(self, id: str, value: str) -> bool:
        """Replace a value: every run that refers to it reads the new one. Return whether there was one.

        Raises ConfigError.
        """
        if not (self.folder / id).is_file():
            return False
        self._write(id, value)
        return True

    def list(self) -> list[StoredSecret]:
        """Return what is kept, without the values, oldest first. Raises OSError."""
        if not self.folder.is_dir():
            return []
        files = [path for path in self.folder.iterdir() if reference_in(str(SecretReference(DIRECTORY, path.name)))]
        return sorted(map(_describe_file, files), key=lambda secret: secret.since)

    def _write(self, id_: str, value: str) -> None:
        try:
            self._make_folder()
            write_whole(self.folder / id_, self._cipher.seal(value, id_), lasts=True)
        except OSError as error:
            text = f"{self.folder}: a secret cannot be kept there: {error.strerror}; nothing was sent. Make it writable"
            raise ConfigError(f"{text}, or set store in [secrets] to another folder") from None

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_open_to_others(self.folder):
            raise ConfigError(f"{self._say_it_is_open()}; nothing was sent. Type: chmod 700 {self.folder}")

    def warn_if_open(self) -> None:
        """Log a warning, as a process starts, if others may look into the folder."""
        if is_open_to_others(self.folder):
            log.warning("%s. Type: chmod 700 %s", self._say_it_is_open(), self.folder)

    def _say_it_is_open(self) -> str:
        return f"{self.folder}: others may look into it, so no secret is kept there"

    def read(self, id: str) -> str | None:
        """Return a value; None if there is none. Raises OSError, SecretUnreadable."""
        try:
            data = (self.folder / id).read_bytes()
        except FileNotFoundError:
            return None
        return self._cipher.open(data, id)

    def drop(self, id: str) -> bool:
        """Delete a value; return whether there was one."""
        try:
            (self.folder / id).unlink()
        except OSError:
            return False
        return True


class StoredSecret(NamedTuple):
    """A value in the store, described without reading it."""

    reference: SecretReference
    since: datetime
    """When it was stored, or replaced."""
    is_encrypted: bool


def _describe_file(path: Path) -> StoredSecret:
    with path.open("rb") as file:
        sealed = is_encrypted(file.read(len(MARK)))
    since = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return StoredSecret(SecretReference(DIRECTORY, path.name), since, sealed)


class EnvironmentSecrets:
    """The variables of the worker's environment that the configuration lists; read only."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names

    def read(self, id: str) -> str | None:
        """Return the value of a variable; None if it is not set or not listed."""
        # Only listed ones: whoever answers a question must not choose which variables tools read.
        return os.environ.get(id) if id in self.names else None


KEY_NAME = "the key of the secret store"


def open_backends(config: Config) -> dict[str, SecretBackend]:
    """Return the stores that the tools of a worker read from, by the name that references carry."""
    backends: dict[str, SecretBackend] = {ENVIRONMENT: EnvironmentSecrets(config.secrets.env)}
    if (store := keeper(config, embedded=False)) is not None:
        store.warn_if_open()
        backends[DIRECTORY] = store
    return backends


def keeper(config: Config, *, embedded: bool) -> SecretDirectory | None:
    """Return the store that a client writes values to; None if none is configured."""
    folder = config.secret_folder(embedded=embedded)
    if folder is None:
        return None
    if config.secrets.key_env is not None:
        return SecretDirectory(
            folder, SecretCipher(make_environment_source(config.secrets.key_env, "[secrets] key_env"))
        )
    if config.secrets.key is not None:
        return SecretDirectory(folder, SecretCipher(make_keyring_source(folder)))
    # Only the embedded set makes a key of its own: elsewhere a file beside the store might be on one machine alone.
    key = make_file_source(folder.with_name(f"{folder.name}.key"), KEY_NAME, makes=embedded)
    return SecretDirectory(folder, SecretCipher(key))


def store_values(asked: Asked, answer: Answer, store: SecretDirectory | None) -> Answer:
    """Put the values of an answer into the store; return the answer with references in their place.

    Raises:
        Refusal: The answer does not fit the question.
        SecretNotKept: There is no store, or it cannot be written.

    No message repeats a value.
    """
    try:
        values = asked.secret_values(answer.content)
    except InvalidAnswer as error:
        text = f"question {answer.question}: {error}; nothing was sent"
        raise Refusal("invalid_answer", text) from None
    if store is None and not all(map(reference_in, values.values())):
        raise SecretNotKept(UNSET)
    try:
        references = {name: value if store is None else _store_value(value, store) for name, value in values.items()}
    except ConfigError as error:
        raise SecretNotKept(str(error)) from None
    plain = answer.content if isinstance(answer.content, dict) else {}
    return answer.model_copy(update={"content": references.get("", {**plain, **references})})


def _store_value(value: str, store: SecretDirectory) -> str:
    return value if reference_in(value) else store.put(value)


def forget_values(stored: Answer, original: Answer, store: SecretDirectory | None) -> None:
    """Delete the values that were stored for an answer that was refused; not those that it referred to itself."""
    for reference in map(reference_in, _list_values(stored.content) - _list_values(original.content)):
        if store is not None and reference is not None and reference.store == DIRECTORY:
            store.drop(reference.id)


def _list_values(content: object) -> set[str]:
    values = content.values() if isinstance(content, dict) else [content]
    return {value for value in values if isinstance(value, str)}


def is_same_answer(content: object, before: object, store: SecretDirectory | None) -> bool:
    """Return whether an answer equals an earlier one: by its references, or by the values that they stand for."""
    if isinstance(content, dict) and isinstance(before, dict):
        pairs = [(content[name], before.get(name)) for name in content]
        return content.keys() == before.keys() and all(is_same_answer(new, old, store) for new, old in pairs)
    reference = reference_in(before)
    if content == before or reference is None or store is None or reference.store != DIRECTORY:
        return bool(content == before)
    try:
        return bool(content == store.read(reference.id))
    except OSError:
        return False

"""Encryption of what leaves a process, by the keys of `[encryption]`; and the sources of keys, for secrets as well.

A `Seal` encrypts by one key (AES-256-GCM), a `KeyRing` by those of a deployment: the first encrypts, all of them
decrypt. Clients, workers, the web server and the record have the same keys; the codec of payloads, the record's columns
and the worker's cache use them.
"""

from __future__ import annotations

import base64
import logging
import os
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter, PayloadCodec

from holdfast.runtime.config import Config, ConfigError
from holdfast.runtime.config.sections import EncryptionKeySection
from holdfast.runtime.errors import NotReadable, ServerUnreachable
from holdfast.runtime.own_files import own_key

NONCE_BYTES = 12
TAG_BYTES = 16
SHORTEST_KEY = 32
"""Characters."""
COMMAND_SECONDS = 30.0

KeySource = Callable[[bool], str | None]
"""Returns the text of the key, or None; called with True it may make one."""
ENCODING = b"binary/encrypted"
KEY_ID = "encryption-key-id"
"""The metadata that names the key of a payload."""
PAYLOAD = b"payload"
_PURPOSE = b"holdfast encryption"
_TEXT = "enc:"
"""The beginning of an encrypted text. No JSON begins so."""


class Unsealable(ValueError):
    """Sealed bytes that the key does not open: it is another key, or they have been changed."""


class Seal:
    """Encrypts and decrypts by a key that is derived from a text for one purpose."""

    def __init__(self, key: str, purpose: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  most deployments encrypt nothing

        self._aead = AESGCM(derive_key(key, purpose))

    def seal(self, data: bytes, context: bytes) -> bytes:
        """Return the data encrypted; the same context is needed to open it."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, data, context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Return the data that was sealed. Raises `Unsealable`."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  see __init__

        try:
            return self._aead.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], context)
        except (InvalidTag, ValueError):
            raise Unsealable("it was encrypted with another key, or has been changed") from None


def derive_key(key: str, purpose: bytes) -> bytes:
    """Return a key of 32 bytes for one purpose, from which neither the text nor the key of another purpose follows."""
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415  see `Seal`
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415  see `Seal`

    return HKDF(SHA256(), 32, salt=None, info=purpose).derive(key.encode())


def make_environment_source(name: str, setting: str) -> KeySource:
    """Return the source of a key that a variable holds. Raises `ConfigError` when it is used, if it is no good."""

    def key(_: bool) -> str:
        text = os.environ.get(name, "").strip()
        if not text:
            hint = "make one with: openssl rand -base64 32"
            raise ConfigError(f"{setting}: the variable {name} is not set; clients and workers need it: {hint}")
        return _check_length(text, f"{setting}: the variable {name}")

    return key


def make_file_source(path: Path, what: str, *, makes: bool) -> KeySource:
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
        return _check_length(text, f"{path}: {what}")

    return key


def make_command_source(command: Sequence[str], setting: str) -> KeySource:
    """Return the source of a key that a command prints, such as that of a key management service."""

    def key(_: bool) -> str:
        try:
            text = _run_command(tuple(command))
        except (OSError, subprocess.SubprocessError) as error:
            printed = error.stderr if isinstance(error, subprocess.CalledProcessError) else None
            reason = (printed or str(error)).strip()[-300:]
            raise ConfigError(f"{setting}: {command[0]} returned no key: {reason}") from None
        return _check_length(text, f"{setting}: what {command[0]} prints")

    return key


@cache  # payloads, record and cache ask for the same key, and a key management service may be slow, or ask a person
def _run_command(command: tuple[str, ...]) -> str:
    """Return what a command prints. Raises as `subprocess.run`."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True)
    return done.stdout.strip()


def _check_length(text: str, place: str) -> str:
    if len(text) < SHORTEST_KEY:
        hint = "make a key with: openssl rand -base64 32"
        raise ConfigError(f"{place} is shorter than {SHORTEST_KEY} characters; {hint}")
    return text


def _make(path: Path, what: str) -> None:
    try:
        own_key(path)
    except OSError as error:
        raise ConfigError(f"{path}: {what} cannot be kept: {error.strerror}") from None


class NotDecrypted(NotReadable):
    """Something encrypted that no key here opens; the message names the key that is missing."""


class KeyRing:
    """The keys of a deployment by their ids, the first of which encrypts; without any nothing is encrypted."""

    def __init__(self, keys: Mapping[str, str] | None = None) -> None:
        self._keys = dict(keys or {})
        self._seals = {id_: Seal(key, _PURPOSE) for id_, key in self._keys.items()}
        self.active = next(iter(self._keys), None)

    @property
    def ids(self) -> list[str]:
        """Return the ids of the keys, that of the one that encrypts first."""
        return list(self._keys)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._keys

    def seal(self, data: bytes, context: bytes) -> bytes:
        """Return the data encrypted, with the id of the key; the same context is needed to open it."""
        assert self.active is not None
        id_ = self.active.encode()
        return bytes([len(id_)]) + id_ + self._seals[self.active].seal(data, context + b"\0" + id_)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Return what was sealed. Raises `NotDecrypted`."""
        length = sealed[0] if sealed else 0
        id_, rest = sealed[1 : 1 + length], sealed[1 + length :]
        seal = self._seals.get(id_.decode(errors="replace"))
        if seal is None:
            listed = f"the keys here are: {', '.join(self._keys)}" if self._keys else "there is no key here"
            raise NotDecrypted(
                f"a value is encrypted with the key '{id_.decode(errors='replace')}', and {listed}; add it to keys in "
                "[encryption]"
            )
        try:
            return seal.open(rest, context + b"\0" + id_)
        except Unsealable as error:
            raise NotDecrypted(
                f"a value cannot be decrypted with the key '{id_.decode()}' of [encryption]: {error}"
            ) from None

    @property
    def overhead(self) -> int:
        """The bytes by which sealed data is longer."""
        return 1 + len((self.active or "").encode()) + NONCE_BYTES + TAG_BYTES

    def derive_key(self, purpose: bytes) -> bytes:
        """Return a key for another purpose, derived from the one that encrypts."""
        return next(self.derive_keys(purpose))

    def derive_keys(self, purpose: bytes) -> Iterator[bytes]:
        """Yield such a key for each of the ring, that of the key that encrypts first."""
        return (derive_key(key, purpose) for key in self._keys.values())

    def seal_text(self, text: str, context: str) -> str:
        """Return a text for a database: encrypted, or as it is where there is no key."""
        if not self:
            return text
        return _TEXT + base64.b64encode(self.seal(text.encode(), context.encode())).decode()

    def open_text(self, text: str, context: str) -> str:
        """Return what `seal_text` was given. Raises `NotDecrypted`."""
        if not text.startswith(_TEXT):
            return text
        try:
            sealed = base64.b64decode(text.removeprefix(_TEXT), validate=True)
        except ValueError:
            raise NotDecrypted("an encrypted text of the database has been changed") from None
        return self.open(sealed, context.encode()).decode()


class EncryptionCodec(PayloadCodec):
    """The codec of payloads. Those that were not encrypted, as before keys were set, are read as they are."""

    def __init__(self, ring: KeyRing) -> None:
        self.ring = ring

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See base class."""
        return [self.encrypt(payload) for payload in payloads] if self.ring else list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See base class. Raises NotDecrypted."""
        return [self.decrypt(payload) for payload in payloads]

    def encrypt(self, payload: Payload) -> Payload:
        """Return a payload encrypted."""
        data = self.ring.seal(payload.SerializeToString(), PAYLOAD)
        return Payload(metadata={"encoding": ENCODING, KEY_ID: (self.ring.active or "").encode()}, data=data)

    def decrypt(self, payload: Payload) -> Payload:
        """Return a payload decrypted; one that is not encrypted as it is. Raises `NotDecrypted`."""
        if payload.metadata.get("encoding") != ENCODING:
            return payload
        return Payload.FromString(self.ring.open(payload.data, PAYLOAD))


def find_key_ids(message: Message) -> set[str]:
    """Return the ids of the keys that the payloads in a message of Temporal's API, such as a history, need."""
    return {
        payload.metadata[KEY_ID].decode(errors="replace")
        for payload in _list_payloads(message)
        if KEY_ID in payload.metadata
    }


def _list_payloads(message: Message) -> Iterator[Payload]:
    """Yield the payloads in a message, wherever they stand."""
    if isinstance(message, Payload):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for inner in _list_messages(value):
            yield from _list_payloads(inner)


def _list_messages(value: object) -> Iterator[Message]:
    """Yield the messages in the value of a field: itself, those of a list, or the values of a map."""
    match value:
        case Message():
            yield value
        case Mapping():
            yield from (inner for inner in value.values() if isinstance(inner, Message))
        case Sequence():
            yield from value


_LOGGERS = (
    "temporalio.activity",
    "temporalio.workflow",
    "temporalio.worker._activity",
    "temporalio.worker._workflow",
    "temporalio.worker._workflow_instance",
)
"""The loggers that write exceptions of tools and models with their messages."""


def keep_content_out_of_logs(converter: DataConverter) -> None:
    """Have the SDK's log say only of what kind an exception was, if this converter encrypts: messages are content."""
    codec = converter.payload_codec
    if isinstance(codec, EncryptionCodec) and codec.ring:
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_remove_content)  # again is no second time


def _remove_content(record: logging.LogRecord) -> bool:
    if record.exc_info and record.exc_info[1]:
        error = record.exc_info[1]
        text = f"{type(error).__name__} (omitted: [encryption] has keys)"
        if (unreadable := _find_unreadable(error)) is not None:
            text = f"{type(unreadable).__name__}: {unreadable}"
        record.msg = f"{record.getMessage()}: {text}"
        record.args, record.exc_info, record.exc_text = (), None, None
    return True


def _find_unreadable(error: BaseException | None) -> ServerUnreachable | None:
    """Return the failure to read a value that led to an error; its message is ours, and has no content."""
    while error is not None and not isinstance(error, ServerUnreachable):
        error = error.__cause__ or error.__context__
    return error


def derive_check_keys(ring: KeyRing) -> dict[str, bytes]:
    """Return for each key of a ring, by its id, one that is compared in its place by `holdfast doctor`."""
    return dict(zip(ring.ids, ring.derive_keys(b"holdfast check"), strict=True))


def load_key_ring(config: Config) -> KeyRing:
    """Return the keys of a configuration. Raises `ConfigError` if one of them cannot be had."""
    keys: dict[str, str] = {}
    for section in config.encryption.keys:
        setting = f"{config.path or 'holdfast.toml'}: encryption.keys: {section.id}"
        text = _make_source(section, config.folder, setting)(False)
        if text is None:
            raise ConfigError(f"{setting}: there is no file {section.file}; make a key with: openssl rand -base64 32")
        keys[section.id] = text
    return KeyRing(keys)


def _make_source(section: EncryptionKeySection, folder: Path, setting: str) -> KeySource:
    if section.env is not None:
        return make_environment_source(section.env, setting)
    if section.file is not None:
        return make_file_source(folder / Path(section.file).expanduser(), "this key of [encryption]", makes=False)
    return make_command_source(section.command or (), setting)

"""Storage driver for large payloads as files, each named by the SHA-256 of its bytes and written once.

`<folder>/3f/3f9a…`       a payload: protobuf, as Temporal would hold it
`<folder>/namespaces/…`   one file for each namespace whose histories refer to payloads here
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from holdfast.client.embedded.home import ServerUnreachable

NAME = "holdfast.dir"
"""Part of every claim, so it never changes. The folder is in no claim: it may be moved."""
DIGEST = "sha256"
NAMESPACES = "namespaces"
DRAFT, GOING = ".new", ".going"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class PayloadsUnreachable(ServerUnreachable):
    """A payload cannot be stored or read; the message names place, reason and way out."""


class PayloadDirectory(StorageDriver):
    """A storage driver for a folder that clients and workers share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def name(self) -> str:
        """See base class."""
        return NAME

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """See base class. Raises PayloadsUnreachable."""
        # Deterministic, so that equal payloads are one file: a payload's metadata is an unordered map.
        serialized = [payload.SerializeToString(deterministic=True) for payload in payloads]
        return await asyncio.to_thread(lambda: [self._store(raw) for raw in serialized])

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """See base class. Raises PayloadsUnreachable."""
        digests = [claim.claim_data.get(DIGEST, "") for claim in claims]
        return await asyncio.to_thread(lambda: [self._retrieve(digest) for digest in digests])

    def path(self, digest: str) -> Path:
        """Return the path of the payload with this digest."""
        return self.folder / digest[:2] / digest

    def files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield every payload file and every draft of one, with its status."""
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            with suppress(FileNotFoundError):  # removed, or finished, meanwhile
                yield path, path.stat()

    def _store(self, raw: bytes) -> StorageDriverClaim:
        digest = hashlib.sha256(raw).hexdigest()
        path = self.path(digest)
        if not _renewed(path, len(raw)):
            self._write(path, raw)
        return StorageDriverClaim({DIGEST: digest})

    def _write(self, path: Path, raw: bytes) -> None:
        """Write a file atomically, however many write it at the same time."""
        draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}{DRAFT}")
        try:
            _write_new(self.folder, draft, raw)
            draft.replace(path)
        except OSError as error:
            with suppress(OSError):  # the folder may be read-only by now; gc removes the draft later
                draft.unlink(missing_ok=True)
            raise PayloadsUnreachable(
                f"{self.folder}: a large value cannot be stored: {error.strerror}; make room there, make it writable "
                "for clients and workers alike, or set external in [payloads] to another place"
            ) from error

    def _retrieve(self, digest: str) -> Payload:
        if not _DIGEST.fullmatch(digest):  # claims come from histories, where anyone who may signal can write
            raise PayloadsUnreachable(
                f"a claim on {self.folder} names no payload: {digest[:80]!r}; its sender is wrong"
            )
        path = self.path(digest)
        try:
            raw = _read(path)
        except FileNotFoundError as error:
            raise PayloadsUnreachable(
                f"{path} is missing: a large value of a run was stored there. Put the file back, or set external in "
                "[payloads], or HOLDFAST_PAYLOADS, to the folder that has it; the run then goes on"
            ) from error
        except OSError as error:
            raise PayloadsUnreachable(f"{path} cannot be read: {error.strerror}; make it readable") from error
        if hashlib.sha256(raw).hexdigest() != digest:
            raise PayloadsUnreachable(
                f"{path} is damaged: it does not hold what was stored ({len(raw)} bytes, and another digest). Put it "
                "back from a backup; the run then goes on"
            )
        return Payload.FromString(raw)


def _renewed(path: Path, size: int) -> bool:
    """Return whether the payload exists in full; its age is then reset, so that gc keeps it for the new event."""
    try:
        if path.stat().st_size != size:  # a machine lost power while writing it
            return False
        os.utime(path)
        return path.exists()  # gc may have removed it before it saw the new age
    except OSError:  # missing, or owned by another user; any other fault shows when it is written
        return False


def _read(path: Path) -> bytes:
    """Return the file's bytes, also while `remove` has renamed it."""
    for place in (path, path.with_name(path.name + GOING)):
        with suppress(FileNotFoundError):
            return place.read_bytes()
    return path.read_bytes()


def _write_new(folder: Path, path: Path, raw: bytes) -> None:
    """Write a file with the folder's permissions; a folder that is created here is private to its owner."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = folder.stat().st_mode
    path.parent.mkdir(mode=mode & 0o777, exist_ok=True)
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode & 0o666)) as file:
        file.write(raw)


def enter(folder: Path, namespace: str, label: str) -> None:
    """Record that histories of this namespace (an id) refer to payloads in the folder: gc checks all of them.

    `label` names the namespace to people.
    """
    note = folder / NAMESPACES / namespace
    if note.exists():
        return
    try:
        _write_new(folder, note, f"{label}\n".encode())
    except OSError as error:
        raise PayloadsUnreachable(
            f"{folder}: large values cannot be stored there: {error.strerror}; make it writable for clients and "
            "workers alike, or set external in [payloads] to another place"
        ) from error


def mend(path: Path) -> Path:
    """Return the payload's own path, renaming it back if a `remove` was killed half-way."""
    whole = path.with_name(path.name.removesuffix(GOING))
    if path != whole:
        with suppress(FileNotFoundError):  # a `remove` at work has finished
            path.replace(whole)
    return whole


def remove(path: Path, before: float) -> bool:
    """Remove a payload unless it was stored again since `before`; return whether it was removed.

    It is renamed first and checked then: a process that stores it meanwhile has either reset its age, which is seen
    here, or does not find it and writes it again.
    """
    going = path.with_name(path.name + GOING)
    try:
        path.rename(going)
        if going.stat().st_mtime >= before:
            going.replace(path)
            return False
        going.unlink()
    except FileNotFoundError:  # another gc was faster
        return False
    return True

"""Large payloads as files: each under the SHA-256 of its bytes, written once by whoever comes first.

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

from client.embedded.home import ServerUnreachable

NAME = "holdfast.dir"
"""Stands in every claim, so it never changes. The folder stands in none: it may be moved."""
DIGEST = "sha256"
NAMESPACES = "namespaces"
DRAFT, GOING = ".new", ".going"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class PayloadsUnreachable(ServerUnreachable):
    """A payload cannot be stored or found; the message names place, reason and way out."""


class Directory(StorageDriver):
    """Stores payloads in a folder that clients and workers share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def name(self) -> str:
        """See base class."""
        return NAME

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """See base class. Raises PayloadsUnreachable."""
        # Deterministic, so that equal payloads are one file: a payload's metadata is an unordered map.
        written = [payload.SerializeToString(deterministic=True) for payload in payloads]
        return await asyncio.to_thread(lambda: [self._store(raw) for raw in written])

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """See base class. Raises PayloadsUnreachable."""
        digests = [claim.claim_data.get(DIGEST, "") for claim in claims]
        return await asyncio.to_thread(lambda: [self._retrieve(digest) for digest in digests])

    def path(self, digest: str) -> Path:
        """Where the payload of this digest lies."""
        return self.folder / digest[:2] / digest

    def files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Every file that is a payload, or was to become one."""
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
        """A file appears whole or not at all, however many write it at the same time."""
        draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}{DRAFT}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(raw)
            draft.replace(path)
        except OSError as error:
            with suppress(OSError):  # what cannot be written can seldom be removed; gc takes it
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
    """Whether the payload is there whole; its age then begins anew, so that gc leaves it to the history to come."""
    try:
        if path.stat().st_size != size:  # a machine lost power before it had written all
            return False
        os.utime(path)
        return path.exists()  # gc may have taken it before the new age was there to see
    except OSError:  # it is not there, or is somebody else's; if more is wrong, writing it will tell
        return False


def _read(path: Path) -> bytes:
    """The file's bytes, also while `remove` has it in hand."""
    for place in (path, path.with_name(path.name + GOING)):
        with suppress(FileNotFoundError):
            return place.read_bytes()
    return path.read_bytes()


def enter(folder: Path, namespace: str, told: str) -> None:
    """Note that histories of this namespace, by its id, refer to payloads of the folder: gc must know all of them."""
    note = folder / NAMESPACES / namespace
    if note.exists():
        return
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{told}\n")
    except OSError as error:
        raise PayloadsUnreachable(
            f"{folder}: large values cannot be stored there: {error.strerror}; make it writable for clients and "
            "workers alike, or set external in [payloads] to another place"
        ) from error


def mend(path: Path) -> Path:
    """The payload itself, where a `remove` was killed that had it in hand."""
    whole = path.with_name(path.name.removesuffix(GOING))
    if path != whole:
        with suppress(FileNotFoundError):  # a `remove` at work has finished
            path.replace(whole)
    return whole


def remove(path: Path, before: float) -> bool:
    """Remove a payload unless somebody has stored it again since `before`; whether it is gone.

    It is moved away first and looked at then: who stores it meanwhile either renewed it, which is seen here, or does
    not find it and writes it anew.
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

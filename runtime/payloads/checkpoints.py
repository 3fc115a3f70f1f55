"""The checkpoints of graphs beside the large payloads: in the same folder or bucket, so that every worker finds them.

`<folder>/checkpoints/<Temporal run id>/<thread>/00000042`    one record, written once

The records come encrypted, where that is configured: the checkpointer of a graph encodes them with the codec of the
worker's payloads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from temporalio.exceptions import ApplicationError

from holdfast.protocol.tool_errors import CHECKPOINTS_UNREACHABLE
from holdfast.runtime.own_files import write_whole
from holdfast.runtime.payloads import buckets

CHECKPOINTS = "checkpoints"
_RECORD = re.compile(r"\d{8}")
_RUN_ID = re.compile(r"[0-9a-f-]{36}")


class CheckpointRecords(Protocol):
    """The store as the workers' activities need it; they have a protocol of their own for it."""

    problem: str

    async def read(self, thread: str) -> list[bytes]: ...
    async def append(self, thread: str, number: int, record: bytes) -> None: ...


def open_checkpoints(place: str) -> CheckpointRecords | None:
    """Return the store at the place of large payloads; None for "", which keeps them in Temporal."""
    if place.startswith("dir:"):
        return CheckpointDirectory(Path(place.removeprefix("dir:")))
    return CheckpointBucket(buckets.open_objects(place), place) if place else None


class CheckpointDirectory:
    """Checkpoints as files of a folder that the workers share."""

    problem = ""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / CHECKPOINTS

    async def read(self, thread: str) -> list[bytes]:
        """Return the records of a thread."""
        return await asyncio.to_thread(self._read, thread)

    async def append(self, thread: str, number: int, record: bytes) -> None:
        """Write a record. Raises a failure if another attempt of the call has written one of this number."""
        await asyncio.to_thread(self._append, thread, number, record)

    def _read(self, thread: str) -> list[bytes]:
        try:
            names = sorted(path for path in (self._folder / thread).glob("*") if _RECORD.fullmatch(path.name))
            return [path.read_bytes() for path in names]
        except OSError as error:
            raise self._unreachable("read", error) from None

    def _append(self, thread: str, number: int, record: bytes) -> None:
        path = self._folder / thread / f"{number:08}"
        try:
            write_whole(path, record, place=os.link)  # never over the record of another attempt
        except FileExistsError:
            raise _make_conflict(str(path)) from None
        except OSError as error:
            raise self._unreachable("kept", error) from None

    def _unreachable(self, action: str, error: OSError) -> ApplicationError:
        text = f"{self._folder}: checkpoints of a graph cannot be {action}: {error.strerror}"
        return ApplicationError(
            f"{text}; make the folder writable for the workers, or make room", type=CHECKPOINTS_UNREACHABLE
        )


class CheckpointBucket:
    """Checkpoints as objects of a bucket, by the clients of the drivers for large payloads."""

    problem = ""

    def __init__(self, objects: buckets.NamedObjects, place: str) -> None:
        self._objects, self._place = objects, place

    async def read(self, thread: str) -> list[bytes]:
        """Return the records of a thread: those under the numbers from 0 up to the first that is missing."""
        records: list[bytes] = []
        with self._failures("read"):
            while (record := await self._objects.get(_make_key(thread, len(records)))) is not None:
                records.append(record)
        return records

    async def append(self, thread: str, number: int, record: bytes) -> None:
        """Store a record. Raises a failure if another attempt of the call has written one of this number.

        Buckets differ in what they do with a name that is taken: S3 writes over it, the client of GCS writes nothing
        and raises nothing. So it is looked at before and after.
        """
        key = _make_key(thread, number)
        with self._failures("kept"):
            kept = await self._objects.get(key)
            if kept is None:
                await self._objects.put(key, record)
                kept = await self._objects.get(key)
        if kept != record:
            raise _make_conflict(f"{self._place.rstrip('/')}/{key}")

    @contextlib.contextmanager
    def _failures(self, action: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 the library of a bucket may raise anything
            text = f"checkpoints of a graph cannot be {action} in {self._place}: {type(error).__name__}: {error}"
            raise ApplicationError(text, type=CHECKPOINTS_UNREACHABLE) from None


def _make_conflict(place: str) -> ApplicationError:
    return ApplicationError(f"{place}: another attempt of the call goes on", type=CHECKPOINTS_UNREACHABLE)


def _make_key(thread: str, number: int) -> str:
    return f"{CHECKPOINTS}/{thread}/{number:08}"


def list_threads(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the folders with threads of checkpoints, each with the Temporal run id that they belong to."""
    for path in (folder / CHECKPOINTS).glob("*"):
        if _RUN_ID.fullmatch(path.name):
            yield path.name, path

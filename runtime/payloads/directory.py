"""The store of large payloads as a folder that clients and workers share; each object is a file, written once.

`<folder>/3f/3f9a…`       a piece of payloads, or a list of pieces
`<folder>/namespaces/…`   one file for each namespace whose histories refer to payloads here
`<folder>/key`            the key by which pieces are named
"""

from __future__ import annotations

import asyncio
import os
import secrets
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.runtime.payloads.store import Location, PayloadsUnreachable, Store

NAMESPACES, KEY = "namespaces", "key"
KEY_BYTES = 32
DRAFT, GOING = ".new", ".going"


@dataclass(frozen=True)
class NamespaceNote:
    """A namespace whose histories refer to payloads in a folder, as the folder says it: gc checks all of them."""

    id: str
    label: str
    """Names the namespace to people."""

    def write(self, folder: Path) -> None:
        """Write the note into the folder, unless it is there. Raises `PayloadsUnreachable`."""
        path = folder / NAMESPACES / self.id
        if path.exists():
            return
        try:
            write_new(folder, path, f"{self.label}\n".encode())
        except OSError as error:
            raise PayloadsUnreachable(
                f"{folder}: large values cannot be stored there: {error.strerror}; make it writable for clients and "
                "workers alike, or set external in [payloads] to another place"
            ) from error


class PayloadDirectory(Store):
    """A folder of payloads. It is in no claim, so it may be moved."""

    name = "holdfast.dir"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.note: NamespaceNote | None = None
        """The namespace of its user, noted in the folder with the first payload."""

    def __str__(self) -> str:
        return str(self.folder)

    def locate(self, name: str) -> str:
        """See base class."""
        return str(self.path(name))

    async def key(self) -> bytes:
        """See base class."""
        return await asyncio.to_thread(self._make_key)

    async def renew(self, sizes: Mapping[str, int]) -> set[str]:
        """See base class."""
        return await asyncio.to_thread(self._renew_all, sizes)

    async def write(self, objects: Mapping[str, bytes]) -> None:
        """See base class."""
        await asyncio.to_thread(self._write_all, objects)

    async def read(self, names: Collection[str], location: Location) -> dict[str, bytes]:
        """See base class."""
        return await asyncio.to_thread(lambda: {name: self._retrieve(name) for name in names})

    def note_namespace(self) -> None:
        """Note in the folder whose histories refer to it. Raises `PayloadsUnreachable`."""
        if self.note is not None:
            self.note.write(self.folder)

    def path(self, name: str) -> Path:
        """Return the path of the object of this name."""
        return self.folder / name[:2] / name

    def files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield every object's file and every draft of one, with its status."""
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            with suppress(FileNotFoundError):  # removed, or finished, meanwhile
                yield path, path.stat()

    def _make_key(self) -> bytes:
        path = self.folder / KEY
        try:
            if not path.exists():
                self._write(path, secrets.token_bytes(KEY_BYTES), place=_link)
            key = path.read_bytes()
        except OSError as error:
            raise PayloadsUnreachable(f"{path} cannot be read: {error.strerror}; make it readable") from error
        if len(key) < KEY_BYTES:
            raise PayloadsUnreachable(f"{path} holds no key: {len(key)} bytes; delete it, and another one is made")
        return key

    def _renew_all(self, sizes: Mapping[str, int]) -> set[str]:
        self.note_namespace()  # every payload that is stored begins here
        return {name for name in sizes if _renew(self.path(name), sizes[name])}

    def _write_all(self, objects: Mapping[str, bytes]) -> None:
        for name, raw in objects.items():
            self._write(self.path(name), raw)

    def _write(self, path: Path, raw: bytes, place: Callable[[Path, Path], object] = Path.replace) -> None:
        """Write a file atomically, however many write it at the same time."""
        draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}{DRAFT}")
        try:
            write_new(self.folder, draft, raw)
            place(draft, path)
        except OSError as error:
            with suppress(OSError):  # the folder may be read-only by now; gc removes the draft later
                draft.unlink(missing_ok=True)
            raise PayloadsUnreachable(
                f"{self.folder}: a large value cannot be stored: {error.strerror}; make room there, make it writable "
                "for clients and workers alike, or set external in [payloads] to another place"
            ) from error

    def _retrieve(self, name: str) -> bytes:
        path = self.path(name)
        try:
            return _read(path)
        except FileNotFoundError as error:
            raise PayloadsUnreachable(
                f"{path} is missing: a large value of a run was stored there. Put the file back, or set external in "
                "[payloads], or HOLDFAST_PAYLOADS, to the folder that has it; the run then goes on"
            ) from error
        except OSError as error:
            raise PayloadsUnreachable(f"{path} cannot be read: {error.strerror}; make it readable") from error


def _link(draft: Path, path: Path) -> None:
    """Make the draft the file, unless another process was faster: with two keys each would store what the other has."""
    with suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()


def _renew(path: Path, size: int) -> bool:
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


def write_new(folder: Path, path: Path, raw: bytes) -> None:
    """Write a file with the folder's permissions; a folder that is created here is private to its owner."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = folder.stat().st_mode
    path.parent.mkdir(mode=mode & 0o777, exist_ok=True)
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode & 0o666)) as file:
        file.write(raw)


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

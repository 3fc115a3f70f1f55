"""Files for their owner alone, written whole or not at all: state, keys that a machine makes for itself, secrets."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

DRAFT = ".new"
"""The end of the name of a file that is being written."""


def write_whole(
    path: Path, data: bytes, *, place: Callable[[Path, Path], object] = Path.replace, lasts: bool = False
) -> None:
    """Write a file, so that no process reads half of it, however many write it at once. Raises `OSError`.

    Args:
        path: The file; its folder is made, if there is none.
        data: The content.
        place: Makes the draft the file; with `os.link` a file that is there stays, and `FileExistsError` is raised.
        lasts: Wait until the content is on the disk: what cannot be made again must outlive a loss of power.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}{DRAFT}")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
            out.write(data)
            if lasts:
                out.flush()
                os.fsync(out.fileno())
        place(draft, path)
    finally:
        with suppress(OSError):  # the folder may be read-only by now
            draft.unlink(missing_ok=True)


def is_open_to_others(path: Path) -> bool:
    """Return whether others than its owner may look into a file or folder; False if it is not there or not reached."""
    try:
        return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
    except OSError:
        return False


def own_key(path: Path) -> str:
    """Return the key in a file; a new one of 64 hexadecimal digits is made if there is none. Raises `OSError`."""
    if not path.exists():
        # Of two processes that make it at once one wins: with two keys neither could read what the other has written.
        with suppress(FileExistsError):
            write_whole(path, secrets.token_hex(32).encode(), place=os.link, lasts=True)
    return path.read_text(encoding="utf-8").strip()

"""Keys that a machine makes for itself: files in the state folder, made once, for their owner alone."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def make_key(path: Path) -> None:
    """Write a new key of 64 hexadecimal digits, unless the file is there. Raises `OSError`.

    The file is made whole or not at all; of two processes that make it at once, one wins.
    """
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as out:
            out.write(secrets.token_hex(32))
            out.flush()
            os.fsync(out.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)

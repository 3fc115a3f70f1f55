"""The state folder of the embedded server, and the lock that lets one command at a time change it.

`temporal.db`   all runs            `server.json`  ports to use again, settings of the running worker
`temporal.log`  `worker.log`  `inbox.log`
`.gitignore`   of all of it         `lock`         held by the command that starts or stops something
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from holdfast.runtime.config import STATE_FILE
from holdfast.runtime.errors import ServerUnreachable
from holdfast.runtime.own_files import write_whole

PATIENCE = 100.0
"""Seconds to wait for another command: longer than a server and a worker may take to start."""
LARGEST_LOG = 5_000_000


class State(BaseModel):
    """The state that one command keeps for the next. If it is lost, ports and worker are new; no run is lost."""

    port: int = 0
    ui_port: int = 0
    fingerprint: str = ""
    """Digest of the code and settings of the worker that was started last."""
    keys: dict[str, str] = {}
    """Salted digests of the keys that worker was started with, by variable."""
    salt: str = ""
    inbox_port: int = 0
    inbox_fingerprint: str = ""
    """Digest of the code and settings of the inbox that was started last."""
    inbox_keys: dict[str, str] = {}
    """Salted digests of the keys that inbox was started with, by variable."""
    failed_start: str = ""
    """Why the worker did not start when it was to start last; empty if it did."""
    stopped: bool = False
    """True if `down` stopped the server, so that `holdfast dev` does not restart it."""


def read(home: Path) -> State:
    """Return the state of the last command; an empty one if it is missing or damaged."""
    try:
        return State.model_validate_json((home / STATE_FILE).read_bytes())
    except (FileNotFoundError, ValidationError):
        return State()


def change(home: Path, **values: Any) -> None:
    """Change these values; the file is replaced as a whole, so that no command reads half of it."""
    write_whole(home / STATE_FILE, read(home).model_copy(update=values).model_dump_json(indent=2).encode())


@asynccontextmanager
async def lock_home(home: Path) -> AsyncIterator[None]:
    """Hold the folder's lock: one command at a time starts and stops processes. Raises `ServerUnreachable`."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        ignored = home / ".gitignore"
        if not ignored.exists():  # runs, keys and secrets are nothing to commit
            ignored.write_text("*\n")
        lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ServerUnreachable(f"{home} cannot be used: {error.strerror}; set HOLDFAST_HOME to another") from error
    try:
        await claim(lock, PATIENCE, f"another command has been starting or stopping {home} for too long")
        yield
    finally:
        # This gives the lock up. The file stays: were it removed, two commands could each lock a file of that name.
        os.close(lock)


async def claim(lock: int, patience: float, refusal: str) -> None:
    """Lock this open file and write our process id into it. Raises `ServerUnreachable` after `patience` seconds."""
    deadline = time.monotonic() + patience
    # Asked again and again: a call that waits for the lock would stop the event loop, and knows no limit of time.
    while not _flock(lock):
        if time.monotonic() > deadline:
            holder = os.pread(lock, 20, 0).decode(errors="replace") or "unknown"
            raise ServerUnreachable(f"{refusal} (held by process {holder})")
        await asyncio.sleep(0.02)
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)


def _flock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def measure_log(log: Path) -> int:
    """Return the size of a log in bytes; 0 if there is none."""
    return log.stat().st_size if log.exists() else 0


def begin_log(log: Path) -> int:
    """Return the offset at which a new process's lines will start; a large log is emptied first."""
    if measure_log(log) > LARGEST_LOG:
        log.write_bytes(b"")
    return measure_log(log)


def read_log_tail(log: Path, start: int) -> str:
    """Return the last lines a process wrote, and the path of the whole log."""
    lines = log.read_bytes()[start:].decode(errors="replace").strip().splitlines()[-15:]
    text = "\n".join(f"  {line}" for line in lines) or "  (it wrote nothing)"
    return f"{text}\nThe whole log: {log}"

"""Processes that outlive their command: started, found again by their command line, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from client.embedded.home import ServerUnreachable

TICK = 0.02
"""Seconds between two looks at something that is about to happen."""


def mark(home: Path) -> str:
    """What makes a process ours: the server's own name, and an option of the worker's that Python ignores."""
    return f"holdfast={home}"


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    folder: Path,
    environment: dict[str, str],
    executable: str | None = None,
    pass_fds: Collection[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, so that Ctrl-C in this terminal does not reach it."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            executable=executable,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=pass_fds,
        )


async def stop(pids: list[int], grace: float) -> None:
    """Ask processes to end, and end those that have not in time."""
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + patience
        while (pids := _living(pids)) and time.monotonic() < deadline:
            await asyncio.sleep(TICK)
    if pids:
        raise ServerUnreachable(f"process {pids[0]} does not end; end it yourself, then run this again")


def _living(pids: list[int]) -> list[int]:
    running = {pid for pid, _ in commands()} if pids else set()
    return [pid for pid in pids if pid in running]


def commands() -> Iterator[tuple[int, str]]:
    """Process ids and command lines of all that live; a zombie has none."""
    return _commands_of_proc() if Path("/proc/self/cmdline").exists() else _commands_of_ps()


def _commands_of_proc() -> Iterator[tuple[int, str]]:
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            raw = Path("/proc", entry, "cmdline").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        if raw:
            yield int(entry), os.fsdecode(raw.rstrip(b"\0").replace(b"\0", b" "))


def _commands_of_ps() -> Iterator[tuple[int, str]]:
    """The same where there is no /proc, as on macOS."""
    listing = subprocess.run(["ps", "-axww", "-o", "pid=,stat=,command="], capture_output=True, check=True).stdout
    for line in os.fsdecode(listing).splitlines():
        pid, status, command = line.split(maxsplit=2)
        if "Z" not in status:
            yield int(pid), command.rstrip()

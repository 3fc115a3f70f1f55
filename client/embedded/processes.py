"""Start, find and stop the server and worker processes, which outlive the command that started them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.client.embedded.home import ServerUnreachable

TICK = 0.02
"""Seconds between two polls."""


def mark(home: Path) -> str:
    """Return the text in a command line that marks a process as ours.

    It is the server's argv[0], and the value of a `-X` option of the worker, which Python ignores.
    """
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
    with open(log, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as output:
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
    """Terminate processes; kill those still alive after `grace` seconds. Raises `ServerUnreachable`."""
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + patience
        while (pids := _alive(pids)) and time.monotonic() < deadline:
            await asyncio.sleep(TICK)
    if pids:
        raise ServerUnreachable(f"process {pids[0]} does not end; kill it, then run this again")


def _alive(pids: list[int]) -> list[int]:
    running = {pid for pid, _ in commands()} if pids else set()
    return [pid for pid in pids if pid in running]


def commands() -> Iterator[tuple[int, str]]:
    """Yield process id and command line of every process; zombies are left out."""
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
    """Do the same without /proc, as on macOS."""
    listing = subprocess.run(["ps", "-axww", "-o", "pid=,stat=,command="], capture_output=True, check=True).stdout
    for line in os.fsdecode(listing).splitlines():
        pid, status, command = line.split(maxsplit=2)
        if "Z" not in status:
            yield int(pid), command.rstrip()

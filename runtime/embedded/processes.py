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
from typing import TYPE_CHECKING

from holdfast.runtime.errors import ServerUnreachable

if TYPE_CHECKING:
    import psutil

TICK = 0.02
"""Seconds between two polls."""


PROC = "/proc"
"""Where Linux lists processes; other systems have nothing there."""
MARK = "holdfast="
"""How the text begins that marks a process as ours; the state folder follows."""


def make_mark(home: Path) -> str:
    """Return the text in a command line that marks a process as ours.

    It is the server's argv[0], and the value of a `-X` option of the worker, which Python ignores.
    """
    return f"{MARK}{home}"


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
    # Appending, since `begin` may empty the log under a process that still writes to it.
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


async def stop(pids: Collection[int], grace: float) -> None:
    """Terminate processes; kill those still alive after `grace` seconds. Raises `ServerUnreachable`."""
    import psutil  # noqa: PLC0415  it takes long to load, and few commands end or look for processes

    alive = [process for process in _list_processes() if process.pid in pids]
    for end, patience in ((psutil.Process.terminate, grace), (psutil.Process.kill, 5.0)):
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                end(process)
        deadline = time.monotonic() + patience
        while (alive := list(filter(_is_alive, alive))) and time.monotonic() < deadline:
            await asyncio.sleep(TICK)
    if alive:
        raise ServerUnreachable(f"process {alive[0].pid} does not end; kill it, then run this again")


def describe_end(code: int) -> str:
    """Return how a process ended: a negative code is the signal that killed it, typically for lack of memory.

    >>> describe_end(1), describe_end(-9)
    ('stopped at once with exit code 1', 'was killed at once by SIGKILL')
    """
    killed_by = {-int(number): number.name for number in signal.Signals}
    return f"was killed at once by {killed_by[code]}" if code in killed_by else f"stopped at once with exit code {code}"


def _is_alive(process: psutil.Process) -> bool:
    import psutil  # noqa: PLC0415  see `stop`

    # Not `psutil.wait_procs`: to it a zombie lives until its parent has waited for it, and ours may be any command.
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def list_commands() -> Iterator[tuple[int, list[str]]]:
    """Yield process id and arguments of every process that may be looked at; zombies have none, and are left out."""
    # Every command looks twice. Reading /proc takes 20 microseconds a process, psutil 65, and its import 15 ms.
    read = _read_proc() if Path(PROC, "self", "cmdline").exists() else _read_psutil()
    return ((pid, arguments) for pid, arguments in read if arguments)


def _read_proc() -> Iterator[tuple[int, list[str]]]:
    for name in filter(str.isdigit, os.listdir(PROC)):
        with suppress(OSError):  # it has ended, or belongs to somebody else
            with open(f"{PROC}/{name}/cmdline", "rb") as file:
                line = file.read().removesuffix(b"\0")
            yield int(name), os.fsdecode(line).split("\0") if line else []


def _read_psutil() -> Iterator[tuple[int, list[str]]]:
    return ((process.pid, process.info["cmdline"] or []) for process in _list_processes())


def _list_processes() -> Iterator[psutil.Process]:
    import psutil  # noqa: PLC0415  see `stop`

    return psutil.process_iter(["cmdline"])

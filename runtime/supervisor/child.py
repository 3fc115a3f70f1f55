"""One worker process of a supervisor: started, asked for its health and metrics, ended."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress

from holdfast.runtime.probe import LOOPBACK
from holdfast.runtime.supervisor.lifeline import OPTION, Ports, read_report

ASKED_SECONDS = 5.0
"""Seconds in which a process answers; its event loop may be busy with workflow tasks."""


class WorkerProcess:
    """A worker process, and those that take its place under the same number.

    Args:
        number: Its number among the processes, from 1; its log lines and metrics have it.
        command: The command line of the process.
        once: Arguments for the first start alone.
    """

    def __init__(self, number: int, command: Sequence[str], once: Sequence[str] = ()) -> None:
        self.number, self.starts = number, 0
        self.ready = asyncio.Event()
        """Set when a process of this number has become ready for the first time."""
        self._command, self._once = command, once
        self._pid, self._stopped = 0, False
        self._ports: Ports | None = None

    async def live(self) -> int:
        """Start the process and wait for its end. Return its exit code, negative for a signal."""
        ours, theirs = socket.socketpair()
        arguments = ["--process", str(self.number), OPTION, str(theirs.fileno()), *(() if self.starts else self._once)]
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # In a session of its own: Ctrl-C reaches the supervisor alone, which passes it on.
                start_new_session=True,
            )
        self.starts, self._pid = self.starts + 1, process.pid
        # The end may have been requested while the process was being created, and had no id to send it to.
        if self._stopped:
            process.terminate()
        report = asyncio.create_task(self._take_report(ours))
        try:
            return await process.wait()
        finally:
            self._pid, self._ports = 0, None
            report.cancel()
            await asyncio.wait([report])
            ours.close()  # not sooner: a process takes its end for that of the supervisor

    async def _take_report(self, ours: socket.socket) -> None:
        ports = await read_report(ours)
        if ports is not None:
            self._ports = ports
            self.ready.set()

    @property
    def is_ready(self) -> bool:
        """Return whether the process has reported, and has not ended."""
        return self._ports is not None

    @property
    def restarts(self) -> int:
        """Number of processes that took the place of another."""
        return max(0, self.starts - 1)

    def stop(self) -> None:
        """Ask the process to end, and any that would still start."""
        self._stopped = True
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)

    async def is_well(self, path: str) -> bool:
        """Return whether the process answers this path with 200."""
        return self._ports is not None and await _get(self._ports.health, path) is not None

    async def metrics(self) -> str | None:
        """Return the metrics of the process; None if it serves none now."""
        return await _get(self._ports.metrics, "/metrics") if self._ports and self._ports.metrics else None


async def _get(port: int, path: str) -> str | None:
    return await asyncio.to_thread(_read, f"http://{LOOPBACK}:{port}{path}")


def _read(url: str) -> str | None:
    """Return the text of an answer with status 200; None for any other, and where nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=ASKED_SECONDS) as reply:  # the scheme is ours  # nosec B310
            text: str = reply.read().decode()
            return text
    except (urllib.error.URLError, OSError):
        return None

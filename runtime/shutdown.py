"""The end of a worker or of its supervisor: a signal requests it, a second one or a limit of time forces it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LEAVING_SECONDS = 10.0
"""Seconds beyond the grace in which a worker reports what it cancelled, finishes workflow tasks, closes MCP servers."""


def signal_code(number: int) -> int:
    """Return the exit code of a process that a signal has ended, as shells report it."""
    return 128 + number


class Shutdown:
    """The request to end this process. Made in the event loop of the main thread, which it wakes up.

    Args:
        limit: Seconds after the request at which the process is ended with exit code 1.
        before_exit: Called before the process is ended by a second signal or by the limit.
        forced_by_signal: False: further signals are ignored, as a supervisor forces the end.
    """

    def __init__(
        self, limit: float, before_exit: Callable[[], None] = lambda: None, *, forced_by_signal: bool = True
    ) -> None:
        self.requested = False
        self._limit, self._before_exit, self._forced_by_signal = limit, before_exit, forced_by_signal
        self._loop, self._event = asyncio.get_running_loop(), asyncio.Event()
        # Not the loop's own handlers: a tool that blocks the loop would keep them from being called.
        for number in SIGNALS:
            signal.signal(number, lambda number, _: self._receive(number))

    async def wait(self) -> None:
        """Wait until the end is requested."""
        await self._event.wait()

    def request(self) -> None:
        """Request the end. A repeated request changes nothing."""
        if self.requested:
            return
        self.requested = True
        self._loop.call_soon_threadsafe(self._event.set)
        timer = threading.Timer(self._limit, self._force, (f"has not ended in {self._limit:.0f} s", 1))
        timer.daemon = True
        timer.start()

    def _receive(self, number: int) -> None:
        if not self.requested:
            self.request()
        elif self._forced_by_signal:
            self._force("second signal", signal_code(number))

    def _force(self, reason: str, code: int) -> None:
        # A handler of a signal must not log: it may have interrupted the code that holds the log's lock.
        os.write(2, f"holdfast.worker: {reason}: ends at once\n".encode())
        self._before_exit()
        os._exit(code)

"""HTTP connections that are bounded in number and in the time that a request may take to arrive: half-sent ones end."""

from __future__ import annotations

import asyncio
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""Seconds in which the head of a request must have arrived, from the connection or from its first byte on."""
BODY_SECONDS = 60.0
"""Seconds in which its body must have arrived after that."""
MOST_CONNECTIONS = 1_000
OTHER_FILES = 200
"""Files that a server needs beside its connections."""


def most_connections() -> int:
    """Return how many connections this process may hold: its limit of open files is smaller on many machines."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else max(min(MOST_CONNECTIONS, files - OTHER_FILES), 10)


class BoundedConnection(H11Protocol):
    """A connection that is closed if a request is half-sent for too long.

    Of too many connections the one is closed that has waited longest without a request; if each has one, the new one.
    """

    _timer: asyncio.TimerHandle | None = None
    _awaited: object = None
    """What the client has to send next: `h11.IDLE`, the head of a request; `h11.SEND_BODY`, the rest of its body."""
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See base class."""
        super().connection_made(transport)
        self._await(h11.IDLE)
        if len(self.connections) > most_connections():
            waiting = [other for other in self.connections if isinstance(other, BoundedConnection) and other._is_idle]
            min(waiting, key=lambda other: other._since, default=self).transport.abort()

    def data_received(self, data: bytes) -> None:
        """See base class."""
        super().data_received(data)
        self._await(self.conn.their_state)

    def connection_lost(self, exc: Exception | None) -> None:
        """See base class."""
        self._await(None)
        super().connection_lost(exc)

    @property
    def _is_idle(self) -> bool:
        return self.conn.their_state is h11.IDLE

    def _await(self, awaited: object) -> None:
        """Start the time for what is to come; more of the same does not prolong it."""
        if awaited is self._awaited:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._awaited, self._timer, self._since = awaited, None, self.loop.time()
        seconds = HEAD_SECONDS if awaited is h11.IDLE else BODY_SECONDS if awaited is h11.SEND_BODY else None
        if seconds is not None:
            self._timer = self.loop.call_later(seconds, self._close)

    def _close(self) -> None:
        if self.conn.their_state is self._awaited:
            self.transport.abort()

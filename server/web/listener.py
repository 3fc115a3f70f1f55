"""Listen: bind the address, run the application under uvicorn, bound its connections, log requests without tokens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import logging.config
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.client.reading import BadUsage

HEAD_SECONDS = 10.0
"""Seconds in which the head of a request must have arrived, from the connection or from its first byte on."""
BODY_SECONDS = 60.0
"""Seconds in which its body must have arrived after that."""
MOST_CONNECTIONS = 1_000
OTHER_FILES = 200
"""Files that a server needs beside its connections."""
GRACE = 3
"""Seconds that requests get to end when the server stops; live pages never end by themselves."""
QUEUE = 128


def count_most_connections() -> int:
    """Return how many connections this process may hold: its limit of open files is smaller on many machines."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else max(min(MOST_CONNECTIONS, files - OTHER_FILES), 10)


class _UnambiguousParser(h11.Connection):
    """A parser that refuses what a proxy may end elsewhere: the rest could count as a request of somebody else."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """See base class. Raises `h11.RemoteProtocolError`, at which the connection is closed with 400."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if b"transfer-encoding" in names and (b"content-length" in names or event.http_version != b"1.1"):
                raise h11.RemoteProtocolError("the length of the body is not clear", error_status_hint=400)
        return event


class BoundedConnection(H11Protocol):
    """A connection that is closed if a request is half-sent for too long, or does not clearly say where it ends.

    Of too many connections the one is closed that has waited longest without a request; if each has one, the new one.
    """

    _timer: asyncio.TimerHandle | None = None
    _awaited: object = None
    """What the client has to send next: `h11.IDLE`, the head of a request; `h11.SEND_BODY`, the rest of its body."""
    _since = 0.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = _UnambiguousParser(h11.SERVER)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See base class."""
        super().connection_made(transport)
        self._await(h11.IDLE)
        if len(self.connections) > count_most_connections():
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


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on this address; port 0 takes a free one. Raises `BadUsage`."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, number)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(QUEUE)
    except OSError as error:
        raise BadUsage(
            f"--host {host} --port {port}: cannot listen there: {error.strerror}; choose another, or stop what uses it"
        ) from None
    return listener


def make_url(listener: socket.socket) -> str:
    """Return the address of a listening socket, as somebody on this machine opens it."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # nothing is bound here  # nosec B104
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def listen(app: ASGIApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve an application until SIGINT or SIGTERM; `ready` is called once it takes requests."""
    config = uvicorn.Config(
        app,
        log_config=log_config(),
        # Both rewrite where a request comes from, for whoever connects from this machine. The gate knows its proxies.
        proxy_headers=False,
        forwarded_allow_ips=[],
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        http=BoundedConnection,
        ws="none",
        lifespan="on",
    )
    await _WebServer(config, ready).serve(sockets=[listener])


class _WebServer(uvicorn.Server):
    """A server that says when it listens, and ends on signals without passing them on."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See base class."""
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """See base class, which raises a signal again: Ctrl-C is how this server is stopped, and no failure."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


class WithoutTokens(logging.Filter):
    """Keep what signs somebody in out of the log of requests: queries, and the tokens of links in messages."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record; see base class."""
        match record.args:
            case (client, method, str() as path, *rest):
                record.args = (client, method, show_path(path), *rest)
        return True


def show_path(path: str) -> str:
    """Return the path of a request as the log shows it.

    >>> show_path("/runs?once=abc"), show_path("/l/abc")
    ('/runs', '/l/…')
    """
    path = path.partition("?")[0]
    return "/l/…" if path.startswith("/l/") else path


def log_config() -> dict[str, Any]:
    """Return the configuration of uvicorn's logs, for the log of this process: requests without tokens."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"without_tokens": {"()": WithoutTokens}},
        "loggers": {
            "uvicorn.error": {"level": "WARNING"},
            "uvicorn.access": {"level": "INFO", "filters": ["without_tokens"]},
        },
    }

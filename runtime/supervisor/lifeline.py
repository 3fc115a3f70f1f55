"""The socket between a supervisor and one of its processes: ports go up; its end says that the supervisor is gone."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass

OPTION = "--lifeline"


@dataclass(frozen=True)
class Ports:
    """The address at which a process answers its supervisor, on this machine alone."""

    health: int
    metrics: int
    """0: it serves none."""


class Lifeline:
    """The end that a process holds.

    Args:
        descriptor: The inherited file descriptor of the socket.
    """

    def __init__(self, descriptor: int) -> None:
        # The processes that tools and MCP servers are must not hold it: the supervisor waits for its end.
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)

    @asynccontextmanager
    async def reporting(self, ports: Ports, on_end: Callable[[], None]) -> AsyncIterator[None]:
        """Tell the supervisor that this process is ready; `on_end` is called if the supervisor ends meanwhile."""
        reader, writer = await asyncio.open_connection(sock=self._socket)
        writer.write(json.dumps(asdict(ports)).encode() + b"\n")

        async def watch() -> None:
            with suppress(ConnectionError):
                await reader.read()
            on_end()

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()
            writer.close()


async def read_report(ours: socket.socket) -> Ports | None:
    """Return the ports that a process reports once it is ready; None if it ends before."""
    ours.setblocking(False)
    line = b""
    # Not by a stream: it would close the socket when it is thrown away, which tells the process to end.
    while not line.endswith(b"\n"):
        part = b""
        with suppress(ConnectionError):  # it was killed
            part = await asyncio.get_running_loop().sock_recv(ours, 1024)
        if not part:
            return None
        line += part
    return Ports(**json.loads(line))

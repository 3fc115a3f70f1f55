"""Small answers over HTTP of workers and their supervisor: health and metrics. `probe.py` asks for the first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

from holdfast.runtime.config import ConfigError
from holdfast.runtime.probe import LOOPBACK, NOT_SET, find_problem

log = logging.getLogger("holdfast.worker")

READY = "/readyz"


@dataclass(frozen=True)
class HttpReply:
    """An answer: its status and its text."""

    status: HTTPStatus
    text: str
    type: str = "text/plain; charset=utf-8"

    def encode(self) -> bytes:
        """Return the answer as it is sent."""
        body = self.text.encode()
        head = f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\nContent-Type: {self.type}\r\n"
        return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


Routes = Mapping[str, Callable[[], Awaitable[HttpReply]]]


def report_health(is_well: bool, problem: str) -> HttpReply:
    """Return 200, or 503 with the problem."""
    return HttpReply(HTTPStatus.OK, "ok\n") if is_well else HttpReply(HTTPStatus.SERVICE_UNAVAILABLE, f"{problem}\n")


@asynccontextmanager
async def serve_routes(variable: str, port: int, routes: Routes) -> AsyncIterator[None]:
    """Answer GET of these paths on this port, at every address of this machine; 0: nowhere.

    Raises `ConfigError`, with the variable that names the port.
    """
    if not port:
        yield
        return
    try:
        server = await _start(port, routes)
    except OSError as error:
        raise ConfigError(f"{variable}={port}: cannot listen there: {error.strerror}") from None
    try:
        yield
    finally:
        server.close()


@asynccontextmanager
async def serve_privately(routes: Routes) -> AsyncIterator[int]:
    """Answer GET of these paths to processes of this machine alone, and yield the port."""
    server = await _start(0, routes, LOOPBACK)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


# Servers are closed and not awaited: from Python 3.12 on that waits for each open connection, which may send nothing.
async def _start(port: int, routes: Routes, host: str | None = None) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readline()
        route = next((route for path, route in routes.items() if request.startswith(f"GET {path} ".encode())), None)
        reply = await route() if route else HttpReply(HTTPStatus.NOT_FOUND, "")
        writer.write(reply.encode())
        await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, host, port)


def is_healthy(port: int) -> bool:
    """Return whether a worker of this machine answers on this port. Raises `ConfigError` for 0."""
    if not port:
        raise ConfigError(NOT_SET)
    problem = find_problem(port)
    if problem:
        log.error(problem)
    return problem is None

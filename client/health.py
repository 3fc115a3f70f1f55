"""The worker's health check over HTTP: the worker serves it, `--health` asks it."""

from __future__ import annotations

import asyncio
import logging
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.client.config import ConfigError

log = logging.getLogger("holdfast.worker")


@asynccontextmanager
async def serve_health(port: int) -> AsyncIterator[None]:
    """Answer `GET /healthz` on this port; 0: nowhere."""
    if not port:
        yield
        return
    async with await asyncio.start_server(_answer, port=port):
        yield


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = await reader.readline()
    status = "200 OK" if request.startswith(b"GET /healthz ") else "404 Not Found"
    writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    await writer.drain()
    writer.close()


def is_healthy(port: int) -> bool:
    """Return whether a worker of this machine answers on this port. Raises `ConfigError` for 0."""
    if not port:
        raise ConfigError("HOLDFAST_HEALTH_PORT is not set; set it for the worker and for the health check alike")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
            return True
    except urllib.error.URLError as error:
        log.error("no worker answers on port %d: %s", port, error.reason)
        return False

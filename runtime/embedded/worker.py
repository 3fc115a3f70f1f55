"""The embedded server's worker process: started on demand, replaced when its code or configuration has changed.

The new one starts beside the one that runs, which stops when the new one works: code that cannot be imported takes no
worker away from the runs.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path

from temporalio.client import Client

from holdfast.runtime.config import Config, WorkerVariables
from holdfast.runtime.distribution import WORKER
from holdfast.runtime.embedded import home as state_folder
from holdfast.runtime.embedded.home import begin_log, read_log_tail
from holdfast.runtime.embedded.inbox_key import inbox_key, inbox_key_file
from holdfast.runtime.embedded.processes import TICK, describe_end, list_commands, make_mark, spawn, stop
from holdfast.runtime.embedded.server import NAMESPACE, Server, read_clean_environment
from holdfast.runtime.errors import WorkerNotStarted
from holdfast.runtime.workers import describe_queue

ROOT = Path(__file__).resolve().parents[2]
OUR_CODE = ("activities", "blueprint", "protocol", "runtime", "worker.py", "workflows")
PATIENCE = 60.0
"""Seconds a worker may take to import the user's packages."""


def find_workers(home: Path) -> list[int]:
    """Return the process ids of this folder's workers: one or none, more only after a command was killed."""
    ours = ["-X", make_mark(home), *WORKER]
    return [pid for pid, arguments in list_commands() if arguments[-len(ours) :] == ours]


def read_grace() -> float:
    """Return the seconds a worker gets to stop: those to finish its activities, and 5 more."""
    return WorkerVariables.read().grace + 5


async def ensure_worker(config: Config, server: Server, client: Client, tell: Callable[[str], None]) -> None:
    """Keep the running worker if its code and settings are current, else replace it and say so by `tell`.

    Raises `WorkerNotStarted`; the worker that ran before goes on then.
    """
    home = config.home
    state, running = state_folder.read(home), find_workers(home)
    salt = state.salt or secrets.token_hex(16)
    fingerprint, keys = _compute_fingerprint(config, server), _keys(config, salt)
    # A key that is not set in this terminal does not replace the worker: another terminal has set it.
    if len(running) == 1 and fingerprint == state.fingerprint and keys.items() <= state.keys.items():
        if state.failed_start:
            state_folder.change(home, failed_start="")
        return
    tell("Restarting the worker: its code or configuration has changed …" if running else "Starting its worker …")
    state_folder.change(home, salt=salt, stopped=False)
    if _has_ports():
        await stop(running, read_grace())
    try:
        await _start(config, server, client)
    except WorkerNotStarted as error:
        state_folder.change(home, failed_start=str(error))
        raise
    await stop(running, read_grace())
    state_folder.change(home, fingerprint=fingerprint, keys=keys, failed_start="")


def _has_ports() -> bool:
    """Return whether a worker has ports of its own, which two cannot have at once."""
    variables = WorkerVariables.read()
    return bool(variables.health_port or variables.metrics_port)


async def _start(config: Config, server: Server, client: Client) -> None:
    """Start a worker and wait until it polls the server. Raises `WorkerNotStarted`."""
    log = config.home / "worker.log"
    start = begin_log(log)
    command = [sys.executable, "-X", make_mark(config.home), *WORKER]
    process = spawn(command, log=log, folder=config.folder, environment=_make_worker_environment(config, server))
    deadline = time.monotonic() + PATIENCE
    while not await _polls(client, config.worker.task_queue, process.pid):
        if process.poll() is not None:
            raise WorkerNotStarted(f"the worker {describe_end(process.returncode)}:\n{read_log_tail(log, start)}")
        if time.monotonic() > deadline:
            await stop([process.pid], 0)
            raise WorkerNotStarted(f"the worker has not started in {PATIENCE:.0f} s; its log is {log}")
        await asyncio.sleep(TICK)


async def _polls(client: Client, queue: str, pid: int) -> bool:
    return any(poller.identity.startswith(f"{pid}@") for poller in (await describe_queue(client, queue)).pollers)


def _make_worker_environment(config: Config, server: Server) -> dict[str, str]:
    """Return the worker's environment: that of `make_environment`, with the user's modules."""
    environment = make_environment(config, server)
    path = environment.get("PYTHONPATH")
    return environment | {"PYTHONPATH": os.pathsep.join([str(config.folder), path] if path else [str(config.folder)])}


def make_environment(config: Config, server: Server) -> dict[str, str]:
    """Return the environment of a process beside the server: this command's, with its address and our stores."""
    return read_clean_environment() | {
        "TEMPORAL_ADDRESS": server.address,
        "TEMPORAL_NAMESPACE": NAMESPACE,
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "HOLDFAST_HOME": str(config.home),
        "HOLDFAST_TASK_QUEUE": config.worker.task_queue,
        "HOLDFAST_IMPORTS": ",".join(config.worker.imports),
        "HOLDFAST_PROCESSES": "1",  # it is found, and replaced, by its one process
        "HOLDFAST_PAYLOADS": config.place(embedded=True),
        "HOLDFAST_SECRETS": f"dir:{config.secret_folder(embedded=True)}",
        "HOLDFAST_INBOX_KEY_FILE": str(inbox_key_file(config.home)),
        "PYTHONUNBUFFERED": "1",
    }


PROVIDER_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Keys that providers read from the environment: a worker that was started before one was set lacks it."""


def _compute_fingerprint(config: Config, server: Server) -> str:
    """Return a digest of the code and settings of a worker; it is replaced when this changes.

    Of the interpreter its environment counts, and not its name: `python` and the `python3.11` of a script are the same.
    """
    text = config.path.read_text(encoding="utf-8") if config.path else ""
    places = [config.place(embedded=True), str(config.secret_folder(embedded=True))]
    parts = [sys.prefix, sys.version, server.address, str(config.folder), repr(config.worker), *places, text]
    theirs = [place for name in config.worker.imports for place in _find_module(name, config.folder)]
    files = list_files([*(str(ROOT / name) for name in OUR_CODE), *theirs])
    return compute_digest(parts, {file for file in files if file.endswith((".py", ".so"))})


def list_files(places: Iterable[str]) -> Iterator[str]:
    """Yield the files in these places, which are files or folders, without byte code."""
    for place in places:  # of texts: paths would take five times as long, and commands that start a run list 700
        if os.path.isfile(place):
            yield place
        for folder, _, names in os.walk(place):
            yield from (f"{folder}/{name}" for name in names if not name.endswith(".pyc"))


def compute_digest(parts: Sequence[str], files: Iterable[str]) -> str:
    """Return a digest of these texts, and of the names, times and sizes of the files."""
    listed = []
    for file in sorted(files):
        with suppress(FileNotFoundError):  # a dangling link, as editors leave them
            stat = os.stat(file)
            listed.append(f"{file} {stat.st_mtime_ns} {stat.st_size}")
    return hashlib.sha256("\0".join([*parts, *listed]).encode()).hexdigest()


def _keys(config: Config, salt: str) -> dict[str, str]:
    """Return digests of the keys that the configuration names and that are set here, and of the inbox's own."""
    inbox = inbox_key(inbox_key_file(config.home))
    names = {
        config.answers.key_env,
        *(key.env for key in config.answers.keys),
        config.cache.url_env,
        *PROVIDER_KEYS,
        *config.secrets.env,
    }
    names |= {key.env for key in config.encryption.keys}
    names |= {model.api_key_env for model in config.models.values()}
    names |= {name for server in config.mcp.values() for name in (*server.env, *server.headers_env.values())}
    # The inbox's key is 32 random bytes, which nobody guesses from a plain digest.
    made = {inbox.id: hashlib.sha256(f"{salt}:{inbox.secret}".encode()).hexdigest()}
    return key_digests({name for name in names if name}, salt) | made


def key_digests(names: Iterable[str], salt: str) -> dict[str, str]:
    """Return salted digests of the variables of these names that are set."""
    values = {name: os.environ.get(name) for name in names}
    return {name: _key_digest(value, f"{salt}:{name}") for name, value in values.items() if value}


def _key_digest(key: str, salt: str) -> str:
    """Return a digest from which a weak key is not guessed in a hurry."""
    # About 10 ms of work: every command does it for each key that is set.
    return hashlib.scrypt(key.encode(), salt=salt.encode(), n=2**12, r=8, p=1, dklen=32).hex()


def _find_module(name: str, folder: Path) -> Sequence[str]:
    """Return the places of a module's whole package without importing it; none if it cannot be found."""
    spec = PathFinder.find_spec(name.partition(".")[0], [str(folder), *sys.path])
    if spec is None:
        return []
    return spec.submodule_search_locations or ([spec.origin] if spec.origin else [])

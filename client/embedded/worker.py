"""The embedded server's worker process: kept while it runs what it should, replaced when that changed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from client.config import Config
from client.embedded import home as state_folder
from client.embedded.home import ServerUnreachable, begin, tail
from client.embedded.processes import TICK, commands, mark, spawn, stop
from client.embedded.server import NAMESPACE, Server, clean_environment

ROOT = Path(__file__).resolve().parents[2]
WORKER = ROOT / "worker.py"
"""By its path, not by `-m`: a project may have modules of the same names as ours."""
OUR_CODE = (
    *("blueprint", "protocol", "workflows", "activities", "worker.py"),
    *("client/connection.py", "client/config.py", "client/payloads", "client/secrets.py"),
)
PATIENCE = 60.0
"""Seconds a worker may take to import the user's packages."""


def find_workers(home: Path) -> list[int]:
    """The worker of this state folder, if it runs; more only if a command was killed between two steps."""
    return [pid for pid, line in commands() if f" -X {mark(home)} /" in line and line.endswith(f"/{WORKER.name}")]


def grace() -> float:
    """What a worker gets to finish its activities, and a little for leaving."""
    return float(os.environ.get("HOLDFAST_GRACE") or 10) + 5


async def ensure_worker(config: Config, server: Server, client: Client) -> None:
    """Keep the worker that runs if it runs what it should, else replace it."""
    home = config.home
    state, running = state_folder.read(home), find_workers(home)
    fingerprint, keys = _fingerprint(config, server), _keys(config)
    # A key that is not set here is no reason to replace it: another terminal has it.
    if len(running) == 1 and fingerprint == state.fingerprint and keys.items() <= state.keys.items():
        return
    await stop(running, grace())
    state_folder.change(home, fingerprint=fingerprint, keys=keys, stopped=False)
    log = home / "worker.log"
    start = begin(log)
    command = [sys.executable, "-X", mark(home), str(WORKER)]
    process = spawn(command, log=log, folder=config.folder, environment=_environment(config, server))
    await _polling(process, client, config, start)


async def _polling(process: subprocess.Popen[bytes], client: Client, config: Config, start: int) -> None:
    """Wait until the server has heard of a new worker."""
    log = config.home / "worker.log"
    deadline = time.monotonic() + PATIENCE
    while not await _is_heard(client, config.worker.task_queue, process.pid):
        if process.poll() is not None:
            code = process.returncode
            raise ServerUnreachable(f"the worker stopped at once with exit code {code}:\n{tail(log, start)}")
        if time.monotonic() > deadline:
            raise ServerUnreachable(f"the worker has not started in {PATIENCE:.0f} s; its log is {log}")
        await asyncio.sleep(TICK)


async def _is_heard(client: Client, queue: str, pid: int) -> bool:
    request = DescribeTaskQueueRequest(
        namespace=NAMESPACE,
        task_queue=TaskQueue(name=queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    reply = await client.workflow_service.describe_task_queue(request, retry=True)
    return any(poller.identity.startswith(f"{pid}@") for poller in reply.pollers)


def _environment(config: Config, server: Server) -> dict[str, str]:
    """This command's environment, with everything that leads to the embedded server and the user's modules."""
    environment = clean_environment()
    path = environment.get("PYTHONPATH")
    return environment | {
        "TEMPORAL_ADDRESS": server.address,
        "TEMPORAL_NAMESPACE": NAMESPACE,
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "HOLDFAST_HOME": str(config.home),
        "HOLDFAST_TASK_QUEUE": config.worker.task_queue,
        "HOLDFAST_IMPORTS": ",".join(config.worker.imports),
        "HOLDFAST_PAYLOADS": config.place(embedded=True),
        "HOLDFAST_SECRETS": f"dir:{config.secret_folder(embedded=True)}",
        "PYTHONPATH": os.pathsep.join([str(config.folder), path] if path else [str(config.folder)]),
        "PYTHONUNBUFFERED": "1",
    }


PROVIDER_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")
"""What providers read themselves: a worker that was started before one was set knows nothing of it."""


def _fingerprint(config: Config, server: Server) -> str:
    """Stands for everything the worker was started with; another one means another worker."""
    text = config.path.read_text(encoding="utf-8") if config.path else ""
    places = [config.place(embedded=True), str(config.secret_folder(embedded=True))]
    parts = [sys.executable, server.address, str(config.folder), repr(config.worker), *places, text]
    ours = [file for name in OUR_CODE for file in _python_files(ROOT / name)]
    theirs = [file for name in config.worker.imports for file in _module_files(name, config.folder)]
    for file in sorted({*ours, *theirs}):
        stat = file.stat()
        parts.append(f"{file} {stat.st_mtime_ns} {stat.st_size}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _keys(config: Config) -> dict[str, str]:
    """Digests of the keys that the configuration names and that are set here."""
    names = {config.answers.key_env, config.cache.url_env, *PROVIDER_KEYS, *config.secrets.env}
    names |= {model.api_key_env for model in config.models.values()}
    names |= {name for server in config.mcp.values() for name in (*server.env, *server.headers_env.values())}
    values = {name: os.environ.get(name) for name in names if name}
    return {name: hashlib.sha256(value.encode()).hexdigest() for name, value in values.items() if value}


def _module_files(name: str, folder: Path) -> Iterable[Path]:
    """The files of a module's whole package, found without importing it; none when it is not there."""
    spec = PathFinder.find_spec(name.partition(".")[0], [str(folder), *sys.path])
    if spec is None:
        return []
    places = spec.submodule_search_locations or ([spec.origin] if spec.origin else [])
    return [file for place in places for file in _python_files(Path(place))]


def _python_files(place: Path) -> Iterable[Path]:
    """A module, or those of a folder; an editor's dangling links are none."""
    return [file for file in (place.rglob("*.py") if place.is_dir() else [place]) if file.is_file()]

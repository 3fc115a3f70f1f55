"""Wires workflows and activities to a connection; decides nothing.

`python worker.py` (or `python -m worker`) runs until SIGTERM or SIGINT; `python worker.py --health` asks a running one;
`python worker.py --replay FILE [--json]` replays recorded histories instead, for `holdfast replay`.
Beside `holdfast.toml` and TEMPORAL_…, the environment says (an empty variable counts as unset):

`HOLDFAST_GRACE`                  seconds that running activities get at shutdown (10)
`HOLDFAST_MAX_ACTIVITIES`         activities at a time (100)
`HOLDFAST_MAX_WORKFLOW_TASKS`     workflow tasks at a time (100)
`HOLDFAST_MAX_CACHED_WORKFLOWS`   runs kept in memory (1000)
`HOLDFAST_BUILD_ID`               turns on worker versioning; with HOLDFAST_DEPLOYMENT (holdfast) it names the version
`HOLDFAST_VERSIONING`             auto_upgrade (default) or pinned
`HOLDFAST_HEALTH_PORT`            answers HTTP 200 on /healthz while the worker polls
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import re
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHistory
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError
from temporalio.worker import Replayer, Worker, WorkerDeploymentConfig, WorkflowReplayResult, WorkflowRunner

from activities import CacheStore, McpServer, McpServers, ModelAlias, all_activities, store_at
from client.config import Config, ConfigError, McpSection, load_config
from client.connection import (
    Connection,
    ServerUnreachable,
    connect,
    converter,
    missing_search_attributes,
    payload_place,
)
from client.secrets import stores
from protocol.guard import DEPLOYMENT
from workflows import RUNNER, WORKFLOWS

log = logging.getLogger("holdfast.worker")

BEHAVIOURS = {"auto_upgrade": VersioningBehavior.AUTO_UPGRADE, "pinned": VersioningBehavior.PINNED}


@dataclass(frozen=True)
class Settings:
    """How much a worker does at a time, how it leaves, which version it is."""

    grace: int = 10
    max_activities: int = 100
    max_workflow_tasks: int = 10
    """They share one interpreter: more at a time are done no sooner, and each may come near the SDK's two seconds."""
    max_cached_workflows: int = 1000
    health_port: int = 0
    build_id: str = ""
    deployment: str = "holdfast"
    versioning: str = "auto_upgrade"

    @staticmethod
    def of(environment: Mapping[str, str]) -> Settings:
        """The settings that HOLDFAST_… variables make. Raises ConfigError."""
        versioning = environment.get("HOLDFAST_VERSIONING") or "auto_upgrade"
        if versioning not in BEHAVIOURS:
            raise ConfigError(f"HOLDFAST_VERSIONING={versioning}: must be one of {', '.join(BEHAVIOURS)}")
        return Settings(
            grace=_number(environment, "HOLDFAST_GRACE", 10, 0),
            max_activities=_number(environment, "HOLDFAST_MAX_ACTIVITIES", 100, 1),
            max_workflow_tasks=_number(environment, "HOLDFAST_MAX_WORKFLOW_TASKS", 10, 2),
            max_cached_workflows=_number(environment, "HOLDFAST_MAX_CACHED_WORKFLOWS", 1000, 0),
            health_port=_number(environment, "HOLDFAST_HEALTH_PORT", 0, 0),
            build_id=environment.get("HOLDFAST_BUILD_ID") or "",
            deployment=environment.get("HOLDFAST_DEPLOYMENT") or "holdfast",
            versioning=versioning,
        )

    def build(self) -> str:
        """How the log calls this build, if it has a name."""
        return f", build {self.deployment}/{self.build_id} ({self.versioning})" if self.build_id else ""

    def version(self) -> WorkerDeploymentConfig | None:
        """What worker versioning needs; None leaves it off."""
        if not self.build_id:
            return None
        return WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(deployment_name=self.deployment, build_id=self.build_id),
            use_worker_versioning=True,
            default_versioning_behavior=BEHAVIOURS[self.versioning],
        )


def _number(environment: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = environment.get(name) or str(default)
    if not text.isdecimal() or int(text) < least:
        raise ConfigError(f"{name}={text}: must be a whole number, {least} or more")
    return int(text)


def create_worker(
    client: Client,
    *,
    task_queue: str,
    activities: Sequence[Callable[..., Any]],
    settings: Settings | None = None,
    runner: WorkflowRunner = RUNNER,
) -> Worker:
    """A worker for our workflows and these activities; the caller runs it."""
    settings = settings or Settings()
    return Worker(
        client,
        task_queue=task_queue,
        workflows=WORKFLOWS,
        activities=activities,
        workflow_runner=runner,
        activity_executor=ThreadPoolExecutor(settings.max_activities, thread_name_prefix="activity"),
        max_concurrent_activities=settings.max_activities,
        max_concurrent_workflow_tasks=settings.max_workflow_tasks,
        max_cached_workflows=settings.max_cached_workflows,
        graceful_shutdown_timeout=timedelta(seconds=settings.grace),
        # A run waits this long for a worker that was killed before another one takes it; the SDK's 10 s feel broken.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        deployment_config=settings.version(),
    )


def main(arguments: Sequence[str] = ()) -> int:
    """Run a worker, or ask for one's health; the exit code (0 done, 2 bad configuration, 5 no server)."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = Settings.of(os.environ)
        if "--health" in arguments:
            return 0 if _is_healthy(settings.health_port) else 1
        if "--replay" in arguments:
            return _replay(Path(arguments[arguments.index("--replay") + 1]), "--json" in arguments)
        config = load_config()
        servers = mcp_servers(config)
        cache = _cache(config)
        activities = activities_of(config, servers, cache)
        asyncio.run(_run(config, settings, activities, servers, cache))
    except ConfigError as error:
        log.error("%s", error)
        return 2
    except ServerUnreachable as error:
        log.error("%s", error)
        return 5
    return 0


def mcp_servers(config: Config) -> McpServers:
    """The MCP servers that the configuration names; none is reached before a tool of it is needed."""
    return McpServers({name: _mcp_server(section) for name, section in config.mcp.items()})


def _mcp_server(section: McpSection) -> McpServer:
    return McpServer(tuple(section.command or ()), section.url, tuple(section.env), section.headers_env)


def _cache(config: Config) -> CacheStore:
    place = config.cache_place()
    try:
        return store_at(place)
    except ValueError as error:
        key = "url_env" if config.cache.url_env else "store"
        raise ConfigError(f"{config.path}: cache.{key}: {error}") from None


def activities_of(config: Config, servers: McpServers, cache: CacheStore) -> Sequence[Callable[..., Any]]:
    """Import what `[worker] imports` names, which registers its tools; every activity there then is."""
    if str(config.folder) not in sys.path:
        sys.path.insert(1, str(config.folder))
    for name in config.worker.imports:
        try:
            importlib.import_module(name)
        except ImportError as error:
            place = config.path or "HOLDFAST_IMPORTS"
            raise ConfigError(
                f"{place}: worker.imports: '{name}' cannot be imported: {error}; "
                f"install it, or put it into {config.folder}"
            ) from error
        except SyntaxError as error:
            raise ConfigError(f"{error.filename}:{error.lineno}: worker.imports: '{name}': {error.msg}") from error
    models = {name: ModelAlias(**section.model_dump()) for name, section in config.models.items()}
    return all_activities(config.worker.imports, models, servers, cache, stores(config))


async def _run(
    config: Config,
    settings: Settings,
    activities: Sequence[Callable[..., Any]],
    servers: McpServers,
    cache: CacheStore,
) -> None:
    """Poll until a signal asks to leave."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    connection = await connect(config, embedded=False)
    await _check_search_attributes(connection)
    DEPLOYMENT.answer_key = config.answer_key()
    DEPLOYMENT.groups = {name: list(members) for name, members in config.groups.items()}
    worker = create_worker(
        connection.client, task_queue=connection.task_queue, activities=activities, settings=settings
    )
    try:
        async with worker, _health(settings.health_port):
            log.info(
                "polling task queue '%s' of namespace '%s' at %s: %d workflows, %d activities%s",
                connection.task_queue,
                connection.client.namespace,
                connection.client.service_client.config.target_host,
                len(WORKFLOWS),
                len(activities),
                settings.build(),
            )
            await stop.wait()
            log.info("leaving: running activities get %d s", settings.grace)
    finally:
        await asyncio.gather(servers.close(), cache.close())


async def _check_search_attributes(connection: Connection) -> None:
    """A search attribute that is not registered would make every workflow task fail for ever."""
    namespace = connection.client.namespace
    try:
        missing = await missing_search_attributes(connection.client, namespace)
    except RPCError as error:
        log.warning("search attributes could not be checked: %s", error)
        return
    if missing:
        raise ServerUnreachable(
            f"search attributes {', '.join(missing)} are not registered in namespace '{namespace}'; run: holdfast setup"
        )


@asynccontextmanager
async def _health(port: int) -> AsyncIterator[None]:
    """Answer health checks while the worker polls."""
    if not port:
        yield
        return
    async with await asyncio.start_server(_answer_health, port=port):
        yield


async def _answer_health(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = await reader.readline()
    status = "200 OK" if request.startswith(b"GET /healthz ") else "404 Not Found"
    writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    await writer.drain()
    writer.close()


def _is_healthy(port: int) -> bool:
    if not port:
        raise ConfigError("HOLDFAST_HEALTH_PORT is not set; set it for the worker and for the health check alike")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
            return True
    except urllib.error.URLError as error:
        log.error("no worker answers on port %d: %s", port, error.reason)
        return False


def _replay(path: Path, as_json: bool) -> int:
    """Replay the histories in a file on this code, and say of each whether it is followed; 1 if one is not."""
    # Both log what is told below, the SDK's core to standard output.
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))
    results = asyncio.run(_replayed(_histories(path), payload_place(load_config())))
    rows = [
        {"workflow": one.history.workflow_id, "run": one.history.run_id, "ok": one.replay_failure is None}
        | {"events": len(one.history.events), "error": _reason(one.replay_failure)}
        for one in results
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            told = "is followed" if row["ok"] else f"is NOT followed: {row['error']}"
            print(f"{row['workflow']} ({row['run']}, {row['events']} events) {told}")
    return 0 if all(row["ok"] for row in rows) else 1


def _reason(failure: Exception | None) -> str | None:
    """Why a history is not followed; of a payload that is not there only that, and not the core's account of it."""
    text = str(failure) if failure else None
    unreachable = re.search(r'message: "(.*?)", source: .*"PayloadsUnreachable"', text or "")
    return unreachable[1] if unreachable else text


def _histories(path: Path) -> list[WorkflowHistory]:
    """The histories of a file: one, as Temporal saves it, or a list of them with their workflow ids."""
    try:
        value = json.loads(path.read_bytes())
        written = [value] if "events" in value else value["histories"]
        if not all(_is_whole(one["events"]) for one in written):
            raise ValueError("a history does not begin with its start, or leaves events out")
        return [WorkflowHistory.from_json(one.get("workflow", path.stem), {"events": one["events"]}) for one in written]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        shape = '{"events": […]} or {"histories": [{"workflow": ID, "events": […]}, …]}'
        raise ConfigError(f"{path} holds no histories: {error}; expected {shape}") from error


def _is_whole(events: list[dict[str, Any]]) -> bool:
    """The SDK's core panics, and then hangs, on a history that is not."""
    numbers = [int(event["eventId"]) for event in events]
    return "workflowExecutionStartedEventAttributes" in events[0] and numbers == list(range(1, len(events) + 1))


async def _replayed(histories: Sequence[WorkflowHistory], place: str) -> list[WorkflowReplayResult]:
    reading = converter(place, store=False)
    replayer = Replayer(workflows=WORKFLOWS, workflow_runner=RUNNER, data_converter=reading)
    return [await replayer.replay_workflow(one, raise_on_replay_failure=False) for one in histories]


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # A plain exit would wait for tools that hang in threads, and the SDK may abort it (sdk-python issue 300).
    os._exit(code)

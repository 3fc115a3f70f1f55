"""The worker process: connects workflows and activities to a task queue.

`python worker.py` (or `python -m holdfast.worker`) runs until SIGTERM or SIGINT. Options:

`--make-current`                  runs likewise, and makes its version the current one (see HOLDFAST_BUILD_ID)
`--health`                        checks the health of a running worker
`--replay FILE [--json]`          replays recorded histories, for `holdfast replay`
`--look-up`                       answers a look-up from standard input, for `holdfast validate`

Settings come from `holdfast.toml`, from TEMPORAL_… and from these variables (an empty one counts as unset):

`HOLDFAST_HOLD`                   true: take answers and queries, but call no tool and no model (false)
`HOLDFAST_GRACE`                  seconds that running activities get at shutdown (10)
`HOLDFAST_MAX_ACTIVITIES`         activities at a time (100)
`HOLDFAST_MAX_WORKFLOW_TASKS`     workflow tasks at a time (10)
`HOLDFAST_MAX_CACHED_WORKFLOWS`   workflows kept in memory (1000)
`HOLDFAST_BUILD_ID`               turns on worker versioning; with HOLDFAST_DEPLOYMENT (holdfast) it names the version
`HOLDFAST_VERSIONING`             auto_upgrade (default) or pinned
`HOLDFAST_HEALTH_PORT`            answers HTTP 200 on /healthz while the worker polls
"""

from __future__ import annotations

import asyncio
import contextlib
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

from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client, WorkflowHistory
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer, Worker, WorkerDeploymentConfig, WorkflowReplayResult, WorkflowRunner

from holdfast.activities import (
    CacheStore,
    LookUpActivities,
    McpServer,
    McpServers,
    ModelActivities,
    ModelAlias,
    ToolActivities,
    all_activities,
    store_at,
)
from holdfast.client.config import Config, ConfigError, McpSection, load_config
from holdfast.client.connection import (
    Connection,
    ServerUnreachable,
    connect,
    converter,
    missing_search_attributes,
    payload_place,
)
from holdfast.client.secrets import stores
from holdfast.protocol.guard import DEPLOYMENT
from holdfast.protocol.lookup import LookedUp, LookUp
from holdfast.protocol.runs import HOLD_MARK
from holdfast.workflows import RUNNER, WORKFLOWS

log = logging.getLogger("holdfast.worker")

VERSION_LOOKS, VERSION_PAUSE = 60, 0.5
"""Number of attempts to make a version current that the server does not know yet, and seconds between them."""

BEHAVIOURS = {"auto_upgrade": VersioningBehavior.AUTO_UPGRADE, "pinned": VersioningBehavior.PINNED}


@dataclass(frozen=True)
class Settings:
    """The settings of a worker: concurrency, shutdown, health check and version."""

    grace: int = 10
    """Seconds that running activities get at shutdown."""
    max_activities: int = 100
    max_workflow_tasks: int = 10
    """They share one interpreter: with more, none is done sooner, and each comes nearer to the SDK's limit of 2 s."""
    max_cached_workflows: int = 1000
    health_port: int = 0
    """0: no health check."""
    build_id: str = ""
    deployment: str = "holdfast"
    versioning: str = "auto_upgrade"

    @staticmethod
    def of(environment: Mapping[str, str]) -> Settings:
        """Return the settings of the HOLDFAST_… variables. Raises `ConfigError`."""
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

    @property
    def version_name(self) -> str:
        return f"{self.deployment}/{self.build_id}"

    def build(self) -> str:
        """Return the build for the log, or nothing if it has no id."""
        return f", build {self.deployment}/{self.build_id} ({self.versioning})" if self.build_id else ""

    def version(self) -> WorkerDeploymentConfig | None:
        """Return the configuration of worker versioning; None leaves it off."""
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
    identity: str | None = None,
) -> Worker:
    """Return a worker for our workflows and these activities. The caller runs it.

    Args:
        activities: Empty: the worker takes answers and queries only.
        identity: Name of the worker among the pollers of the task queue; None: the client's.
    """
    settings = settings or Settings()
    return Worker(
        client,
        task_queue=task_queue,
        identity=identity,
        workflows=WORKFLOWS,
        activities=activities,
        workflow_runner=runner,
        activity_executor=ThreadPoolExecutor(settings.max_activities, thread_name_prefix="activity"),
        max_concurrent_activities=settings.max_activities,
        max_concurrent_workflow_tasks=settings.max_workflow_tasks,
        max_cached_workflows=settings.max_cached_workflows,
        graceful_shutdown_timeout=timedelta(seconds=settings.grace),
        # After a worker was killed, its runs wait this long until another one takes them; the SDK's 10 s feel broken.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        deployment_config=settings.version(),
    )


def main(arguments: Sequence[str] = ()) -> int:
    """Run a worker or one of its commands. Return the exit code: 0 done, 1 no, 2 bad configuration, 5 no server."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = Settings.of(os.environ)
        if "--health" in arguments:
            return 0 if _is_healthy(settings.health_port) else 1
        if "--replay" in arguments:
            return _replay(Path(arguments[arguments.index("--replay") + 1]), "--json" in arguments)
        makes_current = "--make-current" in arguments
        if makes_current and not settings.build_id:
            raise ConfigError("--make-current: HOLDFAST_BUILD_ID is not set; it names the version")
        config = load_config()
        if "--look-up" in arguments:
            return _look_up(config)
        servers = mcp_servers(config)
        cache = _cache(config)
        activities = activities_of(config, servers, cache)
        asyncio.run(_run(config, settings, activities, servers, cache, makes_current))
    except ConfigError as error:
        log.error("%s", error)
        return 2
    except ServerUnreachable as error:
        log.error("%s", error)
        return 5
    return 0


def _look_up(config: Config) -> int:
    """Answer the `LookUp` on standard input from this machine's configuration, without a server."""
    request = LookUp.model_validate_json(sys.stdin.buffer.read())
    with contextlib.redirect_stdout(sys.stderr):  # the author's modules may print while they are imported
        try:
            result = asyncio.run(_find_missing(config, request))
        except ConfigError as error:
            print(error, file=sys.stderr)
            return 2
    print(result.model_dump_json())
    return 0


async def _find_missing(config: Config, request: LookUp) -> LookedUp:
    import_packages(config)
    DEPLOYMENT.groups = {name: list(members) for name, members in config.groups.items()}
    servers = mcp_servers(config)
    tools = ToolActivities(config.worker.imports, servers, stores(config))
    try:
        return await LookUpActivities(tools, ModelActivities(_aliases(config)), servers).missing(request)
    finally:
        await servers.close()


def _aliases(config: Config) -> dict[str, ModelAlias]:
    return {name: ModelAlias(**section.model_dump()) for name, section in config.models.items()}


def mcp_servers(config: Config) -> McpServers:
    """Return the MCP servers of the configuration. Each is connected on first use."""
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
    """Import the packages of `[worker] imports`, and return every activity. Raises `ConfigError`."""
    import_packages(config)
    return all_activities(config.worker.imports, _aliases(config), servers, cache, stores(config))


def import_packages(config: Config) -> None:
    """Import the packages of `[worker] imports`, which registers their tools. Raises `ConfigError`."""
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


async def _run(
    config: Config,
    settings: Settings,
    activities: Sequence[Callable[..., Any]],
    servers: McpServers,
    cache: CacheStore,
    makes_current: bool,
) -> None:
    """Poll until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    connection = await connect(config, embedded=False)
    await _check_search_attributes(connection)
    DEPLOYMENT.keys = config.answer_keys(every=True)
    DEPLOYMENT.limits = config.limits
    DEPLOYMENT.groups = {name: list(members) for name, members in config.groups.items()}
    identity = None
    if config.worker.hold:  # workflows run on, so that they take answers; their code does not see the setting
        activities, identity = [], f"{connection.client.identity}{HOLD_MARK}"
        log.warning("on hold: answers and queries are taken; no run is started, no tool and no model is called")
    worker = create_worker(
        connection.client,
        task_queue=connection.task_queue,
        activities=activities,
        settings=settings,
        identity=identity,
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
            if makes_current:
                await make_current(connection.client, settings)
            await stop.wait()
            log.info("shutting down: running activities get %d s", settings.grace)
    finally:
        await asyncio.gather(servers.close(), cache.close())


async def make_current(client: Client, settings: Settings) -> None:
    """Make the version of this worker the current one: new runs, and those that auto-upgrade, then go to it.

    Raises `ServerUnreachable` if the server does not learn of the version in time.
    """
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace,
        deployment_name=settings.deployment,
        build_id=settings.build_id,
        ignore_missing_task_queues=True,
    )
    for attempt in range(VERSION_LOOKS):
        try:
            await client.workflow_service.set_worker_deployment_current_version(request, retry=True)
        except RPCError as error:
            # The server learns of a version by its first poll, which may take a moment.
            if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION):
                raise
            if attempt == VERSION_LOOKS - 1:
                raise ServerUnreachable(f"{settings.version_name} was not made current: {error.message}") from error
            await asyncio.sleep(VERSION_PAUSE)
        else:
            log.info("%s is the current version", settings.version_name)
            return


async def _check_search_attributes(connection: Connection) -> None:
    """Refuse to start without our search attributes: every workflow task would fail for ever."""
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
    """Replay the histories of a file on this code and print the results. Return 1 if one does not replay, else 0."""
    # Both would log the failures that are printed below, the SDK's core even to standard output.
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))
    results = asyncio.run(_replay_all(_histories(path), payload_place(load_config())))
    rows = [
        {"workflow": result.history.workflow_id, "run": result.history.run_id, "ok": result.replay_failure is None}
        | {"events": len(result.history.events), "error": _reason(result.replay_failure)}
        for result in results
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            verdict = "is followed" if row["ok"] else f"is NOT followed: {row['error']}"
            print(f"{row['workflow']} ({row['run']}, {row['events']} events) {verdict}")
    return 0 if all(row["ok"] for row in rows) else 1


def _reason(failure: Exception | None) -> str | None:
    """Return why a history does not replay; for a missing payload only its message, without the core's Rust error."""
    text = str(failure) if failure else None
    unreachable = re.search(r'message: "(.*?)", source: .*"PayloadsUnreachable"', text or "")
    return unreachable[1] if unreachable else text


def _histories(path: Path) -> list[WorkflowHistory]:
    """Return the histories of a file: one, as Temporal saves it, or a list with workflow ids. Raises `ConfigError`."""
    try:
        value = json.loads(path.read_bytes())
        entries = [value] if "events" in value else value["histories"]
        if not all(_is_complete(entry["events"]) for entry in entries):
            raise ValueError("a history does not begin with its start, or leaves events out")
        return [
            WorkflowHistory.from_json(entry.get("workflow", path.stem), {"events": entry["events"]})
            for entry in entries
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        shape = '{"events": […]} or {"histories": [{"workflow": ID, "events": […]}, …]}'
        raise ConfigError(f"{path} holds no histories: {error}; expected {shape}") from error


def _is_complete(events: list[dict[str, Any]]) -> bool:
    # Checked here because the SDK's core panics, and then hangs, on an incomplete history.
    numbers = [int(event["eventId"]) for event in events]
    return "workflowExecutionStartedEventAttributes" in events[0] and numbers == list(range(1, len(events) + 1))


async def _replay_all(histories: Sequence[WorkflowHistory], place: str) -> list[WorkflowReplayResult]:
    data_converter = converter(place, store=False)
    replayer = Replayer(workflows=WORKFLOWS, workflow_runner=RUNNER, data_converter=data_converter)
    return [await replayer.replay_workflow(history, raise_on_replay_failure=False) for history in histories]


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # A plain exit would wait for tools that hang in threads, and the SDK may abort it (sdk-python issue 300).
    os._exit(code)

"""The worker process: connects workflows and activities to a task queue.

`python worker.py` (or `python -m holdfast.worker`) runs until SIGTERM or SIGINT. Settings come from `holdfast.toml`,
from TEMPORAL_… and from HOLDFAST_… variables: see `holdfast.runtime.config`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import logging
import os
import socket
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.service import RPCError
from temporalio.worker import Interceptor, Worker, WorkerDeploymentConfig, WorkflowRunner

from holdfast.activities import (
    AgentActivities,
    CacheStore,
    CheckpointStore,
    LookUpActivities,
    McpServer,
    McpServers,
    MetricsInterceptor,
    ModelActivities,
    ModelAlias,
    NoCheckpoints,
    SizeInterceptor,
    StoreInterceptor,
    ToolActivities,
    all_activities,
    store_at,
)
from holdfast.activities.held import make_held_activities
from holdfast.protocol.guard import DEPLOYMENT
from holdfast.protocol.lookup import LookedUp, LookUp
from holdfast.protocol.names import HOLD_MARK
from holdfast.runtime.config import Config, ConfigError, McpSection, WorkerSettings, WorkerVariables, load_config
from holdfast.runtime.config.logs import configure_logging
from holdfast.runtime.config.sections import MOST_PROCESSES
from holdfast.runtime.connection import (
    Connection,
    check_namespace,
    check_search_attributes,
    connect,
    find_payload_place,
)
from holdfast.runtime.core_log import forward_core
from holdfast.runtime.distribution import WORKER, find_install_command
from holdfast.runtime.embedded.inbox_key import inbox_key
from holdfast.runtime.encryption import derive_check_keys, keep_content_out_of_logs, load_key_ring
from holdfast.runtime.errors import ServerUnreachable, make_server_error
from holdfast.runtime.health import (
    READY,
    HttpReply,
    Routes,
    is_healthy,
    report_health,
    serve_privately,
    serve_routes,
)
from holdfast.runtime.payloads import PieceDriver, find_directory, stores_large
from holdfast.runtime.payloads.checkpoints import open_checkpoints
from holdfast.runtime.probe import ALIVE, LOOPBACK
from holdfast.runtime.replay import replay
from holdfast.runtime.sealed_cache import SealedCache
from holdfast.runtime.secrets import open_backends
from holdfast.runtime.shutdown import LEAVING_SECONDS, Shutdown
from holdfast.runtime.supervisor import Lifeline, Ports, supervise
from holdfast.runtime.workers import make_current
from holdfast.workflows import OWN_RUNNER, RUNNER, WORKFLOWS
from holdfast.workflows.steps import check_executors

log = logging.getLogger("holdfast.worker")

READY_TIMEOUT = timedelta(seconds=3)
BEHAVIOURS = {"auto_upgrade": VersioningBehavior.AUTO_UPGRADE, "pinned": VersioningBehavior.PINNED}


def create_worker(
    client: Client,
    *,
    task_queue: str,
    activities: Sequence[Callable[..., Any]],
    settings: WorkerSettings | None = None,
    runner: WorkflowRunner = RUNNER,
    own_runner: WorkflowRunner = OWN_RUNNER,
    identity: str | None = None,
) -> Worker:
    """Return a worker for our workflows and these activities. The caller runs it.

    Args:
        activities: Empty: the worker takes answers and queries only.
        runner: The runner of authors' workflow classes.
        own_runner: The runner of ours.
        identity: Name of the worker among the pollers of the task queue; None: the client's.
    """
    check_executors()
    keep_content_out_of_logs(client.data_converter)
    settings = settings or WorkerSettings()
    return Worker(
        client,
        task_queue=task_queue,
        identity=identity,
        workflows=WORKFLOWS,
        activities=activities or make_held_activities(),
        no_remote_activities=not activities,
        workflow_runner=runner,
        unsandboxed_workflow_runner=own_runner,
        interceptors=[MetricsInterceptor(), *choose_interceptors(client)],
        activity_executor=ThreadPoolExecutor(settings.max_activities, thread_name_prefix="activity"),
        max_concurrent_activities=settings.max_activities,
        max_concurrent_workflow_tasks=settings.max_workflow_tasks,
        max_cached_workflows=settings.max_cached_workflows,
        graceful_shutdown_timeout=timedelta(seconds=settings.grace),
        # After a worker was killed, its runs wait this long until another one takes them; the SDK's 10 s feel broken.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        deployment_config=versioning(settings),
    )


def choose_interceptors(client: Client) -> list[Interceptor]:
    """Return what measures the results of our activities, or for a client that stores large values outside, does so."""
    storage = client.data_converter.external_storage
    if storage is None or not stores_large(storage):
        return [SizeInterceptor()]
    ours = (driver for driver in storage.drivers if isinstance(driver, PieceDriver))
    return [StoreInterceptor(driver.store_early, storage.payload_size_threshold) for driver in ours]


def versioning(settings: WorkerSettings) -> WorkerDeploymentConfig | None:
    """Return the configuration of worker versioning; None leaves it off."""
    if not settings.build_id:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=settings.deployment, build_id=settings.build_id),
        use_worker_versioning=True,
        # Pinned is opt-in: a run that waits for a person reaches no continue-as-new, and without workers of its version
        # nobody can answer or query it.
        default_versioning_behavior=BEHAVIOURS[settings.versioning],
    )


def main(arguments: Sequence[str] = ()) -> int:
    """Run a worker or one of its commands. Return the exit code: 0 done, 1 no, 2 bad configuration, 5 no server.

    A second signal, or a shutdown that takes too long, ends the process without a return.
    """
    configure_logging("text", "info")
    options = _options(arguments)
    try:
        settings = WorkerVariables.read()
        configure_logging(settings.log_format, settings.log_level, options.process)
        if options.health:
            return 0 if is_healthy(settings.health_port) else 1
        if options.replay:
            classes = [*WORKFLOWS, *own_workflows(options.workflows, load_config())]
            return 0 if replay(options.replay, classes, RUNNER, OWN_RUNNER, as_json=options.json) else 1
        if options.look_up:
            return _look_up(load_config())
        if options.make_current and not settings.build_id:
            raise ConfigError("--make-current: HOLDFAST_BUILD_ID is not set; it names the version")
        return _work(load_config(), settings, options)
    except ConfigError as error:
        log.error("%s", error)
        return 2
    except ServerUnreachable as error:
        log.error("%s", error)
        return 5
    except RPCError as error:
        log.error("%s", make_server_error(error))
        return 5


def _work(config: Config, settings: WorkerVariables, options: argparse.Namespace) -> int:
    """Run a worker, or the supervisor of several, until it is told to end. Return the exit code."""
    count = options.processes or config.worker.processes
    if options.lifeline is None and count > 1:
        once = ["--make-current"] if options.make_current else []
        return asyncio.run(supervise([sys.executable, *WORKER], count, settings, once))
    lifeline = None if options.lifeline is None else Lifeline(options.lifeline)
    if lifeline is not None and settings.metrics_port:
        settings = settings.model_copy(update={"metrics_port": open_private_metrics()})
    else:
        make_runtime(settings.metrics_port)
    asyncio.run(_run(config, settings, open_resources(config), options.make_current, lifeline))
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m holdfast.worker", description="Runs until SIGTERM or SIGINT.")
    parser.add_argument(
        "--make-current", action="store_true", help="make its version, HOLDFAST_BUILD_ID, the current one"
    )
    parser.add_argument(
        "--processes", metavar="N", type=_count, help="run N worker processes; default: [worker] processes"
    )
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)  # given by the supervisor
    parser.add_argument("--lifeline", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--health", action="store_true", help="check the health of a running worker instead")
    parser.add_argument("--replay", metavar="FILE", type=Path, help="replay recorded histories")
    parser.add_argument("--json", action="store_true", help="print the results of --replay as JSON")
    parser.add_argument(
        "--workflows", metavar="MODULE", action="append", default=[], help="replay workflows of this module, too"
    )
    parser.add_argument("--look-up", action="store_true", help="answer a look-up on standard input")
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_PROCESSES:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number, 1 to {MOST_PROCESSES}")
    return int(text)


def own_workflows(modules: Sequence[str], config: Config) -> list[type]:
    """Return the workflow classes of an author's modules. Raises `ConfigError`."""
    if str(config.folder) not in sys.path:
        sys.path.insert(1, str(config.folder))
    try:
        loaded = [importlib.import_module(name) for name in modules]
    except ImportError as error:
        raise ConfigError(f"--workflows: {error}; install it, or put it into {config.folder}") from error
    classes = [value for module in loaded for value in vars(module).values() if isinstance(value, type)]
    own = [kind for kind in classes if "__temporal_workflow_definition" in vars(kind) and kind not in WORKFLOWS]
    return list(dict.fromkeys(own))


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
    _name_groups(config)
    servers = mcp_servers(config)
    agents = AgentActivities(config.worker.imports, _aliases(config))
    tools = ToolActivities(config.worker.imports, servers, open_backends(config), _checkpoints(config), agents)
    try:
        return await LookUpActivities(tools, ModelActivities(_aliases(config)), servers, agents).find_missing(request)
    finally:
        await servers.close()


def _aliases(config: Config) -> dict[str, ModelAlias]:
    return {name: ModelAlias(**section.model_dump()) for name, section in config.models.items()}


def mcp_servers(config: Config) -> McpServers:
    """Return the MCP servers of the configuration. Each is connected on first use."""
    return McpServers({name: _mcp_server(section) for name, section in config.mcp.items()})


def _mcp_server(section: McpSection) -> McpServer:
    return McpServer(
        command=tuple(section.command or ()),
        url=section.url,
        env=tuple(section.env),
        headers_env=section.headers_env,
        elicitation=section.elicitation,
        protocol=section.protocol,
    )


@dataclass(frozen=True)
class Resources:
    """The activities of a worker, and what they hold open."""

    activities: Sequence[Callable[..., Any]]
    servers: McpServers
    cache: CacheStore

    async def close(self) -> None:
        """End the MCP servers and close the cache."""
        await asyncio.gather(self.servers.close(), self.cache.close())


def open_resources(config: Config) -> Resources:
    """Import the packages of `[worker] imports`, and return every activity with what it needs. Raises `ConfigError`."""
    servers, cache = mcp_servers(config), _cache(config)
    return Resources(make_activities(config, servers, cache, _checkpoints(config)), servers, cache)


def _checkpoints(config: Config) -> CheckpointStore:
    """Return the store of graphs' checkpoints: beside the large payloads, where every worker finds them."""
    return open_checkpoints(find_payload_place(config)) or NoCheckpoints()


def _cache(config: Config) -> CacheStore:
    place, ring = config.cache_place(), load_key_ring(config)
    try:
        store = store_at(place)
    except ValueError as error:
        key = "url_env" if config.cache.url_env else "store"
        raise ConfigError(f"{config.path}: cache.{key}: {error}") from None
    return SealedCache(store, ring) if ring else store


def make_activities(
    config: Config, servers: McpServers, cache: CacheStore, checkpoints: CheckpointStore | None = None
) -> Sequence[Callable[..., Any]]:
    """Import the packages of `[worker] imports`, and return every activity. Raises `ConfigError`.

    Args:
        checkpoints: The store of graphs' checkpoints; None: in memory, for as long as the worker lasts.
    """
    import_packages(config)
    folders = config.attachment_folders()
    return all_activities(
        config.worker.imports,
        _aliases(config),
        servers,
        cache,
        open_backends(config),
        folders,
        checkpoints,
        derive_check_keys(load_key_ring(config)),
    )


def import_packages(config: Config) -> None:
    """Import the packages of `[worker] imports`, which registers their tools. Raises `ConfigError`."""
    if str(config.folder) not in sys.path:
        sys.path.insert(1, str(config.folder))
    for name in config.worker.imports:
        try:
            importlib.import_module(name)
        except ImportError as error:
            place = config.path or "HOLDFAST_IMPORTS"
            way = find_install_command(error.name) or f"install it, or put it into {config.folder}"
            raise ConfigError(f"{place}: worker.imports: '{name}' cannot be imported: {error}; {way}") from error
        except SyntaxError as error:
            raise ConfigError(f"{error.filename}:{error.lineno}: worker.imports: '{name}': {error.msg}") from error
        except Exception as error:  # importing runs the author's code, which may raise anything
            text = f"worker.imports: '{name}' cannot be imported: {type(error).__name__}: {error}"
            raise ConfigError(f"{_raised_at(error, config.folder)}: {text}") from error


def _raised_at(error: Exception, folder: Path) -> str:
    """Return file and line of the innermost call in the project's own code, else of the innermost of all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    return f"{(own or frames)[-1].filename}:{(own or frames)[-1].lineno}"


def open_private_metrics() -> int:
    """Serve metrics to this machine alone, at a port that is free. Return the port. Raises `ConfigError`."""
    for last in (False, False, False, True):
        with socket.create_server((LOOPBACK, 0)) as probe:
            port = int(probe.getsockname()[1])
        try:
            make_runtime(port, LOOPBACK)
        except ConfigError:  # another process has taken it since
            if last:
                raise
        else:
            break
    return port


def make_runtime(port: int, host: str = "0.0.0.0") -> None:  # as the health port  # nosec B104
    """Make the SDK's runtime: with our log, and with metrics at `/metrics` of this port; 0: nowhere.

    Raises `ConfigError` if the port cannot be used.
    """
    metrics = PrometheusConfig(
        f"{host}:{port}", counters_total_suffix=True, unit_suffix=True, durations_as_seconds=True
    )
    try:
        runtime = Runtime(telemetry=TelemetryConfig(logging=forward_core(), metrics=metrics if port else None))
        Runtime.set_default(runtime, error_if_already_set=bool(port))
    except ValueError as error:
        raise ConfigError(f"HOLDFAST_METRICS_PORT={port}: {error}") from None


class _Threads(ThreadPoolExecutor):
    """The threads of tools. A loop that ends waits for its threads; a tool would keep the worker beyond its grace."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads that are idle; see base class."""
        super().shutdown(wait=False, cancel_futures=True)


RECONNECT_SECONDS = 1.0
OTHER_THREADS = 16
"""Threads beside those of tools: for files, stores and imports."""


async def _run(
    config: Config, settings: WorkerVariables, resources: Resources, makes_current: bool, lifeline: Lifeline | None
) -> None:
    """Poll until SIGTERM or SIGINT, or until the supervisor has ended."""
    shutdown = Shutdown(settings.grace + LEAVING_SECONDS, forced_by_signal=lifeline is None)
    # asyncio's own pool has four threads more than the machine has processors: few tools would run at a time.
    asyncio.get_running_loop().set_default_executor(_Threads(settings.max_activities + OTHER_THREADS, "tool"))
    connection = await _reach_server(config, settings.connect_seconds, shutdown)
    # At the start: one that is not registered fails the first workflow task that sets it, for ever.
    await check_search_attributes(connection.client)
    if folder := find_directory(connection.client.data_converter.external_storage):
        folder.note_namespace()  # checkpoints of graphs go there without a payload
    open_door(config, settings.inbox_key_file)
    warn_of_agents(config)
    try:
        async with (
            explaining_end(connection.client),
            _worker(connection, settings, resources),
            _answering(connection, settings, shutdown, lifeline),
        ):
            if makes_current:
                await _make_current(connection.client, settings, shutdown)
            await shutdown.wait()
            log.info("shutting down: running activities get %d s", settings.grace)
    finally:
        await resources.close()


async def _make_current(client: Client, settings: WorkerVariables, shutdown: Shutdown) -> None:
    """Make the version of this worker the current one, unless the end is requested before that has worked."""
    making = asyncio.create_task(make_current(client, settings.deployment, settings.build_id))
    ending = asyncio.create_task(shutdown.wait())
    await asyncio.wait([making, ending], return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if making.done():
        await making
        log.info("%s is the current version", settings.version_name)
    making.cancel()


async def _reach_server(config: Config, seconds: float, shutdown: Shutdown) -> Connection:
    """Connect, and try again for so long while the server is away. Raises `ServerUnreachable` or `ConfigError`."""
    end, told = time.monotonic() + seconds, ""
    while True:
        try:
            return await connect(config, embedded=False)
        except ServerUnreachable as error:
            if time.monotonic() >= end or shutdown.requested:
                raise
            if str(error) != told:  # once: an operator reads what is new, not how often it was tried
                told = str(error)
                log.warning("%s\nTrying again every %g s.", told, RECONNECT_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(shutdown.wait(), RECONNECT_SECONDS)


@asynccontextmanager
async def explaining_end(client: Client) -> AsyncIterator[None]:
    """Raise `ServerUnreachable` where the server ends a worker, of which the SDK gives a `RuntimeError`."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith(("Worker validation failed", "Poll failure")):
            raise
        await check_namespace(client)  # it raises with the way out, if the server or the namespace is gone
        host = client.service_client.config.target_host
        text = f"the server at {host} refuses this worker of namespace '{client.namespace}': {error}; start it again"
        raise ServerUnreachable(text) from error


@asynccontextmanager
async def _answering(
    connection: Connection, settings: WorkerVariables, shutdown: Shutdown, lifeline: Lifeline | None
) -> AsyncIterator[None]:
    """Answer health checks: on the configured port, or on one that only the supervisor is told."""
    routes = _health(connection.client)
    if lifeline is None:
        async with serve_routes("HOLDFAST_HEALTH_PORT", settings.health_port, routes):
            yield
        return
    async with (
        serve_privately(routes) as port,
        lifeline.report(Ports(port, settings.metrics_port), shutdown.request),
    ):
        yield


def _health(client: Client) -> Routes:
    async def alive() -> HttpReply:
        return report_health(True, "")

    async def ready() -> HttpReply:
        try:
            await client.service_client.check_health(timeout=READY_TIMEOUT)
        except RPCError:
            return report_health(False, "Temporal does not answer")
        return report_health(True, "")

    return {ALIVE: alive, READY: ready}


def warn_of_agents(config: Config) -> None:
    """Log which agents of a team's own library the worker could not carry, by name and reason.

    They are refused where a blueprint names them; the modules may have others, which no blueprint is to name.
    """
    if "pydantic_ai" in sys.modules:  # else no module that is listed can have one
        from holdfast.activities.agent_objects import unsupported_agents  # noqa: PLC0415 it loads pydantic-ai

        for text in unsupported_agents(config.worker.imports):
            log.warning("no blueprint can name this agent: %s", text)


def open_door(config: Config, inbox: Path | None = None) -> None:
    """Set what the validators of answers and commands consult; `inbox` is the file of the embedded inbox's key."""
    DEPLOYMENT.keys = config.answer_keys(every=True)
    DEPLOYMENT.inbox = inbox_key(inbox) if inbox else None
    DEPLOYMENT.access, DEPLOYMENT.limits = config.access_rules(), config.limits
    _name_groups(config)


def _name_groups(config: Config) -> None:
    DEPLOYMENT.groups = {name: list(members) for name, members in config.groups.items()}
    DEPLOYMENT.sign_in_has_groups = config.serve.sign_in_has_groups


@asynccontextmanager
async def _worker(connection: Connection, settings: WorkerSettings, resources: Resources) -> AsyncIterator[None]:
    """Run the worker of this process, and log what it polls."""
    activities, identity = resources.activities, None
    if connection.config.worker.hold:  # workflows run on and take answers; their code does not see the setting
        activities, identity = [], f"{connection.client.identity}{HOLD_MARK}"
        log.warning("on hold: answers and queries are taken; no run is started, no tool and no model is called")
    client, queue = connection.client, connection.task_queue
    async with create_worker(client, task_queue=queue, activities=activities, settings=settings, identity=identity):
        log.info(
            "polling task queue '%s' of namespace '%s' at %s: %d workflows, %d activities%s",
            queue,
            client.namespace,
            client.service_client.config.target_host,
            len(WORKFLOWS),
            len(activities),
            f", build {settings.version_name} ({settings.versioning})" if settings.build_id else "",
        )
        yield


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # A plain exit would wait for tools that hang in threads, and the SDK may abort it (sdk-python issue 300).
    os._exit(code)

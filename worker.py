"""The worker process: connects workflows and activities to a task queue.

`python worker.py` (or `python -m holdfast.worker`) runs until SIGTERM or SIGINT. Settings come from `holdfast.toml`,
from TEMPORAL_… and from HOLDFAST_… variables: see `holdfast.client.config`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Worker, WorkerDeploymentConfig, WorkflowRunner

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
from holdfast.client.config import Config, ConfigError, McpSection, WorkerSettings, WorkerVariables, load_config
from holdfast.client.connection import Connection, ServerUnreachable, check_search_attributes, connect
from holdfast.client.health import is_healthy, serve_health
from holdfast.client.replay import replay
from holdfast.client.secrets import stores
from holdfast.client.workers import make_current
from holdfast.protocol.guard import DEPLOYMENT
from holdfast.protocol.lookup import LookedUp, LookUp
from holdfast.protocol.runs import HOLD_MARK
from holdfast.workflows import RUNNER, WORKFLOWS
from holdfast.workflows.steps import check_executors

log = logging.getLogger("holdfast.worker")

BEHAVIOURS = {"auto_upgrade": VersioningBehavior.AUTO_UPGRADE, "pinned": VersioningBehavior.PINNED}


def create_worker(
    client: Client,
    *,
    task_queue: str,
    activities: Sequence[Callable[..., Any]],
    settings: WorkerSettings | None = None,
    runner: WorkflowRunner = RUNNER,
    identity: str | None = None,
) -> Worker:
    """Return a worker for our workflows and these activities. The caller runs it.

    Args:
        activities: Empty: the worker takes answers and queries only.
        identity: Name of the worker among the pollers of the task queue; None: the client's.
    """
    check_executors()
    settings = settings or WorkerSettings()
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
        deployment_config=versioning(settings),
    )


def versioning(settings: WorkerSettings) -> WorkerDeploymentConfig | None:
    """Return the configuration of worker versioning; None leaves it off."""
    if not settings.build_id:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=settings.deployment, build_id=settings.build_id),
        use_worker_versioning=True,
        default_versioning_behavior=BEHAVIOURS[settings.versioning],
    )


def main(arguments: Sequence[str] = ()) -> int:
    """Run a worker or one of its commands. Return the exit code: 0 done, 1 no, 2 bad configuration, 5 no server."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    options = _options(arguments)
    try:
        settings = WorkerVariables.read()
        if options.health:
            return 0 if is_healthy(settings.health_port) else 1
        if options.replay:
            return 0 if replay(options.replay, WORKFLOWS, RUNNER, as_json=options.json) else 1
        if options.look_up:
            return _look_up(load_config())
        if options.make_current and not settings.build_id:
            raise ConfigError("--make-current: HOLDFAST_BUILD_ID is not set; it names the version")
        config = load_config()
        asyncio.run(_run(config, settings, _resources(config), options.make_current))
    except ConfigError as error:
        log.error("%s", error)
        return 2
    except ServerUnreachable as error:
        log.error("%s", error)
        return 5
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m holdfast.worker", description="Runs until SIGTERM or SIGINT.")
    parser.add_argument(
        "--make-current", action="store_true", help="make its version, HOLDFAST_BUILD_ID, the current one"
    )
    parser.add_argument("--health", action="store_true", help="check the health of a running worker instead")
    parser.add_argument("--replay", metavar="FILE", type=Path, help="replay recorded histories")
    parser.add_argument("--json", action="store_true", help="print the results of --replay as JSON")
    parser.add_argument("--look-up", action="store_true", help="answer a look-up on standard input")
    return parser.parse_args(arguments)


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


@dataclass(frozen=True)
class Resources:
    """The activities of a worker, and what they hold open."""

    activities: Sequence[Callable[..., Any]]
    servers: McpServers
    cache: CacheStore

    async def close(self) -> None:
        """End the MCP servers and close the cache."""
        await asyncio.gather(self.servers.close(), self.cache.close())


def _resources(config: Config) -> Resources:
    """Import the packages of `[worker] imports`, and return every activity with what it needs. Raises `ConfigError`."""
    servers, cache = mcp_servers(config), _cache(config)
    return Resources(activities_of(config, servers, cache), servers, cache)


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


async def _run(config: Config, settings: WorkerSettings, resources: Resources, makes_current: bool) -> None:
    """Poll until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    connection = await connect(config, embedded=False)
    await check_search_attributes(connection.client)
    _open_door(config)
    try:
        async with _worker(connection, settings, resources), serve_health(settings.health_port):
            if makes_current:
                await make_current(connection.client, settings.deployment, settings.build_id)
                log.info("%s is the current version", settings.version_name)
            await stop.wait()
            log.info("shutting down: running activities get %d s", settings.grace)
    finally:
        await resources.close()


def _open_door(config: Config) -> None:
    """Set what the validators of answers and commands consult."""
    DEPLOYMENT.keys = config.answer_keys(every=True)
    DEPLOYMENT.limits = config.limits
    DEPLOYMENT.groups = {name: list(members) for name, members in config.groups.items()}


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

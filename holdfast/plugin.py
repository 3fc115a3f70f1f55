"""The plugin that brings Holdfast into a Temporal client and worker that a team already has.

`Client.connect(…, plugins=[Plugin()])` is enough: workers of that client get Holdfast's workflows and activities beside
their own. See docs/own-workflows.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from temporalio.client import ClientConfig
from temporalio.converter import DataConverter
from temporalio.plugin import SimplePlugin
from temporalio.worker import ReplayerConfig, UnsandboxedWorkflowRunner, Worker, WorkerConfig, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from holdfast.activities.held import make_held_activities
from holdfast.runtime.config import Config, ConfigError, WorkerSettings, load_config
from holdfast.runtime.connection import check_search_attributes, find_payload_place
from holdfast.runtime.converters import add_encryption, join_converter, takes_ours
from holdfast.runtime.encryption import keep_content_out_of_logs, load_key_ring
from holdfast.runtime.errors import ServerUnreachable
from holdfast.runtime.payloads import make_storage
from holdfast.worker import Resources, choose_interceptors, open_door, open_resources
from holdfast.workflows import OWN_RUNNER, PASSED_THROUGH, RUNNER, WORKFLOWS, Runner

NAME = "holdfast"
AnyConfig = TypeVar("AnyConfig", WorkerConfig, ReplayerConfig)


class Plugin(SimplePlugin):
    """Adds Holdfast to a client, and to every worker and replayer of that client.

    The client keeps its codec, its failure converter and its payload converter; values of Holdfast's own are converted
    by ours, and large ones go to the store of `[payloads]` unless the client has external storage. A worker keeps its
    workflows, activities, interceptors and sandbox.

    Args:
        config: The configuration; by default that of the current folder's `holdfast.toml`.

    Raises:
        ConfigError: The configuration cannot be read.
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or load_config()
        self._ring = load_key_ring(self.config)
        self._resources: Resources | None = None
        super().__init__(NAME, workflows=WORKFLOWS, activities=self._with_ours, workflow_runner=_share_modules)

    def configure_client(self, config: ClientConfig) -> ClientConfig:
        """See base class."""
        config["data_converter"] = self._converter(config.get("data_converter"), store=True)
        return super().configure_client(config)

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """See base class. Raises `ConfigError` for a client that does not have the plugin."""
        if not takes_ours(config["client"].data_converter):
            raise ConfigError("holdfast.Plugin must be a plugin of the worker's client: Client.connect(…, plugins=[…])")
        keep_content_out_of_logs(config["client"].data_converter)
        if self.config.worker.hold and not config.get("activities"):
            config["no_remote_activities"] = True
        config = super().configure_worker(config)
        config["interceptors"] = [*config.get("interceptors", ()), *choose_interceptors(config["client"])]
        config["activity_executor"] = config.get("activity_executor") or _executor()
        return _with_own_runner(config)

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        """See base class. A replay stores nothing."""
        config["data_converter"] = self._converter(config.get("data_converter"), store=False)
        return _with_own_runner(super().configure_replayer(config))

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        """See base class. Raises `ServerUnreachable` if the search attributes are not registered."""
        try:
            await check_search_attributes(worker.client)
        except ServerUnreachable:
            await _end(worker, next)
            raise
        open_door(self.config)
        try:
            await super().run_worker(worker, next)
        finally:
            if self._resources is not None:
                await self._resources.close()

    def _with_ours(self, activities: Sequence[Callable[..., Any]] | None) -> Sequence[Callable[..., Any]]:
        self._resources = open_resources(self.config)
        ours = make_held_activities() if self.config.worker.hold else self._resources.activities
        return [*(activities or ()), *ours]

    def _converter(self, converter: DataConverter | None, *, store: bool) -> DataConverter:
        joint = self._add_encryption(join_converter(converter or DataConverter.default))
        if joint.external_storage is not None:
            return joint
        return replace(
            joint, external_storage=make_storage(find_payload_place(self.config), store=store, ring=self._ring)
        )

    def _add_encryption(self, converter: DataConverter) -> DataConverter:
        """Return the converter with the codec of `[encryption]`, unless the client has one of its own."""
        if converter.payload_codec is None:
            return add_encryption(converter, self._ring)
        if self._ring:
            raise ConfigError(
                "[encryption] has keys, and the client has a payload_codec of its own: leave one of them out, as other "
                "clients could not read what both have encoded"
            )
        return converter


def _with_own_runner(config: AnyConfig) -> AnyConfig:
    """Return the configuration with our runner for classes outside the sandbox, unless the team has one of its own."""
    if type(config["unsandboxed_workflow_runner"]) is UnsandboxedWorkflowRunner:
        config["unsandboxed_workflow_runner"] = OWN_RUNNER
    return config


def _share_modules(runner: WorkflowRunner | None) -> WorkflowRunner:
    """Return the runner with the modules passed through that an author's workflow shares with ours."""
    if runner is None:
        return RUNNER
    if not isinstance(runner, SandboxedWorkflowRunner):
        return runner
    restrictions = runner.restrictions.with_passthrough_modules(*PASSED_THROUGH)
    if type(runner) is SandboxedWorkflowRunner:
        return Runner(restrictions, runner.runner_class)
    return replace(runner, restrictions=restrictions)


async def _end(worker: Worker, run: Callable[[Worker], Awaitable[None]]) -> None:
    """Run a worker that has been told to shut down, so that it ends at once.

    `async with Worker(...)` waits for its shutdown, which a worker that never ran does not have: without this call the
    block waited for ever, in silence.
    """
    shutdown = asyncio.create_task(worker.shutdown())
    await asyncio.sleep(0)  # the worker is told before it runs
    await run(worker)
    await shutdown


def _executor() -> ThreadPoolExecutor:
    """Return threads for tools that are plain functions."""
    return ThreadPoolExecutor(WorkerSettings().max_activities, thread_name_prefix="activity")

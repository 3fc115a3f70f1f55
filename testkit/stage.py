"""Where tests run: a Temporal server in memory, opened once, and a worker for each configuration."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHandle, WorkflowHistory
from temporalio.common import SearchAttributeKey
from temporalio.testing import TimeSkippingConfig, WorkflowEnvironment
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowReplayResult

from client.answering import Answering
from client.config import Config, SecretsSection
from client.connection import converter
from client.embedded import ServerUnreachable
from client.embedded.server import temporal_binary
from client.runs import Runs
from client.secrets import keeper
from protocol.runs import BLUEPRINT_ATTRIBUTE, WAITING_ATTRIBUTE
from testkit.doors import OwnCaches, Tools
from worker import activities_of, create_worker, mcp_servers
from workflows import WORKFLOWS
from workflows.calls import CALL_TOOL

ATTRIBUTES = (
    SearchAttributeKey.for_keyword(BLUEPRINT_ATTRIBUTE),
    SearchAttributeKey.for_keyword_list(WAITING_ATTRIBUTE),
)
DYNAMIC = (
    "history.transferProcessorMaxPollRPS=1000",  # as for the embedded server
    "frontend.WorkflowTimeSkippingEnabled=true",
    'history.timerProcessorMaxTimeShift="10ms"',  # else a clock that was moved is looked at once a second
)
UNGUARDED = UnsandboxedWorkflowRunner()
"""The sandbox guards workflow code, of which an author writes none, and takes a tenth of a second a workflow."""
STILL = TimeSkippingConfig(enabled=False, disable_propagation=True)
"""Time stands until a test has nothing else to wait for; a child's clock is moved by itself."""


@dataclass(frozen=True)
class House:
    """The runs of one configuration, and the door to its tools."""

    config: Config
    runs: Runs
    tools: Tools


class Stage:
    """The server with its workers. `close` stops them."""

    def __init__(self, exits: AsyncExitStack, folder: Path, environment: WorkflowEnvironment) -> None:
        self._exits, self._environment = exits, environment
        self.folder = folder
        """For what lasts as long as the tests do."""
        self._houses: dict[Path | None, House] = {}
        self._histories: asyncio.Queue[WorkflowHistory] = asyncio.Queue()
        self._replays: AsyncIterator[WorkflowReplayResult] | None = None

    @staticmethod
    async def open() -> Stage:
        """Start the server. Raises `ServerUnreachable`."""
        async with AsyncExitStack() as exits:
            folder = Path(tempfile.mkdtemp(prefix="holdfast-test-"))
            exits.callback(shutil.rmtree, folder, ignore_errors=True)
            with _silent(folder / "temporal.log"):
                environment = await _started(folder)
            await exits.enter_async_context(environment)
            return Stage(exits.pop_all(), folder, environment)

    async def close(self) -> None:
        await self._exits.aclose()

    async def house(self, config: Config) -> House:
        """The worker for a configuration, started when it is first asked for. Raises `ConfigError`."""
        if config.path not in self._houses:
            self._houses[config.path] = await self._opened(config, f"test-{len(self._houses)}")
        return self._houses[config.path]

    async def _opened(self, config: Config, queue: str) -> House:
        client = self._environment.client
        config = replace(config, secrets=SecretsSection(store=f"dir:{self.folder / 'secrets'}", env=config.secrets.env))
        servers, caches = mcp_servers(config), OwnCaches()
        activities = activities_of(config, servers, caches)
        tools = Tools(_real_tools(activities))
        others = [one for one in activities if one.__name__ != CALL_TOOL]
        self._exits.push_async_callback(servers.close)
        self._exits.push_async_callback(caches.close)
        everything = [*others, tools.call_tool]
        worker = create_worker(client, task_queue=queue, activities=everything, runner=UNGUARDED)
        await self._exits.enter_async_context(worker)
        return House(config, Runs(client, queue, Answering(secrets=keeper(config, embedded=False))), tools)

    async def replay(self, history: WorkflowHistory) -> Exception | None:
        """Why a history is not followed; None if it is. One replayer serves all: to make one takes its time."""
        if self._replays is None:
            replayer = Replayer(
                workflows=WORKFLOWS,
                workflow_runner=UNGUARDED,
                data_converter=self._environment.client.data_converter,
            )
            replaying = replayer.workflow_replay_iterator(self._recorded())
            self._replays = await self._exits.enter_async_context(replaying)
        await self._histories.put(history)
        return (await anext(self._replays)).replay_failure

    async def _recorded(self) -> AsyncIterator[WorkflowHistory]:
        while True:
            yield await self._histories.get()

    async def pass_time(self, workflow: WorkflowHandle[Any, Any], until: datetime) -> None:
        """Move the workflow's clock."""
        now = await self._environment.get_current_time(workflow)
        if until > now:
            await self._environment.fast_forward(workflow, until - now)


def _real_tools(activities: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    return next(one for one in activities if one.__name__ == CALL_TOOL)


async def _started(folder: Path) -> WorkflowEnvironment:
    try:
        return await WorkflowEnvironment.start_time_skipping_v2(
            ts_config=STILL,
            dev_server_existing_path=temporal_binary(),
            data_converter=converter(f"dir:{folder / 'payloads'}"),
            search_attributes=ATTRIBUTES,
            dev_server_extra_args=[word for value in DYNAMIC for word in ("--dynamic-config-value", value)],
        )
    except RuntimeError as error:
        raise ServerUnreachable(f"the server for the tests does not start: {error}") from error


@contextmanager
def _silent(log: Path) -> Iterator[None]:
    """Let a process that is started meanwhile write to a file: the server greets on standard output."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for number in (1, 2):
            os.dup2(file, number)
        yield
    finally:
        for number, one in zip((1, 2), kept, strict=True):
            os.dup2(one, number)
            os.close(one)
        os.close(file)

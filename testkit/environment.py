"""The environment of tests: a Temporal server in memory, started once, and a worker for each configuration."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

from temporalio import activity
from temporalio.client import WorkflowHistory
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.testing import TimeSkippingConfig, WorkflowEnvironment
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker, WorkflowReplayResult

from holdfast.activities import CacheStore, McpServers, store_at
from holdfast.blueprint.json_values import JSON
from holdfast.client.answering import Answering
from holdfast.client.runs import Runs
from holdfast.protocol.address import read_run
from holdfast.protocol.agents import CALL_TOOL, CacheEntry, CacheHit, Completed, ToolOutcome, ToolRequest
from holdfast.protocol.guard import Key
from holdfast.protocol.tool_errors import TOOL_ERROR
from holdfast.runtime.config import Config, EncryptionSection, SecretsSection
from holdfast.runtime.connection import make_converter
from holdfast.runtime.embedded.server import UNTHROTTLED, find_temporal_binary
from holdfast.runtime.errors import ServerUnreachable
from holdfast.runtime.namespace import ATTRIBUTE_KEYS
from holdfast.runtime.secrets import keeper
from holdfast.testkit.clock import CLOCK_RUNNER
from holdfast.testkit.own_workflows import OwnWorkflows
from holdfast.worker import create_worker, make_activities, mcp_servers
from holdfast.workflows import WORKFLOWS

INBOX = Key("inbox", token_hex(32), "person")
"""The key that signs for the people of tests where a question takes only answers of people who have signed in."""
ONE_PARTITION = ("matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1")
"""The task queues of a few runs need no four partitions each: a run took 45 ms of the server, not 63."""
DYNAMIC_CONFIG = (
    UNTHROTTLED,
    *ONE_PARTITION,
    "frontend.WorkflowTimeSkippingEnabled=true",
    'history.timerProcessorMaxTimeShift="10ms"',  # else a clock that was moved is looked at once a second
    'history.workflowIdReuseMinimalInterval="1ms"',  # else a workflow younger than a second continues as new after one
)
SERVER_OPTIONS = [word for value in DYNAMIC_CONFIG for word in ("--dynamic-config-value", value)]
UNSANDBOXED = UnsandboxedWorkflowRunner()
"""Tests run blueprints, not workflow code of an author; the sandbox would only cost a tenth of a second a workflow."""
CLOCK_STOPPED = TimeSkippingConfig(enabled=False, disable_propagation=True)
"""Time skipping starts switched off; a test moves the clock of each workflow by itself."""


@dataclass(frozen=True)
class ConfiguredRuns:
    """The runs of one configuration, with access to the calls of its tools."""

    config: Config
    runs: Runs
    tools: Tools
    own_queue: str
    """The task queue of the author's own workflows, which are stood in for."""


class TestEnvironment:
    """A test server with its workers; `close` stops them."""

    __test__ = False  # pytest would collect it, for its name

    def __init__(self, exits: AsyncExitStack, folder: Path, environment: WorkflowEnvironment) -> None:
        self._exits, self._environment = exits, environment
        self.folder = folder
        """A folder that lasts as long as the environment."""
        self._configured: dict[Path | None, ConfiguredRuns] = {}
        self._histories: asyncio.Queue[WorkflowHistory] = asyncio.Queue()
        self._replays: AsyncIterator[WorkflowReplayResult] | None = None

    @classmethod
    async def open(cls) -> Self:
        """Start the server. Raises `ServerUnreachable`."""
        async with AsyncExitStack() as exits:
            folder = Path(tempfile.mkdtemp(prefix="holdfast-test-"))
            exits.callback(shutil.rmtree, folder, ignore_errors=True)
            environment = await start_server(folder, data_converter=make_converter(f"dir:{folder / 'payloads'}"))
            await exits.enter_async_context(environment)
            return cls(exits.pop_all(), folder, environment)

    async def close(self) -> None:
        await self._exits.aclose()

    async def house(self, config: Config) -> ConfiguredRuns:
        """Return the runs of a configuration; its worker is started on first use. Raises `ConfigError`."""
        if config.path not in self._configured:
            self._configured[config.path] = await self._start_worker(config, f"test-{len(self._configured)}")
        return self._configured[config.path]

    def activities(self, config: Config, servers: McpServers, caches: OwnCaches) -> list[Callable[..., Any]]:
        """Return the activities of a worker."""
        return list(make_activities(config, servers, caches))

    async def _start_worker(self, config: Config, queue: str) -> ConfiguredRuns:
        client = self._environment.client
        secrets = SecretsSection(store=f"dir:{self.folder / 'secrets'}", env=config.secrets.env)
        # Nothing in a test is encrypted, and where tests run the keys are not.
        config = config.model_copy(update={"secrets": secrets, "encryption": EncryptionSection()})
        servers, caches = mcp_servers(config), OwnCaches()
        activities = self.activities(config, servers, caches)
        tools = Tools(_real_tools(activities))
        others = [activity for activity in activities if activity.__name__ != CALL_TOOL]
        self._exits.push_async_callback(servers.close)
        self._exits.push_async_callback(caches.close)
        everything = [*others, tools.call_tool]
        worker = create_worker(
            client, task_queue=queue, activities=everything, runner=UNSANDBOXED, own_runner=CLOCK_RUNNER
        )
        await self._exits.enter_async_context(worker)
        own = Worker(
            client,
            task_queue=f"{queue}-own",
            workflows=[OwnWorkflows],
            activities=[tools.call_tool],
            workflow_runner=UNSANDBOXED,
        )
        await self._exits.enter_async_context(own)
        answering = Answering(inbox=INBOX, secrets=keeper(config, embedded=False), limits=config.limits)
        return ConfiguredRuns(config, Runs(client, queue, answering), tools, own.task_queue)

    async def replay(self, history: WorkflowHistory) -> Exception | None:
        """Return the failure of replaying a history; None if it replays."""
        if self._replays is None:
            # One replayer for all histories: starting one takes its time.
            replayer = Replayer(
                workflows=WORKFLOWS,
                workflow_runner=UNSANDBOXED,
                unsandboxed_workflow_runner=CLOCK_RUNNER,
                data_converter=self._environment.client.data_converter,
            )
            replaying = replayer.workflow_replay_iterator(self._queued_histories())
            self._replays = await self._exits.enter_async_context(replaying)
        await self._histories.put(history)
        return (await anext(self._replays)).replay_failure

    async def _queued_histories(self) -> AsyncIterator[WorkflowHistory]:
        while True:
            yield await self._histories.get()


def _real_tools(activities: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    return next(activity for activity in activities if activity.__name__ == CALL_TOOL)


async def start_server(folder: Path, **options: Any) -> WorkflowEnvironment:
    """Start a server in memory whose time stands still. Raises `ServerUnreachable`.

    Args:
        folder: The folder for its log.
        options: Further arguments of `WorkflowEnvironment.start_time_skipping_v2`.
    """
    try:
        with _output_to(folder / "temporal.log"):
            return await WorkflowEnvironment.start_time_skipping_v2(
                ts_config=CLOCK_STOPPED,
                # Without a path the SDK would download a server, and fail offline.
                dev_server_existing_path=find_temporal_binary(),
                search_attributes=ATTRIBUTE_KEYS,
                dev_server_extra_args=SERVER_OPTIONS,
                **options,
            )
    except RuntimeError as error:
        raise ServerUnreachable(f"the test server did not start: {error}") from error


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Redirect the output of processes started meanwhile to a file: the server greets on standard output."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for number in (1, 2):
            os.dup2(file, number)
        yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(file)


class Tools:
    """The tool activity of tests: records calls, and replies for tools that have scripted replies."""

    def __init__(self, real: Callable[[ToolRequest], Awaitable[ToolOutcome]]) -> None:
        self._real = real
        self._replies: dict[str, Mapping[str, list[JSON]]] = {}
        self._calls: dict[str, dict[str, list[JSON]]] = {}

    def begin(self, run: str, replies: Mapping[str, list[JSON]]) -> dict[str, list[JSON]]:
        """Register a run before it starts, and return its calls by tool, filled in as they come."""
        self._replies[run] = replies
        return self._calls.setdefault(run, defaultdict(list))

    def end(self, run: str) -> None:
        del self._replies[run], self._calls[run]

    @activity.defn(name=CALL_TOOL)
    async def call_tool(self, request: ToolRequest) -> ToolOutcome:
        run = read_run(activity.info().workflow_id or "")
        calls = self._calls.get(run, {}).setdefault(request.tool, [])
        # A retry, or a resumption after an interrupt, is the same call.
        if not request.interrupted and activity.info().attempt == 1:
            calls.append(request.input if request.args is None else request.args)
        replies = self._replies.get(run, {}).get(request.tool)
        if replies is None:
            return await self._real(request)
        return _reply(_choose(replies, calls), request.tool)


def _choose(replies: Sequence[JSON], calls: Sequence[JSON]) -> JSON:
    """Return the reply to the last of the calls: one for its arguments, else one for any; the last answers the rest.

    >>> replies = [{"arguments": {"a": 1}, "output": "one"}, "first", "others"]
    >>> [_choose(replies, [{"a": 2}, {"a": 1}][:n]) for n in (1, 2)], _choose(replies, [{}, {}, {}])
    (['first', {'arguments': {'a': 1}, 'output': 'one'}], 'others')
    """
    own = [reply for reply in replies if _holds_for(reply) == [calls[-1]]]
    if own:
        return own[min(calls.count(calls[-1]), len(own)) - 1]
    special = [arguments for reply in replies for arguments in _holds_for(reply)]
    rest = [reply for reply in replies if not _holds_for(reply)] or list(replies)
    return rest[min(sum(call not in special for call in calls), len(rest)) - 1]


def _holds_for(reply: JSON) -> list[JSON]:
    """Return the arguments that a reply is for, in a list; [] for one that is for any."""
    is_special = isinstance(reply, dict) and "arguments" in reply and reply.keys() & {"output", "error"}
    return [reply["arguments"]] if is_special else []


def _reply(reply: object, tool: str) -> Completed:
    match reply:
        case {"error": error, "type": str(type_)}:
            raise _fail(str(error), type_)
        case {"error": error}:
            raise _fail(f"{tool}: {error}", TOOL_ERROR)
        case {"output": output}:
            return Completed(result=output)
    return Completed(result=reply)


def _fail(message: str, type_: str) -> ApplicationError:
    """Return the failure of a call, which the worker does not log: it is a part of the test."""
    return ApplicationError(message, type=type_, non_retryable=True, category=ApplicationErrorCategory.BENIGN)


class OwnCaches:
    """A cache in memory, separate for each run."""

    def __init__(self) -> None:
        self._store: CacheStore = store_at("sqlite::memory:")

    async def get(self, key: str) -> CacheHit:
        return await self._store.get(_own_key(key))

    async def put(self, entry: CacheEntry) -> None:
        await self._store.put(entry.model_copy(update={"key": _own_key(entry.key)}))

    async def close(self) -> None:
        await self._store.close()


def _own_key(key: str) -> str:
    return f"{read_run(activity.info().workflow_id or '')} {key}"

"""A real Temporal server for the whole test run, a worker for each test, and the replay of every run a test made."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import pytest_asyncio
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.service import RPCError
from temporalio.worker import Replayer, Worker, WorkflowRunner
from temporalio.worker._workflow import _WorkflowWorker

from holdfast.activities import all_activities
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.load import loads
from holdfast.client import tree
from holdfast.client.answering import Answering
from holdfast.client.history import _children
from holdfast.client.runs import Runs
from holdfast.client.states import Outcome
from holdfast.protocol.answers import Answer, Receipt, Refusal
from holdfast.protocol.guard import DEPLOYMENT
from holdfast.protocol.questions import Question
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.namespace import ATTRIBUTE_KEYS
from holdfast.testkit.plugin import CaseItem
from holdfast.worker import create_worker
from holdfast.workflows import OWN_RUNNER, RUNNER, WORKFLOWS
from tests.crashes import note_threads, pytest_handlecrashitem  # noqa: F401 - pytest finds the hook here
from tests.python_environment import keep_in_python
from tests.server import OTHER_SERVER, SharedServer, connected
from tests.skips import pytest_runtest_makereport  # noqa: F401 - pytest finds the hook here
from tests.watch import watched

WATCHER = watched()
ATTRIBUTES = ATTRIBUTE_KEYS
TOOLS = "tests"
RUNNERS: dict[str, Any] = {"workflow_runner": RUNNER, "unsandboxed_workflow_runner": OWN_RUNNER}
"""The runners of a worker that a test starts itself."""
PATIENCE = 1000
"""Looks at something that is about to happen."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
"""Seconds between looks: the longer something takes, the less its server and worker are asked about it."""
LONGEST_WAIT = 600.0
"""Seconds of such looks, of which each may take long where no worker answers."""
LONGEST = {"crash", "workers", "test_storm.py"}
"""Folders and modules of tests that wait for half a minute."""
CLOSED = [
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
]
"""The events that close a history."""

# What is right late is right. A person is told after 3 seconds that the worker is busy; a test on a busy machine waits.
tree.QUERY_LIMIT = timedelta(seconds=15)
# The SDK interrupts an activation that takes 2 seconds, on a busy machine too: its replay then fails, and where the
# interruption meets a destructor, pytest fails the test that happens to run. A class's property comes before what
# `__init__` sets.
assert "self._deadlock_timeout_seconds = " in inspect.getsource(_WorkflowWorker)
_WorkflowWorker._deadlock_timeout_seconds = property(lambda _: 60, lambda _, seconds: None)
# Nor does an example of hypothesis fail that took more than its 0.2 s.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")
# Each command and each worker imports all that we have; where no byte code may be kept, it would compile it too.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
keep_in_python()
# All that is imported and collected stays. To look through it again and again took each process 2 of 8 seconds.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest first, as one process would be alone with them at the end; mark what is slow by its row."""
    items.sort(key=lambda item: LONGEST.isdisjoint(item.path.parts))
    for item in items:
        if is_slow_by_its_row(item):
            item.add_marker(pytest.mark.slow)


def is_slow_by_its_row(item: pytest.Item) -> bool:
    """Return whether other rows of a test, or other tests of an example, are those for `make test`."""
    if isinstance(item, CaseItem):
        return item.case is not item.file.cases[0]
    if item.get_closest_marker("first_row"):
        return not is_first(item)
    return item.get_closest_marker("matrix") is not None and not is_edge(item)


def is_first(item: Any) -> bool:
    """Return whether each of a test's parameters is its first."""
    return not any(item.callspec.indices.values())


def is_edge(item: Any) -> bool:
    """Return whether at most one of a test's parameters is another than its first."""
    changed, rest = 0, dict(item.callspec.indices) if hasattr(item, "callspec") else {}
    for marker in item.iter_markers("parametrize"):
        names, values = marker.args
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        first = values[0].values if hasattr(values[0], "values") and hasattr(values[0], "marks") else values[0]
        changed += [item.callspec.params[name] for name in names] != (list(first) if len(names) > 1 else [first])
        for name in names:
            rest.pop(name, None)  # these count through the whole matrix, those of a fixture alone its parameters
    return changed + sum(map(bool, rest.values())) <= 1


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave what was imported and collected, a million objects, to no garbage collection; begin to collect the rest."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def own_deployment() -> Iterator[None]:
    """Keys, groups and limits that a test, or a worker in it, gives this process are gone after it."""
    before = dict(vars(DEPLOYMENT))
    yield
    vars(DEPLOYMENT).update(before)


@pytest.fixture(scope="session", autouse=True)
def last_look(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What fails as it is thrown away fails the last test; of several processes pytest tells it of none."""
    note_threads(tmp_path_factory.getbasetemp())
    yield
    for _ in range(5):
        gc.collect()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the test run's server."""
    if OTHER_SERVER in os.environ:
        yield os.environ[OTHER_SERVER]
        return
    folder = tmp_path_factory.getbasetemp()
    shared = SharedServer(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)
    yield shared.join()
    shared.leave()


@pytest_asyncio.fixture(scope="session")
async def temporal(server: str) -> Client:
    return await connected(server)


class Harness:
    """Starts runs from blueprint text, waits for states, and at its end replays every history it made."""

    def __init__(self, client: Client, queue: str, folder: Path) -> None:
        self.client, self.folder = client, folder
        self.runs = Runs(client, queue, Answering())
        self.started: list[str] = []
        self.unique = uuid.uuid4().hex[:8]

    def load(self, text: str) -> Blueprint:
        return loads(text, file="test.yaml", folder=self.folder, name="test")

    def script(self, text: str, name: str = "replies.yaml") -> None:
        (self.folder / name).write_text(text)

    async def start(self, text: str, input: Any = None, **how: Any) -> str:
        run = await self.runs.start(self.load(text), input, **how)
        self.started.append(run)
        return run

    async def asked(self, run: str, count: int = 1) -> list[Question]:
        """The open questions, once the run waits for nothing else and so many are open."""
        async for _ in look():
            standing = await self.runs.state(run)
            if standing.status in ("waiting", "paused") and len(standing.questions) == count:
                return standing.questions
            if standing.status in ("completed", "failed", "cancelled"):
                raise AssertionError(f"the run is {standing.status}: {await self.runs.result(run)}")
        raise AssertionError(f"waited for {count} questions: {standing}")

    async def one(self, run: str) -> Question:
        [question] = await self.asked(run)
        return question

    async def answer(self, run: str, content: Any, question: Question | None = None, **how: Any) -> Receipt:
        question = question or await self.one(run)
        [receipt] = await self.runs.answer(run, [Answer(question=question.id, content=content)], **how)
        assert isinstance(receipt, Receipt)
        return receipt

    async def answered(self, run: str, *contents: object) -> list[str]:
        """Answer one question after the other; what was asked."""
        messages = []
        for content in contents:
            question = await self.one(run)
            messages.append(question.message)
            await self.answer(run, content, question)
        return messages

    async def decline(self, run: str, comment: str | None = None) -> None:
        question = await self.one(run)
        await self.runs.answer(run, [Answer(question=question.id, action="decline")], comment=comment)

    async def refused(self, run: str, content: Any, question: Question | None = None) -> Refusal:
        """What is told of an answer that is not taken."""
        with pytest.raises(Refusal) as caught:
            await self.answer(run, content, question)
        return caught.value

    async def types(self, run: str) -> list[str]:
        return [event.type for event in await self.runs.watch.events(run)]

    async def result(self, run: str) -> Outcome:
        return await asyncio.wait_for(self.runs.result(run), LONGEST_WAIT)

    async def output(self, run: str) -> Any:
        outcome = await self.result(run)
        assert outcome.status == "completed", outcome.error
        return outcome.output

    async def histories(self, run: str) -> list[WorkflowHistory]:
        """The histories of the run and of everything below it, every run of each chain."""
        return await _family(self.client, run)

    async def recorded(self) -> list[WorkflowHistory]:
        """The histories of all runs that were started."""
        return [history for run in self.started for history in await self.histories(run)]

    async def close(self, replays: Replays, test: str) -> None:
        """Have all runs that were started replayed, and end those that still run."""
        histories = await self.recorded()
        replays.add(test, histories)
        await _end(self.client, histories)

    async def replay(self) -> None:
        """What is recorded must lead to the same commands again."""
        for failure in (await replayed(await self.recorded())).values():
            raise failure


async def replayed(
    histories: Sequence[WorkflowHistory],
    workflows: Sequence[type] = WORKFLOWS,
    runner: WorkflowRunner = RUNNER,
    converter: DataConverter = DATA_CONVERTER,
) -> dict[str, Exception]:
    """Replay the histories; the failures by Temporal's run id."""
    replayer = Replayer(
        workflows=workflows,
        workflow_runner=runner,
        unsandboxed_workflow_runner=OWN_RUNNER,
        data_converter=converter,
    )

    async def one_by_one() -> AsyncIterator[WorkflowHistory]:
        for history in histories:
            yield history

    return dict((await replayer.replay_workflows(one_by_one(), raise_on_replay_failure=False)).replay_failures)


class Replays:
    """What the tests of a module have recorded, replayed together at its end: each replayer starts a worker."""

    def __init__(self, workflows: Sequence[type] = WORKFLOWS, runner: WorkflowRunner = RUNNER) -> None:
        self._workflows, self._runner = workflows, runner
        self._histories: list[WorkflowHistory] = []
        self._tests: dict[str, str] = {}

    def add(self, test: str, histories: Sequence[WorkflowHistory]) -> None:
        self._histories += histories
        self._tests |= {history.run_id: test for history in histories}

    async def failures(self) -> list[str]:
        """Replay what was added; a line for each history that does not, with the test that recorded it."""
        failed = await replayed(self._histories, self._workflows, self._runner) if self._histories else {}
        return [f"a run of {self._tests[run]} does not replay: {failure}" for run, failure in failed.items()]


@pytest_asyncio.fixture(scope="module")
async def replays() -> AsyncIterator[Replays]:
    replays = Replays()
    yield replays
    if failures := await replays.failures():
        pytest.fail("\n".join(failures), pytrace=False)


async def _family(client: Client, workflow: str, temporal_run: str | None = None) -> list[WorkflowHistory]:
    """The history of every run of a workflow's chain and of its children."""
    history = await client.get_workflow_handle(workflow, run_id=temporal_run).fetch_history()
    first = history.events[0].workflow_execution_started_event_attributes
    family = [history]
    if first.continued_execution_run_id:
        family = await _family(client, workflow, first.continued_execution_run_id) + family
    for child in _children(history.events):
        family += await _family(client, child)
    return family


async def _end(client: Client, histories: Sequence[WorkflowHistory]) -> None:
    """Terminate those that still run: what waits with no worker makes each listing of the namespace wait for it."""
    for history in histories:
        if history.events[-1].event_type not in CLOSED:
            with suppress(RPCError):  # it has ended since
                await client.get_workflow_handle(history.workflow_id).terminate()


def worker_for(client: Client, queue: str, *, activities: Sequence[Any] | None = None, **how: Any) -> Worker:
    """A worker, by default with the tools of the tests."""
    if activities is None:
        activities = all_activities([TOOLS], {})
    return create_worker(client, task_queue=queue, activities=activities, **how)


@asynccontextmanager
async def polled_queue(client: Client) -> AsyncIterator[str]:
    """A new task queue, which a worker polls."""
    queue = f"test-{uuid.uuid4().hex[:8]}"
    async with worker_for(client, queue):
        yield queue
        await end_all(client, queue)


async def end_all(client: Client, queue: str) -> None:
    """Terminate what still runs on a queue: runs that were started over pages and calls, which no harness knows."""
    async for execution in client.list_workflows(f"TaskQueue = '{queue}' AND ExecutionStatus = 'Running'"):
        with suppress(RPCError):  # it has ended since
            await client.get_workflow_handle(execution.id).terminate()


@pytest_asyncio.fixture(scope="module")
async def worker_queue(temporal: Client) -> AsyncIterator[str]:
    """The task queue of a worker that the tests of a module share; it starts in 20 ms, which each test would take."""
    async with polled_queue(temporal) as queue:
        yield queue


@pytest_asyncio.fixture
async def house(
    temporal: Client, worker_queue: str, replays: Replays, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Harness]:
    """A harness on the worker of the module."""
    harness = Harness(temporal, worker_queue, tmp_path)
    yield harness
    await harness.close(replays, request.node.nodeid)


@contextmanager
def kept_log() -> Iterator[logging.Logger]:
    """Undo what is done to the log of this process, as by a command that sends it to standard error."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield root
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The root logger, whose handlers and level a test may change."""
    with kept_log() as root:
        yield root


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a workflow only as long as a person would wait: for tests of runs that do not answer."""
    monkeypatch.setattr(tree, "QUERY_LIMIT", timedelta(seconds=3))


@contextmanager
def ask_briefly() -> Iterator[None]:
    """Ask workflows for a moment only: for what a test does while no worker can answer."""
    before, tree.QUERY_LIMIT = tree.QUERY_LIMIT, timedelta(seconds=0.5)
    try:
        yield
    finally:
        tree.QUERY_LIMIT = before


async def until(true: Callable[[], Awaitable[Any]], what: str = "it") -> Any:
    """Wait for a state; the value that made it true."""
    async for _ in look():
        if value := await true():
            return value
    raise AssertionError(f"waited for {what}")


async def look() -> AsyncIterator[None]:
    """Return at once, and again after pauses that grow, for as long as a test waits for a state."""
    end, pause = asyncio.get_running_loop().time() + LONGEST_WAIT, FIRST_PAUSE
    for _ in range(PATIENCE):
        yield
        if asyncio.get_running_loop().time() > end:
            return
        await asyncio.sleep(pause)
        pause = min(1.15 * pause, LONGEST_PAUSE)

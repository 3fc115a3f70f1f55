"""The cost of a hundred concurrent agents against agents written by hand, up to their question, on one worker process.

Reads a process's memory and processor time from /proc, so it runs on Linux alone.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import yaml
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from benchmarks.agent_by_hand import AgentByHand, look_up, request_model
from benchmarks.ground import server
from holdfast.blueprint.load import loads
from holdfast.client.runs import Runs
from holdfast.runtime.converters import DATA_CONVERTER

AGENTS = 100
PAGES = 5
"""Turns with a tool call before the turn that asks."""
HOME = Path(__file__).parent.parent
BY_HAND, HOLDFAST = "by-hand", "holdfast"
DEADLOCK = "TMPRL1101"
PATIENCE = 300.0
"""Seconds for all of them; a run that takes longer is broken."""
ENDS = {
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED: (
        EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
    ),
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: (EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,),
}
AGENT = """
name: bench
agents:
  reader: {model: "scripted:replies.yaml", instructions: Read all the pages., tools: [stringy], human: [ask]}
steps: [{name: read, agent: reader}]
"""

StartAgent = Callable[[], Awaitable[WorkflowHandle]]


class Process:
    """A worker in a process of its own."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], log: Path) -> None:
        self._log = log
        environment = {**os.environ, **environment}
        with log.open("w") as file:
            self._popen = subprocess.Popen(
                [sys.executable, *command], env=environment, cwd=HOME, stdout=file, stderr=file
            )

    def seconds(self) -> float:
        """Return the processor time so far, in seconds."""
        fields = self._read("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kilobytes(self) -> int:
        """Return the resident memory, in kB."""
        [line] = [line for line in self._read("status").splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1])

    def warnings(self) -> int:
        """Return how often the worker took a workflow task for a deadlock."""
        return self._log.read_text().count(DEADLOCK)

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait()

    def _read(self, name: str) -> str:
        return Path(f"/proc/{self._popen.pid}/{name}").read_text()


@dataclass
class Cost:
    """The cost of a hundred agents at once; all but `seconds` and `warnings` per agent."""

    seconds: float
    warnings: int
    processor: float
    """Seconds of processor time up to its question."""
    kilobytes: float
    """Resident memory while it waits, in kB."""
    events: float
    """History events a turn."""
    size: float
    """Bytes of history a turn."""


async def cost(process: Process, start: StartAgent) -> Cost:
    """Measure `AGENTS` agents, after one that pays for everything loaded once."""
    await wait_for_question(await start())
    memory, processor, began = process.kilobytes(), process.seconds(), time.perf_counter()
    agents = await asyncio.gather(*(start() for _ in range(AGENTS)))
    turns = [per_turn(await wait_for_question(agent)) for agent in agents]
    return Cost(
        seconds=time.perf_counter() - began,
        warnings=process.warnings(),
        processor=(process.seconds() - processor) / AGENTS,
        kilobytes=(process.kilobytes() - memory) / AGENTS,
        events=median(events for events, _ in turns),
        size=median(size for _, size in turns),
    )


async def wait_for_question(agent: WorkflowHandle) -> list[HistoryEvent]:
    """Return the agent's history once it asks. Histories come from the server, so looking costs the worker nothing."""
    while True:
        events = await history(agent)
        if len(requests(events)) == PAGES + 1 and not has_open_task(events):
            return events
        await asyncio.sleep(0.05)


async def history(agent: WorkflowHandle) -> list[HistoryEvent]:
    try:
        return list((await agent.fetch_history()).events)
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:  # a child may not have been started yet
            raise
        return []


def requests(events: Sequence[HistoryEvent]) -> list[int]:
    """Return the indices of the requests to the model."""
    models = ("call_model", request_model.__name__)
    types = [event.activity_task_scheduled_event_attributes.activity_type.name for event in events]
    return [place for place, type_ in enumerate(types) if type_ in models]


def has_open_task(events: Sequence[HistoryEvent]) -> bool:
    """Return whether a workflow task or an activity is open."""
    types = [event.event_type for event in events]
    return any(types.count(started) != sum(types.count(ended) for ended in ends) for started, ends in ENDS.items())


def per_turn(events: Sequence[HistoryEvent]) -> tuple[float, float]:
    """Return events and bytes a turn, from the first request to the last."""
    places = requests(events)
    middle = events[places[0] : places[-1]]
    return len(middle) / PAGES, sum(event.ByteSize() for event in middle) / PAGES


async def by_hand(client: Client, folder: Path) -> Cost:
    address = client.service_client.config.target_host
    process = Process(["-m", "benchmarks.agents", BY_HAND, address], {}, folder / f"{BY_HAND}.log")
    numbers = iter(range(AGENTS + 1))

    async def start() -> WorkflowHandle:
        name = f"{BY_HAND}-{next(numbers)}"
        return await client.start_workflow(AgentByHand.run, PAGES, id=name, task_queue=BY_HAND)

    try:
        async with asyncio.timeout(PATIENCE):
            return await cost(process, start)
    finally:
        process.kill()


async def by_holdfast(client: Client, folder: Path) -> Cost:
    environment = {
        "TEMPORAL_ADDRESS": client.service_client.config.target_host,
        "HOLDFAST_IMPORTS": "tests.tools",
    }
    process = Process(["worker.py"], environment, folder / f"{HOLDFAST}.log")
    (folder / "replies.yaml").write_text(yaml.safe_dump(replies()))
    blueprint, runs = loads(AGENT, name="bench", folder=folder), Runs(client)

    async def start() -> WorkflowHandle:
        run = await runs.start(blueprint, f"{PAGES}")
        return client.get_workflow_handle(f"{run}/agent:read")

    try:
        async with asyncio.timeout(PATIENCE):
            return await cost(process, start)
    finally:
        process.kill()


def replies() -> list[dict[str, list[dict[str, object]]]]:
    """Return the replies of the scripted model, equal to those of `request_model`."""
    pages = [{"name": "stringy", "args": {"text": f"page {n}"}} for n in range(PAGES)]
    asks = {"name": "request_user_info", "args": {"question": f"page {PAGES}"}}
    return [{"tool_calls": [call]} for call in (*pages, asks)]


@asynccontextmanager
async def worker_by_hand(address: str) -> AsyncIterator[None]:
    """Run a worker as large as Holdfast's own."""
    client = await Client.connect(address, data_converter=DATA_CONVERTER)
    async with Worker(
        client,
        task_queue=BY_HAND,
        workflows=[AgentByHand],
        activities=[request_model, look_up],
        activity_executor=ThreadPoolExecutor(100),
        max_concurrent_activities=100,
        max_concurrent_workflow_tasks=100,
        max_cached_workflows=1000,
    ):
        yield


async def work(address: str) -> None:
    async with worker_by_hand(address):
        await asyncio.Event().wait()


async def main() -> None:
    async with server() as client:
        with tempfile.TemporaryDirectory() as folder:
            hand = await by_hand(client, Path(folder))
            ours = await by_holdfast(client, Path(folder))
    print(f"{AGENTS} agents, {PAGES} turns with a tool each, then a question")
    print(f"{'':>36} {'by hand':>10} {'holdfast':>10} {'ratio':>7}")
    rows = [
        ("events a turn", hand.events, ours.events),
        ("bytes a turn", hand.size, ours.size),
        ("processor seconds a run", hand.processor, ours.processor),
        ("memory of a waiting agent, kB", hand.kilobytes, ours.kilobytes),
        ("until the last one asks, s", hand.seconds, ours.seconds),
    ]
    for label, a, b in rows:
        print(f"{label:>36} {a:10.3f} {b:10.3f} {b / a:7.2f}")
    print(f"{'deadlock warnings':>36} {hand.warnings:10} {ours.warnings:10}")


if __name__ == "__main__":
    asyncio.run(work(sys.argv[2]) if BY_HAND in sys.argv else main())
    sys.stdout.flush()
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit

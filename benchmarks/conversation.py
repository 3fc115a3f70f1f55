"""The size of a conversation in the store of large payloads, and the bytes sent there and back, by number of turns.

An agent reads pages of 8 kB, one in a turn. Whatever grows faster than the text shows in the ratios.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import yaml
from temporalio.client import Client
from temporalio.converter import ExternalStorage
from temporalio.worker import Worker

from benchmarks.ground import server
from benchmarks.table import Cell, print_table
from holdfast.activities import all_activities, tool
from holdfast.blueprint.load import loads
from holdfast.client.runs import Runs
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.payloads import THRESHOLD
from holdfast.runtime.payloads.directory import PayloadDirectory
from holdfast.runtime.payloads.driver import PieceDriver
from holdfast.runtime.payloads.store import Location
from holdfast.workflows import OWN_RUNNER, RUNNER, WORKFLOWS

PAGE = 8_000
TURNS = (80, 160, 320)
AGENT = """
name: bench
agents:
  reader: {{model: "scripted:{script}", instructions: Read all the pages., tools: [read_bench_page], max_turns: 1000}}
steps: [{{name: read, agent: reader}}]
"""
WORDS = "abcdefghijklmnopqrstuvwxyz ,.\n"


@tool(idempotent=True)
def read_bench_page(number: int) -> str:
    """Read a page; no two are alike."""
    return "".join(WORDS[(number * 7919 + place * place) % len(WORDS)] for place in range(PAGE))


class Cost(NamedTuple):
    """What one conversation took, in bytes and seconds."""

    turns: int
    stored: int
    wire: int
    """Written to the store and read from it."""
    history: int
    seconds: float

    @property
    def text(self) -> int:
        """Bytes of the pages."""
        return self.turns * PAGE

    def row(self) -> list[Cell]:
        """Return the figures as ratios to the text."""
        ratios = [amount / self.text for amount in (self.stored, self.wire, self.history)]
        return [self.turns, *ratios, f"{1000 * self.seconds / self.turns:.0f} ms"]


class CountedDirectory(PayloadDirectory):
    """A folder that counts the bytes written to it and read from it."""

    wire = 0

    async def write(self, objects: Mapping[str, bytes]) -> None:
        """See base class."""
        self.wire += sum(map(len, objects.values()))
        await super().write(objects)

    async def read(self, names: Collection[str], location: Location) -> dict[str, bytes]:
        """See base class."""
        objects = await super().read(names, location)
        self.wire += sum(map(len, objects.values()))
        return objects


async def converse(client: Client, turns: int, folder: Path) -> Cost:
    """Return what a conversation of so many turns takes, in a folder of its own."""
    calls = [{"id": f"c{n}", "name": "read_bench_page", "args": {"number": n}} for n in range(turns)]
    script = folder / "replies.yaml"
    script.write_text(yaml.safe_dump({"read": [*({"tool_calls": [call]} for call in calls), "done"]}))
    store = CountedDirectory(folder / "payloads")
    storage = ExternalStorage(drivers=[PieceDriver(store)], payload_size_threshold=THRESHOLD)
    client = Client(**client.config() | {"data_converter": replace(DATA_CONVERTER, external_storage=storage)})
    start = perf_counter()
    async with worker(client) as queue:
        runs = Runs(client, task_queue=queue)
        run = await runs.start(loads(AGENT.format(script=script), name="bench"), None)
        await runs.client.get_workflow_handle(run).result()
        seconds = perf_counter() - start
        history = await size_of(client, run)
    return Cost(turns, sum(stat.st_size for _, stat in store.files()), store.wire, history, seconds)


@asynccontextmanager
async def worker(client: Client) -> AsyncIterator[str]:
    """Run a worker, and yield its task queue."""
    queue = f"bench-{uuid.uuid4().hex[:8]}"
    with ThreadPoolExecutor(4) as threads:
        async with Worker(
            client,
            task_queue=queue,
            workflows=WORKFLOWS,
            workflow_runner=RUNNER,
            unsandboxed_workflow_runner=OWN_RUNNER,
            activities=all_activities([], {}),
            activity_executor=threads,
        ):
            yield queue


async def size_of(client: Client, workflow: str, run: str | None = None) -> int:
    """Return the bytes of all histories of a workflow and of its children."""
    events = (await client.get_workflow_handle(workflow, run_id=run).fetch_history()).events
    total = sum(event.ByteSize() for event in events)
    for event in events:
        if event.HasField("start_child_workflow_execution_initiated_event_attributes"):
            total += await size_of(client, event.start_child_workflow_execution_initiated_event_attributes.workflow_id)
    before = events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return total + (await size_of(client, workflow, before) if before else 0)


async def main(turns: list[int]) -> None:
    """Print a row for each number of turns."""
    rows = []
    async with server() as client:
        for number in turns:
            with tempfile.TemporaryDirectory() as folder:
                rows.append((await converse(client, number, Path(folder))).row())
    head = ("turns", "stored", "written and read", "histories", "time per turn")
    print_table(f"Conversations with results of {PAGE:,} bytes, as ratios to their text", head, rows)


if __name__ == "__main__":
    asyncio.run(main([int(word) for word in sys.argv[1:]] or list(TURNS)))

"""A benchmark of a long loop that asks in each iteration: nothing lost, histories bounded, fast resume at its end.

`python -m benchmarks.long_loop [ITERATIONS]`, at least 300; 10,000 take some ten minutes, 100,000 over an hour. The
events of a loop of more than 20,000 are not read back: each page of a closed history is a replay of it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle

from benchmarks.ground import loop, question_id, server
from benchmarks.table import Cell, print_table
from benchmarks.worker_process import WorkerProcess
from holdfast.client.events import chain
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Receipt
from holdfast.protocol.events import Event, LoopIteration
from holdfast.protocol.names import ANSWER
from holdfast.runtime.workers import NoWorker

EARLY = 10
MOST_READ_BACK = 20_000


class Loop:
    """A run of the loop, with a worker process that can be killed."""

    worker: WorkerProcess

    def __init__(self, client: Client, iterations: int, folder: Path) -> None:
        self.client, self.iterations, self._folder = client, iterations, folder
        self.runs = Runs(client)

    async def start(self) -> None:
        self.run = await self.runs.start(loop(self.iterations + 1))
        self.workflow = f"{self.run}/loop:loop"

    def start_worker(self) -> None:
        address = self.client.service_client.config.target_host
        self.worker = WorkerProcess(["worker.py"], {"TEMPORAL_ADDRESS": address}, self._folder / "worker.log")

    async def answer(self, n: int) -> None:
        """Answer the question of an iteration as soon as it is asked."""
        await self._answer(await self._question(n), n)

    async def _answer(self, question: str, n: int) -> None:
        payload = {"answers": [{"question": question, "content": f"answer {n}"}], "key": f"{n}"}
        await self.runs.tree.update(self.workflow, ANSWER, payload, list[Receipt], id=f"{n}")

    async def read_events(self) -> list[Event]:
        """Return every event of the loop, however long a busy worker takes to replay its histories."""
        while True:
            try:
                return await chain(self.runs.tree, self.workflow)
            except NoWorker:
                await asyncio.sleep(1)

    @property
    def _handle(self) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(self.workflow)

    async def answer_all(self, first: int, last: int) -> tuple[float, float]:
        """Answer these iterations; return the time and the worker's processor time of each, in ms."""
        began, used = time.perf_counter(), self.worker.seconds()
        for n in range(first, last):
            await self.answer(n)
        each = 1000 / (last - first)
        return (time.perf_counter() - began) * each, (self.worker.seconds() - used) * each

    async def first_answer_after_a_crash(self, n: int) -> float:
        """Kill the worker, and return the seconds from sending to receipt of the first answer that a new one takes."""
        question = await self._question(n)
        self.worker.kill()
        self.start_worker()
        await self._wait_for_worker()
        before = time.perf_counter()
        await self._answer(question, n)
        return time.perf_counter() - before

    async def _question(self, n: int) -> str:
        """Wait until an iteration asks, and return the id of its question."""
        while True:
            if question := await question_id(self._handle, n):
                return question
            await asyncio.sleep(0.004)

    async def _wait_for_worker(self) -> None:
        """Wait until a short run of its own asks, which shows that the new worker polls."""
        other = await self.runs.start(loop(1))
        while True:
            try:
                if await self.runs.questions(other):
                    break
            except (LookupError, RuntimeError):
                continue
        await self.runs.control.cancel(other)


async def sizes(client: Client, workflow: str) -> list[tuple[int, int, int]]:
    """Return iterations, events and bytes of each run of the chain, the first one first."""
    runs = []
    run: str | None = None
    while True:
        events = (await client.get_workflow_handle(workflow, run_id=run).fetch_history()).events
        answers = sum(event.HasField("workflow_execution_update_accepted_event_attributes") for event in events)
        runs.append((answers, len(events), sum(event.ByteSize() for event in events)))
        run = events[0].workflow_execution_started_event_attributes.continued_execution_run_id
        if not run:
            return runs[::-1]


def bytes_of(runs: list[tuple[int, int, int]], first: int, last: int) -> float:
    """Return the bytes of an iteration, over the runs that lie within the iterations from `first` to `last`."""
    size = count = done = 0
    for iterations, _, length in runs:
        if first <= done and done + iterations <= last:
            size, count = size + length, count + iterations
        done += iterations
    return size / max(count, 1)


async def main(iterations: int) -> None:
    tenth = iterations // 10
    with tempfile.TemporaryDirectory() as folder:
        async with server() as client:
            loop_run = Loop(client, iterations, Path(folder))
            await loop_run.start()
            loop_run.start_worker()
            for n in range(1, EARLY):
                await loop_run.answer(n)
            early = await loop_run.first_answer_after_a_crash(EARLY)
            _, first_use = await loop_run.answer_all(EARLY + 1, 2 * tenth)
            first_memory = loop_run.worker.kilobytes()
            await loop_run.answer_all(2 * tenth, iterations - tenth)
            pace, last_use = await loop_run.answer_all(iterations - tenth, iterations)
            memory = loop_run.worker.kilobytes()
            late = await loop_run.first_answer_after_a_crash(iterations)
            await loop_run.answer(iterations + 1)
            await client.get_workflow_handle(loop_run.run).result()
            runs = await sizes(client, loop_run.workflow)
            events = await loop_run.read_events() if iterations <= MOST_READ_BACK else []
            loop_run.worker.kill()
    thousand = min(1000, iterations // 3)
    second, last = bytes_of(runs, thousand, 2 * thousand), bytes_of(runs, iterations - thousand, iterations + 1)
    rows: list[tuple[Cell, ...]] = [
        ("answers in the histories", sum(run[0] for run in runs), "", iterations + 1),
        *_check_events(events, iterations),
        ("histories in the chain", len(runs), "", ""),
        ("most events in one", max(run[1] for run in runs), "", 1000),
        (f"bytes an iteration, last {thousand} : second {thousand}", f"{last:.0f} : {second:.0f}", last / second, 1.1),
        (
            "processor time of the worker an iteration, last tenth : first two",
            f"{last_use:.1f} ms : {first_use:.1f} ms",
            last_use / first_use,
            1.1,
        ),
        (
            "memory of the worker, at the end : after two tenths",
            f"{memory / 1000:.0f} MB : {first_memory / 1000:.0f} MB",
            memory / first_memory,
            1.1,
        ),
        (f"first answer after a kill, {iterations} : {EARLY}", f"{late:.2f} s : {early:.2f} s", late / early, 1.5),
        ("time of an iteration", f"{pace:.0f} ms", "", ""),
    ]
    print_table(f"A loop of {iterations} iterations", ("", "figure", "ratio", "aim"), rows)


def _check_events(events: list[Event], iterations: int) -> list[tuple[Cell, ...]]:
    """Return the rows about the events that were read back; none if none were."""
    if not events:
        return []
    numbers = [event.data.iteration for event in events if isinstance(event.data, LoopIteration)]
    offsets = [event.offset for event in events]
    has_all = numbers == list(range(1, iterations + 2))
    return [
        (f"iteration numbers to {len(numbers)} have no gap", str(has_all), "", "True"),
        (f"event offsets to {len(offsets)} have no gap", str(offsets == list(range(len(offsets)))), "", "True"),
    ]


if __name__ == "__main__":
    asyncio.run(main(max(300, int(sys.argv[1])) if len(sys.argv) > 1 else 10_000))
    sys.stdout.flush()
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit

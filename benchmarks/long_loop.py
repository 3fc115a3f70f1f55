"""A benchmark of a long loop that asks in each iteration: nothing lost, histories bounded, fast resume at its end.

`python -m benchmarks.long_loop [ITERATIONS]`, at least 300; 10,000 take some ten minutes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle

from benchmarks.ground import loop, question_id, server
from benchmarks.table import Cell, print_table
from holdfast.client.events import chain
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Receipt
from holdfast.protocol.events import Event, LoopIteration
from holdfast.protocol.names import ANSWER
from holdfast.runtime.workers import NoWorker

EARLY = 10
WORKER = Path(__file__).parent.parent / "worker.py"


class Loop:
    """A run of the loop, with a worker process that can be killed."""

    def __init__(self, client: Client, iterations: int) -> None:
        self.client, self.iterations = client, iterations
        self.runs = Runs(client)
        self._worker: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self.run = await self.runs.start(loop(self.iterations + 1))
        self.workflow = f"{self.run}/loop:loop"

    def start_worker(self) -> None:
        address = self.client.service_client.config.target_host
        with tempfile.TemporaryFile() as log:
            environment = {**os.environ, "TEMPORAL_ADDRESS": address}
            command = [sys.executable, str(WORKER)]
            self._worker = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def kill_worker(self) -> None:
        assert self._worker is not None
        self._worker.send_signal(signal.SIGKILL)
        self._worker.wait()

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

    async def first_answer_after_a_crash(self, n: int) -> float:
        """Kill the worker, and return the seconds from sending to receipt of the first answer that a new one takes."""
        question = await self._question(n)
        self.kill_worker()
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
    async with server() as client:
        loop_run = Loop(client, iterations)
        await loop_run.start()
        loop_run.start_worker()
        for n in range(1, EARLY):
            await loop_run.answer(n)
        early = await loop_run.first_answer_after_a_crash(EARLY)
        began = time.perf_counter()
        for n in range(EARLY + 1, iterations):
            await loop_run.answer(n)
        pace = (time.perf_counter() - began) / (iterations - EARLY)
        late = await loop_run.first_answer_after_a_crash(iterations)
        await loop_run.answer(iterations + 1)
        await client.get_workflow_handle(loop_run.run).result()
        runs = await sizes(client, loop_run.workflow)
        events = await loop_run.read_events()
        loop_run.kill_worker()
    numbers = [event.data.iteration for event in events if isinstance(event.data, LoopIteration)]
    thousand = min(1000, iterations // 3)
    second, last = bytes_of(runs, thousand, 2 * thousand), bytes_of(runs, iterations - thousand, iterations + 1)
    offsets = [event.offset for event in events]
    rows: list[tuple[Cell, ...]] = [
        (
            f"iteration numbers to {len(numbers)} have no gap",
            str(numbers == list(range(1, iterations + 2))),
            "",
            "True",
        ),
        (f"event offsets to {len(offsets)} have no gap", str(offsets == list(range(len(offsets)))), "", "True"),
        ("histories in the chain", len(runs), "", ""),
        ("most events in one", max(run[1] for run in runs), "", 1000),
        (f"bytes an iteration, last {thousand} : second {thousand}", f"{last:.0f} : {second:.0f}", last / second, 1.1),
        (f"first answer after a kill, {iterations} : {EARLY}", f"{late:.2f} s : {early:.2f} s", late / early, 1.5),
        ("time of an iteration", f"{pace * 1000:.0f} ms", "", ""),
    ]
    print_table(f"A loop of {iterations} iterations", ("", "figure", "ratio", "aim"), rows)


if __name__ == "__main__":
    asyncio.run(main(max(300, int(sys.argv[1])) if len(sys.argv) > 1 else 10_000))
    sys.stdout.flush()
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit

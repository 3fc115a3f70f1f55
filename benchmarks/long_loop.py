"""A long loop with a question in each iteration: nothing lost, histories bounded, and resume as fast at its end.

`python -m benchmarks.long_loop [ITERATIONS]`; 10,000 take some ten minutes.
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

from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.service import RPCError

from benchmarks.ground import loop, question_id, server
from client.events import chain
from client.runs import Runs

EARLY = 10
WORKER = Path(__file__).parent.parent / "worker.py"


class Loop:
    """One run of the loop, and the worker process that can be killed."""

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
        """Answer the question of an iteration, as soon as it is asked."""
        payload = {"answers": [{"question": question_id(self.run, n), "content": f"answer {n}"}], "key": f"{n}"}
        while True:
            try:
                handle = self.client.get_workflow_handle(self.workflow)
                await handle.execute_update("answer", payload, id=f"{n}")
                return
            except (WorkflowUpdateFailedError, RPCError):  # not asked yet, or between two histories
                await asyncio.sleep(0.004)

    async def first_answer_after_a_crash(self, n: int) -> float:
        """Seconds from sending to receipt of the first answer that a new worker takes."""
        await self._asked(n)
        self.kill_worker()
        self.start_worker()
        await self._polls()
        before = time.perf_counter()
        await self.answer(n)
        return time.perf_counter() - before

    async def _asked(self, n: int) -> None:
        while True:
            try:
                view = await self.runs.tree.view(self.workflow)
            except (LookupError, RuntimeError):
                continue
            if question_id(self.run, n) in [question.id for question in view.questions]:
                return

    async def _polls(self) -> None:
        """A short run of its own gets through: the new worker is there."""
        other = await self.runs.start(loop(1))
        while True:
            try:
                if await self.runs.questions(other):
                    break
            except (LookupError, RuntimeError):
                continue
        await self.runs.cancel(other)


async def sizes(client: Client, workflow: str) -> list[tuple[int, int, int]]:
    """(iterations, events, bytes) of each run of the chain, the first one first."""
    found = []
    run: str | None = None
    while True:
        events = (await client.get_workflow_handle(workflow, run_id=run).fetch_history()).events
        answers = sum(event.HasField("workflow_execution_update_accepted_event_attributes") for event in events)
        found.append((answers, len(events), sum(event.ByteSize() for event in events)))
        run = events[0].workflow_execution_started_event_attributes.continued_execution_run_id
        if not run:
            return found[::-1]


def bytes_of(found: list[tuple[int, int, int]], first: int, last: int) -> float:
    """Bytes of an iteration, over the runs that hold the iterations from `first` to `last`."""
    size = count = done = 0
    for iterations, _, length in found:
        if first <= done and done + iterations <= last:
            size, count = size + length, count + iterations
        done += iterations
    return size / max(count, 1)


async def main(iterations: int) -> None:
    async with server() as client:
        one = Loop(client, iterations)
        await one.start()
        one.start_worker()
        for n in range(1, EARLY):
            await one.answer(n)
        early = await one.first_answer_after_a_crash(EARLY)
        began = time.perf_counter()
        for n in range(EARLY + 1, iterations):
            await one.answer(n)
        pace = (time.perf_counter() - began) / (iterations - EARLY)
        late = await one.first_answer_after_a_crash(iterations)
        await one.answer(iterations + 1)
        await client.get_workflow_handle(one.run).result()
        found = await sizes(client, one.workflow)
        events = await chain(one.runs.tree, one.workflow)
        one.kill_worker()
    numbers = [event.data["iteration"] for event in events if event.type == "loop.iteration"]
    thousand = min(1000, iterations // 3)
    second, last = bytes_of(found, thousand, 2 * thousand), bytes_of(found, iterations - thousand, iterations + 1)
    print(f"iterations contiguous: {numbers == list(range(1, iterations + 2))} ({len(numbers)})")
    print(f"event offsets contiguous: {[event.offset for event in events] == list(range(len(events)))} ({len(events)})")
    print(f"runs in the chain: {len(found)}; most events in one: {max(one[1] for one in found)} (target: 1000)")
    print(f"bytes an iteration, last {thousand} to second {thousand}: {last:.0f} / {second:.0f} = {last / second:.3f}")
    print(f"first answer after a crash, iteration {iterations} to {EARLY}: {late:.3f} s / {early:.3f} s", end=" ")
    print(f"= {late / early:.2f} (target: 1.5); {pace * 1000:.0f} ms an iteration")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
    sys.stdout.flush()
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit

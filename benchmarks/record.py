"""Reading a closed loop back: from its record, against asking its closed histories, which a worker replays.

`python -m benchmarks.record [ITERATIONS]`; a recorder works beside the loop, as in `holdfast serve`. Above 1,000
iterations Temporal is not asked: that takes half an hour.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from temporalio.client import WorkflowHandle

from benchmarks.ground import loop, question_id, server
from benchmarks.table import Cell, print_table
from holdfast.activities import all_activities
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer, AnswerBatch
from holdfast.protocol.names import ANSWER
from holdfast.runtime.workers import NoWorker
from holdfast.server.record.record import Record
from holdfast.server.record.recorder import Recorder
from holdfast.server.record.store import open_store
from holdfast.server.record.story import story
from holdfast.worker import create_worker

ITERATIONS = 1_000
QUEUE = "record"


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    before = time.perf_counter()
    await work()
    return time.perf_counter() - before


async def asked(handle: WorkflowHandle[Any, Any], iteration: int) -> str:
    """Wait until an iteration asks, and return the id of its question."""
    while True:
        if question := await question_id(handle, iteration):
            return question
        await asyncio.sleep(0.005)


async def answer_all(runs: Runs, run: str, iterations: int) -> None:
    """Answer each question as soon as it is asked."""
    handle = runs.client.get_workflow_handle(f"{run}/loop:loop")
    for iteration in range(1, iterations + 1):
        answers = AnswerBatch(answers=[Answer(question=await asked(handle, iteration), content="go on")])
        await handle.execute_update(ANSWER, answers)
    await runs.result(run)


async def keep_recording(recorder: Recorder, run: str) -> None:
    """Record the run for as long as it goes on."""
    while True:
        with suppress(NoWorker):  # it is between two histories, or the worker is busy
            await recorder.catch_up(run)
        await asyncio.sleep(2)


async def people(record: Record, run: str) -> int:
    """Read what `holdfast history` lists; return the number of its rows."""
    return len(story(await record.entries(run)))


async def read_back(runs: Runs, run: str, record: Record) -> list[tuple[Cell, ...]]:
    """Return how long each way of reading the run takes."""
    before = time.perf_counter()
    state = await runs.state(run)
    shown = await timed(lambda: runs.watch.trace(state)) + time.perf_counter() - before
    spans = await timed(lambda: runs.watch.trace(state, None))
    answers = await timed(lambda: people(record, run))
    result = await timed(lambda: runs.result(run))
    named = {"show": shown, "show with all iterations": spans, "history": answers, "result": result}
    return [(name, f"{seconds:.2f} s") for name, seconds in named.items()]


async def main(iterations: int) -> None:
    with TemporaryDirectory() as folder:
        async with server() as client, create_worker(client, task_queue=QUEUE, activities=all_activities([], {})):
            runs = Runs(client, QUEUE)
            record = Record(open_store(f"sqlite:{Path(folder) / 'record.sqlite'}"), client)
            recorder = record.recorder(runs.tree)
            run = await runs.start(loop(iterations))
            recording = asyncio.create_task(keep_recording(recorder, run))
            await answer_all(runs, run, iterations)
            recording.cancel()
            late = await timed(lambda: recorder.catch_up(run))
            recorded = runs.with_archive(record)
            ours, count = await timed(lambda: recorded.watch.events(run)), len(await recorded.watch.events(run))
            rows: list[tuple[Cell, ...]] = [
                ("the record is complete after the end", f"{late:.1f} s"),
                (f"{count} events from the record", f"{ours:.2f} s"),
                *await read_back(recorded, run, record),
            ]
            if iterations <= ITERATIONS:
                live = await timed(lambda: runs.watch.events(run))
                rows.append((f"the events from Temporal ({live / ours:.0f} times)", f"{live:.1f} s"))
    print_table(f"A closed loop of {iterations} iterations, read back", ("", "time"), rows)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else ITERATIONS))
    sys.stdout.flush()
    os._exit(0)

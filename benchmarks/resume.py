"""What a worker that has just started takes to resume a parked loop, beside a handwritten one of as many iterations.

`python -m benchmarks.resume [ITERATIONS …]`. All are parked first: a loop in one history, the same with a new history
every 50 iterations, as is the default, and the handwritten workflow, each with a local activity and an answer by update
in every iteration. Then a worker starts anew in this process, whose processor time is measured, and a query is its
first task: it replays the history. The least of three is printed. Neither runs in Temporal's sandbox.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from benchmarks.by_hand import Answer, ByHand, Work, think
from benchmarks.eviction import park
from benchmarks.ground import read_history, server
from benchmarks.hand_worker import HAND_QUEUE
from benchmarks.table import Cell, print_table
from holdfast.activities import all_activities
from holdfast.protocol.names import TASK_QUEUE, VIEW
from holdfast.protocol.views import WorkflowView
from holdfast.worker import create_worker

DEPTHS = (10, 100, 1_000)
TIMES = 3
MakeWorker = Callable[[Client], Worker]


@dataclass(frozen=True)
class Parked:
    """A workflow that waits: how many events its history has, and a query of it."""

    events: int
    query: Callable[[], Awaitable[object]]


def make_hand_worker(client: Client) -> Worker:
    """Return a worker for the handwritten workflows, in this process."""
    runner = UnsandboxedWorkflowRunner()
    return Worker(client, task_queue=HAND_QUEUE, workflows=[ByHand], activities=[think], workflow_runner=runner)


def make_our_worker(client: Client) -> Worker:
    """Return Holdfast's worker, in this process."""
    return create_worker(client, task_queue=TASK_QUEUE, activities=all_activities([], {}))


async def park_by_hand(client: Client, iterations: int) -> Parked:
    """Start the handwritten workflow, and answer until its last iteration waits."""
    work, name = Work(iterations=iterations, thinks="local"), f"hand-{iterations}"
    handle = await client.start_workflow(ByHand.run, work, id=name, task_queue=HAND_QUEUE)
    for n in range(1, iterations + 1):
        while await handle.query(ByHand.waiting) != f"q{n}":
            await asyncio.sleep(0.01)
        if n < iterations:
            await handle.execute_update(ByHand.answer, Answer(question=f"q{n}", text=f"answer {n}"), id=f"{n}")
    return Parked(len(await read_history(handle)), lambda: handle.query(ByHand.waiting))


async def park_by_holdfast(client: Client, iterations: int, checkpoint: int) -> Parked:
    """Start a loop, and answer until its last iteration waits."""
    handle = await park(client, iterations, checkpoint)
    return Parked(len(await read_history(handle)), lambda: handle.query(VIEW, 0, result_type=WorkflowView))


async def resume(client: Client, make_worker: MakeWorker, parked: Parked) -> tuple[float, float]:
    """Return the milliseconds of processor time and of the clock from a worker's start to its first reply."""
    used, began = time.process_time(), time.monotonic()
    async with make_worker(client):
        await parked.query()
        return (time.process_time() - used) * 1000, (time.monotonic() - began) * 1000


async def main(*depths: int) -> None:
    """Park, resume and print."""
    rows: list[list[Cell]] = []
    async with server() as client:
        address = client.service_client.config.target_host
        plain = await Client.connect(address, data_converter=pydantic_data_converter)
        for depth in depths:
            async with make_hand_worker(plain), make_our_worker(client):
                hand = await park_by_hand(plain, depth)
                whole = await park_by_holdfast(client, depth, 1_000)
                split = await park_by_holdfast(client, depth, 50)
            kinds = [
                ("by hand", plain, make_hand_worker, hand),
                ("Holdfast, one history", client, make_our_worker, whole),
                ("Holdfast, a new history every 50", client, make_our_worker, split),
            ]
            base = 0.0
            for label, connected, make_worker, parked in kinds:
                used, taken = zip(*[await resume(connected, make_worker, parked) for _ in range(TIMES)], strict=True)
                base = base or min(used)
                rows.append([depth, label, parked.events, min(used), min(used) / base, min(taken)])
    head = ("iterations", "", "events", "processor ms", "times by hand", "ms")
    print_table("A worker starts, and resumes a parked loop", head, rows)


if __name__ == "__main__":
    asyncio.run(main(*([int(word) for word in sys.argv[1:]] or DEPTHS)))
    sys.stdout.flush()
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit

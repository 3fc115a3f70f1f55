"""What it costs to drop a workflow from its worker's cache with each query: a parked loop is queried.

`python -m benchmarks.eviction [ITERATIONS] [QUERIES]`. The worker runs in this process, whose processor time is
measured; the client's part of a query is in both figures. Without eviction a query meets the cached workflow; with it
the next one, or the next task, replays the history from its beginning.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client, WorkflowHandle

from benchmarks.ground import loop, question_id, read_history, server
from benchmarks.table import Cell, print_table
from holdfast.activities import all_activities
from holdfast.client.runs import Runs
from holdfast.protocol.names import TASK_QUEUE, VIEW
from holdfast.protocol.runs import HistoryLimits
from holdfast.protocol.views import WorkflowView
from holdfast.worker import create_worker
from holdfast.workflows.activation import OneJobInstance

ACTIVATE = OneJobInstance.activate


def evict_after(instance: OneJobInstance, act: WorkflowActivation) -> WorkflowActivationCompletion:
    """Apply an activation, and drop the workflow if it was a query."""
    done = ACTIVATE(instance, act)
    if any(job.HasField("query_workflow") for job in act.jobs):
        instance._evict()
    return done


async def park(client: Client, iterations: int, checkpoint: int = 1_000) -> WorkflowHandle[Any, Any]:
    """Start a loop, and answer until its last iteration waits; up to the checkpoint it is one history."""
    run = await Runs(client).start(loop(iterations, checkpoint), history_limits=HistoryLimits(events=50_000))
    handle = client.get_workflow_handle(f"{run}/loop:loop")
    for n in range(1, iterations + 1):
        while (question := await question_id(handle, n)) is None:
            await asyncio.sleep(0.01)
        if n < iterations:
            payload = {"answers": [{"question": question, "content": f"answer {n}"}], "key": f"{n}"}
            await handle.execute_update("answer", payload, id=f"{n}")
    return handle


async def measure(work: Callable[[], Awaitable[Any]], times: int) -> tuple[float, float]:
    """Return the milliseconds of processor time and of the clock of one call."""
    await work()
    used, began = time.process_time(), time.monotonic()
    for _ in range(times):
        await work()
    return (time.process_time() - used) / times * 1000, (time.monotonic() - began) / times * 1000


async def main(iterations: int, queries: int) -> None:
    """Measure queries of a parked loop without and with eviction, and print both."""
    async with server() as client, create_worker(client, task_queue=TASK_QUEUE, activities=all_activities([], {})):
        handle = await park(client, iterations)

        async def query() -> None:
            await handle.query(VIEW, 0, result_type=WorkflowView)

        rows: list[list[Cell]] = [["from the cache", *await measure(query, queries)]]
        OneJobInstance.activate = evict_after  # type: ignore[method-assign,assignment]
        rows.append(["dropped by each query", *await measure(query, queries)])
        events = len(await read_history(handle))
    title = f"{queries} queries of a loop that waits in iteration {iterations}, {events} events"
    print_table(title, ("a query", "processor ms", "ms"), rows)


if __name__ == "__main__":
    asyncio.run(main(*([int(word) for word in sys.argv[1:3]] or (100, 100))))
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit

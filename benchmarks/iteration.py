"""The cost of an iteration against a workflow written by hand: events, bytes, and time from answer to next question.

`python -m benchmarks.iteration [ROUNDS]`. Both have an activity and an answer by update in each iteration, a worker
process of their own, and neither runs in Temporal's sandbox.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from temporalio.client import Client, WorkflowHandle

from benchmarks.by_hand import Answer, ByHand, Work
from benchmarks.ground import loop, question_id, server
from benchmarks.hand_worker import HAND_QUEUE
from benchmarks.table import Cell, print_table
from benchmarks.worker_process import run_hand_worker, run_holdfast_worker
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer as SentAnswer

ITERATIONS = 40
ROUNDS = 5


@dataclass
class Cost:
    """The cost of an iteration."""

    events: float
    size: float
    """Bytes of history."""
    seconds: float
    """From sending an answer to the next question."""


async def by_hand(client: Client, work: Work) -> Cost:
    name = f"hand-{uuid.uuid4().hex[:8]}"
    handle = await client.start_workflow(ByHand.run, work, id=name, task_queue=HAND_QUEUE)

    async def asks(n: int) -> bool:
        return await handle.query(ByHand.waiting) == f"q{n}"

    async def answer(n: int) -> None:
        await handle.execute_update(ByHand.answer, Answer(question=f"q{n}", text=f"answer {n}"), id=f"{n}")

    return await _measure(handle, asks, answer)


async def by_holdfast(client: Client, *, through_runs: bool) -> Cost:
    runs = Runs(client)
    run = await runs.start(loop(ITERATIONS, checkpoint=1000))
    handle = client.get_workflow_handle(f"{run}/loop:loop")
    open_question = ""

    async def asks(n: int) -> bool:
        nonlocal open_question
        open_question = await question_id(handle, n) or ""
        return bool(open_question)

    async def update(n: int) -> None:
        sent_answer = {"question": open_question, "content": f"answer {n}"}
        await handle.execute_update("answer", {"answers": [sent_answer], "by": "user:ana", "key": f"{n}"}, id=f"{n}")

    async def answer(n: int) -> None:
        sent_answer = SentAnswer(question=open_question, content=f"answer {n}")
        await runs.answer(run, [sent_answer], by="user:ana", owner=handle.id)

    return await _measure(handle, asks, answer if through_runs else update)


async def _measure(
    handle: WorkflowHandle[Any, Any], asks: Callable[[int], Awaitable[bool]], answer: Callable[[int], Awaitable[None]]
) -> Cost:
    seconds = await _drive(asks, answer)
    await handle.result()
    return await _cost(handle, seconds)


async def _drive(asks: Callable[[int], Awaitable[bool]], answer: Callable[[int], Awaitable[None]]) -> list[float]:
    """Answer every question, and return the seconds until each next one. Both sides are polled in the same way."""
    taken = []
    sent = 0.0
    for n in range(1, ITERATIONS + 1):
        while not await asks(n):
            await asyncio.sleep(0.001)
        if n > 1:
            taken.append(time.perf_counter() - sent)
        sent = time.perf_counter()
        await answer(n)
    return taken


async def _cost(handle: WorkflowHandle[Any, Any], seconds: list[float]) -> Cost:
    """Return the cost of an iteration between the first and the last, which also pay for start and end."""
    events = (await handle.fetch_history()).events
    answers = [
        n for n, event in enumerate(events) if event.HasField("workflow_execution_update_accepted_event_attributes")
    ]
    first, last = answers[0], answers[-1]
    middle = events[first:last]
    size = sum(event.ByteSize() for event in middle)
    return Cost(len(middle) / (len(answers) - 1), size / (len(answers) - 1), median(seconds))


async def main(rounds: int) -> None:
    """Print the medians of some rounds, in each of which all are measured in turn."""
    async with server() as client, AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(run_hand_worker(client, folder))
        stack.enter_context(run_holdfast_worker(client, folder))
        kinds: dict[str, Callable[[], Awaitable[Cost]]] = {
            "by hand": lambda: by_hand(client, Work(iterations=ITERATIONS)),
            "Holdfast, by update": lambda: by_holdfast(client, through_runs=False),
            "Holdfast, by `Runs`": lambda: by_holdfast(client, through_runs=True),
            "by hand, local activity": lambda: by_hand(client, Work(iterations=ITERATIONS, thinks="local")),
        }
        costs = [{kind: await measure() for kind, measure in kinds.items()} for _ in range(rounds)]
    head = ("an iteration", "history events", "bytes", "answer to next question, ms")
    rows = [_row(kind, [cost[kind] for cost in costs], [cost["by hand"] for cost in costs]) for kind in kinds]
    print_table(f"{ITERATIONS} iterations with an activity and an answer; medians of {rounds} rounds", head, rows)


def _row(kind: str, costs: Sequence[Cost], base: Sequence[Cost]) -> list[Cell]:
    """Return the medians of a kind, and of their ratios to that by hand."""
    cells: list[Cell] = [kind]
    for name, scale in (("events", 1), ("size", 1), ("seconds", 1000)):
        value = median(getattr(cost, name) for cost in costs) * scale
        ratio = median(getattr(cost, name) / getattr(hand, name) for cost, hand in zip(costs, base, strict=True))
        cells.append(f"{value:,.0f} ({ratio:.2f})")
    return cells


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))
    sys.stdout.flush()
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit

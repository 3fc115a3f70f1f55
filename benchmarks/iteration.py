"""The cost of an iteration against a workflow written by hand: events, bytes, time from answer to next question."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median

from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from benchmarks.by_hand import Answer, ByHand, think
from benchmarks.ground import loop, question_id, server
from holdfast.activities import all_activities
from holdfast.client.runs import Runs
from holdfast.worker import create_worker

ITERATIONS = 40
ROUNDS = 5


@dataclass
class Cost:
    """The cost of an iteration: events, bytes of history, and seconds from sending an answer to the next question."""

    events: float
    size: float
    seconds: float


async def by_hand(client: Client) -> Cost:
    name = f"hand-{uuid.uuid4().hex[:8]}"
    handle = await client.start_workflow(ByHand.run, ITERATIONS, id=name, task_queue="by-hand")

    async def asks(n: int) -> bool:
        return await handle.query(ByHand.waiting) == f"q{n}"

    async def answer(n: int) -> None:
        await handle.execute_update(ByHand.answer, Answer(question=f"q{n}", text=f"answer {n}"), id=f"{n}")

    seconds = await _drive(asks, answer)
    await handle.result()
    return await _cost(handle, seconds)


async def by_holdfast(client: Client) -> Cost:
    run = await Runs(client, "holdfast").start(loop(ITERATIONS, checkpoint=1000))
    handle = client.get_workflow_handle(f"{run}/loop:loop")

    open_question: str | None = None

    async def asks(n: int) -> bool:
        nonlocal open_question
        open_question = await question_id(handle, n)
        return open_question is not None

    async def answer(n: int) -> None:
        sent_answer = {"question": open_question, "content": f"answer {n}"}
        await handle.execute_update("answer", {"answers": [sent_answer], "by": "user:ana", "key": f"{n}"}, id=f"{n}")

    seconds = await _drive(asks, answer)
    await client.get_workflow_handle(run).result()
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


async def _cost(handle: WorkflowHandle, seconds: list[float]) -> Cost:
    """Return the cost of an iteration between the first and the last, which also pay for start and end."""
    events = (await handle.fetch_history()).events
    answers = [
        n for n, event in enumerate(events) if event.HasField("workflow_execution_update_accepted_event_attributes")
    ]
    first, last = answers[0], answers[-1]
    middle = events[first:last]
    size = sum(event.ByteSize() for event in middle)
    return Cost(len(middle) / (len(answers) - 1), size / (len(answers) - 1), median(seconds))


async def main() -> None:
    async with server() as client:
        activities = all_activities([], {})
        hand = Worker(client, task_queue="by-hand", workflows=[ByHand], activities=[think])
        async with hand, create_worker(client, task_queue="holdfast", activities=activities):
            pairs = [(await by_hand(client), await by_holdfast(client)) for _ in range(ROUNDS)]
    print(f"{'an iteration':>22} {'by hand':>10} {'holdfast':>10} {'ratio':>7} {'target':>7}")
    rows = [("events", 1.25, 1), ("size", 1.5, 1), ("seconds", 1.25, 1000)]
    for name, target, scale in rows:
        a = median(vars(hand)[name] for hand, _ in pairs) * scale
        b = median(vars(ours)[name] for _, ours in pairs) * scale
        label = {"events": "events", "size": "bytes", "seconds": "answer to question, ms"}[name]
        print(f"{label:>22} {a:10.1f} {b:10.1f} {b / a:7.2f} {target:7.2f}")


if __name__ == "__main__":
    asyncio.run(main())
    sys.stdout.flush()
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit

"""The cost of a hundred concurrent agents against agents written by hand, up to their question.

`python -m benchmarks.agents [ROUNDS]`. Each kind has a worker process of its own, and neither runs in Temporal's
sandbox.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle

from benchmarks.agent_by_hand import AgentByHand, request_model
from benchmarks.ground import has_open_task, read_history, server
from benchmarks.hand_worker import HAND_QUEUE
from benchmarks.table import Cell, compare, print_table
from benchmarks.worker_process import WorkerProcess, run_hand_worker, run_holdfast_worker
from holdfast.blueprint.load import loads
from holdfast.client.runs import Runs

AGENTS = 100
PAGES = 5
"""Turns with a tool call before the turn that asks."""
PATIENCE = 300.0
"""Seconds for all of them; a run that takes longer is broken."""
AGENT = """
name: bench
agents:
  reader: {model: "scripted:replies.yaml", instructions: Read all the pages., tools: [read_page], human: [ask]}
steps: [{name: read, agent: reader}]
"""

StartAgent = Callable[[], Awaitable[WorkflowHandle[Any, Any]]]


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


async def cost(process: WorkerProcess, start: StartAgent) -> Cost:
    """Measure `AGENTS` agents, after one that pays for everything loaded once."""
    await wait_for_question(await start())
    memory, processor, began = process.kilobytes(), process.seconds(), time.perf_counter()
    agents = await asyncio.gather(*(start() for _ in range(AGENTS)))
    turns = [per_turn(await wait_for_question(agent)) for agent in agents]
    return Cost(
        seconds=time.perf_counter() - began,
        warnings=process.count_deadlocks(),
        processor=(process.seconds() - processor) / AGENTS,
        kilobytes=(process.kilobytes() - memory) / AGENTS,
        events=median(events for events, _ in turns),
        size=median(size for _, size in turns),
    )


async def wait_for_question(agent: WorkflowHandle[Any, Any]) -> list[HistoryEvent]:
    """Return the agent's history once it asks. Histories come from the server, so looking costs the worker nothing."""
    while True:
        events = await read_history(agent)
        if len(requests(events)) == PAGES + 1 and not has_open_task(events):
            return events
        await asyncio.sleep(0.05)


def requests(events: Sequence[HistoryEvent]) -> list[int]:
    """Return the indices of the requests to the model."""
    models = ("call_model", request_model.__name__)
    types = [event.activity_task_scheduled_event_attributes.activity_type.name for event in events]
    return [place for place, type_ in enumerate(types) if type_ in models]


def per_turn(events: Sequence[HistoryEvent]) -> tuple[float, float]:
    """Return events and bytes a turn, from the first request to the last."""
    places = requests(events)
    middle = events[places[0] : places[-1]]
    return len(middle) / PAGES, sum(event.ByteSize() for event in middle) / PAGES


async def by_hand(client: Client, folder: Path) -> Cost:
    """Measure the handwritten agents."""
    numbers = iter(range(AGENTS + 1))

    async def start() -> WorkflowHandle[Any, Any]:
        return await client.start_workflow(AgentByHand.run, PAGES, id=f"hand-{next(numbers)}", task_queue=HAND_QUEUE)

    with run_hand_worker(client, folder) as process:
        async with asyncio.timeout(PATIENCE):
            return await cost(process, start)


async def by_holdfast(client: Client, folder: Path) -> Cost:
    """Measure Holdfast's agents."""
    (folder / "replies.yaml").write_text(yaml.safe_dump(replies()))
    blueprint, runs = loads(AGENT, name="bench", folder=folder), Runs(client)

    async def start() -> WorkflowHandle[Any, Any]:
        return client.get_workflow_handle(await runs.start(blueprint, f"{PAGES}"))

    with run_holdfast_worker(client, folder) as process:
        async with asyncio.timeout(PATIENCE):
            return await cost(process, start)


def replies() -> list[dict[str, list[dict[str, Any]]]]:
    """Return the replies of the scripted model, equal to those of `request_model`."""
    pages: list[dict[str, Any]] = [{"name": "read_page", "args": {"text": f"page {n}"}} for n in range(PAGES)]
    asks = {"name": "request_user_info", "args": {"question": f"page {PAGES}"}}
    return [{"tool_calls": [call]} for call in (*pages, asks)]


async def measure_round() -> tuple[Cost, Cost]:
    """Measure both on a server of their own."""
    async with server() as client:
        with tempfile.TemporaryDirectory() as folder:
            return await by_hand(client, Path(folder)), await by_holdfast(client, Path(folder))


async def main(rounds: int) -> None:
    """Print the medians of some rounds, in each of which both are measured in turn."""
    pairs = [await measure_round() for _ in range(rounds)]

    def row(label: str, name: str, scale: float = 1, digits: int = 1) -> tuple[Cell, ...]:
        hand, ours = ([getattr(cost, name) * scale for cost in costs] for costs in zip(*pairs, strict=True))
        ratios = sorted(b / a for a, b in zip(hand, ours, strict=True))
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        return *compare(label, median(hand), median(ours), digits)[:-1], f"{median(ratios):.2f}", spread

    rows = [
        row("history events a turn", "events"),
        row("bytes a turn", "size", digits=0),
        row("processor time of the worker up to the question, ms", "processor", 1000),
        row("memory of the worker while it waits, kB", "kilobytes", digits=0),
        row("until the last of them asks, s", "seconds"),
    ]
    warnings = sum(cost.warnings for pair in pairs for cost in pair)
    title = f"{AGENTS} agents at once, {PAGES} turns with a tool each, then a question: each; {rounds} rounds"
    print_table(title, ("", "by hand", "Holdfast", "ratio", "of the rounds"), rows)
    print(f"Warnings of a deadlock: {warnings}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3))
    sys.stdout.flush()
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit

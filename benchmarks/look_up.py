"""The cost of the look-up before a start: twenty tools, warm, against the start itself."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median

from benchmarks.ground import server
from benchmarks.table import print_table
from holdfast import activities
from holdfast.activities import all_activities
from holdfast.blueprint.load import loads
from holdfast.client.runs import Runs
from holdfast.worker import create_worker

TOOLS, ROUNDS = 20, 20
QUEUE = "look-up"
TARGET_MS = 100


def offer_tools() -> str:
    """Register the tools, and return the text of a blueprint that names each of them."""
    for number in range(TOOLS):
        activities.tool(name=f"tool_{number}")(lambda text: str(text))
    steps = "".join(f"\n  - {{name: s{number}, uses: tool_{number}}}" for number in range(TOOLS))
    return f"steps:\n  - {{kind: hitl, name: ask, message: Go on?}}{steps}"


async def milliseconds(work: Callable[[], Awaitable[object]]) -> float:
    before = time.perf_counter()
    await work()
    return (time.perf_counter() - before) * 1000


async def main() -> None:
    blueprint = loads(offer_tools(), name="look-up")
    async with server() as client, create_worker(client, task_queue=QUEUE, activities=all_activities([], {})):
        runs = Runs(client, QUEUE)
        checked = await runs.look_up(blueprint)
        assert (checked.problems, checked.unchecked) == ([], None), checked
        look_up = median([await milliseconds(lambda: runs.look_up(blueprint)) for _ in range(ROUNDS)])
        start = median([await milliseconds(lambda: runs.start(blueprint)) for _ in range(ROUNDS)])
    rows = [(f"{look_up:.1f} ms", f"{TARGET_MS} ms", f"{start:.1f} ms", look_up / start)]
    print_table(f"The look-up before a start, {TOOLS} tools", ("look-up", "aim", "the start itself", "ratio"), rows)


if __name__ == "__main__":
    asyncio.run(main())
    sys.stdout.flush()
    os._exit(0)

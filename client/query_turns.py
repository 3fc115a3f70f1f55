"""Turns at a workflow: this process has one query at a time under way to each. `Tree` takes them.

A worker that drops a workflow from its cache, as at its end or after a query that brought what its task must bring,
takes up one of the tasks that wait for it and loses the others without a word: a query is answered never, a workflow
task times out after ten seconds. Of eight queries at once to a workflow that had ended five were lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from temporalio.client import Client

PATIENCE_SECONDS = 1.0
"""Seconds to wait for a turn: one that is not answered for so long may be lost, and does not hold up the others."""


@dataclass
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    takers: int = 0


_turns: WeakKeyDictionary[Client, dict[str, _Turn]] = WeakKeyDictionary()
"""By the id of a workflow; of a client, as each person's `Runs` have a tree of their own."""


@asynccontextmanager
async def take_turn(client: Client, workflow: str) -> AsyncIterator[None]:
    """Let one caller at a time into the block for a workflow; one that waits too long goes in all the same."""
    turns = _turns.setdefault(client, {})
    turn = turns.setdefault(workflow, _Turn())
    turn.takers += 1
    is_mine = False
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                is_mine = await turn.lock.acquire()
        yield
    finally:
        if is_mine:
            turn.lock.release()
        turn.takers -= 1
        if not turn.takers:
            del turns[workflow]

"""Tools for workers that end: slow ones, and some that do not let go."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

from holdfast.activities import tool
from tests.tools import calls, count


@tool(idempotent=True)
def meets(folder: str, others: int) -> str:
    """Waits until so many calls are under way at the same time."""
    count(folder, "meets")
    while calls(Path(folder), "meets") < others:
        time.sleep(0.02)
    return "met"


@tool
def sleeps(folder: str, seconds: float) -> str:
    """Sleeps in a thread."""
    count(folder, "begun")
    time.sleep(seconds)
    return "slept"


@tool(idempotent=True)
def sleeps_again(folder: str, seconds: float) -> str:
    """Sleeps in a thread; its first call alone."""
    if count(folder, "begun") == 1:
        time.sleep(seconds)
    return "slept"


@tool
async def clings(folder: str, seconds: float) -> str:
    """Sleeps on, whoever cancels it."""
    count(folder, "begun")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(seconds)
    return "slept"


@tool
async def blocks(folder: str, seconds: float) -> str:
    """Blocks the event loop."""
    count(folder, "begun")
    time.sleep(seconds)
    return "slept"

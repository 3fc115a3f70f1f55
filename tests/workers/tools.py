"""Tools for workers that end: slow ones, and some that do not let go."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from temporalio.exceptions import ApplicationError

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


@tool(idempotent=True)
async def hangs(folder: str, name: str) -> str:
    """Hangs for as long as the file `hang` is there."""
    return await hang(folder, name)


@tool
async def hangs_with_effect(folder: str, name: str) -> str:
    """Does the same, but may not run twice."""
    return await hang(folder, name)


@tool(idempotent=True)
async def fails_or_hangs(folder: str, name: str) -> str:
    """Hangs for as long as the file `hang` is there, else fails."""
    await hang(folder, name)
    count(folder, "failed")
    raise ValueError("broken")


async def hang(folder: str, name: str) -> str:
    count(folder, name)
    while (Path(folder) / "hang").exists():
        await asyncio.sleep(0.02)
    return f"{name} is done"


@tool
def asks_for_a_retry(folder: str, name: str) -> None:
    """Fails with an error that Temporal would retry, though it may not run twice."""
    count(folder, name)
    raise ApplicationError("no seat", type="no_seat")


@tool(idempotent=True, local=True)
def counts_locally(folder: str, name: str) -> str:
    return f"{name} {count(folder, name)}"


@tool(idempotent=True, local=True)
def fails_locally(folder: str, name: str) -> str:
    """Fails in its first two calls."""
    if count(folder, name) <= 2:
        raise ValueError("not yet")
    return "done"


@tool(idempotent=True, local=True)
def hangs_locally(folder: str, name: str) -> str:
    """Hangs for as long as the file `hang` is there."""
    count(folder, name)
    while (Path(folder) / "hang").exists():
        time.sleep(0.02)
    return "done"


@tool(idempotent=True, local=True)
def kills_its_worker(folder: str, name: str, times: int) -> str:
    """Kills the worker in so many first calls, as a fault in a library does, or want of memory."""
    made = count(folder, name)
    if made <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{name} {made}"

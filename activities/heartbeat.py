"""Heartbeats of activities: with them a lost worker is noticed in seconds, and a cancellation arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import activity

# The workflow's timeout is 10 s (`calls.HEARTBEAT`), and a cancellation arrives with a heartbeat: a tool that is an
# `async` function hears of it in seconds.
EVERY_SECONDS = 2.0


@asynccontextmanager
async def heartbeating() -> AsyncIterator[None]:
    """Send heartbeats while the block runs. It must not occupy the event loop."""
    task = asyncio.create_task(_send_heartbeats())
    try:
        yield
    finally:
        task.cancel()


async def _send_heartbeats() -> None:
    while True:
        await asyncio.sleep(EVERY_SECONDS)  # before the first one: a short activity needs none
        activity.heartbeat()

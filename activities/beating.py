"""Heartbeats while an activity works, so that a lost worker is noticed in seconds and a cancellation arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import activity

EVERY_SECONDS = 2.0


@asynccontextmanager
async def beating() -> AsyncIterator[None]:
    task = asyncio.create_task(_beat())
    try:
        yield
    finally:
        task.cancel()


async def _beat() -> None:
    while True:
        await asyncio.sleep(EVERY_SECONDS)  # first: a short activity needs none
        activity.heartbeat()

"""A large result is stored while its call still tells the server that it is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from holdfast.activities import StoreInterceptor
from holdfast.activities.attempts import run_attempt
from holdfast.protocol.activity_request import ActivityRequest

THRESHOLD = 1_000
REQUEST = ActivityRequest(failures=2)


class Calls(ActivityInboundInterceptor):
    """The activity, which returns so many characters."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        async with run_attempt(input.args[0]):
            return "x" * self.count


@pytest.mark.parametrize(("count", "stored"), [(5_000, [5_002]), (10, [])])
async def test_a_call_beats_until_its_result_is_stored(count: int, stored: list[int]) -> None:
    told, beats, sizes = asyncio.Semaphore(0), list[tuple[Any, ...]](), list[int]()

    def beat(*details: Any) -> None:
        beats.append(details)
        told.release()

    async def store(_: str, payloads: Sequence[Payload]) -> None:
        for _ in range(2):  # it takes until the call has told twice that it is under way
            await told.acquire()
        sizes.extend(len(payload.data) for payload in payloads)

    calls = StoreInterceptor(store, THRESHOLD).intercept_activity(Calls(count))
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=0.05))
    environment.on_heartbeat = beat
    sent = ExecuteActivityInput(fn=len, args=[REQUEST], executor=None, headers={})
    assert await environment.run(calls.execute_activity, sent) == "x" * count
    assert sizes == stored
    assert set(beats) <= {(2,)}

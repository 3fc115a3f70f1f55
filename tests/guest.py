"""A team's own client and worker, for the tests of the plugin: a workflow, an activity, a codec, an interceptor."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from holdfast.workflows import HumanInTheLoop

ENCODING = b"binary/zlib"


class Zlib(PayloadCodec):
    """Compresses every payload, so that nothing that goes by without the codec can be read."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        compressed = [zlib.compress(payload.SerializeToString()) for payload in payloads]
        return [Payload(metadata={"encoding": ENCODING}, data=data) for data in compressed]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [_opened(payload) for payload in payloads]


def _opened(payload: Payload) -> Payload:
    if payload.metadata.get("encoding") != ENCODING:
        return payload
    return Payload.FromString(zlib.decompress(payload.data))


class Counted(Interceptor):
    """Counts the activities of a worker, whosever they are."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Counting(next, self.names)


class _Counting(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, names: list[str]) -> None:
        super().__init__(next)
        self._names = names

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        self._names.append(activity.info().activity_type)
        return await super().execute_activity(input)


@activity.defn
def book(room: str) -> str:
    return f"booked {room}"


@workflow.defn
class Booking(HumanInTheLoop):
    """Asks, then calls the team's own activity."""

    @workflow.run
    async def run(self, room: str) -> str:
        await self.human.ask(f"Book {room}?", options=["yes", "no"])
        return str(await workflow.execute_activity(book, room, start_to_close_timeout=timedelta(seconds=10)))

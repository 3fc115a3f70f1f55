"""Large results are stored outside while their call still tells that it is under way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from holdfast.activities.attempts import find_request, send_beats

Store = Callable[[str, Sequence[Payload]], Awaitable[None]]
"""Stores payloads for workflows of a namespace, if it can."""


class StoreInterceptor(Interceptor):
    """Stores large results of calls before these end.

    The SDK stores a result when its call tells nothing any more: a store that takes longer than the server waits for a
    sign of life would lose the call, and a person be asked what became of it. It then finds there what was stored.

    Args:
        store: Stores them.
        threshold: The bytes from which a value is stored outside.
    """

    def __init__(self, store: Store, threshold: int) -> None:
        self._store, self._threshold = store, threshold

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """See base class."""
        return _StoredCalls(next, self._store, self._threshold)


class _StoredCalls(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, store: Store, threshold: int) -> None:
        super().__init__(next)
        self._store, self._threshold = store, threshold

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        result = await self.next.execute_activity(input)
        if (request := find_request(input)) is not None:
            payloads = activity.payload_converter().to_payloads([result])
            if large := [payload for payload in payloads if payload.ByteSize() >= self._threshold]:
                async with send_beats(request):
                    await self._store(activity.info().namespace, large)
        return result

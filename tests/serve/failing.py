"""A connection to Temporal that fails as a server does that is down, busy or slow; and one that counts its calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode, ServiceClient

from holdfast.runtime.outage import ReadLimits


class Wire(ServiceClient):
    """The connection of another client, with a fault that a test switches on."""

    def __init__(self, inner: ServiceClient) -> None:
        super().__init__(inner.config)
        self.inner = inner
        self.status: RPCStatusCode | None = None
        """Every call ends so."""
        self.hangs = False
        """No call ends."""
        self.calls: Counter[str] = Counter()

    async def _rpc_call(self, rpc: str, req: Any, resp_type: Any, **how: Any) -> Any:
        self.calls[rpc] += 1
        if self.hangs:
            await _nothing(how["timeout"])
        if self.status is not None:
            raise RPCError("told by the test", self.status, b"")
        return await self.inner._rpc_call(rpc, req, resp_type, **how)

    @property
    def worker_service_client(self) -> Any:
        """See base class."""
        return self.inner.worker_service_client

    def update_rpc_metadata(self, metadata: Mapping[str, str | bytes]) -> None:
        """See base class."""

    def update_api_key(self, api_key: str | None) -> None:
        """See base class."""


async def _nothing(timeout: timedelta | None) -> None:
    """Wait for ever, or end as the SDK does at a caller's time limit."""
    try:
        async with asyncio.timeout(None if timeout is None else timeout.total_seconds()):
            await asyncio.Event().wait()
    except TimeoutError:
        raise RPCError("Timeout expired", RPCStatusCode.CANCELLED, b"") from None


def wired(client: Client) -> tuple[Client, Wire]:
    """A client like this one over a wire of its own, and the wire."""
    wire = Wire(client.service_client)
    limits = [ReadLimits()]
    return Client(wire, namespace=client.namespace, data_converter=client.data_converter, interceptors=limits), wire

"""The time that a request may take, so that a Temporal server that hangs leaves no page without an answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.server.web.problems import TooSlow
from holdfast.server.web.security import SAFE


@dataclass(frozen=True)
class Patience:
    """Seconds until the response must have begun; streams go on after that."""

    reading: float = 30.0
    sending: float = 90.0
    """Longer than a cancel waits for its run, and than an update is tried."""


class Deadline:
    """Raise `TooSlow` for a request whose response has not begun in time, and cancel what it waits for."""

    def __init__(self, app: ASGIApp, patience: Patience) -> None:
        self.app, self.patience = app, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        seconds = self.patience.reading if scope["method"] in SAFE else self.patience.sending
        limit = asyncio.timeout(seconds)

        async def send_begun(message: Message) -> None:
            # A limit that has expired can be set no more: asyncio raises.
            if not limit.expired():
                limit.reschedule(None)
            await send(message)

        try:
            async with limit:
                await self.app(scope, receive, send_begun)
        except TimeoutError:
            if limit.expired():
                raise TooSlow(seconds) from None
            raise

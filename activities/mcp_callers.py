"""The needs of MCP servers from people in a call: the values, and whose call a question in the middle belongs to."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from holdfast.blueprint.json_values import JSONObject

log = logging.getLogger("holdfast.mcp")


@dataclass(frozen=True)
class InputRequired:
    """The needs of a server from people before it can go on with a call, in place of a result."""

    requests: Mapping[str, JSONObject]
    """By the server's keys: the method and the parameters of each request."""
    state: str | None = None
    """Goes back to the server with the responses, unread."""
    takes_responses: bool = True
    """False for a server that only wants the same call again, once people have done what it asks."""


@dataclass(frozen=True)
class Continuation:
    """The responses to what a server needed, with its state."""

    responses: Mapping[str, JSONObject]
    state: str | None = None


AskNow = Callable[[JSONObject], Awaitable[JSONObject]]
"""Puts a request to people that a server sends during a call, and returns the response."""


async def ask_nobody(request: JSONObject) -> JSONObject:
    return {"action": "cancel"}


_caller: ContextVar[AskNow | None] = ContextVar("caller", default=None)
"""The caller for whom something is sent; over HTTP, what comes back for it is handled in a copy of its context."""


class Callers:
    """The calls in flight over one session, and which of them a question in the middle belongs to.

    Over HTTP what answers the call's own request brings the question. Over stdio nothing tells, so that a session with
    a server that may ask there has one call at a time.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._calls: list[AskNow] = []

    @contextmanager
    def hold_call(self, ask: AskNow) -> Iterator[None]:
        """Hold a call, which something may be asked for."""
        self._calls.append(ask)
        token = _caller.set(ask)
        try:
            yield
        finally:
            _caller.reset(token)
            self._calls.remove(ask)

    async def ask(self, request: JSONObject) -> JSONObject:
        """Return the response of the caller that a question is for; if nothing tells which that is, cancel it."""
        caller = _caller.get() or (self._calls[0] if len(self._calls) == 1 else None)
        if caller is None:
            calls = len(self._calls)
            log.warning("MCP server %s asks, and does not say in which of %d calls: cancelled", self._server, calls)
        return await (caller or ask_nobody)(request)

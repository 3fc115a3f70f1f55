"""The calls of a workflow in whose middle an MCP server may ask people, and what became of its questions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from holdfast.protocol.answers import Refusal
from holdfast.protocol.elicitations import Elicited, ElicitedQuery, PutElicitation
from holdfast.protocol.questions import Asked


class AskingCall(Protocol):
    """A call under way (`Interrupts`)."""

    def put(self, path: str, asked: Asked, seconds: float) -> None: ...
    def elicited(self, path: str) -> Elicited: ...


class Elicitations:
    """The calls under way, by their addresses."""

    def __init__(self) -> None:
        self._calls: dict[str, AskingCall] = {}

    @contextmanager
    def during(self, address: str, call: AskingCall) -> Iterator[None]:
        """Let a server ask in the middle of this call."""
        self._calls[address] = call
        try:
            yield
        finally:
            del self._calls[address]

    def put(self, wanted: PutElicitation) -> None:
        """Put a question to people. Raises `Refusal` for a call that is over."""
        call = self._calls.get(wanted.call)
        if call is None:
            raise Refusal("unknown_question", "an MCP server asks in a call that is not under way")
        call.put(wanted.path, wanted.asked, wanted.seconds)

    def look(self, wanted: ElicitedQuery) -> Elicited:
        """Return where a question stands."""
        call = self._calls.get(wanted.call)
        return Elicited() if call is None else call.elicited(wanted.path)

"""Questions of MCP servers in the middle of a call: its activity puts them by signal, and queries the answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RawValue

from holdfast.protocol.answers import Refusal
from holdfast.protocol.elicitations import ELICIT, ELICITED, Elicited, ElicitedQuery, PutElicitation
from holdfast.protocol.size_limits import SizeLimit
from holdfast.workflows.door import NOTHING, Door, read_value
from holdfast.workflows.frame import AskingCall


class Elicitations:
    """The calls under way of one workflow in whose middle a server may ask people, by their addresses."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self._calls: dict[str, AskingCall] = {}

    @contextmanager
    def let_ask(self, address: str, call: AskingCall) -> Iterator[None]:
        """Let a server ask in the middle of this call."""
        self._calls[address] = call
        try:
            yield
        finally:
            del self._calls[address]

    @workflow.signal(
        name=ELICIT, description="Put a question of an MCP server to people, from the activity that calls it."
    )
    def elicit(self, payload: RawValue = NOTHING) -> None:
        """Put a question to people. Raises `Refusal` for a call that is over."""
        put = _read(payload, self.door.identity.size_limits.result)
        call = self._calls.get(put.call)
        if call is None:
            raise Refusal("unknown_question", "an MCP server asks in a call that is not under way")
        call.put(put.path, put.asked, put.seconds)

    @workflow.query(name=ELICITED, description="Whether such a question was answered, and how.")
    def elicited(self, wanted: ElicitedQuery) -> Elicited:
        call = self._calls.get(wanted.call)
        return Elicited() if call is None else call.find_elicited(wanted.path)


def _read(raw: RawValue, limit: SizeLimit) -> PutElicitation:
    """Return the question of a payload. Raises `Refusal`."""
    try:
        return PutElicitation.model_validate(read_value(raw, limit))
    except ValidationError:
        raise Refusal("invalid_answer", "the question of an MCP server cannot be read") from None

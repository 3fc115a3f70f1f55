"""Questions of MCP servers in the middle of a call: its activity puts them by update, and queries the answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RawValue

from holdfast.blueprint.json_values import JSON
from holdfast.protocol import guard
from holdfast.protocol.answers import Refusal
from holdfast.protocol.elicitations import ELICIT, ELICITED, Elicited, ElicitedQuery, PutElicitation
from holdfast.workflows.door import NOTHING, Door, check_may_answer, read_value
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

    @workflow.update(
        name=ELICIT, description="Put a question of an MCP server to people, from the activity that calls it."
    )
    def elicit(self, payload: RawValue = NOTHING) -> None:
        sent = read_value(payload, None)
        if not self.door.was_taken(ELICIT, sent):
            put, call = self._find(sent)
            self.door.remember(ELICIT, sent)
            call.put(put.path, put.asked, put.seconds)

    @elicit.validator
    def check_elicit(self, payload: RawValue = NOTHING) -> None:
        """Refuse a question for a call that is over, and one that no worker of the deployment has sent."""
        sent = read_value(payload, guard.DEPLOYMENT.limits.result)
        check_may_answer(self.door.check_token(ELICIT, sent))
        if not self.door.was_taken(ELICIT, sent):
            self.door.check_busy()
            self._find(sent)

    @workflow.query(name=ELICITED, description="Whether such a question was answered, and how.")
    def elicited(self, wanted: ElicitedQuery) -> Elicited:
        call = self._calls.get(wanted.call)
        return Elicited() if call is None else call.find_elicited(wanted.path)

    def _find(self, sent: JSON) -> tuple[PutElicitation, AskingCall]:
        """Return the question that was sent, and its call. Raises `Refusal`."""
        try:
            put = PutElicitation.model_validate(sent)
        except ValidationError:
            raise Refusal("invalid_answer", "the question of an MCP server cannot be read") from None
        if (call := self._calls.get(put.call)) is None:
            raise Refusal("unknown_question", "an MCP server asks in a call that is not under way")
        return put, call

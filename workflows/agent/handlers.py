"""The handlers of an agent's workflow: messages of people, for its next turn."""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from holdfast.protocol import guard
from holdfast.protocol.answers import Refusal
from holdfast.protocol.events import AgentTold
from holdfast.protocol.runs import TELL, AgentDefinition, AgentState, ToldText
from holdfast.workflows.chain import ChildWorkflow
from holdfast.workflows.door import NOTHING, one_argument, refused, value_in


class AgentHandlers(ChildWorkflow):
    """The part of an agent's workflow that people talk to."""

    definition: AgentDefinition
    state: AgentState

    def __init__(self, definition: AgentDefinition, state: AgentState) -> None:
        """See base class."""
        super().__init__(definition, state, definition.history_limits.rounds)
        self.told = list(state.told)
        """Messages that no turn has read yet."""

    def progress(self) -> dict[str, Any]:
        """See base class."""
        return {"told": list(self.told)}

    @property
    def hears(self) -> bool:
        """See base class."""
        return self.ended is None

    @workflow.update(name=TELL, description="Send the agent a message for its next turn.")
    def tell(self, payload: RawValue) -> None:
        self.history.updates += 1
        message = value_in(payload, None)
        try:
            if self.steered_before(TELL, message):
                return
        except Refusal as refusal:
            raise refused(refusal) from None
        self.steered(TELL, message)
        self.told.append(_message_from(message))
        self.note(self.address, AgentTold(text=self.told[-1].text, by=self.told[-1].by))

    @tell.validator
    def _check_tell(self, payload: RawValue) -> None:
        try:
            self.check_busy()
            message = value_in(payload, guard.DEPLOYMENT.limits.answer)
            _message_from(message)
            self.check_steering(TELL, message)
            if self.ended is not None:
                raise Refusal("run_closed", "the agent has finished; it no longer accepts messages")
        except Refusal as refusal:
            raise refused(refusal) from None

    @workflow.signal(name=TELL)
    @one_argument
    def tell_signal(self, payload: RawValue = NOTHING) -> None:
        self.history.signals += 1
        try:
            self.check_signal()
            self.told.append(_message_from(value_in(payload, self.size_limits.answer)))
        except Refusal as refusal:
            self.refuse_signal(refusal)


def _message_from(payload: object) -> ToldText:
    match payload:
        case {"text": str(text), **more} if text.strip():
            by = more.get("by")
            return ToldText(text=text, by=by if isinstance(by, str) else None)
        case str(text) if text.strip():
            return ToldText(text=text)
    raise Refusal("invalid_answer", 'say some text: {"text": "…", "by": "user:ana"}')

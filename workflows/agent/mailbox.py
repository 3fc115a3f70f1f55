"""Messages of people to an agent, for its next turn, by update and by signal."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import RawValue

from holdfast.protocol import guard
from holdfast.protocol.address import Address
from holdfast.protocol.answers import Refusal
from holdfast.protocol.children import ToldText
from holdfast.protocol.events import AgentTold
from holdfast.protocol.names import TELL
from holdfast.workflows.door import NOTHING, read_value
from holdfast.workflows.handlers import Host


class Mailbox:
    """Keeps the messages that no turn has read yet.

    Args:
        host: The workflow.
        address: The agent that reads them; None: none is at work here.
        told: Those that came before.
    """

    def __init__(self, host: Host, address: Address | None = None, told: Sequence[ToldText] = ()) -> None:
        self.door, self.address, self.told = host.door, address, list(told)
        self.is_closed = False
        """True once the agent goes on in another workflow, which takes its messages."""
        self._host = host

    @property
    def hearer(self) -> Address | None:
        """Return the address of the agent that takes messages now."""
        return self.address if self._host.progress.ended is None else None

    @workflow.update(name=TELL, description="Send the agent a message for its next turn.")
    def tell(self, payload: RawValue) -> None:
        message = read_value(payload, None)
        if self.door.was_taken(TELL, message):
            return
        self.door.remember(TELL, message)
        self._hear(_read_message(message))

    @tell.validator
    def check_tell(self, payload: RawValue) -> None:
        self.door.check_busy()
        message = read_value(payload, guard.DEPLOYMENT.limits.answer)
        _read_message(message)
        self.door.check_steering(TELL, message)
        self._check_hearer()

    def _check_hearer(self) -> None:
        if self.is_closed:
            raise Refusal("busy", "the agent goes on in a workflow of its own; send the message again")
        if self.hearer is None:
            raise Refusal("run_closed", "the agent has finished; it no longer accepts messages")

    @workflow.signal(name=TELL)
    def tell_signal(self, payload: RawValue = NOTHING) -> None:
        self.door.check_signal()
        self._check_hearer()
        self._hear(_read_message(read_value(payload, self.door.identity.size_limits.answer)))

    def _hear(self, message: ToldText) -> None:
        self.told.append(message)
        self._host.note(self.address or self.door.identity.address, AgentTold(text=message.text, by=message.by))


def _read_message(payload: object) -> ToldText:
    match payload:
        case {"text": str(text), **more} if text.strip():
            by = more.get("by")
            return ToldText(text=text, by=by if isinstance(by, str) else None)
        case str(text) if text.strip():
            return ToldText(text=text)
    raise Refusal("invalid_answer", 'say some text: {"text": "…", "by": "user:ana"}')

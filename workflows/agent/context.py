"""What a request to an agent's model holds: messages of people are added, and a long conversation is cut."""

from __future__ import annotations

from typing import Literal

from temporalio.exceptions import ActivityError, ApplicationError

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.kinds import AgentHistory
from holdfast.protocol.agents import Message
from holdfast.protocol.events import AgentShortened
from holdfast.workflows.agent import conversation as talk
from holdfast.workflows.agent.work import AgentWork
from holdfast.workflows.agents import AgentCall, ask_model
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.turns import drop_older


class ModelContext:
    """The conversation of an agent at work."""

    def __init__(self, work: AgentWork) -> None:
        self.work = work
        self.summarized = False
        """Whether a summary was made when the conversation was shortened last."""

    def hear(self) -> None:
        """Add the messages from people that came since the last turn."""
        self.work.say(*(Message(role="user", content=message.text) for message in self.work.mailbox.told))
        self.work.mailbox.told.clear()

    async def shorten(self) -> None:
        """Shorten a conversation that is too long: by the author's rule, and to what a request can hold."""
        rule = self.work.agent.history_management
        before = self.work.state.messages
        if rule is not None and talk.is_long(before, rule):
            self.summarized = False
            kept = await talk.shorten_conversation(before, rule, self._summarise)
            self._leave_out(kept, talk.count_turns(before) - talk.count_turns(kept), "rule", self.summarized)
        kept = talk.shorten_to_limit(self.work.state.messages)
        self._leave_out(kept, talk.count_turns(self.work.state.messages) - talk.count_turns(kept), "size")
        if len(kept) != len(before):
            self.work.advance(earlier=0)  # the first messages may have been cut, so their number no longer holds

    def _leave_out(
        self, kept: list[Message], turns: int, reason: Literal["rule", "size", "model"], summarized: bool = False
    ) -> None:
        """Go on with these messages; the model and the history are told how many turns are gone."""
        self.work.advance(messages=kept)
        if turns:
            self.work.frame().note(AgentShortened(turns=turns, reason=reason, summarized=summarized))
            self.work.advance(left_out=self.work.state.left_out + (0 if summarized else turns))

    async def _summarise(self, rule: AgentHistory, old: list[Message]) -> str | None:
        """Return a summary of these messages by a model; None if it gives none."""
        agent = self.work.agent if rule.agent is None else self.work.definition.blueprint.agents[rule.agent]
        step = rule.agent or f"{self.work.definition.step}-summary"
        request = talk.make_summary_request(agent, rule.agent, step, old)
        try:
            reply = await ask_model(
                request, AgentCall(agent, rule.agent, self.work.definition.step), self.work.frame(), "summary"
            )
        except (ActivityError, ApplicationError) as error:
            if is_cancelled(error) or (isinstance(error, ApplicationError) and error.type not in talk.BAD_TYPES):
                raise
            return None  # it must not end the agent
        self.summarized = True
        return write_text(reply.output)

    def cut(self) -> bool:
        """Halve the conversation, turns from before the agent first; return whether anything could be cut."""
        messages, earlier = self.work.state.messages, self.work.state.earlier
        if earlier:
            kept, left = drop_older(messages, earlier)
            self.work.advance(earlier=left)
            self._leave_out(kept, earlier - left, "model")
        else:
            kept = talk.halve(messages) or messages
            self._leave_out(kept, talk.count_turns(messages) - talk.count_turns(kept), "model")
        return len(kept) < len(messages)

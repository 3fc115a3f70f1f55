"""An agent's conversation under the author's rule for its length; `conversation` has what needs no model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from holdfast.blueprint.kinds import Agent, AgentHistory
from holdfast.protocol.agents import Message, ModelRequest
from holdfast.workflows.agent import conversation as talk
from holdfast.workflows.agents import BAD_REPLIES

BAD_TYPES = [type_ for type_, _ in BAD_REPLIES.values()]
"""Types of the failures of a summary after which the agent goes on without one."""
_SUMMARISE = "Summarise this part of a conversation in which an assistant works with tools. Keep every fact, decision, \
number, name and open question that later work may need. Write nothing else."

Summarise = Callable[[AgentHistory, list[Message]], Awaitable[str | None]]


async def shortened(messages: list[Message], rule: AgentHistory, summarise: Summarise) -> list[Message]:
    """Return a conversation that is too long as the rule wants it."""
    match rule.strategy:
        case "truncate_turns":
            return talk.without_old_turns(messages, rule)
        case "truncate_results":
            return talk.with_short_results(messages, rule.keep_turns)
        case "summarize":
            return await _summarised(messages, rule, summarise)


async def _summarised(messages: list[Message], rule: AgentHistory, summarise: Summarise) -> list[Message]:
    """Return the conversation with its older turns as one message; without a summary the older half is dropped."""
    head, turns = talk.split(messages)
    old, new = turns[: -rule.keep_turns], turns[-rule.keep_turns :]
    if not old:
        return messages
    text = await summarise(rule, talk.joined(head[1:], old))
    if text is None:
        return talk.halved(messages) or messages
    return talk.joined([*head[:1], Message(role="user", content=f"What happened so far, in short:\n{text}")], new)


def summary_request(agent: Agent, name: str | None, step: str, old: list[Message]) -> ModelRequest:
    """Return the request for a summary: to the agent of that name, or to the one whose conversation it is."""
    return ModelRequest(
        step=step,
        agent=name,
        model=agent.model,
        instructions=f"{agent.instructions}\n\n{_SUMMARISE}".strip() if name else _SUMMARISE,
        messages=[Message(role="user", content=talk.transcript(old))],
        settings=agent.model_settings,
    )

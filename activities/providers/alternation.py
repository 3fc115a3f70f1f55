"""Messages in an order that every provider accepts. Used by `conversation` for each request.

Anthropic and Gemini require a conversation to end with the user, and many servers of open models refuse two messages of
one role in a row. The turns of a loop come as people and models took them: several in a row may have one role.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.blueprint.expressions.values import write_text
from holdfast.protocol.agents import Message

GO_ON = Message(role="user", content="Go on.")


def alternate_roles(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with consecutive ones of one role joined, and a user's or a tool's message last.

    >>> turns = [Message(role="assistant", content="Who?"), *(Message(role="user", content=c) for c in "ab")]
    >>> [(message.role, message.content) for message in alternate_roles(turns)]
    [('assistant', 'Who?'), ('user', 'a\\n\\nb')]
    """
    joined: list[Message] = []
    for message in messages:
        if joined and _can_be_joined(joined[-1], message):
            before = joined[-1]
            text = f"{write_text(before.content)}\n\n{write_text(message.content)}".strip()
            joined[-1] = before.model_copy(update={"content": text, "files": [*before.files, *message.files]})
        else:
            joined.append(message)
    last = [GO_ON] if joined and _is_assistants_text(joined[-1]) else []
    return [*joined, *last]


def _can_be_joined(before: Message, after: Message) -> bool:
    return before.role == after.role and _is_plain(before) and _is_plain(after)


def _is_assistants_text(message: Message) -> bool:
    return message.role == "assistant" and _is_plain(message)


def _is_plain(message: Message) -> bool:
    """Return whether a message is just text: calls, results and a provider's own reply must stay as they are."""
    return message.role != "tool" and not message.tool_calls and message.raw is None

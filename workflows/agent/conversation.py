"""Shortening of an agent's conversation: under the author's rule, and to what a request to the model can hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Agent, AgentHistory
from holdfast.protocol.agents import Message, ModelRequest
from holdfast.workflows.agents import BAD_REPLIES

MOST_BYTES = 1_000_000
"""Most bytes of a conversation under any rule: a payload over 2 MB fails the workflow task for ever."""
LARGE_RESULT = MOST_BYTES // 16
"""Bytes of a result that is shortened before any turn is dropped."""
LONGEST_OLD_RESULT = 500
BYTES_PER_TOKEN = 4
LEFT_OUT = " characters left out)"

BAD_TYPES = [type_ for type_, _ in BAD_REPLIES.values()]
"""Types of the failures of a summary after which the agent goes on without one."""
_SUMMARY_TASK = (
    "Summarise this part of a conversation in which an assistant works with tools. Keep every fact, decision, \
number, name and open question that later work may need. Write nothing else."
)

Summarise = Callable[[AgentHistory, list[Message]], Awaitable[str | None]]
Turn = list[Message]


def measure_size(messages: Sequence[Message]) -> int:
    """Return roughly how many bytes the messages take in a request."""
    return sum(len(message.model_dump_json(exclude_defaults=True).encode()) for message in messages)


def split_turns(messages: Sequence[Message]) -> tuple[list[Message], list[Turn]]:
    """Return the messages before the model's first reply, and the turns: each a reply with all that follows it."""
    head: list[Message] = []
    turns: list[Turn] = []
    for message in messages:
        if message.role == "assistant":
            turns.append([message])
        else:
            (turns[-1] if turns else head).append(message)
    return head, turns


def count_turns(messages: Sequence[Message]) -> int:
    return sum(message.role == "assistant" for message in messages)


def join_turns(head: Sequence[Message], turns: Sequence[Turn]) -> list[Message]:
    return [*head, *(message for turn in turns for message in turn)]


def is_long(messages: Sequence[Message], rule: AgentHistory) -> bool:
    """Return whether the conversation exceeds the author's rule."""
    _, turns = split_turns(messages)
    by_turns = rule.max_turns is not None and len(turns) > max(rule.max_turns, rule.keep_turns)
    return by_turns or (rule.max_tokens is not None and measure_size(messages) > rule.max_tokens * BYTES_PER_TOKEN)


def drop_old_turns(messages: Sequence[Message], rule: AgentHistory) -> list[Message]:
    """Return the newest turns: as many as the rule keeps, and half of its tokens, to leave room for the next turns.

    Messages from people in the dropped turns stay.
    """
    head, turns = split_turns(messages)
    if rule.max_turns is not None and (dropped := turns[: -max(rule.max_turns, rule.keep_turns)]):
        head, turns = [*head, *_keep_people(dropped)], turns[len(dropped) :]
    if rule.max_tokens is not None and measure_size(join_turns(head, turns)) > rule.max_tokens * BYTES_PER_TOKEN:
        while (
            len(turns) > rule.keep_turns
            and measure_size(join_turns(head, turns)) > rule.max_tokens * BYTES_PER_TOKEN // 2
        ):
            head, turns = [*head, *_keep_people(turns[:1])], turns[1:]
    return join_turns(head, turns)


def _keep_people(turns: Sequence[Turn]) -> list[Message]:
    return [message for turn in turns for message in turn if message.role == "user"]


def shorten_results(messages: Sequence[Message], keep_turns: int) -> list[Message]:
    """Return the messages with tool results shortened, except in the newest turns."""
    head, turns = split_turns(messages)
    old, new = turns[:-keep_turns], turns[-keep_turns:]
    return join_turns(head, [[_shorten_result(message) for message in turn] for turn in old] + new)


def halve(messages: Sequence[Message]) -> list[Message] | None:
    """Return the messages without the older half of the turns; None if there is only one turn."""
    head, turns = split_turns(messages)
    half = (len(turns) + 1) // 2
    return join_turns([*head, *_keep_people(turns[:half])], turns[half:]) if len(turns) > 1 else None


def shorten_to_limit(messages: Sequence[Message]) -> list[Message]:
    """Return messages that fit a request: shorten old, then large results, drop old turns, shorten what is left."""
    kept = list(messages)
    if measure_size(kept) > MOST_BYTES:
        kept = shorten_results(kept, keep_turns=4)
    while (excess := measure_size(kept) - MOST_BYTES) > 0 and (
        shorter := _cut_largest_result(kept, excess)
    ) is not None:
        kept = shorter
    while measure_size(kept) > MOST_BYTES and (shorter := halve(kept)) is not None:
        kept = shorter
    if measure_size(kept) > MOST_BYTES:
        kept = [_cut(message, MOST_BYTES // (8 * len(kept))) for message in kept]
    return kept


def _cut_largest_result(messages: Sequence[Message], excess: int) -> list[Message] | None:
    """Return the messages with the largest result shortened by these bytes; None if none is large.

    One result must not cost the agent what it did in its other turns.
    """
    sizes = [measure_size([message]) if message.role == "tool" else 0 for message in messages]
    largest = max(sizes, default=0)
    if largest <= LARGE_RESULT:
        return None
    number = sizes.index(largest)
    text = write_text(messages[number].content)
    limit = len(text) * max(LARGE_RESULT // 2, largest - excess - LARGE_RESULT // 2) // largest
    cut = messages[number].model_copy(update={"content": _cut_text(text, limit), "raw": None})
    return [*messages[:number], cut, *messages[number + 1 :]]


def _cut(message: Message, limit: int) -> Message:
    """Shorten any message, where nothing else was enough. `limit` counts characters, of at most four bytes each."""
    if measure_size([message]) <= limit:
        return message
    calls = [call.model_copy(update={"args": {}}) for call in message.tool_calls]
    # Providers are sent `raw` where there is one: left in, nothing would be shorter.
    return message.model_copy(update={"content": _cut_text(message.content, limit), "tool_calls": calls, "raw": None})


def _cut_text(content: object, limit: int) -> JSON:
    text = write_text(content)
    return content if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit}{LEFT_OUT}"


def write_transcript(messages: Sequence[Message]) -> str:
    """Return the messages as text, for the model that summarises them."""
    return "\n".join(_write_line(message) for message in messages)


def _write_line(message: Message) -> str:
    match message.role:
        case "tool":
            return f"{message.tool} gave: {write_text(message.content)}"
        case "assistant" if message.tool_calls:
            calls = ", ".join(f"{call.name}({write_text(call.args)})" for call in message.tool_calls)
            return f"assistant: {write_text(message.content) if message.content else ''} calls {calls}"
        case role:
            return f"{role}: {write_text(message.content)}"


def _shorten_result(message: Message) -> Message:
    if message.role != "tool" or (isinstance(message.content, str) and message.content.endswith(LEFT_OUT)):
        return message
    if len(write_text(message.content)) <= LONGEST_OLD_RESULT:
        return message
    return message.model_copy(update={"content": _cut_text(message.content, LONGEST_OLD_RESULT), "raw": None})


# Under the author's rule for its length


async def shorten_conversation(messages: list[Message], rule: AgentHistory, summarise: Summarise) -> list[Message]:
    """Return a conversation that is too long as the rule wants it."""
    match rule.strategy:
        case "truncate_turns":
            return drop_old_turns(messages, rule)
        case "truncate_results":
            return shorten_results(messages, rule.keep_turns)
        case "summarize":
            return await _summarise(messages, rule, summarise)


async def _summarise(messages: list[Message], rule: AgentHistory, summarise: Summarise) -> list[Message]:
    """Return the conversation with its older turns as one message; without a summary the older half is dropped."""
    head, turns = split_turns(messages)
    old, new = turns[: -rule.keep_turns], turns[-rule.keep_turns :]
    if not old:
        return messages
    text = await summarise(rule, join_turns(head[1:], old))
    if text is None:
        return halve(messages) or messages
    return join_turns([*head[:1], Message(role="user", content=f"What happened so far, in short:\n{text}")], new)


def make_summary_request(agent: Agent, name: str | None, step: str, old: list[Message]) -> ModelRequest:
    """Return the request for a summary: to the agent of that name, or to the one whose conversation it is."""
    return ModelRequest(
        step=step,
        agent=name,
        model=agent.model,
        instructions=f"{agent.instructions}\n\n{_SUMMARY_TASK}".strip() if name else _SUMMARY_TASK,
        messages=[Message(role="user", content=write_transcript(old))],
        settings=agent.model_settings,
    )

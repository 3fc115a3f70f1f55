"""A loop's conversation as messages for a model: the speaker of each entry, and how many are sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import HistoryManagement
from holdfast.protocol.agents import Message
from holdfast.protocol.values import make_digest

USER, ASSISTANT = "User: ", "Assistant: "
CHARACTERS_PER_TOKEN = 4
MOST_BYTES = 1_000_000
"""Most bytes of the turns in one request: a payload over 2 MB fails the workflow task for ever."""
NOTHING_SAID = "(Nothing was said yet.)"
"""Message in place of a conversation without turns: no provider accepts a request without a message."""


class Speakers:
    """The entries of a conversation that the assistant said.

    The list of entries belongs to the author, whose templates read and change it, so nothing can be kept inside it, and
    a text that begins with `Assistant: ` proves nothing: a person can type it. The speaker is recorded when an entry is
    appended, under its digest, so that it is found wherever the author moves it. Any other entry is the person's.
    """

    def __init__(self, entries: Mapping[str, bool] | None = None) -> None:
        self.said = dict(entries or {})

    def note(self, entry: object, *, assistant: bool) -> None:
        """Record an entry that is being appended.

        >>> speakers = Speakers()
        >>> speakers.note("Assistant: Yes.", assistant=True)
        >>> speakers.is_assistant("Assistant: Yes."), speakers.is_assistant("Assistant: No.")
        (True, False)
        """
        if isinstance(entry, str) and entry.startswith(ASSISTANT):
            self.take({make_digest(entry): assistant})

    def take(self, entries: Mapping[str, bool]) -> None:
        """Add the records of others; an entry that anybody else said, too, is no longer the assistant's."""
        for key, assistant in entries.items():
            self.said[key] = assistant and self.said.get(key, True)

    def note_written(self, template: JSON, value: JSON) -> None:
        """Record entries of a template: the assistant's are those with `Assistant: ` in the template itself."""
        pairs = zip(template, value, strict=False) if isinstance(template, list) else [(template, value)]
        for part, entry in pairs:
            self.note(entry, assistant=isinstance(part, str) and part.startswith(ASSISTANT))

    def is_assistant(self, entry: object) -> bool:
        return isinstance(entry, str) and entry.startswith(ASSISTANT) and self.said.get(make_digest(entry), False)

    def of(self, history: object) -> dict[str, bool]:
        """Return the records that this conversation still needs."""
        entries = history if isinstance(history, list) else []
        there = {make_digest(entry) for entry in entries if isinstance(entry, str) and entry.startswith(ASSISTANT)}
        return {key: assistant for key, assistant in self.said.items() if key in there}


def make_messages(history: object, speakers: Speakers, rule: HistoryManagement | None) -> list[Message]:
    """Return a message for each turn, of the newest that the rule keeps and a request can hold."""
    return [_make_message(entry, speakers) for entry in _select_sent(history, rule)]


def count_unsent(history: object, rule: HistoryManagement | None) -> int:
    """Return how many turns `make_messages` leaves out."""
    return len(history) - len(_select_sent(history, rule)) if isinstance(history, list) else 0


def _select_sent(history: object, rule: HistoryManagement | None) -> list[JSON]:
    entries = history if isinstance(history, list) else []
    if rule is not None and rule.strategy != "summarize":  # a summary is made between iterations
        entries = keep_newest(entries, rule)
    return _keep_newest_within(entries, MOST_BYTES)


def tell_left_out(messages: Sequence[Message], left_out: int, earlier: int) -> list[Message]:
    """Return the messages with a note on turns that were left out, in their place.

    Args:
        messages: The messages that are left.
        left_out: How many turns are not.
        earlier: Number of leading messages that are turns from before the agent; without them the note stands before
            the first reply of the model.

    >>> [message.content for message in tell_left_out([Message(role="user", content="Go")], 1, 0)]
    ['(1 earlier turn of this conversation was left out, as it had become too long.)', 'Go']
    """
    if not left_out:
        return list(messages)
    verb = "was" if left_out == 1 else "were"
    text = f"({say_count(left_out, 'earlier turn')} of this conversation {verb} left out, as it had become too long.)"
    first = 0 if earlier else next((n for n, message in enumerate(messages) if message.role == "assistant"), 0)
    return [*messages[:first], Message(role="user", content=text), *messages[first:]]


def drop_older(messages: Sequence[Message], turns: int) -> tuple[list[Message], int]:
    """Return the messages without the older half of their first `turns`, and how many of these remain.

    >>> [message.content for message in drop_older([Message(role="user", content=n) for n in range(4)], 3)[0]]
    [2, 3]
    """
    dropped = (turns + 1) // 2
    return list(messages[dropped:]), turns - dropped


def keep_newest(history: list[JSON], rule: HistoryManagement) -> list[JSON]:
    """Return the last turns, as many as the rule keeps; at least one.

    >>> rule = HistoryManagement(strategy="truncate_tokens", max_tokens=10, max_turns=2)
    >>> keep_newest(["a" * 8, "b" * 8, "c" * 8], rule)
    ['bbbbbbbb', 'cccccccc']
    """
    kept = history if rule.max_turns is None else history[-rule.max_turns :]
    if rule.max_tokens is None:
        return kept
    while len(kept) > 1 and sum(len(write_text(turn)) for turn in kept) > rule.max_tokens * CHARACTERS_PER_TOKEN:
        kept = kept[1:]
    return kept


def _keep_newest_within(entries: list[JSON], most_bytes: int) -> list[JSON]:
    size = 0
    for index in reversed(range(len(entries))):
        size += len(write_text(entries[index]).encode())
        if size > most_bytes:
            return entries[min(index + 1, len(entries) - 1) :]
    return entries


def _make_message(entry: object, speakers: Speakers) -> Message:
    if speakers.is_assistant(entry):
        return Message(role="assistant", content=write_text(entry).removeprefix(ASSISTANT))
    return Message(role="user", content=write_text(entry).removeprefix(USER))

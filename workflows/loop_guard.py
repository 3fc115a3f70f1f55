"""The guard against an agent that repeats itself: digests of its last calls, and how often one occurs among them."""

from __future__ import annotations

from holdfast.protocol.agents import ToolCall
from holdfast.protocol.values import make_digest

REMEMBERED_CALLS = 10
SAME_CALLS = 3


def add_call(recent: list[str], call: ToolCall) -> list[str]:
    """Return the digests of the last calls, this one included."""
    return [*recent, _digest_call(call)][-REMEMBERED_CALLS:]


def is_repetition(recent: list[str], call: ToolCall) -> bool:
    """Return whether the same call occurs three times among the last ten, in a row or not."""
    # The arguments of what cannot be read are empty, so any two would be the same. Bad calls have a limit of their own.
    return call.unreadable is None and recent.count(_digest_call(call)) >= SAME_CALLS


def drop_call(recent: list[str], call: ToolCall) -> list[str]:
    """Return the digests without this call, as a person has approved its repetition."""
    return [digest for digest in recent if digest != _digest_call(call)]


def _digest_call(call: ToolCall) -> str:
    return make_digest(call.name, call.args)

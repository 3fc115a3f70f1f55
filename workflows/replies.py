"""The `reply` of a step that asked: who answered and how, beside the output. For executors and `Human`."""

from __future__ import annotations

from typing import Literal

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.questions import Asked
from holdfast.workflows.questions import Reply

_ACTIONS: dict[str, Literal["accept", "decline", "cancel", "expire"]] = {
    "answered": "accept",
    "declined": "decline",
    "cancelled": "cancel",
    "expired": "expire",
}
"""By the status of a reply: what was done, in the words of an answer."""


DEFAULT = {"action": "default"}
"""Replaces the action of a reply where the default became the output."""


def describe_reply(asked: Asked, reply: Reply) -> JSONObject:
    """Return a reply as expressions read it.

    Args:
        asked: The question.
        reply: Its end.

    Returns:
        `action`, `by`, `at`, `proved_by`, `comment`, and what the content says beside the output; for a quorum `by` is
        the list of those who have accepted, and `answers` tells them one by one. Nobody is named where nobody answered.
    """
    answered = reply.status == "answered"
    several = answered and len(reply.answers) > 1
    # Declining a permission or a review is a no with the comment as its reason.
    content = reply.content if answered else asked.when_declined(reply.comment)
    says = (answered or reply.status != "expired") and content is not None
    return {
        "action": _ACTIONS[reply.status],
        "by": [answer["by"] for answer in reply.answers] if several else reply.by,
        "at": None if reply.at is None else reply.at.isoformat(),
        "proved_by": reply.proved_by,
        "comment": reply.comment,
        **({"answers": list(reply.answers)} if reply.answers else {}),
        **({"verdict": None} if asked.verdicts else {}),
        **(asked.read_remarks(content) if says else {}),
    }

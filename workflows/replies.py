"""The end of a question, for whoever asked it, and how expressions read it (`steps.NAME.reply`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.questions import Asked


@dataclass(frozen=True)
class Reply:
    """The end of a question: answered with content, declined, cancelled, expired, or superseded."""

    status: Literal["answered", "declined", "cancelled", "expired", "superseded"]
    content: JSON = None
    by: str | None = None
    comment: str | None = None
    proved_by: str | None = None
    """What proves `by`; None for an end without an answer."""
    groups: list[str] | None = None
    """The groups that the sign-in proved."""
    unseen: bool | None = None
    """True for a consent without the digest of what was shown."""
    question: str = ""
    """Id of the question, for what a person has sent."""
    at: datetime | None = None
    """When the question was closed."""
    answers: Sequence[JSONObject] = ()
    """Where several must accept, each acceptance: `by`, `at`, `content`."""

    def list_event_fields(self) -> JSONObject:
        """Return the fields of an event that say who replied what, and what is proved."""
        return {name: getattr(self, name) for name in _EVENT_FIELDS}


_EVENT_FIELDS = ("by", "content", "comment", "proved_by", "groups", "unseen")
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

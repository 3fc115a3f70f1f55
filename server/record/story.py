"""The actions of people in a run, from its record: the rows of `holdfast history`, in words and not in ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.address import parts
from holdfast.protocol.events import QuestionMet
from holdfast.server.record.entries import (
    ASKED,
    CHANGED,
    COMMENTED,
    ENDED,
    ENDED_BY_REQUEST,
    ERASED,
    REFUSED,
    RESET,
    Recorded,
)

ACTIONS = {
    "question.answered": "accept",
    "question.accepted": "accept",
    "question.declined": "decline",
    "question.cancelled": "cancel",
    "question.expired": "expire",
    "question.superseded": "supersede",
    "question.reminded": "remind",
    "question.escalated": "escalate",
    "question.claimed": "claim",
    "question.released": "release",
    "question.delegated": "delegate",
    "question.reassigned": "reassign",
    "question.verified": "verify",
    "question.returned": "return",
    QuestionMet.type: "keep",
    "tool.denied": "deny",
    REFUSED: "refuse",
    RESET: ENDED_BY_REQUEST["reset"],
    COMMENTED: "comment",
    ERASED: "erase",
}
"""The entries that are listed, with the word for each; a run keeps an answer of the run that it goes on from."""


@dataclass(frozen=True)
class StoryRow:
    """Something that a person did, or that happened to a question."""

    at: datetime
    run: str
    action: str
    question: str | None
    """The id of the question."""
    step: str
    """The name of the step that asked."""
    message: str
    """The question as it was shown."""
    by: str | None
    proved_by: str | None
    content: JSON
    comment: str | None
    workflow: str
    is_erased: bool
    """Whether contents, and who it was, have been erased."""

    def to_json(self) -> JSONObject:
        """Return the JSON object of `history --json`."""
        return {**asdict(self), "at": self.at.isoformat()}


def story(entries: Iterable[Recorded]) -> list[StoryRow]:
    """Return the rows of a run, sorted by time."""
    entries = list(entries)
    # A comment may have been written before the recorder came to the question.
    asked = {entry.question: entry for entry in entries if entry.type in (ASKED, CHANGED)}
    rows = [_row(entry, action, asked.get(entry.question)) for entry in entries if (action := _action(entry))]
    return sorted(rows, key=lambda row: row.at)


def _action(entry: Recorded) -> str | None:
    """Return the word for an entry; None for one that is not listed."""
    if entry.type == ENDED:
        return ENDED_BY_REQUEST.get(str(entry.data.get("how")))
    return ACTIONS.get(entry.type)


def _row(entry: Recorded, action: str, asked: Recorded | None) -> StoryRow:
    data = {**entry.data, **entry.answer}
    return StoryRow(
        at=entry.at,
        run=entry.run,
        action=action,
        question=entry.question,
        step=find_step((asked or entry).address),
        message=_read_message(asked),
        by=data.get("by") or data.get("agent"),
        proved_by=data.get("proved_by"),
        content=_read_content(entry),
        comment=data.get("text") or data.get("comment"),
        workflow=entry.workflow,
        is_erased=entry.content is None,
    )


def _read_message(asked: Recorded | None) -> str:
    if asked is None:
        return ""
    return str((asked.shown or asked.data).get("message", ""))


def _read_content(entry: Recorded) -> JSON:
    """Return the answer, the verdict on it, the reason of a refusal, or the people that a question went to."""
    data = {**entry.data, **entry.answer}
    if not data:
        return None
    if entry.type == REFUSED:
        return f"{data.get('code')}: {data.get('message')}"
    if entry.type == "question.verified":
        return {name: data.get(name) for name in ("verified", "given_back", "reason")}
    return next((data[name] for name in ("content", "default", "reason", "to", "assignees") if name in data), None)


def find_step(address: str) -> str:
    """Return the name of the step that asks at an address.

    >>> find_step("pipeline:brief;loop:clarify:2;hitl:review")
    'review'
    """
    return "" if not address else next((id_ for kind, id_, _ in reversed(parts(address)) if kind != "level"), "")

"""A notice: the news that a channel is told, and its form as a CloudEvent. All other files of this folder handle it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.display import one_line
from holdfast.protocol.values import Value
from holdfast.runtime.config import NoticeKind

HIDDEN_FIELDS = ("info", "parents", "asked", "default")
"""Fields of a question that no notice holds: they may be large, and private. Who decides sees them on the page."""
OF_RUNS: tuple[NoticeKind, ...] = ("run_failed", "run_stuck")
"""Kinds that tell of a run; all others tell of a question."""
LONGEST = 200
"""Characters of a text that is a part of a line."""


class NoticeAnswer(Value):
    """An answer as a notice tells of it: never with its content."""

    status: str
    """`answered`, `declined`, `accepted`, `expired`."""
    by: str | None = None
    comment: str | None = None


class NoticeFailure(Value):
    """The failure of a run, or what keeps it from going on."""

    type: str
    message: str
    address: str = ""


class Notice(Value):
    """The news of one event, as it waits in the outbox: without links, which are made when it is sent."""

    kind: NoticeKind
    run: str
    blueprint: str = ""
    time: datetime
    """Of the event."""
    question: JSONObject | None = None
    """As `holdfast questions --json` has it, without what `HIDDEN_FIELDS` names."""
    answer: NoticeAnswer | None = None
    failure: NoticeFailure | None = None
    delegated_by: str | None = None
    reminder: int | None = None
    unreachable: list[str] = []
    """Assignees whom no channel reaches."""
    missing: list[str] = []
    """Channels that the question names and this deployment does not have."""
    to: list[str] = []
    """The users who are told."""

    @property
    def question_id(self) -> str | None:
        """Return the id of the question; None for news of a run."""
        return None if self.question is None else str(self.question["id"])

    @property
    def subject(self) -> str:
        """Return the question's message in one short line; for news of a run its id."""
        text = one_line(str(self.question["message"]) if self.question else self.run).strip()
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


@dataclass(frozen=True)
class Contact:
    """Somebody to tell: a user, with what is known of how to reach them."""

    user: str
    email: str | None = None
    locale: str | None = None
    instead_of: str | None = None
    """The user who is away, and whose deputy this one is."""
    is_away: bool = False
    """True if they are told although they are away, as they have no deputy who may be told."""


@dataclass(frozen=True)
class Delivery:
    """A notice on its way: what a channel sends."""

    id: str
    """The same on each try."""
    notice: Notice
    link: str
    contact: Contact | None = None
    """The one person who is told; None for a channel of many."""


def make_cloud_event(delivery: Delivery) -> JSONObject:
    """Return the CloudEvent (1.0, structured JSON) of a delivery."""
    notice = delivery.notice
    event = {
        "specversion": "1.0",
        "id": delivery.id,
        "source": quote(notice.run, safe="/"),
        "type": _type(notice.kind),
        "time": notice.time.isoformat(),
        "datacontenttype": "application/json",
        "data": {"question": notice.question, "run": notice.run, "link": delivery.link, **_more(notice)},
    }
    return event if notice.question_id is None else {**event, "subject": notice.question_id}


def _type(kind: NoticeKind) -> str:
    return f"holdfast.run.{kind.removeprefix('run_')}" if kind in OF_RUNS else f"holdfast.question.{kind}"


def _more(notice: Notice) -> JSONObject:
    """Return the data that only some notices have."""
    names = {"answer", "failure", "delegated_by", "reminder", "unreachable", "missing", "to", "blueprint"}
    return notice.model_dump(mode="json", include=names, exclude_defaults=True)

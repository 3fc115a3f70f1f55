"""From an entry of the record to the notices of it: which channel tells whom. Pure; the notifier writes them down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.questions import asks_people
from holdfast.protocol.values import make_digest
from holdfast.runtime.config import NoticeKind
from holdfast.server.notices.channels import AddressBook, Assignee, Channel, Channels
from holdfast.server.notices.notice import HIDDEN_FIELDS, OF_RUNS, Contact, Notice, NoticeAnswer, NoticeFailure
from holdfast.server.record.entries import ENDED, STUCK, Recorded

KINDS: dict[str, NoticeKind] = {
    "question.asked": "asked",
    "question.delegated": "asked",
    "question.reassigned": "asked",
    "question.reminded": "reminded",
    "question.escalated": "escalated",
    "question.expired": "expired",
    "question.accepted": "accepted",
    "question.answered": "answered",
    "question.declined": "answered",
    ENDED: "run_failed",
    STUCK: "run_stuck",
}
"""The kind of notice for each type of the record's entries that is told of."""
CALLING: tuple[NoticeKind, ...] = ("asked", "escalated")
"""Kinds by which people learn that they are asked: somebody whom nothing reaches is then a notice of its own."""

ASKING: tuple[NoticeKind, ...] = (*CALLING, "reminded")
"""Kinds of a question that is open: they say nothing of one that was closed before the channel began."""


@dataclass(frozen=True)
class PlannedNotice:
    """A notice for one channel, and for one person if the channel is personal."""

    id: str
    channel: str
    contact: Contact | None
    notice: Notice


def plan_notices(
    entry: Recorded, channel: Channel, channels: Channels, book: AddressBook, now: datetime
) -> Iterator[PlannedNotice]:
    """Yield the notices of an entry for one channel.

    Args:
        entry: What happened; of a type in `KINDS`, with the question as it was shown.
        channel: The channel that is told.
        channels: All of them.
        book: The people.
        now: The time, with an offset.
    """
    notice = make_notice(entry)
    if notice is None:
        return
    if notice.kind in OF_RUNS:
        yield from _plan_for_run(entry, notice, channel, book)
        return
    asked = _list_assignees(notice, book, now, only=entry.data.get("to"))
    if notice.kind in channel.events and _is_named(channel.name, notice):
        contacts = channel.recipients(asked, book, by_name=_read_channel_names(notice) is not None)
        yield from (_make_planned(entry, channel.name, contact, notice) for contact in contacts)
    if notice.kind in CALLING and (channel.name == channels.fallback or "unreachable" in channel.events):
        yield from _plan_unreachable(entry, notice, channel, channels, book, asked)


def find_unreached(notice: Notice, channels: Channels, book: AddressBook, now: datetime) -> Notice | None:
    """Return the notice of the assignees whom no channel reaches; None if all are reached, or nobody is to be told.

    Channels that the question names and nobody has configured are in it, too.
    """
    return _make_unreachable(notice, channels, book, _list_assignees(notice, book, now))


def make_notice(entry: Recorded) -> Notice | None:
    """Return the news of an entry; None if it asks no person, if there is none to tell, or its content is erased."""
    kind, question = KINDS.get(entry.type), entry.shown
    if kind is None or entry.content is None or (kind not in OF_RUNS and question is None):
        return None
    if question is not None and not asks_people(question["kind"]):
        return None
    fields: JSONObject = {"kind": kind, "run": entry.run, "blueprint": entry.blueprint, "time": entry.at}
    if kind == "run_failed":
        return _make_failure_notice(entry, fields)
    if kind == "run_stuck":
        return Notice(**fields, failure=NoticeFailure(type=entry.data["type"], message=entry.data["message"]))
    data = entry.data
    current = {**(question or {}), **{name: data[name] for name in ("assignees",) if isinstance(data.get(name), list)}}
    return Notice(
        **fields,
        question=current,
        answer=_read_answer(entry, kind),
        reminder=data.get("n"),
        delegated_by=data.get("by") if kind == "asked" else None,
    )


def _make_failure_notice(entry: Recorded, fields: JSONObject) -> Notice | None:
    if entry.data.get("status") != "failed":
        return None
    error = ((entry.content or {}).get("outcome") or {}).get("error") or {}
    failure = NoticeFailure(
        type=str(error.get("type", "failed")),
        message=str(error.get("message", "The run failed.")),
        address=str(error.get("address") or ""),
    )
    return Notice(**fields, failure=failure)


def _read_answer(entry: Recorded, kind: NoticeKind) -> NoticeAnswer | None:
    if kind not in ("answered", "accepted", "expired"):
        return None
    return NoticeAnswer(status=entry.type.partition(".")[2], by=entry.data.get("by"), comment=entry.data.get("comment"))


def _plan_for_run(entry: Recorded, notice: Notice, channel: Channel, book: AddressBook) -> Iterator[PlannedNotice]:
    """Yield the notices of a run: to a channel of many, or to each person that a personal one names."""
    if notice.kind not in channel.events:
        return
    if not channel.transport.is_personal:
        yield _make_planned(entry, channel.name, None, notice)
        return
    contacts = map(book.contact, book.list_users(channel.to or ()))
    yield from (
        _make_planned(entry, channel.name, contact, notice)
        for contact in contacts
        if channel.transport.reaches(contact)
    )


def _list_assignees(notice: Notice, book: AddressBook, now: datetime, only: str | None = None) -> list[Assignee]:
    """Return the assignees with those who are told for them; with `only`, of this one, to whom it was delegated."""
    question = notice.question or {}
    barred = [*question.get("not_by", []), *question.get("accepted_by", []), *question.get("delegations", {})]
    names = question.get("assignees", []) if only is None else [only]
    return [book.assignee(name, barred, now) for name in names]


def _read_channel_names(notice: Notice) -> Sequence[str] | None:
    """Return the channels that the question names; [] if nobody is to be told; None if it leaves it to `[notify]`."""
    names = (notice.question or {}).get("notify")
    return [] if names is False else names


def _is_named(channel: str, notice: Notice) -> bool:
    names = _read_channel_names(notice)
    return names is None or channel in names


def _plan_unreachable(
    entry: Recorded, notice: Notice, channel: Channel, channels: Channels, book: AddressBook, asked: Sequence[Assignee]
) -> Iterator[PlannedNotice]:
    """Yield the notice of people whom no channel reaches, for the fallback and whoever wants to hear of it."""
    news = _make_unreachable(notice, channels, book, asked)
    if news is None:
        return
    contacts: list[Contact | None] = [None]
    if channel.transport.is_personal:
        users = map(book.contact, book.list_users(channel.to or ()))
        contacts = [user for user in users if channel.transport.reaches(user)]
    yield from (_make_planned(entry, channel.name, contact, news) for contact in contacts)


def _make_unreachable(
    notice: Notice, channels: Channels, book: AddressBook, asked: Sequence[Assignee]
) -> Notice | None:
    names = _read_channel_names(notice)
    listed = [channel for name, channel in channels.by_name.items() if names is None or name in names]
    missing = [name for name in names or () if name not in channels.by_name]
    lost = [
        assignee.name
        for assignee in asked
        if not assignee.is_barred
        and not any(used.reaches(assignee, book, by_name=names is not None) for used in listed)
    ]
    if names == [] or not (lost or missing):
        return None
    return notice.model_copy(update={"kind": "unreachable", "unreachable": lost, "missing": missing})


def _make_planned(entry: Recorded, channel: str, contact: Contact | None, notice: Notice) -> PlannedNotice:
    user = None if contact is None else contact.user
    question = notice.question and {name: value for name, value in notice.question.items() if name not in HIDDEN_FIELDS}
    # The same for the same news: what is planned twice, as after a failure, is written and sent once.
    id_ = make_digest(entry.namespace, entry.first_run, entry.workflow, entry.n, notice.kind, channel, user)
    own = notice.model_copy(update={"question": question, "to": [user] if user else []})
    return PlannedNotice(id_, channel, contact, own)

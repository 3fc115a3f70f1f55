"""What the record holds: entries, their hashes, the runs they belong to, and comments among them.

Each entry's hash covers the one before, so that none can be changed, left out or put in. It covers the entry's
metadata, and of its content only a salted digest: erasing content and salt breaks no chain, and nobody can try
contents against the digest that stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.address import Address
from holdfast.protocol.events import Event, QuestionAsked
from holdfast.protocol.guard import canonical

ENDED = "run.ended"
"""The end of a run with its outcome, also where no workflow could note it: after a termination, a time-out."""
ENDED_BY_REQUEST = {"canceled": "cancel run", "terminated": "terminate run", "reset": "reset run"}
"""How a run ends that somebody has ended, as Temporal calls it, and the word for what they did."""
RESET = "run.reset"
"""The beginning of what is recorded of a run that was reset: an earlier one of its id ended by that."""
STUCK = "run.stuck"
"""A workflow that cannot go on though nobody is asked: a call that loses its workers, a task that fails."""
REFUSED = "answer.refused"
COMMENTED = "question.commented"
CHANGED = "question.changed"
"""An open question whose form has changed, such as an approval of calls that a person has edited."""
ASKED = QuestionAsked.type
GAP = "record.gap"
"""Events that were gone from Temporal before they were recorded."""
ERASED = "record.erased"
BLUEPRINT = "run.blueprint"
"""The blueprint that a run was started with, by its digest; the document is stored once for all of its runs."""
METADATA_NAMES = ("workflow", "key", "type", "address", "offset", "question", "at")
"""What stays of an entry after its content has been erased."""


def compute_chain_start(namespace: str, run: str) -> str:
    """Return the hash before the first entry of a run: it holds the run's name, which stands beside the chain."""
    return hashlib.sha256(canonical({"namespace": namespace, "run": run}).encode()).hexdigest()


def compute_content_digest(salt: str, content: str) -> str:
    """Return the digest of a content with its salt, both as they are stored."""
    return hashlib.sha256(f"{salt}\n{content}".encode()).hexdigest()


def compute_entry_hash(before: str, first_run: str, n: int, metadata: JSONObject, digest: str) -> str:
    """Return the hash of an entry.

    Args:
        before: The hash of the entry before it in its run's chain.
        first_run: Temporal's id of the run's first history.
        n: Its place in the chain, from 0.
        metadata: See `RecordEntry.metadata`.
        digest: See `compute_content_digest`.
    """
    document = {**metadata, "before": before, "first_run": first_run, "n": n, "digest": digest}
    return hashlib.sha256(canonical(document).encode()).hexdigest()


@dataclass(frozen=True)
class RecordedRun:
    """The run that entries belong to."""

    namespace: str
    run: str
    first_run: str
    """Temporal's id of the first history of the run's own workflow: a run id may be used again after the retention."""
    blueprint: str = ""


@dataclass(frozen=True)
class RecordEntry:
    """Something that happened, to be appended to the chain of its run."""

    workflow: str
    key: str
    """Unique in its workflow; a second entry of the same key is left out."""
    type: str
    address: str
    at: datetime
    content: JSONObject
    offset: int | None = None
    """Of an event, its offset in its workflow."""
    question: str | None = None

    @property
    def metadata(self) -> JSONObject:
        """Return what stays after the content has been erased."""
        return {name: value for name, value in vars(self).items() if name in METADATA_NAMES} | {
            "at": format_time(self.at)
        }


@dataclass(frozen=True)
class Recorded:
    """An entry as the record has it."""

    id: int
    """Its number in the whole record, from 1: in the order of writing, without gaps."""
    namespace: str
    run: str
    first_run: str
    blueprint: str
    n: int
    workflow: str
    type: str
    address: str
    at: datetime
    offset: int | None
    question: str | None
    content: JSONObject | None
    """None once it has been erased. Of an event: `data`, with the beginnings of large values, and beside it what they
    are the beginnings of: `question`, or `answer` (`content` and `comment`)."""

    @property
    def data(self) -> JSONObject:
        """Return the event's data; empty if it has been erased."""
        data: JSONObject = (self.content or {}).get("data", {})
        return data

    @property
    def answer(self) -> JSONObject:
        """Return content and comment of an answer, where the event's data has only their beginning; else nothing."""
        answer: JSONObject = (self.content or {}).get("answer", {})
        return answer

    @property
    def shown(self) -> JSONObject | None:
        """Return the question as it was shown, for entries of questions; None where it was not seen."""
        question: JSONObject | None = (self.content or {}).get("question")
        return question

    def to_event(self) -> Event:
        """Return the event as the workflow noted it. Raises `ValueError` for an entry that is none, or erased."""
        if self.offset is None or self.content is None:
            raise ValueError(f"entry {self.id} of the record holds no event")
        data: JSON = self.data
        return Event(offset=self.offset, time=self.at, type=self.type, address=Address(self.address), data=data)

    def to_json(self) -> JSONObject:
        """Return the JSON object of an export."""
        return {**vars(self), "at": format_time(self.at)}


def event_entry(workflow: str, event: Event, **more: JSON) -> RecordEntry:
    """Return the entry of an event; beside its data `more`: the `question` as shown, the whole `answer`."""
    data = event.data.to_json()
    return RecordEntry(
        workflow=workflow,
        key=str(event.offset),
        type=event.type,
        address=event.address,
        at=event.time,
        content={"data": data, **{name: value for name, value in more.items() if value is not None}},
        offset=event.offset,
        question=str(data["id"]) if event.type.startswith("question.") and "id" in data else None,
    )


def format_time(at: datetime) -> str:
    """Return a time as the record writes it: in UTC, always with microseconds, so that texts sort as times do."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class RecordedComment:
    """A comment on a question; it is not an answer, and the run does not see it."""

    at: datetime
    by: str | None
    """The person, such as `user:ana`; None once the comment is erased, as the other fields."""
    text: str | None
    question: str | None = None
    """The id of the question."""
    proved_by: str | None = None
    """What proves the person to the door that took the comment; None for one by command."""

    @property
    def is_erased(self) -> bool:
        """Return whether its content was erased."""
        return self.text is None

    def to_json(self) -> JSONObject:
        """Return the JSON object of the API."""
        return {**asdict(self), "at": self.at.isoformat()}


def read_comments(entries: Iterable[Recorded]) -> list[RecordedComment]:
    """Return the comments that entries hold, in the order of writing."""
    return [
        RecordedComment(
            entry.at, entry.data.get("by"), entry.data.get("text"), entry.question, entry.data.get("proved_by")
        )
        for entry in entries
    ]

"""The values that the record takes and gives: entries to write, entries as written, the runs they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.address import Address
from holdfast.protocol.events import Event, QuestionAsked, QuestionClosed

ENDED = "run.ended"
"""The end of a run with its outcome, also where no workflow could note it: after a termination, a time-out."""
ENDED_BY_REQUEST = {"canceled": "cancel run", "terminated": "terminate run"}
"""How a run ends that somebody has ended, as Temporal calls it, and the word for what they did."""
STUCK = "run.stuck"
"""A workflow that cannot go on though nobody is asked: a call that loses its workers, a task that fails."""
REFUSED = "answer.refused"
COMMENTED = "question.commented"
CHANGED = "question.changed"
"""An open question whose form has changed, such as an approval of calls that a person has edited."""
ASKED = QuestionAsked.type
CLOSING = frozenset(kind.type for kind in QuestionClosed.__subclasses__())
"""The events that close a question."""
GAP = "record.gap"
"""Events that were gone from Temporal before they were recorded."""
ERASED = "record.erased"
BLUEPRINT = "run.blueprint"
"""The blueprint that a run was started with, by its digest; the document is stored once for all of its runs."""
METADATA_NAMES = ("workflow", "key", "type", "address", "offset", "question", "at")
"""What stays of an entry after its content has been erased."""


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
            "at": text_of_time(self.at)
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
        return {**vars(self), "at": text_of_time(self.at)}


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


def text_of_time(at: datetime) -> str:
    """Return a time as the record writes it: in UTC, always with microseconds, so that texts sort as times do."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")

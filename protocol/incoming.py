"""Events of other systems: as they are sent to a run, kept by it until a step waits for them, and confirmed."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Literal

from pydantic import AwareDatetime, Field, ValidationError

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.model_problems import describe_problem
from holdfast.protocol.answers import Refusal
from holdfast.protocol.people import ProvedGroups, SenderName
from holdfast.protocol.values import Value, make_digest

SEND_EVENT = "event"
"""Name of the update and the signal, to a run."""
HINT = "event_kept"
"""Signal from a workflow to its children: their run keeps this event."""
CLAIM_EVENT = "event_claimed"
"""Signal from a workflow to its run: a step waits for an event that the run keeps."""
MOST_KEPT = 100
KEPT_FOR = timedelta(days=1)
MOST_KEPT_BYTES = 4 * 1024 * 1024
LONGEST_KEY = 500
LONGEST_OWNER = 250
"""Characters of the id of a workflow of a run: one of over 1,000 bytes would fail the workflow task for ever."""
LONGEST_LABEL = 80
"""Bytes of a value of the search attribute."""
_SHAPE = '{"name": "payment.received", "key": "INV-7", "payload": {}, "id": "evt-1"}'


class SystemEvent(Value):
    """An event of another system, as it is sent."""

    name: str = Field(min_length=1, max_length=100)
    key: str = Field(min_length=1, max_length=LONGEST_KEY)
    """What tells it from others of its name, such as the number of an invoice."""
    payload: JSON = None
    id: str = Field(min_length=1, max_length=150)
    """Given by its sender, and the same each time that it is sent."""
    by: SenderName | None = Field(None, max_length=200)
    token: str | None = None
    groups: ProvedGroups | None = None

    @property
    def content(self) -> JSONObject:
        """The content of the answer that it is to the question of the step that waits."""
        return {"name": self.name, "key": self.key, "payload": self.payload, "id": self.id}

    @property
    def answer_key(self) -> str:
        """The idempotency key of that answer."""
        return answer_key(self.id)

    @property
    def kept_key(self) -> str:
        """The key under which the run remembers that it keeps the event, or has kept it."""
        return f"kept:{self.id}"

    @property
    def digest(self) -> str:
        """Digest of what was sent: another event under the same id is a conflict."""
        return make_digest(self.content)

    def to_json(self) -> JSONObject:
        """Return the event as it is signed and sent: without its token and the groups, which are those of a sender."""
        written: JSONObject = json.loads(self.model_dump_json(exclude={"token", "groups"}))
        return written


class EventReceipt(Value):
    """The confirmation of an event."""

    event: str
    """Its id."""
    run: str
    status: Literal["taken", "kept", "sent"]
    """`kept`: no step waits for it yet; `sent`: by signal, as no worker was there to take it."""
    question: str | None = None
    """The id of the question that it answered."""
    at: datetime


class RefusedEvent(Value):
    """What stands in place of a receipt where one of several runs does not take an event."""

    event: str
    """Its id."""
    run: str
    status: Literal["refused"] = "refused"
    code: str
    message: str


class KeptHint(Value):
    """An event that the run keeps, as the other workflows of the run know it."""

    id: str = Field(min_length=1, max_length=150)
    name: str = Field(max_length=100)
    key: str = Field(max_length=LONGEST_KEY)
    until: AwareDatetime


class Claimed(Value):
    """A claim of a workflow on an event that its run keeps. Anybody can send it: its own workflows get events only."""

    id: str = Field(max_length=150)
    owner: str = Field(max_length=LONGEST_OWNER)


def answer_key(id: str) -> str:
    """Return the idempotency key of the answer that an event is."""
    return f"event:{id}"


def make_label(name: str, key: str) -> str:
    """Return the value of the search attribute by which the workflows that wait for an event are found.

    >>> make_label("paid", "INV-7"), len(make_label("paid", "x" * 200))
    ('paid INV-7', 80)
    """
    label = f"{name} {key}"
    if len(label.encode()) <= LONGEST_LABEL and label.isprintable():
        return label
    digest = make_digest(name, key)
    return f"{ascii(label)[1:]}"[: LONGEST_LABEL - len(digest) - 1] + f"~{digest}"


def read_event(payload: object) -> SystemEvent:
    """Return the event in the argument of an update, a signal or a request. Raises `Refusal` for anything else."""
    try:
        return SystemEvent.model_validate(payload)
    except ValidationError as error:
        problem = describe_problem(error, "the argument")
        raise Refusal("invalid_answer", f"{problem}; an event looks like {_SHAPE}") from None

"""The commands that change whom an open question waits for: claim, release, delegate, reassign.

One class a command: its fields, the fields of the question that it changes, and its event. Workflows check and take
them, clients send them. Who sends one loads no events.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, ValidationError, field_validator

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.model_problems import describe_problem
from holdfast.blueprint.people import canonical_name, is_person
from holdfast.protocol.answers import Refusal
from holdfast.protocol.people import ProvedGroups, SenderName, read_user
from holdfast.protocol.questions import Question
from holdfast.protocol.values import Value

if TYPE_CHECKING:
    from holdfast.protocol.events import EventData

CLAIM = "claim"
RELEASE = "release"
DELEGATE = "delegate"
REASSIGN = "reassign"

CLAIM_SECONDS = 8 * 3600.0
LONGEST_CLAIM = 7 * 86400.0
MOST_ASSIGNMENTS = 50
"""Commands of these kinds that one question takes in all: each is an update in the history of who asks."""
MOST_ASSIGNEES = 100

UNCLAIMED: Mapping[str, None] = {"claimed_by": None, "claimed_until": None}
"""The fields of a question without a claim."""


class AssignmentCommand(Value):
    """The base class of these commands: the argument of the update."""

    name: ClassVar[str]
    """Name of the update."""
    status: ClassVar[Literal["claimed", "released", "delegated", "reassigned"]]
    """Of the receipt."""
    steers: ClassVar[bool] = False
    """True if whoever may steer the run sends it, instead of whoever may answer."""

    question: str = Field(min_length=1, max_length=2000)
    """Id or address of the question."""
    by: SenderName | None = Field(None, max_length=200)
    key: str | None = Field(None, min_length=1, max_length=200)
    """Idempotency key."""
    token: str | None = None
    groups: ProvedGroups | None = None
    """The groups that a sign-in has proved."""
    comment: str | None = Field(None, max_length=2000)

    @classmethod
    def read(cls, payload: JSON) -> Self:
        """Return the command in the argument of an update. Raises `Refusal` for anything else."""
        try:
            return cls.model_validate(payload)
        except ValidationError as error:
            raise Refusal("invalid_answer", describe_problem(error, "the argument")) from None

    @property
    def user(self) -> str | None:
        """The user who sends it; None if it does not say who."""
        return read_user(self.by)

    @property
    def recipients(self) -> list[str]:
        """The users and groups that the question is given to."""
        return []

    def list_changes(self, question: Question, now: datetime) -> JSONObject:
        """Return the fields of the question that it changes, with their new values."""
        raise NotImplementedError

    def event(self, question: Question) -> EventData:
        """Return the event, of the question as the command has left it."""
        from holdfast.protocol.events import EVENT_TYPES  # noqa: PLC0415  see the head of this file

        told = {"id": question.id, "by": self.by, "comment": self.comment, **self.tell_change(question)}
        return EVENT_TYPES[f"question.{self.status}"].model_validate(told)

    def tell_change(self, question: Question) -> JSONObject:
        """Return the further fields of the event, of the question as the command has left it."""
        return {}


class Claim(AssignmentCommand):
    """Keep a question for oneself for a while: until then nobody else may answer."""

    name: ClassVar[str] = CLAIM
    status: ClassVar[Literal["claimed"]] = "claimed"

    seconds: float = Field(CLAIM_SECONDS, gt=0, le=LONGEST_CLAIM)

    def list_changes(self, question: Question, now: datetime) -> JSONObject:
        """See base class."""
        return {"claimed_by": self.user, "claimed_until": now + timedelta(seconds=self.seconds)}

    def tell_change(self, question: Question) -> JSONObject:
        """See base class."""
        return {"until": question.claimed_until}


class Release(AssignmentCommand):
    """End a claim."""

    name: ClassVar[str] = RELEASE
    status: ClassVar[Literal["released"]] = "released"

    def list_changes(self, question: Question, now: datetime) -> JSONObject:
        """See base class."""
        return dict(UNCLAIMED)


class Delegation(AssignmentCommand):
    """Give one's part in a question to somebody else."""

    name: ClassVar[str] = DELEGATE
    status: ClassVar[Literal["delegated"]] = "delegated"

    to: str

    @field_validator("to")
    @classmethod
    def _is_person(cls, to: str) -> str:
        return _person(to)

    @property
    def recipients(self) -> list[str]:
        """See base class."""
        return [self.to]

    def list_changes(self, question: Question, now: datetime) -> JSONObject:
        """Return the assignees without the person who delegates, and with the delegate.

        A member of an assigned group is not named among the assignees: that they have delegated is kept beside them.
        """
        assignees = [name for name in question.assignees if name not in (self.user, self.to)]
        standing = {name: to for name, to in question.delegations.items() if name != self.to}
        return {"assignees": [*assignees, self.to], "delegations": {**standing, str(self.user): self.to}, **UNCLAIMED}

    def tell_change(self, question: Question) -> JSONObject:
        """See base class."""
        return {"to": self.to, "assignees": question.assignees}


class Reassignment(AssignmentCommand):
    """Replace the assignees of a question; claim and delegations end."""

    name: ClassVar[str] = REASSIGN
    status: ClassVar[Literal["reassigned"]] = "reassigned"
    steers: ClassVar[bool] = True

    to: list[str] = Field(min_length=1, max_length=MOST_ASSIGNEES)

    @field_validator("to")
    @classmethod
    def _are_people(cls, to: list[str]) -> list[str]:
        return list(dict.fromkeys(map(_person, to)))

    @property
    def recipients(self) -> list[str]:
        """See base class."""
        return self.to

    def list_changes(self, question: Question, now: datetime) -> JSONObject:
        """See base class."""
        return {"assignees": self.to, "delegations": {}, **UNCLAIMED}

    def tell_change(self, question: Question) -> JSONObject:
        """See base class."""
        return {"assignees": question.assignees}


class AssignmentReceipt(Value):
    """The confirmation of a claim, a release, a delegation or a reassignment."""

    question: str
    status: Literal["claimed", "released", "delegated", "reassigned"]
    by: str | None = None
    at: datetime
    until: datetime | None = None
    """End of the claim."""
    assignees: list[str] = []
    """Users and groups that may answer now; empty: anyone."""


def _person(name: str) -> str:
    if not is_person(name):
        raise ValueError(f"{name[:60]!r} is neither user:NAME nor group:NAME")
    return canonical_name(name)

"""The open question as it crosses processes, and the request to ask one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Option
from holdfast.protocol.address import Address
from holdfast.protocol.people import EVERYBODY, People
from holdfast.protocol.questions.forms import Input
from holdfast.protocol.questions.kind import QUESTION_KINDS, Asked
from holdfast.protocol.values import Value, digest_of

_SHOWN = ("message", "requestedSchema", "options", "default", "info")
"""Fields that a `Question` shows of what is asked: `asked` does not repeat them on the wire."""


class Question(Value):
    """An open question, as clients see it."""

    id: str
    address: Address
    owner: str
    """Id of the workflow that asks, and takes the answer."""
    run: str
    kind: str
    message: str
    requestedSchema: JSONObject
    """JSON Schema of an accepted answer's content. The name is that of the Model Context Protocol."""
    options: list[Option] = []
    default: JSON = None
    """Content that is used if the deadline passes."""
    info: JSON = None
    asked: Asked = Field(exclude=True)
    """The kind with its traits. On the wire it has only what the fields above do not show."""
    parents: list[JSONObject] = []
    """The composites around an interrupt, outermost first: `address` and `info`."""
    root_cause: bool = True
    iteration: int | None = None
    round: int = 1
    """How often this address has asked, from 1."""
    asked_at: datetime
    deadline: datetime | None = None
    assignees: list[str] = []
    """Users and groups that may answer now; empty: anyone."""
    not_by: list[str] = []
    quorum: int = 1
    answers_so_far: int = 0
    accepted_by: list[str] = []
    reminders: int = 0
    digest: str

    @model_validator(mode="before")
    @classmethod
    def _with_what_it_shows(cls, data: object) -> JSON:
        """Read what is asked together with the fields that show it."""
        if not isinstance(data, dict) or not isinstance(own := data.get("asked"), dict):
            return data
        return {**data, "asked": _read(own, data)}

    @model_serializer(mode="wrap")
    def _without_repetition(self, write: SerializerFunctionWrapHandler) -> JSONObject:
        """Write of what is asked only what the other fields do not show: a schema stands there once."""
        return {**write(self), "asked": _own(self.asked, {name: getattr(self, name) for name in _SHOWN})}

    @property
    def people(self) -> People:
        """The people who may answer, and how many of them must."""
        return People(assignees=self.assignees, not_by=self.not_by, quorum=self.quorum)

    @property
    def so_far(self) -> str:
        """Progress towards the quorum, in words; empty where one answer is enough."""
        if self.quorum == 1:
            return ""
        names = f" ({', '.join(self.accepted_by)})" if self.accepted_by else ""
        alike = ", and as many must choose the same" if self.options else ""
        return f"{self.answers_so_far} of {self.quorum} have accepted{names}{alike}"

    def accept(self, content: object) -> JSON:
        """Return the content as the kind of the question accepts it. Raises `InvalidAnswer`."""
        return self.asked.accept(content)


def _own(asked: Asked, shown: Mapping[str, JSON]) -> JSONObject:
    """Return those fields of what is asked that differ from what `_read` takes for them."""
    fields = type(asked).model_fields
    expected = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
    expected |= asked.held_by(shown)
    different = {name for name in fields if getattr(asked, name) != expected[name]}
    return asked.model_dump(mode="json", include=different)


def _read(own: Mapping[str, JSON], shown: Mapping[str, JSON]) -> Asked:
    """Return what is asked; a kind that is not known here is taken as its schema says, and its owner checks it."""
    kind = QUESTION_KINDS.get(own["kind"])
    if kind is None:
        return Input.model_validate(Input.held_by(shown))
    return kind.model_validate({**kind.held_by(shown), **own})


@dataclass(frozen=True)
class QuestionRequest:
    """A question to be asked: what, where, of whom, and for how long."""

    asked: Asked
    address: Address
    iteration: int | None = None
    timeout: float | None = None
    """Seconds until the question expires; None: never."""
    takes_default: bool = False
    """True if the default counts as the answer when the question expires."""
    parents: Sequence[JSONObject] = ()
    """The composites around an interrupt, outermost first: `address` and `info`."""
    people: People = EVERYBODY


def question_of(request: QuestionRequest, *, owner: str, run: str, round_: int, at: datetime) -> Question:
    """Return the open question for a request. Its id is the same on every replay.

    Args:
        owner: Id of the workflow that asks.
        round_: How often the address has asked, from 1.
        at: Time of the asking, from the workflow's clock.
    """
    people = request.people
    return Question(
        id=digest_of(owner, request.address, round_),
        address=request.address,
        owner=owner,
        run=run,
        **shown_of(request.asked),
        parents=list(request.parents),
        iteration=request.iteration,
        round=round_,
        asked_at=at,
        deadline=None if request.timeout is None else at + timedelta(seconds=request.timeout),
        assignees=people.assignees,
        not_by=people.not_by,
        quorum=people.quorum,
    )


def shown_of(asked: Asked) -> JSONObject:
    """Return the fields of a `Question` that show what is asked, with their digest."""
    options = [option.model_dump(exclude_defaults=True) for option in asked.choices]
    return {
        "kind": asked.listed_as or asked.kind,
        "message": asked.message,
        "requestedSchema": asked.requested_schema,
        "options": list(asked.choices),
        "default": asked.default,
        "info": asked.shown_info,
        "asked": asked.for_clients(),
        "digest": digest_of(asked.message, asked.requested_schema, options, asked.shown_info),
    }

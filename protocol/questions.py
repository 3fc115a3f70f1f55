"""The open question as it crosses processes, and the request to ask one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema
from holdfast.blueprint.parts import Option
from holdfast.blueprint.questions.forms import Input
from holdfast.blueprint.questions.kind import Asked, InvalidAnswer, find_asked
from holdfast.protocol.address import Address
from holdfast.protocol.attachments import AttachedData, Attachment
from holdfast.protocol.people import EVERYBODY, Groups, People, concerns
from holdfast.protocol.values import Value, make_digest

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
    """The composites around an interrupt, outermost first, or the step that a stop is before: `address` and `info`."""
    root_cause: bool = True
    label: str | None = None
    """What people read of the item of a map in which it is asked; of nested maps outermost first."""
    iteration: int | None = None
    round: int = 1
    """How often this address has asked, from 1."""
    asked_at: datetime
    deadline: datetime | None = None
    escalates_at: datetime | None = None
    """When other people are asked, if nobody has answered by then."""
    reminds_at: datetime | None = None
    """When people are reminded, if nobody has answered by then."""
    assignees: list[str] = []
    """Users and groups that may answer now; empty: anyone."""
    not_by: list[str] = []
    quorum: int = 1
    proof: Literal["person"] | None = None
    """`person`: only answers of people who have signed in are taken."""
    answers_so_far: int = 0
    accepted_by: list[str] = []
    claimed_by: str | None = None
    """The user who keeps it for themselves, until `claimed_until`; no event tells that this has passed."""
    claimed_until: datetime | None = None
    delegations: dict[str, str] = {}
    """To whom a user has given their part in it, by user: they may not answer any more."""
    attachments: list[Attachment] = []
    """Files and data beside it; `RunWatch.attachment` gives their content."""
    reminders: int = 0
    notify: list[str] | None = None
    """The channels that are told of it, by name; None: those that the configuration says."""
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
        return {**write(self), "asked": _own(self.asked, {name: value for name, value in self if name in _SHOWN})}

    @property
    def people(self) -> People:
        """The people who may answer, and how many of them must."""
        return People(
            assignees=self.assignees,
            not_by=self.not_by,
            quorum=self.quorum,
            delegations=self.delegations,
            proof=self.proof,
        )

    def claimant(self, now: datetime) -> str | None:
        """Return the user who keeps the question for themselves at this time; None if nobody does."""
        return self.claimed_by if self.claimed_until is not None and now < self.claimed_until else None

    def waits_for(self, user: str, groups: Groups) -> bool:
        """Return whether the question still needs an answer from this person."""
        return user not in self.accepted_by and concerns(self.people, user, groups)

    @property
    def repeats_message(self) -> bool:
        """True if its details are its message, which may begin with why an answer to it was given back."""
        return isinstance(self.info, str) and f"\n\n{self.message}".endswith(f"\n\n{self.info}")

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

    def find_problems(self, content: object) -> Sequence[tuple[str, str]]:
        """Return what is refused in the content of an answer, pairs of its path and the reason; [] if it is accepted.

        A secret may be the value itself, or a reference to it.
        """
        try:
            self.asked.secret_values(content) if self.asked.hidden else self.asked.accept(content)
        except InvalidAnswer as error:
            return error.problems
        except BadSchema as error:
            return [("", str(error))]
        return []


def _own(asked: Asked, fields: Mapping[str, JSON]) -> JSONObject:
    """Return those fields of what is asked that differ from what `_read` takes for them."""
    defined = type(asked).model_fields
    expected = {name: field.get_default(call_default_factory=True) for name, field in defined.items()}
    expected |= asked.held_by(fields)
    different = {name for name, value in asked if value != expected[name]}
    return asked.model_dump(mode="json", include=different)


def _read(own: Mapping[str, JSON], fields: Mapping[str, JSON]) -> Asked:
    """Return what is asked; a kind that is not known here is taken as its schema says, and its owner checks it."""
    kind = find_asked(own["kind"])
    if kind is None:
        return Input.model_validate(Input.held_by(fields))
    return kind.model_validate({**kind.held_by(fields), **own})


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
    """The composites around an interrupt, outermost first, or the step that a stop is before: `address` and `info`."""
    people: People = EVERYBODY
    label: str | None = None
    """What people read of the item of a map in which it is asked."""
    attachments: Sequence[AttachedData] = ()
    since: datetime | None = None
    """The moment from which its times count; None: when it is asked."""

    def ask_again(self, reason: str) -> QuestionRequest:
        """Return the request for another answer, with the reason why the last one was given back in its message."""
        return replace(self, asked=self.asked.give_back(reason))


def open_question(
    request: QuestionRequest, *, owner: str, history: str, run: str, round_: int, at: datetime
) -> Question:
    """Return the open question for a request. Its id is the same on every replay.

    Args:
        owner: Id of the workflow that asks.
        history: Temporal's id of its history. A workflow that continues as new, or is started again under its id, asks
            at the same addresses: with another id, no late or repeated answer reaches the new question.
        round_: How often the address has asked in this history, from 1.
        at: Time of the asking, from the workflow's clock.
    """
    people, fields, since = request.people, list_shown_fields(request.asked), request.since or at
    attachments = [attached.attachment for attached in request.attachments]
    if attachments:
        fields["digest"] = make_digest(fields["digest"], [attachment.model_dump() for attachment in attachments])
    return Question(
        id=make_digest(owner, history, request.address, round_),
        address=request.address,
        owner=owner,
        run=run,
        **fields,
        attachments=attachments,
        parents=list(request.parents),
        label=request.label,
        iteration=request.iteration,
        round=round_,
        asked_at=at,
        deadline=None if request.timeout is None else since + timedelta(seconds=request.timeout),
        escalates_at=since + timedelta(seconds=people.ladder[0].after) if people.ladder else None,
        reminds_at=None if people.remind_every is None else since + timedelta(seconds=people.remind_every),
        assignees=people.assignees,
        not_by=people.not_by,
        quorum=people.quorum,
        proof=people.proof,
        notify=people.notify,
    )


def list_shown_fields(asked: Asked) -> JSONObject:
    """Return the fields of a `Question` that show what is asked, with their digest."""
    options = [option.model_dump(exclude_defaults=True) for option in asked.choices]
    return {
        "kind": asked.shown_kind,
        "message": asked.message,
        "requestedSchema": asked.schema(),
        "options": list(asked.choices),
        "default": asked.default,
        "info": asked.shown_info,
        "asked": asked.for_clients(),
        "digest": make_digest(asked.message, asked.schema(), options, asked.shown_info),
    }

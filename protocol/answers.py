"""What a person sends back, and what they get for it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from protocol.values import Value, digest_of

REFUSALS = (
    "unknown_question",
    "already_answered",
    "expired",
    "invalid_answer",
    "not_allowed",
    "question_changed",
    "key_conflict",
    "run_closed",
    "bad_token",
)


class Refusal(ValueError):
    """An answer that is not taken: a code of `REFUSALS`, and a message with the way out."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Answer(Value):
    """One answer to one question. `question` is its id or its address."""

    question: str = Field(min_length=1)
    action: Literal["accept", "decline", "cancel"] = "accept"
    content: Any = None
    digest: str | None = None


class Answers(Value):
    """Answers that are taken or refused together, by one person."""

    answers: list[Answer] = Field(min_length=1, max_length=1000)
    by: str | None = Field(None, max_length=200)
    key: str | None = Field(None, min_length=1, max_length=200)
    comment: str | None = Field(None, max_length=2000)
    token: str | None = None

    @property
    def digest(self) -> str:
        """Tells two contents under one key apart."""
        return digest_of([answer.model_dump(exclude={"digest"}) for answer in self.answers], self.by)


class Receipt(Value):
    """What was taken, from whom, when."""

    question: str
    status: Literal["answered", "waiting_quorum"]
    by: str | None = None
    at: datetime


class Closed(NamedTuple):
    """What is remembered of a question that is no longer open; a list on the wire, as many are carried.

    With the status `waiting_quorum`: of an acceptance that was not yet enough.
    """

    question: str
    status: Literal["answered", "declined", "cancelled", "expired", "waiting_quorum"]
    at: datetime
    by: str | None = None
    key: str | None = None
    digest: str | None = None


def read_answers(payload: Any) -> Answers:
    """The answers in an update's or a signal's argument; one bare answer will do."""
    if isinstance(payload, dict) and "answers" not in payload and "question" in payload:
        own = {key: value for key, value in payload.items() if key in Answer.model_fields}
        payload = {"answers": [own], **{key: value for key, value in payload.items() if key not in own}}
    try:
        return Answers.model_validate(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the argument"
        shape = '{"answers": [{"question": "<id>", "content": "..."}]}'
        raise Refusal("invalid_answer", f"{where}: {first['msg']}; an answer looks like {shape}") from None

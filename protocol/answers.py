"""Answers as clients send them, and the receipts and refusals that workflows return."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import Field, ValidationError

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.model_problems import describe_problem
from holdfast.protocol.people import ProvedGroups, SenderName
from holdfast.protocol.values import Value, make_digest

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
    "too_large",
    "busy",
)


class Refusal(ValueError):
    """An answer or a command that is refused.

    Args:
        code: One of `REFUSALS`.
        message: Reason and way out, for a person.
        problems: Of content that does not fit, each place in it with the reason; the message has them, too.
        question: Of content that does not fit: the id of the question.
    """

    def __init__(self, code: str, message: str, problems: Sequence[tuple[str, str]] = (), question: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.problems, self.question = code, message, problems, question


def refuse_closed(question: str, status: str, at: datetime, by: str | None = None) -> Refusal:
    """Return the refusal of what comes too late to a question.

    Args:
        question: Its id.
        status: How it ended, as of `Closed`.
        at: When.
        by: Who ended it, if anybody. Without a person it was most often what asked it that was cancelled, as something
            beside it had failed.
    """
    when = at.isoformat()
    if status == "expired":
        return Refusal("expired", f"question {question} expired at {when}; it can no longer be answered")
    if status == "superseded":
        return Refusal("already_answered", f"question {question} is not needed since {when}: another branch came first")
    person = f" by {by}" if by else ""
    return Refusal("already_answered", f"question {question} was {status}{person} at {when}")


class Answer(Value):
    """One answer to one question."""

    question: str = Field(min_length=1)
    """Id or address of the question."""
    action: Literal["accept", "decline", "cancel"] = "accept"
    content: JSON = None
    digest: str | None = None
    """Digest of the question as the person saw it; refused with `question_changed` if it differs by now."""


class AnswerBatch(Value):
    """A batch of answers by one person, taken or refused as a whole."""

    answers: list[Answer] = Field(min_length=1, max_length=1000)
    by: SenderName | None = Field(None, max_length=200)
    key: str | None = Field(None, min_length=1, max_length=200)
    """Idempotency key."""
    comment: str | None = Field(None, max_length=2000)
    token: str | None = None
    groups: ProvedGroups | None = None
    """The groups that a sign-in has proved; taken only with a token of a key that proves persons."""

    @property
    def digest(self) -> str:
        """Digest of the contents and the sender: a key that is used again with another digest is a conflict."""
        return make_digest([answer.model_dump(exclude={"digest"}) for answer in self.answers], self.by)


def key_digest(key: str | None) -> str | None:
    """Return the digest under which a refused signal keeps the key of its answers: keys may be long."""
    return None if key is None else make_digest(key)


class Receipt(Value):
    """The confirmation of an answer that was accepted."""

    question: str
    status: Literal["answered", "waiting_quorum"]
    by: str | None = None
    at: datetime


class Closed(NamedTuple):
    """The record of a question that was closed, kept to answer repeated commands.

    Two kinds of records close nothing: `waiting_quorum` is an acceptance that does not yet complete the quorum, and
    `taken` is a command other than an answer, whose question is "".
    """

    # A named tuple and no model: it is a list on the wire, and every continue-as-new carries many of them.

    question: str
    status: Literal["answered", "declined", "cancelled", "expired", "superseded", "waiting_quorum", "taken"]
    at: datetime
    by: str | None = None
    key: str | None = None
    digest: str | None = None


def read_answers(payload: object) -> AnswerBatch:
    """Return the answers in the argument of an update or a signal. Raises `Refusal` for anything else.

    Args:
        payload: The object of an `AnswerBatch`, or of one `Answer` with the fields of the batch beside its own.
    """
    if isinstance(payload, dict) and "answers" not in payload and "question" in payload:
        answer = {key: value for key, value in payload.items() if key in Answer.model_fields}
        payload = {"answers": [answer], **{key: value for key, value in payload.items() if key not in answer}}
    try:
        return AnswerBatch.model_validate(payload)
    except ValidationError as error:
        shape = '{"answers": [{"question": "<id>", "content": "..."}]}'
        problem = describe_problem(error, "the argument")
        raise Refusal("invalid_answer", f"{problem}; an answer looks like {shape}") from None

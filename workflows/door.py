"""Decoding of payloads from outside: the first thing that every handler with an argument does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import isawaitable
from typing import Protocol

from pydantic import ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from holdfast.blueprint.json_values import JSON
from holdfast.protocol.answers import AnswerBatch, Refusal, read_answers
from holdfast.protocol.door import SizeLimit, check_answers, check_value, read_json
from holdfast.protocol.elicitations import PutElicitation

NOTHING = RawValue(Payload(metadata={"encoding": b"binary/null"}))
"""The argument of a command without one."""
LONGEST_REFUSAL = 200
UNQUOTED = {
    "invalid_answer": "a signal could not be read, or its content does not fit",
    "unknown_question": "a signal names a question that is not open",
}


class _Refusing(Protocol):
    def refuse_signal(self, refusal: Refusal, answers: AnswerBatch | None = None) -> None: ...


def value_in(raw: RawValue, limit: SizeLimit | None) -> JSON:
    """Return the JSON value of a payload. Raises `Refusal`. Without a limit the value is not measured."""
    value = parsed(raw, limit)
    if limit is not None:
        check_value(value, limit)
    return value


def answers_in(raw: RawValue, limit: SizeLimit | None) -> AnswerBatch:
    """Return the answers of a payload. Raises `Refusal`.

    Only the contents count against the limit: they are what a person wrote.
    """
    answers = read_answers(parsed(raw, limit))
    if limit is not None:
        check_answers(answers, limit)
    return answers


def elicitation_in(raw: RawValue, limit: SizeLimit) -> PutElicitation:
    """Return the question of a payload. Raises `Refusal`."""
    try:
        return PutElicitation.model_validate(value_in(raw, limit))
    except ValidationError:
        raise Refusal("invalid_answer", "the question of an MCP server cannot be read") from None


def parsed(raw: RawValue, limit: SizeLimit | None) -> JSON:
    """Return the JSON value of a payload, after a check of its bytes. Raises `Refusal`.

    Bytes come first: walking a value of 200,000 keys takes longer than the 2 seconds after which Temporal fails the
    workflow task, and as the payload is in the history, it would fail for ever.
    """
    encoding = raw.payload.metadata.get("encoding", b"")
    if encoding == b"binary/null":
        return None
    if encoding != b"json/plain":
        name = ascii(encoding.decode(errors="replace"))[:40]
        raise Refusal("invalid_answer", f"the argument is encoded as {name}; send JSON (json/plain)")
    return read_json(raw.payload.data, limit)


def one_argument(handler: Callable[..., Awaitable[None] | None]) -> Callable[..., Awaitable[None]]:
    """Make a signal's handler refuse other than one argument, where Temporal would call it all the same.

    With another number of arguments Temporal ignores the annotation, and a TypeError in a signal's handler fails the
    workflow task for ever. The wrapped signature is what Temporal reads the annotation from.
    """

    @wraps(handler)
    async def take(self: _Refusing, *arguments: object) -> None:
        if len(arguments) > 1:
            self.refuse_signal(Refusal("invalid_answer", f"one argument is expected, not {len(arguments)}"))
            return
        pending = handler(self, *arguments)
        if isawaitable(pending):
            await pending

    return take


def unquoted(refusal: Refusal) -> str:
    """Return a refusal's message for the view, where everybody sees it: short, and without what was sent."""
    if (text := UNQUOTED.get(refusal.code)) is not None:
        return f"{text}; send it with `holdfast answer`, which says what is wrong"
    return refusal.message if len(refusal.message) <= LONGEST_REFUSAL else f"{refusal.message[:LONGEST_REFUSAL]}…"


def refused(refusal: Refusal) -> ApplicationError:
    """Return the error that an update fails with for a refusal."""
    return ApplicationError(refusal.message, type=refusal.code, non_retryable=True)

"""Earlier answers to questions, as a run's events tell them: for a repeated answer, or one that comes too late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from holdfast.client.events import chain
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.answers import Answers, Refusal
from holdfast.protocol.events import ChildStarted, QuestionCancelled, QuestionClosed, QuestionExpired, QuestionReplied


@dataclass(frozen=True)
class EarlierReply:
    """An earlier answer to a question, or its end without one, as an event tells it."""

    workflow: str
    address: str
    at: datetime
    data: QuestionReplied


async def refuse_closed(tree: Tree, workflow: str, batch: Answers) -> None:
    """Raise a `Refusal` that says who was first, if the workflow's events tell that a question was closed."""
    for answer in batch.answers:
        closing = await find_reply(tree, workflow, closes(answer.question))
        if closing is not None and not _closed_by_its_run(closing.data):
            raise refusal_of_closed(closing)


def _closed_by_its_run(data: QuestionReplied) -> bool:
    """Return whether a question was closed by a cancel of the run, and not by a person."""
    return isinstance(data, QuestionCancelled) and data.by is None and data.key is None


def refusal_of_closed(reply: EarlierReply) -> Refusal:
    """Return the refusal of an answer to a question that this reply closed."""
    data, at = reply.data, reply.at.isoformat()
    if isinstance(data, QuestionExpired):
        return Refusal("expired", f"question {data.id} expired at {at}")
    ending = data.type.removeprefix("question.")
    return Refusal("already_answered", f"question {data.id} was {ending} by {data.by or 'somebody'} at {at}")


def closes(question: str) -> Callable[[EarlierReply], bool]:
    """Return the condition that a reply closed this question, named by id or address."""
    return lambda reply: isinstance(reply.data, QuestionClosed) and question in (reply.data.id, reply.address)


def has_key(key: str) -> Callable[[EarlierReply], bool]:
    """Return the condition that a reply came under this idempotency key."""
    return lambda reply: reply.data.key == key


async def find_reply(tree: Tree, workflow: str, matches: Callable[[EarlierReply], bool]) -> EarlierReply | None:
    """Return the last reply that matches; None if there is none.

    Each workflow's own events are searched before those of its children; of a loop the last 100 iterations.
    """
    try:
        events = await chain(tree, workflow, last_iterations=100)
    except UnknownRun:
        return None
    for event in reversed(events):
        if isinstance(event.data, QuestionReplied):
            own = EarlierReply(workflow, event.address, event.time, event.data)
            if matches(own):
                return own
    for event in reversed(events):
        if isinstance(event.data, ChildStarted) and (reply := await find_reply(tree, event.data.workflow, matches)):
            return reply
    return None

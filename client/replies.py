"""Earlier answers to questions, as a run's events tell them: for a repeated answer, or one that comes too late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from holdfast.client.events import chain
from holdfast.client.history import answers_given, receipts_given
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.address import names_at
from holdfast.protocol.answers import AnswerBatch, Receipt, Refusal, key_digest
from holdfast.protocol.events import ChildStarted, QuestionCancelled, QuestionClosed, QuestionExpired, QuestionReplied
from holdfast.protocol.runs import WorkflowView


@dataclass(frozen=True)
class EarlierReply:
    """An earlier answer to a question, or its end without one, as an event tells it."""

    workflow: str
    address: str
    at: datetime
    data: QuestionReplied


async def refusal_of_ended(tree: Tree, workflow: str, batch: AnswerBatch) -> Refusal | None:
    """Return the refusal of answers to a workflow that has ended; None if its events do not know their questions.

    Raises `NoWorker` if no worker answers.
    """
    replies = [await find_reply(tree, workflow, closes(answer.question)) for answer in batch.answers]
    earlier = [reply for reply in replies if reply is not None]
    by_people = [reply for reply in earlier if not _closed_by_its_run(reply.data)]
    if not earlier:  # so it is, too, where the server knows the run no more for a moment
        return None
    return refusal_of_closed(by_people[0]) if by_people else closed_by_its_end(workflow)


async def receipts_by_history(tree: Tree, workflow: str, batch: AnswerBatch) -> list[Receipt]:
    """Return the receipts of answers to a workflow that has ended, from Temporal's histories, which need no worker.

    Raises `Refusal` if it did not take them: it says who was first.
    """
    if receipts := await receipts_given(tree.client, workflow, update_id(batch)):
        return receipts
    named = {answer.question for answer in batch.answers}
    records = await answers_given(tree.client, workflow)
    first = next((record for record in reversed(records) if record.via == "update" and record.question in named), None)
    if first is None:
        raise closed_by_its_end(workflow)
    ending = {"accept": "answered", "decline": "declined", "cancel": "cancelled"}[first.action]
    who, at = first.by or "somebody", first.at.isoformat()
    raise Refusal("already_answered", f"question {first.question} was {ending} by {who} at {at}")


def update_id(batch: AnswerBatch) -> str:
    """Return the id of the update that brings answers: Temporal takes one once, and other content has another id."""
    return f"{batch.key}:{batch.digest}"


def closed_by_its_end(workflow: str) -> Refusal:
    """Return the refusal of an answer to a workflow that has ended, or never was."""
    return Refusal("run_closed", f"{workflow} has ended, or there is no such workflow; it has no open questions")


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


def answered_under(question: str, key: str) -> Callable[[EarlierReply], bool]:
    """Return the condition that a reply answered this question, named by id, address or step name, under this key."""
    return lambda reply: reply.data.key == key and question in (reply.data.id, reply.address, *names_at(reply.address))


async def refused_under(tree: Tree, workflow: str, key: str) -> str | None:
    """Return the id of the question that a refused signal answered under this idempotency key; None if none did.

    Each workflow is searched before its children, also those that have ended.
    """
    try:
        view = await tree.view(workflow)
        events = await chain(tree, workflow, last_iterations=100, view=view)
    except UnknownRun:
        return None
    for signal in reversed(view.refused):
        if signal.key == key_digest(key) and signal.question is not None:
            return signal.question
    for event in reversed(events):
        if isinstance(event.data, ChildStarted) and (question := await refused_under(tree, event.data.workflow, key)):
            return question
    return None


async def find_reply(
    tree: Tree, workflow: str, matches: Callable[[EarlierReply], bool], view: WorkflowView | None = None
) -> EarlierReply | None:
    """Return the last reply that matches; None if there is none.

    Each workflow's own events are searched before those of its children; of a loop the last 100 iterations. `view` is
    the view of the workflow, where it was queried after the reply.
    """
    try:
        events = await chain(tree, workflow, last_iterations=100, view=view)
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

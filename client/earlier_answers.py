"""Was this answered before? One walk of a run's events tells it, for a repeated answer or one that comes too late.

`AnswerDelivery` asks, and whoever looks for what became of a question. The events are loaded where they are read: most
answers are the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.client.history import answers_given, receipts_given
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.address import names_at
from holdfast.protocol.answers import AnswerBatch, Receipt, Refusal, key_digest, refuse_closed
from holdfast.protocol.values import make_digest
from holdfast.protocol.views import WorkflowView

if TYPE_CHECKING:
    from holdfast.protocol.events import QuestionReplied


@dataclass(frozen=True)
class EarlierReply:
    """An earlier answer to a question, or its end without one, as an event tells it."""

    workflow: str
    address: str
    at: datetime
    data: QuestionReplied
    accepted: Sequence[EarlierReply] = ()
    """Of the one that closed a question which several had to answer: the answers before it, in their order."""


class EarlierAnswers:
    """The earlier answers to questions of a workflow and of those below it, read once.

    A workflow's own events, the latest first, come before those of its children, the latest child first; of a loop the
    last 100 iterations. The walk goes no further than it must, and goes on from there when it is asked again.

    Args:
        tree: The access to the workflows.
        workflow: The run, or the workflow that asks.
        view: Its view, where it was queried after the reply that is looked for.
    """

    def __init__(self, tree: Tree, workflow: str, view: WorkflowView | None = None) -> None:
        self._tree, self._workflow = tree, workflow
        self._replies: list[EarlierReply] = []
        self._read: list[str] = []
        self._unread: list[tuple[str, WorkflowView | None]] = [(workflow, view)]

    async def find_closing(self, question: str) -> EarlierReply | None:
        """Return the last reply that closed a question, named by id or address; None if there is none."""
        from holdfast.protocol.events import (  # noqa: PLC0415  see the head of this file
            QuestionAccepted,
            QuestionClosed,
        )

        closing = await self._find(
            lambda reply: isinstance(reply.data, QuestionClosed) and question in (reply.data.id, reply.address)
        )
        if closing is None:
            return None
        # They are noted by the workflow that closed it, which was read as a whole, the latest first.
        accepted = [
            reply
            for reply in reversed(self._replies)
            if isinstance(reply.data, QuestionAccepted) and reply.data.id == closing.data.id
        ]
        return replace(closing, accepted=accepted)

    async def find_under(self, key: str, question: str | None = None) -> EarlierReply | None:
        """Return the last reply that came under an idempotency key; None if there is none.

        Args:
            key: The key.
            question: Only a reply to the question of this id, address or step name.
        """
        return await self._find(
            lambda reply: (
                reply.data.key == key and question in (None, reply.data.id, reply.address, *names_at(reply.address))
            )
        )

    async def find_retried(self, key: str, question: str | None = None) -> str | None:
        """Return the id of the question that an earlier answer under a key was for; None if there is none.

        Args:
            key: The idempotency key.
            question: Only a question of this id, address or step name; None: any, also where a signal was refused.
        """
        reply = await self.find_under(key, question)
        if reply is not None:
            return reply.data.id
        return await self._find_refused(key) if question is None else None

    async def _find_refused(self, key: str) -> str | None:
        """Return the id of the question that a refused signal answered under an idempotency key; None if none did."""
        while self._unread:
            await self._read_next()
        for workflow in self._read:
            with suppress(UnknownRun):
                for signal in reversed((await self._tree.view(workflow)).refused):
                    if signal.key == key_digest(key) and signal.question is not None:
                        return signal.question
        return None

    async def explain_end(self, batch: AnswerBatch) -> Refusal | None:
        """Return why the workflow, which has ended, takes no answers; None if no event names one of their questions.

        Raises `NoWorker` if no worker answers.
        """
        replies = [await self.find_closing(answer.question) for answer in batch.answers]
        earlier = [reply for reply in replies if reply is not None]
        by_people = [reply for reply in earlier if not _closed_by_its_run(reply.data)]
        if not earlier:  # so it is, too, where the server knows the run no more for a moment
            return None
        return refusal_of_closed(by_people[0]) if by_people else closed_by_its_end(self._workflow)

    async def read_receipts(self, batch: AnswerBatch) -> list[Receipt]:
        """Return the receipts that the workflow, which has ended, gave; Temporal's histories need no worker.

        Raises `Refusal` if it did not take them: it says who was first.
        """
        client, workflow = self._tree.client, self._workflow
        if receipts := await receipts_given(client, workflow, update_id(batch)):
            return receipts
        named = {answer.question for answer in batch.answers}
        records = reversed(await answers_given(client, workflow))
        first = next((record for record in records if record.via == "update" and record.question in named), None)
        if first is None:
            raise closed_by_its_end(workflow)
        ending = {"accept": "answered", "decline": "declined", "cancel": "cancelled"}[first.action]
        raise refuse_closed(first.question, ending, first.at, first.by)

    async def _find(self, matches: Callable[[EarlierReply], bool]) -> EarlierReply | None:
        replies = self._replies
        while True:
            if (reply := next(filter(matches, replies), None)) is not None:
                return reply
            if not self._unread:
                return None
            replies = await self._read_next()

    async def _read_next(self) -> list[EarlierReply]:
        """Return the replies of the next workflow, and put its children before those that are still to be read."""
        from holdfast.client.events import chain  # noqa: PLC0415  see the head of this file
        from holdfast.protocol.events import ChildStarted, QuestionReplied  # noqa: PLC0415  see the head of this file

        workflow, view = self._unread[-1]
        try:
            events = await chain(self._tree, workflow, last_iterations=100, view=view)
        except UnknownRun:
            events = []
        self._unread.pop()
        self._unread += [(event.data.workflow, None) for event in events if isinstance(event.data, ChildStarted)]
        self._read.append(workflow)
        replies = [
            EarlierReply(workflow, event.address, event.time, event.data)
            for event in reversed(events)
            if isinstance(event.data, QuestionReplied)
        ]
        self._replies += replies
        return replies


def update_id(batch: AnswerBatch) -> str:
    """Return the id of the update that brings answers: Temporal takes one once, and other content has another id.

    It is short, as it stands four times in the events of an update.
    """
    return make_digest(batch.key, batch.digest)


def closed_by_its_end(workflow: str) -> Refusal:
    """Return the refusal of an answer to a workflow that has ended, or never was."""
    return Refusal("run_closed", f"{workflow} has ended, or there is no such workflow; it has no open questions")


def _closed_by_its_run(data: QuestionReplied) -> bool:
    """Return whether a question was closed by a cancel of the run, and not by a person."""
    from holdfast.protocol.events import QuestionCancelled  # noqa: PLC0415  see the head of this file

    return isinstance(data, QuestionCancelled) and data.by is None and data.key is None


def refusal_of_closed(reply: EarlierReply) -> Refusal:
    """Return the refusal of an answer to a question that this reply closed."""
    data = reply.data
    return refuse_closed(data.id, data.type.removeprefix("question."), reply.at, ", ".join(data.people))

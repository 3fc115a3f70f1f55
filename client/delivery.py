"""Send answers to the workflows that asked, exactly once, and return receipts.

Answers go by update where a worker is there, so that they have been accepted or refused on return; else by signal. An
answer under a key that was used before is looked up in the events: the same answer gets its receipt again, another
one is refused.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from holdfast.blueprint.json_values import JSONObject
from holdfast.client.answering import Answering
from holdfast.client.earlier_answers import (
    EarlierAnswers,
    EarlierReply,
    refusal_of_closed,
    update_id,
)
from holdfast.client.open_questions import NO_WORKER, OpenQuestions, QuestionFinder, check_content, find_question
from holdfast.client.outgoing import check_batch
from holdfast.client.signals import Sent, no_signals, send_signals
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.answers import Answer, AnswerBatch, Receipt, Refusal
from holdfast.protocol.guard import SignedCommand
from holdfast.protocol.names import ANSWER
from holdfast.runtime.errors import NothingSent
from holdfast.runtime.secrets import forget_values, is_same_answer, store_values
from holdfast.runtime.workers import Busy, NoWorker, Unconfirmed, is_polled


@dataclass(frozen=True)
class AnswerDelivery:
    """Brings the answers of one client to the workflows that asked."""

    tree: Tree
    answering: Answering

    async def send(
        self, open_questions: OpenQuestions, batch: AnswerBatch, *, signal: bool = False, owner: str | None = None
    ) -> list[Receipt | Sent]:
        """Send a batch of answers to questions that were found, or seen before (`recalled`); see `Runs.answer`."""
        key = batch.key  # one that is made here has brought no answer before: nobody has to look for it
        by = self.answering.find_sender(batch.by)
        batch = batch.model_copy(update={"by": by, "key": key or secrets.token_hex(8)})
        check_batch(batch, self.answering.limits.answer)
        unconfirmed: Unconfirmed | None = None
        if open_questions.recalled:
            try:
                if (receipts := await self._at_once(open_questions, batch)) is not None:
                    return list(receipts)
            except Unconfirmed as error:
                unconfirmed, key = error, batch.key
            names = [answer.question for answer in batch.answers]
            open_questions = await QuestionFinder(self.tree, self.answering.memory).find(open_questions.run, names)
        if open_questions.silence is None and not signal:
            try:
                return list(await self._by_update(open_questions, batch, key))
            except NoWorker as error:  # it polled a moment ago, but is gone: leave the answer for the next one
                if isinstance(error, Busy) and error.is_alive:
                    raise
                unconfirmed = error if isinstance(error, Unconfirmed) else unconfirmed
                open_questions = replace(
                    open_questions, questions=self.answering.memory.of(open_questions.run), silence=str(error)
                )
        reason = open_questions.silence or NO_WORKER
        try:
            if self.answering.keys:
                raise no_signals(reason)
            return list(await send_signals(self.tree, open_questions, batch, owner, reason))
        except NothingSent:
            if unconfirmed is None:
                raise
            raise unconfirmed from None  # the server keeps an update that nobody took, for the next worker

    async def _at_once(self, recalled: OpenQuestions, batch: AnswerBatch) -> list[Receipt] | None:
        """Send answers to questions that were seen before; None if they were not sent, or not taken.

        Raises `Unconfirmed` if nobody says so soon: they may still count.
        """
        if not await is_polled(self.tree.client, self.tree.task_queue):
            return None
        owner = recalled.questions[0].owner
        argument = self._sign_batch(recalled.run, owner, batch)
        return await self.tree.try_update(owner, ANSWER, argument, list[Receipt], id=update_id(batch))

    async def _by_update(self, open_questions: OpenQuestions, batch: AnswerBatch, key: str | None) -> list[Receipt]:
        run = open_questions.run
        earlier = open_questions.earlier or EarlierAnswers(self.tree, run)
        if open_questions.has_ended:  # perhaps by this very answer, sent for the second time
            return await self._receipts_of_ended(earlier, batch)
        # Per owner the pairs of an answer as the caller gave it and as it is sent, with references for secrets.
        unsent: dict[str, list[tuple[Answer, Answer]]] = defaultdict(list)
        receipts: list[Receipt] = []
        try:
            for answer in batch.answers:
                owner, sendable = await self._prepare(earlier, open_questions, answer, key)
                unsent[owner].append((answer, sendable))
            for owner in list(unsent):
                answers = [sendable for _, sendable in unsent[owner]]
                receipts += await self.update(run, owner, batch.model_copy(update={"answers": answers}))
                del unsent[owner]
        except Refusal:
            for original, sendable in [pair for pairs in unsent.values() for pair in pairs]:
                forget_values(sendable, original, self.answering.secrets)
            raise
        return receipts

    async def _prepare(
        self, earlier: EarlierAnswers, open_questions: OpenQuestions, answer: Answer, key: str | None
    ) -> tuple[str, Answer]:
        """Return the id of the workflow that asks, and the answer as it is sent: with the question's id.

        Raises `Refusal` for an answer that the workflow would refuse, before anything is sent.
        """
        asked = [*open_questions.questions, *open_questions.events]
        if key is not None and not any(answer.question in (question.id, question.address) for question in asked):
            # A loop may have asked again under the same name: a repeated answer is not one to the next question.
            reply = await earlier.find_under(key, answer.question)
            if reply is not None:
                answer = answer.model_copy(update={"question": reply.data.id})
                return reply.workflow, self._repeat(answer, reply, key)
        question = find_question(asked, answer.question)
        if question is not None:
            answer = answer.model_copy(update={"question": question.id})
            if question.asked.hidden and answer.action == "accept":
                answer = store_values(question.asked, answer, self.answering.secrets)
            check_content(question, answer)
            return question.owner, answer
        closing = await earlier.find_closing(answer.question)
        if closing is not None:  # perhaps a retry of the same answer: its owner decides
            return closing.workflow, self._repeat(answer, closing, key)
        raise open_questions.unknown(answer.question)

    async def update(self, run: str, owner: str, batch: AnswerBatch) -> list[Receipt]:
        """Send answers to the workflow that asks, by update, and return its receipts.

        Raises `Refusal`; or `Unconfirmed` if nobody says so soon: they may still count.
        """
        argument = self._sign_batch(run, owner, batch)
        try:
            receipts: list[Receipt] = await self.tree.update(
                owner, ANSWER, argument, list[Receipt], id=update_id(batch)
            )
            return receipts
        except NoWorker as error:
            if isinstance(error, Busy) and error.is_alive:
                raise
            raise Unconfirmed(run, owner) from None
        except UnknownRun:
            # The update may have been taken all the same: a busy server loses the way back once the workflow has ended.
            return await self._receipts_of_ended(EarlierAnswers(self.tree, owner), batch)

    def _sign_batch(self, run: str, owner: str, batch: AnswerBatch) -> JSONObject:
        # Without what it leaves out: each answer stands in a history for good.
        payload = json.loads(batch.model_dump_json(exclude={"token", "groups"}, exclude_defaults=True))
        return self.answering.sign("answer", SignedCommand(run, owner, ANSWER, payload))

    async def _receipts_of_ended(self, earlier: EarlierAnswers, batch: AnswerBatch) -> list[Receipt]:
        """Return the receipts if the workflow, which has ended, accepted this batch; else raise `Refusal`."""
        with suppress(NoWorker):  # its events cannot be read: Temporal's histories can
            if receipts := await self._earlier_receipts(earlier, batch):
                return receipts
            if (refusal := await earlier.explain_end(batch)) is not None:
                raise refusal
        return await earlier.read_receipts(batch)

    async def _earlier_receipts(self, earlier: EarlierAnswers, batch: AnswerBatch) -> list[Receipt]:
        """Return the receipts of a batch that was accepted before under its key; [] if none was.

        Raises `Refusal` if the key was used for another answer.
        """
        reply = await earlier.find_under(batch.key) if batch.key is not None else None
        if reply is None:
            return []
        from holdfast.protocol.events import QuestionAccepted  # noqa: PLC0415  it loads all events

        data, answers = reply.data, list(batch.answers)
        if len(answers) == 1:  # it may name its question by address; the answers of a larger batch carry ids
            answers = [answers[0].model_copy(update={"question": data.id})]
            answers = [self._repeat(answers[0], reply, batch.key)]
        if batch.model_copy(update={"answers": answers}).digest != data.digest:
            raise Refusal("key_conflict", f"key {batch.key!r} was used for another answer; use a new key")
        status: Literal["answered", "waiting_quorum"] = (
            "waiting_quorum" if isinstance(data, QuestionAccepted) else "answered"
        )
        return [Receipt(question=answer.question, status=status, by=data.by, at=reply.at) for answer in answers]

    def _repeat(self, answer: Answer, reply: EarlierReply, key: str | None) -> Answer:
        """Return an answer to a closed question as it may be sent: for a secret with the references of the first time.

        Raises `Refusal` if a secret is not the one that was accepted under this key: nothing of it leaves the client.
        """
        from holdfast.protocol.events import QuestionClosed  # noqa: PLC0415  it loads all events

        before = reply.data
        if answer.action != "accept" or not (isinstance(before, QuestionClosed) and before.secret):
            return answer
        if key is None or key != before.key:
            raise refusal_of_closed(reply)
        if not is_same_answer(answer.content, before.content, self.answering.secrets):
            raise Refusal("key_conflict", f"key {key!r} was used for another answer; use a new key")
        return answer.model_copy(update={"content": before.content})

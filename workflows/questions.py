"""Questions that wait for a person. Asking is an await; nothing unwinds, nothing is run again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from temporalio import workflow

from protocol import guard
from protocol.address import Address
from protocol.answers import Answer, Answers, Closed, Receipt, Refusal
from protocol.guard import BadToken, check_token
from protocol.questions import Asked, InvalidAnswer, Question, question_of
from workflows.journal import Journal

REMEMBERED = 200


@dataclass(frozen=True)
class Reply:
    """How a question ended: accepted with content, declined, cancelled, or expired."""

    status: str
    content: Any = None
    by: str | None = None
    comment: str | None = None


@dataclass
class _Open:
    asked: Asked
    question: Question
    reply: asyncio.Future[Reply]


class Questions:
    """The open questions of one workflow, and what it remembers of the closed ones."""

    def __init__(self, run: str, journal: Journal, *, guarded: bool, closed: list[Closed]) -> None:
        self._run, self._journal, self._guarded = run, journal, guarded
        self._open: dict[str, _Open] = {}
        self._rounds: dict[Address, int] = {}
        self.closed = closed[-REMEMBERED:]
        self.taken = 0
        """Answers taken in this history."""

    @property
    def open(self) -> list[Question]:
        return sorted((one.question for one in self._open.values()), key=lambda question: question.address)

    async def ask(
        self,
        address: Address,
        asked: Asked,
        *,
        iteration: int | None,
        deadline: datetime | None,
        takes_default: bool = False,
        parents: Sequence[dict[str, Any]] = (),
    ) -> Reply:
        """Wait until a person answers or the deadline passes; cancelling the wait closes the question."""
        round_ = self._rounds[address] = self._rounds.get(address, 0) + 1
        question = question_of(
            asked,
            address=address,
            owner=workflow.info().workflow_id,
            run=self._run,
            round_=round_,
            iteration=iteration,
            at=workflow.now(),
            deadline=deadline,
            parents=parents,
        )
        one = self._open[question.id] = _Open(asked, question, asyncio.get_running_loop().create_future())
        self._journal.note(address, "question.asked", id=question.id, kind=question.kind, message=question.message)
        try:
            return await self._wait(one, asked.default if takes_default else None)
        except asyncio.CancelledError:
            if question.id in self._open:
                self._close(question, Reply("cancelled"), None, None)
            raise

    def change(self, address: Address, asked: Asked, parents: Sequence[dict[str, Any]]) -> None:
        """Another form of the open question at an address: the same id, another digest."""
        for one in self._open.values():
            if one.question.address == address:
                before = one.question
                one.asked = asked
                one.question = question_of(
                    asked,
                    address=address,
                    owner=before.owner,
                    run=before.run,
                    round_=before.round,
                    iteration=before.iteration,
                    at=before.asked_at,
                    deadline=before.deadline,
                    parents=parents,
                )

    async def _wait(self, one: _Open, default: Any) -> Reply:
        if one.question.deadline is None:
            return await one.reply
        left = (one.question.deadline - workflow.now()).total_seconds()
        try:
            return await asyncio.wait_for(asyncio.shield(one.reply), max(left, 0))
        except TimeoutError:
            if not one.reply.done():
                self._close(one.question, Reply("expired"), None, None, default=default)
        return await one.reply

    def check(self, answers: Answers) -> None:
        """Refuse the whole batch if any of it may not be taken; the state is not touched."""
        if self._taken_before(answers):
            return
        targets = [self._target(answer) for answer in answers.answers]
        for index, one in enumerate(targets):
            if one in targets[:index]:
                raise Refusal("invalid_answer", f"question {one.question.id} stands twice in this batch")
        for one, answer in zip(targets, answers.answers, strict=True):
            _check_content(one, answer)

    def check_allowed(self, answers: Answers) -> None:
        """What only an update's validator may ask, as it depends on the deployment."""
        key = guard.DEPLOYMENT.answer_key
        if key is None:
            return
        asked = ",".join(answer.question for answer in answers.answers)
        try:
            check_token(key, answers.token, run=self._run, question=asked, by=answers.by)
        except BadToken as error:
            raise Refusal("bad_token", str(error)) from None

    def check_signal(self) -> None:
        """A guarded run takes no signals: a signal has no validator."""
        if self._guarded:
            raise Refusal("not_allowed", "this run is guarded and takes answers by update only: use holdfast answer")

    def check_deadlines(self, answers: Answers) -> None:
        """An update that arrives at or after the deadline is late, whether or not the timer has fired yet."""
        for answer in answers.answers:
            one = self._open.get(self._id_of(answer.question))
            if one and one.question.deadline and one.question.deadline <= workflow.now():
                raise Refusal("expired", _expired(one.question.id, one.question.deadline))

    def take(self, answers: Answers) -> list[Receipt]:
        """Close each question at once, not when its step wakes: a second answer must find it closed."""
        if before := self._taken_before(answers):
            return [Receipt(question=one.question, status="answered", by=one.by, at=one.at) for one in before]
        self.taken += 1
        digest = answers.digest if answers.key else None
        receipts = []
        for answer in answers.answers:
            one = self._target(answer)
            self._close(one.question, _reply_to(one, answer, answers), answers.key, digest)
            receipts.append(Receipt(question=one.question.id, status="answered", by=answers.by, at=workflow.now()))
        return receipts

    def _close(
        self, question: Question, reply: Reply, key: str | None, digest: str | None, default: Any = None
    ) -> None:
        one = self._open.pop(question.id)
        said = {"by": reply.by, "content": reply.content, "comment": reply.comment}
        event = {**said, "default": default, "key": key, "digest": digest}
        self._journal.note(question.address, f"question.{reply.status}", id=question.id, **event)
        self.closed.append(Closed(question.id, reply.status, workflow.now(), reply.by, key, digest))  # type: ignore[arg-type]
        del self.closed[:-REMEMBERED]
        if not one.reply.done():
            one.reply.set_result(reply)

    def _taken_before(self, answers: Answers) -> list[Closed]:
        """What the same key closed already; other content under the key is a conflict."""
        before = [one for one in self.closed if answers.key and one.key == answers.key]
        if before and before[0].digest != answers.digest:
            raise Refusal("key_conflict", f"key {answers.key!r} was used for another answer; use a new key")
        return before

    def _id_of(self, question: str) -> str:
        """An open question's id, where it was named by its address."""
        for id_, one in self._open.items():
            if one.question.address == question:
                return id_
        return question

    def _target(self, answer: Answer) -> _Open:
        id_ = self._id_of(answer.question)
        if id_ in self._open:
            return self._open[id_]
        for one in reversed(self.closed):
            if one.question == id_:
                raise _gone(one)
        names = ", ".join(f"{question.id} ({question.address})" for question in self.open[:20]) or "none"
        raise Refusal("unknown_question", f"no question {answer.question!r} is open here; open: {names}")


def _check_content(one: _Open, answer: Answer) -> None:
    if answer.digest is not None and answer.digest != one.question.digest:
        raise Refusal("question_changed", f"question {one.question.id} has changed; look at it again, then answer")
    if answer.action == "accept":
        _accepted(one, answer.content)


def _accepted(one: _Open, content: Any) -> Any:
    try:
        return one.asked.accept(content)
    except InvalidAnswer as error:
        raise Refusal("invalid_answer", f"question {one.question.id}: {error}") from None


def _reply_to(one: _Open, answer: Answer, answers: Answers) -> Reply:
    match answer.action:
        case "accept":
            return Reply("answered", _accepted(one, answer.content), answers.by, answers.comment)
        case "decline":
            return Reply("declined", None, answers.by, answers.comment)
        case "cancel":
            return Reply("cancelled", None, answers.by, answers.comment)


def _gone(one: Closed) -> Refusal:
    if one.status == "expired":
        return Refusal("expired", _expired(one.question, one.at))
    who = one.by or "somebody"
    return Refusal("already_answered", f"question {one.question} was {one.status} by {who} at {one.at.isoformat()}")


def _expired(question: str, at: datetime) -> str:
    return f"question {question} expired at {at.isoformat()}; nothing can be answered here any more"

"""The open questions of a workflow. `BaseWorkflow` holds them; asking is an await, so nothing unwinds or runs again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from temporalio import workflow

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema
from holdfast.protocol import guard
from holdfast.protocol.address import Address
from holdfast.protocol.answers import Answer, Answers, Closed, Receipt, Refusal
from holdfast.protocol.events import (
    AnyEvent,
    QuestionAccepted,
    QuestionAnswered,
    QuestionAsked,
    QuestionCancelled,
    QuestionDeclined,
    QuestionEscalated,
    QuestionExpired,
    QuestionReminded,
)
from holdfast.protocol.people import user_of, who_may, why_not
from holdfast.protocol.questions import (
    ROTATE,
    Asked,
    InvalidAnswer,
    Question,
    QuestionRequest,
    question_of,
    shown_of,
)
from holdfast.workflows.journal import Journal
from holdfast.workflows.timetable import Timetable

# Keys of closed questions go over continue-as-new: the server deduplicates updates only within one run.
REMEMBERED = 200


@dataclass(frozen=True)
class Reply:
    """The end of a question: answered with content, declined, cancelled, or expired."""

    status: Literal["answered", "declined", "cancelled", "expired"]
    content: JSON = None
    by: str | None = None
    comment: str | None = None


_CLOSING: dict[str, type[QuestionAnswered | QuestionDeclined | QuestionCancelled | QuestionExpired]] = {
    "answered": QuestionAnswered,
    "declined": QuestionDeclined,
    "cancelled": QuestionCancelled,
    "expired": QuestionExpired,
}
"""By the status of a reply: the event that closes the question."""


@dataclass
class _Open:
    asked: Asked
    question: Question
    reply: asyncio.Future[Reply]
    times: Timetable
    accepted: JSONObject = field(default_factory=dict)
    """Content by person, where several must accept."""

    def is_settled_by(self, content: object) -> bool:
        """Return whether one more acceptance with this content is enough: with options, of the same choice."""
        if self.asked.says_no(content):
            return True
        contents = self.accepted.values()
        alike = [other for other in contents if _same(other, content)] if self.asked.choices else contents
        return len(alike) + 1 >= self.question.quorum

    def show(self, **values: Any) -> None:
        """Change fields of the visible question; its id stays."""
        self.question = self.question.model_copy(update=values)


class Questions:
    """The open questions of one workflow, and receipts of the closed ones."""

    def __init__(self, run: str, journal: Journal, *, guarded: bool, closed: list[Closed]) -> None:
        self._run, self._journal, self._guarded = run, journal, guarded
        self._open: dict[str, _Open] = {}
        self._rounds: dict[Address, int] = {}
        self.closed = closed[-REMEMBERED:]

    @property
    def open(self) -> list[Question]:
        """Return the open questions by address; parallel steps ask in the order of their tasks."""
        return sorted((entry.question for entry in self._open.values()), key=lambda question: question.address)

    async def ask(self, request: QuestionRequest) -> Reply:
        """Wait until a person answers or the deadline passes; cancelling the wait closes the question."""
        question = self._question(request)
        times = Timetable(question.asked_at, question.deadline, request.people)
        future = asyncio.get_running_loop().create_future()
        entry = self._open[question.id] = _Open(request.asked, question, future, times)
        assignees = question.assignees or None
        self._journal.note(
            request.address,
            QuestionAsked(id=question.id, kind=question.kind, message=question.message, assignees=assignees),
        )
        try:
            return await self._wait(entry, request.asked.default if request.takes_default else None)
        except asyncio.CancelledError:
            if question.id in self._open:
                self._close(question, Reply("cancelled"), None, None)
            raise

    def _question(self, request: QuestionRequest) -> Question:
        """Return the next question at an address; its id is none that was closed in an earlier history."""
        closed = [closed.question for closed in self.closed]
        while True:
            round_ = self._rounds[request.address] = self._rounds.get(request.address, 0) + 1
            owner = workflow.info().workflow_id
            question = question_of(request, owner=owner, run=self._run, round_=round_, at=workflow.now())
            if question.id not in closed:
                return question

    def change(self, address: Address, asked: Asked, parents: Sequence[JSONObject]) -> None:
        """Change the form of the open question at an address: its id stays, its digest does not."""
        for entry in self._open.values():
            if entry.question.address == address:
                entry.asked = asked
                entry.show(**shown_of(asked), parents=list(parents))

    async def _wait(self, entry: _Open, default: object) -> Reply:
        while not entry.reply.done() and (next_ := entry.times.next) is not None:
            remaining = (next_ - workflow.now()).total_seconds()
            try:
                return await asyncio.wait_for(asyncio.shield(entry.reply), max(remaining, 0))
            except TimeoutError:
                if not entry.reply.done():
                    self._handle_due(entry, max(next_, workflow.now()), default)
        return await entry.reply

    def _handle_due(self, entry: _Open, now: datetime, default: object) -> None:
        """Expire the question, or escalate it, or send its reminder, whichever is due."""
        if entry.times.has_expired(now):
            self._close(entry.question, Reply("expired"), None, None, default=default)
            return
        for rung in entry.times.climb(now):
            entry.show(assignees=rung.assignees)
            self._note(entry, QuestionEscalated(id=entry.question.id, assignees=rung.assignees))
        if entry.times.remind(now):
            entry.show(reminders=entry.times.reminders)
            n, assignees = entry.times.reminders, entry.question.assignees or None
            self._note(entry, QuestionReminded(id=entry.question.id, n=n, assignees=assignees))

    def _note(self, entry: _Open, event: AnyEvent) -> None:
        self._journal.note(entry.question.address, event)

    def check(self, answers: Answers) -> None:
        """Refuse the whole batch if any answer in it cannot be accepted; change nothing."""
        if self._taken_before(answers):
            return
        targets = [self._target(answer) for answer in answers.answers]
        for index, entry in enumerate(targets):
            if entry in targets[:index]:
                raise Refusal("invalid_answer", f"question {entry.question.id} appears twice in this batch")
        for entry, answer in zip(targets, answers.answers, strict=True):
            _check_content(entry, answer, answers.by)

    def check_allowed(self, answers: Answers) -> None:
        """Refuse answers of people who may not answer. For validators only, as groups are the deployment's."""
        if self._taken_before(answers):
            return
        for answer in answers.answers:
            question = self._target(answer).question
            if reason := why_not(question.people, answers.by, guard.DEPLOYMENT.groups):
                raise Refusal("not_allowed", f"question {question.id}: {reason}")

    def check_signal(self, answers: Answers) -> None:
        """Refuse answers that may not come by signal: to secrets, in guarded runs, where only some people may answer.

        A signal has no validator, and its content stands in the history.
        """
        for answer in answers.answers:
            entry = self._open.get(self._id_of(answer.question))
            if entry is not None and (refusal := entry.asked.signal_refusal):
                remedy = f"; if a value stood in this one, {ROTATE}" if entry.asked.hidden else ""
                raise Refusal("not_allowed", f"question {entry.question.id}: {refusal}{remedy}")
        if self._guarded:
            raise Refusal("not_allowed", "this run is guarded and takes answers by update only: use holdfast answer")
        for answer in answers.answers:
            entry = self._open.get(self._id_of(answer.question))
            if entry is not None and entry.question.people.restricted:
                reason = f"{who_may(entry.question.people)} may answer, which is checked for updates only"
                raise Refusal("not_allowed", f"question {entry.question.id}: {reason}: use holdfast answer")

    def check_deadlines(self, answers: Answers) -> None:
        """Refuse answers at or after the deadline, whether or not the timer has fired yet."""
        for answer in answers.answers:
            entry = self._open.get(self._id_of(answer.question))
            if entry and entry.question.deadline and entry.question.deadline <= workflow.now():
                raise Refusal("expired", _expired(entry.question.id, entry.question.deadline))

    def take(self, answers: Answers) -> list[Receipt]:
        """Accept the answers and return their receipts. Raises `Refusal`.

        Each question is closed here, not when its step wakes: of two answers in one activation the second must find it
        closed.
        """
        if before := self._taken_before(answers):
            return [_receipt(closed) for closed in before]
        digest = answers.digest if answers.key else None
        # All before the first question closes: each may raise.
        replies = [self._evaluate(answer, answers) for answer in answers.answers]
        return [_receipt(self._take(*evaluated, answers.key, digest)) for evaluated in replies]

    def _take(self, entry: _Open, reply: Reply, settles: bool, key: str | None, digest: str | None) -> Closed:
        return self._close(entry.question, reply, key, digest) if settles else self._count(entry, reply, key, digest)

    def _evaluate(self, answer: Answer, answers: Answers) -> tuple[_Open, Reply, bool]:
        """Return the question of an answer, the reply that it makes, and whether it settles the question."""
        entry = self._target(answer)
        reply = _reply_to(entry, answer, answers)
        return entry, reply, reply.status != "answered" or entry.is_settled_by(reply.content)

    def _count(self, entry: _Open, reply: Reply, key: str | None, digest: str | None) -> Closed:
        """Keep an acceptance below the quorum; the question stays open."""
        entry.accepted[user_of(reply.by) or ""] = reply.content
        entry.show(answers_so_far=len(entry.accepted), accepted_by=list(entry.accepted))
        event = QuestionAccepted(
            id=entry.question.id,
            by=reply.by,
            content=reply.content,
            comment=reply.comment,
            key=key,
            digest=digest,
            so_far=len(entry.accepted),
            quorum=entry.question.quorum,
        )
        self._note(entry, event)
        return self._remember(Closed(entry.question.id, "waiting_quorum", workflow.now(), reply.by, key, digest))

    def _close(
        self, question: Question, reply: Reply, key: str | None, digest: str | None, default: object = None
    ) -> Closed:
        closed = Closed(question.id, reply.status, workflow.now(), reply.by, key, digest)
        entry = self._open.pop(question.id)
        # Nothing may raise between here and the reply: the step would wait for ever for a question that is not open.
        if not entry.reply.done():
            entry.reply.set_result(reply)
        self._remember(closed)
        event = _CLOSING[reply.status](
            id=question.id,
            by=reply.by,
            content=reply.content,
            comment=reply.comment,
            default=default,
            key=key,
            digest=digest,
            secret=entry.asked.hidden or None,
            accepted_by=list(entry.accepted) or None,
        )
        self._journal.note(question.address, event)
        return closed

    def _remember(self, closed: Closed) -> Closed:
        self.closed.append(closed)
        del self.closed[:-REMEMBERED]
        return closed

    def _taken_before(self, answers: Answers) -> list[Closed]:
        """Return what the same key closed before; other content under the key is a conflict."""
        before = [closed for closed in self.closed if answers.key and closed.key == answers.key]
        if before and before[0].digest != answers.digest:
            raise Refusal("key_conflict", f"key {answers.key!r} was used for another answer; use a new key")
        return before

    def taken_under(self, key: str | None, digest: str) -> bool:
        """Return whether a command was taken under its key before; other content under the key is a conflict."""
        before = [closed for closed in self.closed if key and closed.key == key]
        if before and before[0].digest != digest:
            raise Refusal("key_conflict", f"key {key!r} was used for another command; use a new key")
        return bool(before)

    def remember_command(self, key: str, digest: str, by: str | None) -> None:
        """Keep the key of a command other than an answer, as an answer's key is kept."""
        self._remember(Closed("", "taken", workflow.now(), by, key, digest))

    def _id_of(self, question: str) -> str:
        """Return the id of a question that is named by its id or its address."""
        for id_, entry in self._open.items():
            if entry.question.address == question:
                return id_
        return question

    def _target(self, answer: Answer) -> _Open:
        id_ = self._id_of(answer.question)
        if id_ in self._open:
            return self._open[id_]
        for closed in reversed(self.closed):
            if closed.question == id_ and closed.status != "waiting_quorum":
                raise _closed_refusal(closed)
        names = ", ".join(f"{question.id} ({question.address})" for question in self.open[:20]) or "none"
        raise Refusal("unknown_question", f"no question {answer.question!r} is open here; open: {names}")


def _check_content(entry: _Open, answer: Answer, by: str | None) -> None:
    if answer.digest is not None and answer.digest != entry.question.digest:
        raise Refusal("question_changed", f"question {entry.question.id} has changed; look at it again, then answer")
    if answer.action == "accept":
        _accept(entry, answer.content, by)


def _accept(entry: _Open, content: object, by: str | None) -> JSON:
    if (user := user_of(by)) in entry.accepted:
        so_far = f"{len(entry.accepted)} of {entry.question.quorum} have accepted; it waits for somebody else"
        raise Refusal("already_answered", f"question {entry.question.id} was accepted by {user} before; {so_far}")
    try:
        return entry.asked.accept(content)
    except (InvalidAnswer, BadSchema) as error:
        raise Refusal("invalid_answer", f"question {entry.question.id}: {error}") from None


def _reply_to(entry: _Open, answer: Answer, answers: Answers) -> Reply:
    match answer.action:
        case "accept":
            return Reply("answered", _accept(entry, answer.content, answers.by), answers.by, answers.comment)
        case "decline":
            return Reply("declined", None, answers.by, answers.comment)
        case "cancel":
            return Reply("cancelled", None, answers.by, answers.comment)


def _receipt(closed: Closed) -> Receipt:
    status: Literal["answered", "waiting_quorum"] = (
        "waiting_quorum" if closed.status == "waiting_quorum" else "answered"
    )
    return Receipt(question=closed.question, status=status, by=closed.by, at=closed.at)


def _same(a: object, b: object) -> bool:
    """Return whether two answers choose the same options, in any order."""
    return sorted(a) == sorted(b) if isinstance(a, list) and isinstance(b, list) else bool(a == b)


def _closed_refusal(closed: Closed) -> Refusal:
    if closed.status == "expired":
        return Refusal("expired", _expired(closed.question, closed.at))
    person = closed.by or "somebody"
    return Refusal(
        "already_answered", f"question {closed.question} was {closed.status} by {person} at {closed.at.isoformat()}"
    )


def _expired(question: str, at: datetime) -> str:
    return f"question {question} expired at {at.isoformat()}; it can no longer be answered"

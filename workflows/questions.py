"""Questions that wait for a person. Asking is an await; nothing unwinds, nothing is run again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from temporalio import workflow

from blueprint.jsonschemas import BadSchema
from protocol import guard
from protocol.address import Address
from protocol.answers import Answer, Answers, Closed, Receipt, Refusal
from protocol.guard import BadToken, check_token
from protocol.people import EVERYBODY, People, user_of, who_may, why_not
from protocol.questions import ROTATE, Asked, InvalidAnswer, Question, question_of
from workflows.journal import Journal
from workflows.timetable import Timetable

REMEMBERED = 200
_ONLY_UPDATES = f"a secret takes no signals, as each stands in the history; if a value stood in this one, {ROTATE}"


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
    times: Timetable
    accepted: dict[str, Any] = field(default_factory=dict)
    """What each person gave who has accepted, where several must."""

    def is_settled_by(self, content: Any) -> bool:
        """Whether one more acceptance, with this content, is enough; of options, so many must be the same."""
        if self.asked.says_no(content):
            return True
        given = self.accepted.values()
        alike = [one for one in given if _same(one, content)] if self.asked.choices else given
        return len(alike) + 1 >= self.question.quorum

    def show(self, **values: Any) -> None:
        """Tell more of the question; its id and digest stay."""
        self.question = self.question.model_copy(update=values)


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
        people: People = EVERYBODY,
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
            people=people,
        )
        times = Timetable(question.asked_at, deadline, people)
        one = self._open[question.id] = _Open(asked, question, asyncio.get_running_loop().create_future(), times)
        told = {"kind": question.kind, "message": question.message, "assignees": question.assignees or None}
        self._journal.note(address, "question.asked", id=question.id, **told)
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
                    people=before.people,
                )

    async def _wait(self, one: _Open, default: Any) -> Reply:
        while not one.reply.done() and (next_ := one.times.next) is not None:
            left = (next_ - workflow.now()).total_seconds()
            try:
                return await asyncio.wait_for(asyncio.shield(one.reply), max(left, 0))
            except TimeoutError:
                if not one.reply.done():
                    self._reached(one, max(next_, workflow.now()), default)
        return await one.reply

    def _reached(self, one: _Open, now: datetime, default: Any) -> None:
        """Nobody has answered until now: the question expires, or goes to others, or is brought to mind."""
        if one.times.has_expired(now):
            self._close(one.question, Reply("expired"), None, None, default=default)
            return
        for rung in one.times.climb(now):
            one.show(assignees=rung.assignees)
            self._note(one, "question.escalated", assignees=rung.assignees)
        if one.times.remind(now):
            one.show(reminders=one.times.reminders)
            self._note(one, "question.reminded", n=one.times.reminders, assignees=one.question.assignees or None)

    def _note(self, one: _Open, type_: str, **data: Any) -> None:
        self._journal.note(one.question.address, type_, id=one.question.id, **data)

    def check(self, answers: Answers) -> None:
        """Refuse the whole batch if any of it may not be taken; the state is not touched."""
        if self._taken_before(answers):
            return
        targets = [self._target(answer) for answer in answers.answers]
        for index, one in enumerate(targets):
            if one in targets[:index]:
                raise Refusal("invalid_answer", f"question {one.question.id} stands twice in this batch")
        for one, answer in zip(targets, answers.answers, strict=True):
            _check_content(one, answer, answers.by)

    def check_allowed(self, answers: Answers) -> None:
        """What only an update's validator may ask, as it depends on the deployment."""
        self._check_token(answers)
        if self._taken_before(answers):
            return
        for answer in answers.answers:
            question = self._target(answer).question
            if why := why_not(question.people, answers.by, guard.DEPLOYMENT.groups):
                raise Refusal("not_allowed", f"question {question.id}: {why}")

    def _check_token(self, answers: Answers) -> None:
        key = guard.DEPLOYMENT.answer_key
        if key is None:
            return
        asked = ",".join(answer.question for answer in answers.answers)
        try:
            check_token(key, answers.token, run=self._run, question=asked, by=answers.by)
        except BadToken as error:
            raise Refusal("bad_token", str(error)) from None

    def check_signal(self, answers: Answers) -> None:
        """A signal has no validator, and stands in the history: not for secrets, guarded runs, or certain people."""
        for answer in answers.answers:
            one = self._open.get(self._id_of(answer.question))
            if one is not None and one.question.kind == "secret":
                raise Refusal("not_allowed", f"question {one.question.id}: {_ONLY_UPDATES}")
        if self._guarded:
            raise Refusal("not_allowed", "this run is guarded and takes answers by update only: use holdfast answer")
        for answer in answers.answers:
            one = self._open.get(self._id_of(answer.question))
            if one is not None and one.question.people.restricted:
                who = f"{who_may(one.question.people)} may answer, which is checked for updates only"
                raise Refusal("not_allowed", f"question {one.question.id}: {who}: use holdfast answer")

    def check_deadlines(self, answers: Answers) -> None:
        """An update that arrives at or after the deadline is late, whether or not the timer has fired yet."""
        for answer in answers.answers:
            one = self._open.get(self._id_of(answer.question))
            if one and one.question.deadline and one.question.deadline <= workflow.now():
                raise Refusal("expired", _expired(one.question.id, one.question.deadline))

    def take(self, answers: Answers) -> list[Receipt]:
        """Close each question at once, not when its step wakes: a second answer must find it closed."""
        if before := self._taken_before(answers):
            return [_receipt(one) for one in before]
        self.taken += 1
        digest = answers.digest if answers.key else None
        return [_receipt(self._take(answer, answers, digest)) for answer in answers.answers]

    def _take(self, answer: Answer, answers: Answers, digest: str | None) -> Closed:
        one = self._target(answer)
        reply = _reply_to(one, answer, answers)
        if reply.status == "answered" and not one.is_settled_by(reply.content):
            return self._count(one, reply, answers.key, digest)
        return self._close(one.question, reply, answers.key, digest)

    def _count(self, one: _Open, reply: Reply, key: str | None, digest: str | None) -> Closed:
        """Keep an acceptance that is not yet enough; the question stays open."""
        one.accepted[user_of(reply.by) or ""] = reply.content
        one.show(answers_so_far=len(one.accepted), accepted_by=list(one.accepted))
        said = {"by": reply.by, "content": reply.content, "comment": reply.comment, "key": key, "digest": digest}
        so_far = {"so_far": len(one.accepted), "quorum": one.question.quorum}
        self._note(one, "question.accepted", **said, **so_far)
        return self._remember(Closed(one.question.id, "waiting_quorum", workflow.now(), reply.by, key, digest))

    def _close(
        self, question: Question, reply: Reply, key: str | None, digest: str | None, default: Any = None
    ) -> Closed:
        one = self._open.pop(question.id)
        said = {"by": reply.by, "content": reply.content, "comment": reply.comment}
        secret = question.kind == "secret" or None
        event = {**said, "default": default, "key": key, "digest": digest, "secret": secret}
        event["accepted_by"] = list(one.accepted) or None
        self._journal.note(question.address, f"question.{reply.status}", id=question.id, **event)
        if not one.reply.done():
            one.reply.set_result(reply)
        return self._remember(Closed(question.id, reply.status, workflow.now(), reply.by, key, digest))  # type: ignore[arg-type]

    def _remember(self, closed: Closed) -> Closed:
        self.closed.append(closed)
        del self.closed[:-REMEMBERED]
        return closed

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
            if one.question == id_ and one.status != "waiting_quorum":
                raise _gone(one)
        names = ", ".join(f"{question.id} ({question.address})" for question in self.open[:20]) or "none"
        raise Refusal("unknown_question", f"no question {answer.question!r} is open here; open: {names}")


def _check_content(one: _Open, answer: Answer, by: str | None) -> None:
    if answer.digest is not None and answer.digest != one.question.digest:
        raise Refusal("question_changed", f"question {one.question.id} has changed; look at it again, then answer")
    if answer.action == "accept":
        _accepted(one, answer.content, by)


def _accepted(one: _Open, content: Any, by: str | None) -> Any:
    if (user := user_of(by)) in one.accepted:
        so_far = f"{len(one.accepted)} of {one.question.quorum} have accepted; it waits for somebody else"
        raise Refusal("already_answered", f"question {one.question.id} was accepted by {user} before; {so_far}")
    try:
        return one.asked.accept(content)
    except (InvalidAnswer, BadSchema) as error:
        raise Refusal("invalid_answer", f"question {one.question.id}: {error}") from None


def _reply_to(one: _Open, answer: Answer, answers: Answers) -> Reply:
    match answer.action:
        case "accept":
            return Reply("answered", _accepted(one, answer.content, answers.by), answers.by, answers.comment)
        case "decline":
            return Reply("declined", None, answers.by, answers.comment)
        case "cancel":
            return Reply("cancelled", None, answers.by, answers.comment)


def _receipt(one: Closed) -> Receipt:
    status: Literal["answered", "waiting_quorum"] = "waiting_quorum" if one.status == "waiting_quorum" else "answered"
    return Receipt(question=one.question, status=status, by=one.by, at=one.at)


def _same(one: Any, other: Any) -> bool:
    """Whether two answers choose the same options, in whatever order."""
    return sorted(one) == sorted(other) if isinstance(one, list) and isinstance(other, list) else bool(one == other)


def _gone(one: Closed) -> Refusal:
    if one.status == "expired":
        return Refusal("expired", _expired(one.question, one.at))
    who = one.by or "somebody"
    return Refusal("already_answered", f"question {one.question} was {one.status} by {who} at {one.at.isoformat()}")


def _expired(question: str, at: datetime) -> str:
    return f"question {question} expired at {at.isoformat()}; nothing can be answered here any more"

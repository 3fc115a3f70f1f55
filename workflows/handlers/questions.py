"""The open questions of a workflow: asked, waited for, and closed.

Asking is an await, so nothing unwinds or runs again. `answers` and `events` hand in what people and other systems send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from temporalio import workflow

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema
from holdfast.blueprint.questions import Asked, InvalidAnswer
from holdfast.protocol import guard
from holdfast.protocol.address import Address
from holdfast.protocol.answers import Answer, AnswerBatch, Closed, Receipt, Refusal, refuse_closed
from holdfast.protocol.assignment import UNCLAIMED, AssignmentCommand
from holdfast.protocol.attachments import AttachedData
from holdfast.protocol.events import (
    EventData,
    QuestionAccepted,
    QuestionAnswered,
    QuestionAsked,
    QuestionCancelled,
    QuestionDeclined,
    QuestionEscalated,
    QuestionExpired,
    QuestionMet,
    QuestionReminded,
    QuestionSuperseded,
)
from holdfast.protocol.past import PastReply, PastWaits
from holdfast.protocol.people import People, Rung, read_user
from holdfast.protocol.questions import Question, QuestionRequest, list_shown_fields, open_question
from holdfast.workflows.door import Receipts
from holdfast.workflows.earlier_run import EarlierRun
from holdfast.workflows.journal import Journal
from holdfast.workflows.replies import Reply
from holdfast.workflows.rest import await_rest
from holdfast.workflows.superseding import Superseding

MOST_SHOWN = 50
"""Closed questions that a workflow keeps in memory as they were shown, for the record."""
MOST_REMINDERS = 100
PAGE = 20
"""Ends of questions on a page of the query `past`."""


_Closing = QuestionAnswered | QuestionDeclined | QuestionCancelled | QuestionExpired | QuestionSuperseded
_CLOSING: dict[str, type[_Closing]] = {
    "answered": QuestionAnswered,
    "declined": QuestionDeclined,
    "cancelled": QuestionCancelled,
    "expired": QuestionExpired,
    "superseded": QuestionSuperseded,
}
"""By the status of a reply: the event that closes the question."""


class Timetable:
    """The times of one question, absolute. Those that pass while no worker runs are made up for once."""

    def __init__(self, since: datetime, deadline: datetime | None, people: People) -> None:
        self.deadline = deadline
        self.reminders = 0
        self._since = since
        self._every = None if people.remind_every is None else timedelta(seconds=people.remind_every)
        self._periods = 0
        """Periods between reminders that have passed."""
        self._ladder = list(people.ladder)

    @property
    def next(self) -> datetime | None:
        """Return the next moment at which something happens if nobody answers."""
        moments = (self.deadline, self.escalates_at, self.reminds_at)
        return min((at for at in moments if at is not None), default=None)

    @property
    def escalates_at(self) -> datetime | None:
        return self._at(self._ladder[0]) if self._ladder else None

    @property
    def reminds_at(self) -> datetime | None:
        if self._every is None or self.reminders == MOST_REMINDERS:
            return None
        return self._since + self._every * (self._periods + 1)

    def has_expired(self, now: datetime) -> bool:
        return self.deadline is not None and self.deadline <= now

    def take_escalations(self, now: datetime) -> list[Rung]:
        """Return the steps of the escalation that are newly due."""
        reached = [rung for rung in self._ladder if self._at(rung) <= now]
        del self._ladder[: len(reached)]
        return reached

    def take_reminder(self, now: datetime) -> bool:
        """Return whether to remind now; several missed reminders become one."""
        due = self.reminds_at
        if self._every is None or due is None or now < due:
            return False
        self._periods = (now - self._since) // self._every
        self.reminders += 1
        return True

    def _at(self, rung: Rung) -> datetime:
        return self._since + timedelta(seconds=rung.after)


@dataclass
class OpenQuestion:
    """A question that waits for its reply."""

    asked: Asked
    question: Question
    reply: asyncio.Future[Reply]
    times: Timetable
    accepted: JSONObject = field(default_factory=dict)
    """Content by person, where several must accept."""
    answers: list[JSONObject] = field(default_factory=list)
    """The same acceptances with their times."""
    attachments: Sequence[AttachedData] = ()
    assignments: int = 0
    """Number of claims, releases, delegations and reassignments."""

    def is_settled_by(self, content: object) -> bool:
        """Return whether one more acceptance with this content is enough: with options, of the same choice."""
        if self.asked.says_no(content):
            return True
        contents = self.accepted.values()
        alike = [other for other in contents if _are_alike(other, content)] if self.asked.choices else contents
        return len(alike) + 1 >= self.question.quorum

    def check_unclaimed(self, by: str | None) -> None:
        """Refuse somebody else than the one who has claimed the question."""
        claimant = self.question.claimant(workflow.now())
        if claimant is not None and claimant != read_user(by):
            raise self.refuse_claimed(claimant)

    def refuse_claimed(self, claimant: str) -> Refusal:
        """Return the refusal of what only the claimant may do."""
        assert self.question.claimed_until is not None
        until = self.question.claimed_until.isoformat(timespec="seconds")
        way_out = "they can release it, and anyone who may steer the run can reassign it"
        return Refusal("not_allowed", f"question {self.question.id} is claimed by {claimant} until {until}; {way_out}")

    def complete(self, reply: Reply, at: datetime) -> Reply:
        """Return the reply with its time, and with the acceptances before it."""
        last = _describe_acceptance(reply, at) if reply.status == "answered" and self.question.quorum > 1 else None
        return replace(reply, at=at, answers=[*self.answers, *([] if last is None else [last])])

    def show(self, **values: Any) -> None:
        """Change fields of the visible question; its id stays."""
        self.question = self.question.model_copy(update=values)


class Questions:
    """The open questions of one workflow, and receipts of the closed ones."""

    def __init__(
        self,
        run: str,
        journal: Journal,
        receipts: Receipts,
        superseding: Superseding,
        earlier: EarlierRun,
        opened: Callable[[Question], None],
    ) -> None:
        """`opened` is called with each question that was just asked."""
        self._run, self._journal, self._receipts, self._opened = run, journal, receipts, opened
        self._superseding, self._earlier = superseding, earlier
        self._replies: list[tuple[Question, Reply]] = []
        """How every question of this history ended, for a run that goes on from it."""
        self._digests: dict[str, str] = {}
        """Of every question of this history as it was asked, by its id; what is shown may have changed since."""
        self.done: list[Address] = []
        """Where a timer passed or a signal was delivered, for the same."""
        self.broken_blocks: list[Address] = []
        """Blocks that had failed or were cancelled when their last steps began, for the same."""
        self._open: dict[str, OpenQuestion] = {}
        self._rounds: dict[Address, int] = {}
        self._shown: dict[str, Question] = {}

    @property
    def open(self) -> list[Question]:
        """Return the open questions by address; parallel steps ask in the order of their tasks."""
        return sorted((entry.question for entry in self._open.values()), key=lambda question: question.address)

    async def ask(self, request: QuestionRequest) -> Reply:
        """Wait until a person answers or the deadline passes; cancelling the wait closes the question."""
        question = self._make_question(request)
        digest = "" if request.asked.is_pause else question.digest  # a stop shows the context of its moment
        self._digests[question.id] = digest
        if (met := self._earlier.take_reply(request.address, question.round, digest)) is not None:
            return await self._meet(met, request.asked, question)
        times = Timetable(request.since or question.asked_at, question.deadline, request.people)
        future = asyncio.get_running_loop().create_future()
        entry = self._open[question.id] = OpenQuestion(
            request.asked, question, future, times, attachments=request.attachments
        )
        assignees = question.assignees or None
        self._journal.note(
            request.address,
            QuestionAsked(id=question.id, kind=question.kind, message=question.message, assignees=assignees),
        )
        self._opened(question)
        try:
            return await self._wait_for_reply(entry, request.asked.default if request.takes_default else None)
        except asyncio.CancelledError:
            # An answer of the same activation has closed it already: it stands, and the cancellation ends the step all
            # the same.
            if question.id in self._open:
                superseded = self._superseding.covers(question.address)
                self._close(question, Reply("superseded" if superseded else "cancelled"), None, None)
            raise

    async def _meet(self, met: PastReply, asked: Asked, question: Question) -> Reply:
        """Return the reply that the earlier run had to the same question; one that was left is waited for in vain."""
        if met.left:
            await asyncio.get_running_loop().create_future()
        content = asked.accept(met.content) if met.status == "answered" else met.content
        fields = ("status", "by", "comment", "proved_by", "groups", "unseen", "question", "at", "answers")
        reply = Reply(content=content, **{name: getattr(met, name) for name in fields})
        event = QuestionMet(
            id=met.question or question.id,
            status=met.status,
            at=met.at,
            secret=asked.hidden or None,
            **reply.list_event_fields(),
        )
        self._journal.note(question.address, event)
        self._replies.append((question, reply))
        return reply

    def list_waits(self, offset: int) -> PastWaits:
        """Return a page of the ends of questions here, from an offset on, as `Past` has them."""
        ends = self._replies[offset : offset + PAGE]
        page = [_describe_end(question, reply, self._digests[question.id]) for question, reply in ends]
        more = max(0, len(self._replies) - offset - PAGE)
        if offset:
            return PastWaits(replies=page, more=more)
        broken = self.broken_blocks
        return PastWaits(replies=page, done=self.done, broken_blocks=broken, met=self._earlier.met, more=more)

    def _make_question(self, request: QuestionRequest) -> Question:
        """Return the next question at an address."""
        round_ = self._rounds[request.address] = self._rounds.get(request.address, 0) + 1
        info = workflow.info()
        # Not `run_id`: a reset gives the history another one, and the answers in it would miss their questions.
        history = info.original_execution_run_id
        return open_question(
            request, owner=info.workflow_id, history=history, run=self._run, round_=round_, at=workflow.now()
        )

    def change(self, address: Address, asked: Asked, parents: Sequence[JSONObject]) -> None:
        """Change the form of the open question at an address: its id stays, its digest does not."""
        for entry in self._open.values():
            if entry.question.address == address:
                entry.asked = asked
                entry.show(**list_shown_fields(asked), parents=list(parents))

    async def _wait_for_reply(self, entry: OpenQuestion, default: object) -> Reply:
        # Not `asyncio.wait_for`: on Python 3.11 it drops a cancellation that meets the answer in one activation. A
        # branch of a failed `parallel` then went on, and the run waited for its next question for ever.
        while not entry.reply.done() and (next_ := entry.times.next) is not None:
            if (remaining := (next_ - workflow.now()).total_seconds()) > 0:
                await workflow.wait([entry.reply], timeout=remaining)
            if not entry.reply.done():
                # While no worker runs, answers come by signal, and with the timer in one task: they came in time.
                await await_rest(whole_task=True)
            if not entry.reply.done():
                self._handle_due(entry, max(next_, workflow.now()), default)
        return await entry.reply

    def _handle_due(self, entry: OpenQuestion, now: datetime, default: object) -> None:
        """Expire the question, or escalate it, or send its reminder, whichever is due."""
        if entry.times.has_expired(now):
            self._close(entry.question, Reply("expired"), None, None, default=default)
            return
        for step in entry.times.take_escalations(now):
            entry.show(assignees=step.assignees, delegations={}, escalates_at=entry.times.escalates_at, **UNCLAIMED)
            self._note(entry, QuestionEscalated(id=entry.question.id, assignees=step.assignees))
        if entry.times.take_reminder(now):
            entry.show(reminders=entry.times.reminders, reminds_at=entry.times.reminds_at)
            n, assignees = entry.times.reminders, entry.question.assignees or None
            self._note(entry, QuestionReminded(id=entry.question.id, n=n, assignees=assignees))

    def _note(self, entry: OpenQuestion, event: EventData) -> None:
        self._journal.note(entry.question.address, event)

    def check(self, answers: AnswerBatch) -> None:
        """Refuse the whole batch if any answer in it cannot be accepted; change nothing."""
        if self.find_receipts(answers):
            return
        targets = [self.require(answer.question) for answer in answers.answers]
        for index, entry in enumerate(targets):
            if entry in targets[:index]:
                raise Refusal("invalid_answer", f"question {entry.question.id} appears twice in this batch")
        for entry, answer in zip(targets, answers.answers, strict=True):
            _check_content(entry, answer, answers.by)

    def take(self, answers: AnswerBatch, proof: str = guard.UNPROVED) -> list[Receipt]:
        """Accept answers that `check` has let pass, and return their receipts.

        Raises `Refusal` where that does not hold any more, as an update before it may have closed the question. Only
        `check` looks at digests, and at a question that is named twice.

        Each question is closed here, not when its step wakes: of two answers in one activation the second must find it
        closed.

        Args:
            answers: The batch.
            proof: What its token proves, which a validator has checked; a signal has none.
        """
        if before := self.find_receipts(answers):
            return [_make_receipt(closed) for closed in before]
        digest = answers.digest if answers.key else None
        # All before the first question closes: each may raise.
        replies = [self._evaluate(answer, answers, proof) for answer in answers.answers]
        return [_make_receipt(self._close_or_count(*evaluated, answers.key, digest)) for evaluated in replies]

    def _close_or_count(
        self, entry: OpenQuestion, reply: Reply, settles: bool, key: str | None, digest: str | None
    ) -> Closed:
        return self._close(entry.question, reply, key, digest) if settles else self._count(entry, reply, key, digest)

    def _evaluate(self, answer: Answer, answers: AnswerBatch, proof: str) -> tuple[OpenQuestion, Reply, bool]:
        """Return the question of an answer, the reply that it makes, and whether it settles the question."""
        entry = self.require(answer.question)
        reply = _make_reply(entry, answer, answers, proof)
        return entry, reply, reply.status != "answered" or entry.is_settled_by(reply.content)

    def _count(self, entry: OpenQuestion, reply: Reply, key: str | None, digest: str | None) -> Closed:
        """Keep an acceptance below the quorum; the question stays open."""
        entry.accepted[read_user(reply.by) or ""] = reply.content
        entry.answers.append(_describe_acceptance(reply, workflow.now()))
        if entry.question.claimed_by == read_user(reply.by):  # the others may answer now
            entry.show(**UNCLAIMED)
        entry.show(answers_so_far=len(entry.accepted), accepted_by=list(entry.accepted))
        event = QuestionAccepted(
            id=entry.question.id,
            key=key,
            digest=digest,
            so_far=len(entry.accepted),
            quorum=entry.question.quorum,
            **reply.list_event_fields(),
        )
        self._note(entry, event)
        return self._receipts.add(Closed(entry.question.id, "waiting_quorum", workflow.now(), reply.by, key, digest))

    def _close(
        self, question: Question, reply: Reply, key: str | None, digest: str | None, default: object = None
    ) -> Closed:
        closed = Closed(question.id, reply.status, workflow.now(), reply.by, key, digest)
        completed = self._open[question.id].complete(reply, closed.at)
        # Nothing may raise between here and the reply: the step would wait for ever for a question that is not open.
        entry = self._open.pop(question.id)
        self._replies.append((entry.question, completed))
        if not entry.reply.done():
            # Done before where the wait was cancelled: awaiting a future hands the cancellation on to it.
            entry.reply.set_result(completed)
        self._receipts.add(closed)
        self._shown[question.id] = entry.question
        if len(self._shown) > MOST_SHOWN:
            del self._shown[next(iter(self._shown))]
        event = _CLOSING[reply.status](
            id=question.id,
            default=default,
            key=key,
            digest=digest,
            secret=entry.asked.hidden or None,
            accepted_by=list(entry.accepted) or None,
            **reply.list_event_fields(),
        )
        self._journal.note(question.address, event)
        return closed

    def list_shown(self, ids: Sequence[str]) -> list[Question]:
        """Return those of these questions that were closed in this history, as they were shown last."""
        return [self._shown[id_] for id_ in ids if id_ in self._shown]

    def find_receipts(self, answers: AnswerBatch) -> list[Closed]:
        """Return what the key of a batch closed before; other content under the key is a conflict."""
        return self._receipts.find(answers.key, answers.digest, "answer") if answers.key else []

    # Whom a question waits for

    def find(self, named: str) -> OpenQuestion | None:
        """Return the open question with this id or address; None if there is none."""
        return self._open.get(self._find_id(named))

    def find_known_id(self, question: str) -> str | None:
        """Return the id of a question that is named by its id or, if it is open, its address; None if none is known."""
        id_ = self._find_id(question)
        closed = (closed.question for closed in self._receipts.closed if closed.question)
        return id_ if id_ in self._open or id_ in closed else None

    def find_attachment(self, question: str, n: int) -> str | None:
        """Return the content of an attachment of an open question, in base64; None if there is none."""
        entry = self._open.get(question)
        attached = (
            []
            if entry is None
            else [attached_file for attached_file in entry.attachments if attached_file.attachment.n == n]
        )
        return attached[0].encoded if attached else None

    def assign(self, command: AssignmentCommand) -> Question:
        """Take a command that changes whom a question waits for; return the question. Raises `Refusal`.

        Id and digest stay: an answer that was begun before counts.
        """
        entry = self.require(command.question)
        entry.show(**command.list_changes(entry.question, workflow.now()))
        entry.assignments += 1
        self._note(entry, command.event(entry.question))
        return entry.question

    def _find_id(self, question: str) -> str:
        """Return the id of a question that is named by its id or its address."""
        for id_, entry in self._open.items():
            if entry.question.address == question:
                return id_
        return question

    def require(self, named: str) -> OpenQuestion:
        """Return the open question with this id or address. Raises `Refusal`."""
        id_ = self._find_id(named)
        if id_ in self._open:
            return self._open[id_]
        for closed in reversed(self._receipts.closed):
            if closed.question == id_ and closed.status != "waiting_quorum":
                raise refuse_closed(id_, closed.status, closed.at, closed.by)
        names = ", ".join(f"{question.id} ({question.address})" for question in self.open[:20]) or "none"
        raise Refusal("unknown_question", f"no question {named!r} is open here; open: {names}")


def _describe_end(question: Question, reply: Reply, digest: str) -> PastReply:
    """Return the end of a question as `Past` has it."""
    fields = ("status", "content", "by", "comment", "proved_by", "groups", "unseen", "question", "at")
    values = {name: getattr(reply, name) for name in fields}
    left = reply.status in ("cancelled", "superseded") and not reply.question
    return PastReply(
        address=question.address,
        round=question.round,
        digest=digest,
        answers=list(reply.answers),
        left=left,
        **values,
    )


def _check_content(entry: OpenQuestion, answer: Answer, by: str | None) -> None:
    if answer.digest is not None and answer.digest != entry.question.digest:
        raise Refusal("question_changed", f"question {entry.question.id} has changed; read it again, then answer")
    if answer.action == "accept":
        _accept(entry, answer.content, by)


def _accept(entry: OpenQuestion, content: object, by: str | None) -> JSON:
    if (user := read_user(by)) in entry.accepted:
        so_far = f"{len(entry.accepted)} of {entry.question.quorum} have accepted; it waits for somebody else"
        raise Refusal("already_answered", f"question {entry.question.id} was accepted by {user} before; {so_far}")
    try:
        return entry.asked.accept(content)
    except (InvalidAnswer, BadSchema) as error:
        problems = error.problems if isinstance(error, InvalidAnswer) else ()
        raise Refusal("invalid_answer", f"question {entry.question.id}: {error}", problems, entry.question.id) from None


def _describe_acceptance(reply: Reply, at: datetime) -> JSONObject:
    return {"by": reply.by, "at": at.isoformat(), "content": reply.content}


_STATUSES: dict[str, Literal["declined", "cancelled"]] = {"decline": "declined", "cancel": "cancelled"}


def _make_reply(entry: OpenQuestion, answer: Answer, answers: AnswerBatch, proof: str) -> Reply:
    groups = None if proof == guard.UNPROVED else answers.groups
    if answer.action != "accept":
        status, id_ = _STATUSES[answer.action], entry.question.id
        return Reply(status, None, answers.by, answers.comment, proof, groups, question=id_)
    unseen = True if entry.asked.consents and answer.digest is None else None
    content = _accept(entry, answer.content, answers.by)
    return Reply("answered", content, answers.by, answers.comment, proof, groups, unseen, entry.question.id)


def _make_receipt(closed: Closed) -> Receipt:
    status: Literal["answered", "waiting_quorum"] = (
        "waiting_quorum" if closed.status == "waiting_quorum" else "answered"
    )
    return Receipt(question=closed.question, status=status, by=closed.by, at=closed.at)


def _are_alike(a: object, b: object) -> bool:
    """Return whether two answers choose the same options, in any order."""
    return sorted(a) == sorted(b) if isinstance(a, list) and isinstance(b, list) else bool(a == b)

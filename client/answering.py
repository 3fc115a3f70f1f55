"""Send answers to the workflows that asked, exactly once, and return receipts. `Runs` uses it for every command.

Answers go by update where a worker is there, so that they have been accepted or refused on return; else by signal. An
answer under a key that was used before is looked up in the events: the same answer gets its receipt again, another
one is refused.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeVar

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema
from holdfast.blueprint.people import canonical_name
from holdfast.blueprint.questions import InvalidAnswer, list_kinds_for_steps
from holdfast.client.earlier_answers import (
    EarlierAnswers,
    EarlierReply,
    closed_by_its_end,
    refusal_of_closed,
    update_id,
)
from holdfast.client.history import first_event
from holdfast.client.memory import QuestionMemory
from holdfast.client.outgoing import check_batch
from holdfast.client.tree import Tree, UnknownRun, collect_events, collect_questions
from holdfast.protocol.address import name_at, names_at
from holdfast.protocol.answers import Answer, AnswerBatch, Receipt, Refusal
from holdfast.protocol.assignment import AssignmentCommand, AssignmentReceipt
from holdfast.protocol.guard import Key, Proof, Scope, SignedCommand, sign
from holdfast.protocol.incoming import SEND_EVENT, EventReceipt, SystemEvent
from holdfast.protocol.names import ANSWER
from holdfast.protocol.people import SIGN_IN, Groups, read_user, who_may, with_proved
from holdfast.protocol.questions import Question
from holdfast.protocol.size_limits import SizeLimits, check_value
from holdfast.protocol.values import Value, make_digest
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.errors import Ambiguous, NothingSent, is_missing
from holdfast.runtime.secrets import SecretDirectory, forget_values, is_same_answer, store_values
from holdfast.runtime.workers import Busy, NoWorker, Unconfirmed, is_polled

Result = TypeVar("Result")
TOKEN_LIFE = timedelta(minutes=10)
SOON_SECONDS = 1.0
"""The time for the workflow of a known question to answer, before it is asked whether a worker is there at all."""
BUSY_LOOKS = 3
"""How often a busy worker is queried; each attempt takes some seconds."""


class Sent(Value):
    """An answer that was sent as a signal: no worker has accepted or refused it yet."""

    question: str
    status: Literal["sent"] = "sent"
    owner: str


@dataclass(frozen=True)
class OpenQuestions:
    """The open questions of a run, from one walk of its tree: what reads an answer hands it on to what sends it."""

    run: str
    questions: list[Question]
    has_ended: bool = False
    silence: str | None = None
    """Why no worker could be asked: the questions are those seen last, and may be closed by now."""
    recalled: bool = False
    """Whether nobody was asked, as all were seen before: the workflow that asks decides, see `recall`."""
    events: list[Question] = field(default_factory=list)
    """The events of other systems that are waited for: a person may answer one by its name, in place of the system."""
    earlier: EarlierAnswers | None = field(default=None, compare=False)
    """The earlier answers of the run, where somebody has begun to read them."""

    @property
    def names(self) -> str:
        """The names of the questions, of many the first 20."""
        return ", ".join(f"{question.id} ({question.address})" for question in self.questions[:20]) or "none"

    def unknown(self, name: str | None) -> Refusal:
        """Return the refusal of a name that no open question has, or of none where no question is open."""
        if self.has_ended:
            return Refusal("run_closed", f"run {self.run} has ended and has no open questions")
        if name is None:
            return Refusal("unknown_question", f"run {self.run} has no open question now")
        return Refusal("unknown_question", f"no question {name!r} is open in {self.run}; open: {self.names}")


@dataclass(frozen=True)
class Sender:
    """The person for whom a client sends, as a sign-in has proved it."""

    user: str
    """Such as `user:ana`."""
    groups: tuple[str, ...] = ()
    """The groups that the sign-in proved, such as `group:editors`; they are sent with a key that proves persons, and
    count in place of those of the worker's file. Empty: it proved none, and the file counts."""
    proof: Proof = "client"
    """What proves the user: a sign-in, a link in a message, a token that somebody holds, an assistant's elicitation;
    `service` for the token of a program."""

    @property
    def is_service(self) -> bool:
        """True for a program: workflows take no consent from it."""
        return self.proof == "service"


@dataclass(frozen=True)
class Answering:
    """The way a client sends answers and commands: with which keys, limits and secret store."""

    keys: Sequence[Key] = ()
    """The keys of the configuration, which sign commands; without one, commands need no token."""
    inbox: Key | None = None
    """The key of the embedded set's inbox: it signs for a `sender` alone, and proves persons."""
    memory: QuestionMemory = field(default_factory=QuestionMemory)
    """The questions seen last, so that they can be answered when no worker is there to ask."""
    groups: Groups = field(default_factory=dict)
    """The groups of this client's configuration, for lists; who may answer is decided by those of the worker."""
    secrets: SecretDirectory | None = None
    """The store that keeps the values of secrets; what is sent holds references only."""
    limits: SizeLimits = SizeLimits()
    """The limits of what is sent from here; a run and its worker have limits of their own."""
    sender: Sender | None = None
    """The person for whom everything is sent, whoever a command names as `by`; None: whom it names."""

    @property
    def proves_persons(self) -> bool:
        """True if commands of somebody who has signed in can prove it: a key is here whose tokens may say so."""
        return any(key.may_prove("person") for key in self._keys_for_senders)

    @property
    def inbox_problem(self) -> str | None:
        """The reason why an inbox cannot work with these keys, with the way out; None if it can.

        Without any key it can, and its answers prove nothing.
        """
        if not self.keys or self.proves_persons:
            return None
        keys = ", ".join(key.id for key in self.keys)
        return (
            f"[answers] keys: none of the keys that are set here ({keys}) proves a person; "
            'add {id = "inbox", env = "HOLDFAST_INBOX_KEY", proves = "person"}, '
            "and set the variable here and for the workers"
        )

    @property
    def known_groups(self) -> Groups:
        """The groups of the configuration; of the sender those that a sign-in proved, as a worker takes them."""
        sender = self.sender
        return self.groups if sender is None else with_proved(self.groups, sender.user, sender.groups or None)

    def find_sender(self, by: str | None) -> str | None:
        """Return who sends a command: the person for whom everything is sent, else who it names."""
        name = by if self.sender is None else self.sender.user
        return None if name is None else canonical_name(name)

    async def open_questions(
        self, tree: Tree, run: str, names: Sequence[str] = (), *, patient: bool = True
    ) -> OpenQuestions:
        """Return the open questions of a run; see `Runs.open_questions`."""
        known = await self.find_known(tree, run, names)
        if known is not None and known.run == run:
            return known
        return await self.walk(tree, await tree.describe(run), patient=patient)

    def recall(self, run: str, names: Sequence[str]) -> OpenQuestions | None:
        """Return the questions as this client has seen them last, where an answer needs no look at them before.

        Args:
            run: The id of the run.
            names: What names the questions.

        Returns:
            Those of one workflow, with these ids. None if one was not seen, hides its answer, or waits for some people
            only: these may have changed.
        """
        seen = [self.memory.find(name) for name in names]
        known = [question for question in seen if question is not None and question.run == run]
        is_plain = all(
            question.asked.for_people and not question.asked.hidden and not question.people.restricted
            for question in known
        )
        if len(known) < len(names) or not is_plain or len({question.owner for question in known}) != 1:
            return None
        return OpenQuestions(run, known, recalled=True)

    async def find_known(self, tree: Tree, run: str, names: Sequence[str]) -> OpenQuestions | None:
        """Ask only the workflows of questions that this client has seen, where all names are ids of such.

        Args:
            tree: The access to the run.
            run: The id of the run, or its beginning.
            names: What names the questions.

        Returns:
            The open questions of these workflows. None if some are not known or not open, or nobody answers soon: then
            the run must be asked.
        """
        seen = [self.memory.find(name) for name in names]
        known = [question for question in seen if question is not None and question.run.startswith(run)]
        if not run.strip() or not known or len(known) < len(names) or len({question.run for question in known}) > 1:
            return None
        owners = dict.fromkeys(question.owner for question in known)
        try:
            async with asyncio.timeout(SOON_SECONDS):
                views = await asyncio.gather(*(tree.view(owner, unless_ended=True) for owner in owners))
        except (TimeoutError, UnknownRun, NoWorker):
            return None
        questions = collect_questions(views)
        if not {question.id for question in known} <= {question.id for question in questions}:
            return None
        self.memory.keep(questions)
        return OpenQuestions(known[0].run, questions, events=collect_events(views))

    async def walk(self, tree: Tree, described: WorkflowExecutionDescription, *, patient: bool = True) -> OpenQuestions:
        """Walk the tree of a run and return its open questions; if no worker answers, those seen last.

        Args:
            tree: The access to the run.
            described: The description of the run.
            patient: Query again while a worker is busy, and raise `Busy` in the end, instead of taking those seen last.

        Raises:
            UnknownRun: There is no such run.
            Busy: A worker is there and does not answer.
        """
        run = described.id
        ended = described.status != WorkflowExecutionStatus.RUNNING
        if not await is_polled(tree.client, described.task_queue, certain=True):
            return OpenQuestions(run, self.memory.of(run), ended, "no worker answers")
        try:
            views = [] if ended else await _views(tree, described, BUSY_LOOKS if patient else 1)
        except NoWorker as error:
            if patient and isinstance(error, Busy) and error.is_alive:
                raise
            return OpenQuestions(run, self.memory.of(run), ended, str(error))
        questions = collect_questions(views)
        self.memory.keep(questions)
        return OpenQuestions(run, questions, ended, events=collect_events(views))

    async def answer(
        self,
        tree: Tree,
        open_questions: OpenQuestions,
        batch: AnswerBatch,
        *,
        signal: bool = False,
        owner: str | None = None,
    ) -> list[Receipt | Sent]:
        """Send a batch of answers to questions that a walk of the run's tree has found; see `Runs.answer`."""
        key = batch.key  # one that is made here has brought no answer before: nobody has to look for it
        batch = batch.model_copy(update={"by": self.find_sender(batch.by), "key": key or secrets.token_hex(8)})
        check_batch(batch, self.limits.answer)
        unconfirmed: Unconfirmed | None = None
        if open_questions.recalled:
            try:
                if (receipts := await self._at_once(tree, open_questions, batch)) is not None:
                    return list(receipts)
            except Unconfirmed as error:
                unconfirmed, key = error, batch.key
            names = [answer.question for answer in batch.answers]
            open_questions = await self.open_questions(tree, open_questions.run, names)
        if open_questions.silence is None and not signal:
            try:
                return list(await self._by_update(tree, open_questions, batch, key))
            except NoWorker as error:  # it polled a moment ago, but is gone: leave the answer for the next one
                if isinstance(error, Busy) and error.is_alive:
                    raise
                unconfirmed = error if isinstance(error, Unconfirmed) else unconfirmed
                open_questions = replace(
                    open_questions, questions=self.memory.of(open_questions.run), silence=str(error)
                )
        reason = open_questions.silence or "no worker answers"
        try:
            if self.keys:
                raise no_signals(reason)
            return list(await self._by_signal(tree, batch, owner, open_questions.questions, reason))
        except NothingSent:
            if unconfirmed is None:
                raise
            raise unconfirmed from None  # the server keeps an update that nobody took, for the next worker

    # By update

    async def _at_once(self, tree: Tree, recalled: OpenQuestions, batch: AnswerBatch) -> list[Receipt] | None:
        """Send answers to questions that were seen before; None if they were not sent, or not taken.

        Raises `Unconfirmed` if nobody says so soon: they may still count.
        """
        if not await is_polled(tree.client, tree.task_queue):
            return None
        owner = recalled.questions[0].owner
        argument = self._sign_batch(recalled.run, owner, batch)
        return await tree.try_update(owner, ANSWER, argument, list[Receipt], id=update_id(batch))

    async def _by_update(
        self, tree: Tree, open_questions: OpenQuestions, batch: AnswerBatch, key: str | None
    ) -> list[Receipt]:
        run = open_questions.run
        earlier = open_questions.earlier or EarlierAnswers(tree, run)
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
                receipts += await self._update(tree, run, owner, batch.model_copy(update={"answers": answers}))
                del unsent[owner]
        except Refusal:
            for original, sendable in [pair for pairs in unsent.values() for pair in pairs]:
                forget_values(sendable, original, self.secrets)
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
                answer = store_values(question.asked, answer, self.secrets)
            check(question, answer)
            return question.owner, answer
        closing = await earlier.find_closing(answer.question)
        if closing is not None:  # perhaps a retry of the same answer: its owner decides
            return closing.workflow, self._repeat(answer, closing, key)
        raise open_questions.unknown(answer.question)

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
        if not is_same_answer(answer.content, before.content, self.secrets):
            raise Refusal("key_conflict", f"key {key!r} was used for another answer; use a new key")
        return answer.model_copy(update={"content": before.content})

    def _sign_batch(self, run: str, owner: str, batch: AnswerBatch) -> JSONObject:
        # Without what it leaves out: each answer stands in a history for good.
        payload = json.loads(batch.model_dump_json(exclude={"token", "groups"}, exclude_defaults=True))
        return self._sign("answer", SignedCommand(run, owner, ANSWER, payload))

    async def _update(self, tree: Tree, run: str, owner: str, batch: AnswerBatch) -> list[Receipt]:
        argument = self._sign_batch(run, owner, batch)
        try:
            receipts: list[Receipt] = await tree.update(owner, ANSWER, argument, list[Receipt], id=update_id(batch))
            return receipts
        except NoWorker as error:
            if isinstance(error, Busy) and error.is_alive:
                raise
            raise Unconfirmed(run, owner) from None
        except UnknownRun:
            # The update may have been taken all the same: a busy server loses the way back once the workflow has ended.
            return await self._receipts_of_ended(EarlierAnswers(tree, owner), batch)

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

    # Events of other systems

    async def send_event(
        self, tree: Tree, views: Sequence[WorkflowView], event: SystemEvent, *, keep: bool = True, is_new: bool = False
    ) -> EventReceipt:
        """Send an event to the workflow of a run whose step waits for it, else to the run, which keeps it.

        Args:
            tree: The access to the run.
            views: The run's workflows; none if it has ended.
            event: The event; under an id that came before it gets the receipt of then.
            keep: Whether the run may keep it.
            is_new: Whether no event can have come under its id before.

        Raises:
            Refusal: The event was refused; `unknown_question` if no step waits for it, and the run may not keep it.
            TakenByAnother: The step has gone on in the meantime: look at the run again.
        """
        if not is_new and (early := await self._earlier_event(tree, event, views)):
            return early
        waiting = [
            candidate for candidate in collect_events(views) if candidate.asked.awaits == (event.name, event.key)
        ]
        is_kept = any(hint.id == event.id for hint in views[0].kept)
        if not waiting and not is_kept and not keep:
            raise Refusal("unknown_question", f"no step of {views[0].run} waits for {event.name!r} with this key")
        if not waiting or is_kept:
            return await self._keep_event(tree, event, views[0].run)
        question = min(waiting, key=lambda candidate: (candidate.asked_at, candidate.address))
        batch = _make_batch(event, question.id)
        check_batch(batch, self.limits.answer)
        check(question, batch.answers[0])
        try:
            [receipt] = await self._update(tree, question.run, question.owner, batch)
        except Refusal as refusal:
            if refusal.code in ("unknown_question", "already_answered", "run_closed"):
                raise TakenByAnother from None
            raise
        return EventReceipt(event=event.id, run=question.run, status="taken", question=receipt.question, at=receipt.at)

    async def _earlier_event(
        self, tree: Tree, event: SystemEvent, views: Sequence[WorkflowView]
    ) -> EventReceipt | None:
        """Return the receipt of an event that a step of the run has taken before under this id."""
        run = views[0].run
        reply = await EarlierAnswers(tree, views[0].workflow).find_under(event.answer_key)
        if reply is None:
            return None
        if _make_batch(event, reply.data.id).digest != reply.data.digest:
            raise Refusal("key_conflict", f"another event came under the id {event.id!r}; use a new id")
        return EventReceipt(event=event.id, run=run, status="taken", question=reply.data.id, at=reply.at)

    async def _keep_event(self, tree: Tree, event: SystemEvent, run: str) -> EventReceipt:
        payload = json.loads(event.model_dump_json(exclude={"token", "groups"}))
        check_value(payload, self.limits.answer, "the event")
        argument = self._sign("answer", SignedCommand(run, run, SEND_EVENT, payload))
        try:
            return await tree.update(run, SEND_EVENT, argument, EventReceipt, id=f"{event.answer_key}:{event.digest}")
        except UnknownRun:
            raise Refusal("run_closed", f"{run} has ended; it takes no events") from None

    async def signal_event(self, tree: Tree, run: str, event: SystemEvent) -> EventReceipt:
        """Send an event to a run by signal, for when a worker is there. Raises `NothingSent` where keys are set."""
        if self.keys:
            raise no_signals()
        payload = json.loads(event.model_dump_json(exclude={"token", "groups"}))
        check_value(payload, self.limits.answer, "the event")
        await tree.client.get_workflow_handle(run).signal(SEND_EVENT, payload)
        return EventReceipt(event=event.id, run=run, status="sent", at=datetime.now(UTC))

    @property
    def _keys_for_senders(self) -> list[Key]:
        return [*self.keys, *([self.inbox] if self.inbox else [])]

    def _sign(self, scope: Scope, command: SignedCommand) -> JSONObject:
        """Return the argument of a command with a token that proves its origin; without keys as it is.

        Args:
            scope: The scope that the key needs.
            command: Its payload is the argument as JSON has it: the workflow verifies the very value that was signed.
        """
        proof: Proof = "client" if self.sender is None else self.sender.proof
        key = self._key_for(scope, proof)
        if key is None:
            return dict(command.payload)
        payload = dict(command.payload)
        if self.sender is not None and self.sender.groups and key.proves == "person":
            payload["groups"] = list(self.sender.groups)
        expiry = datetime.now(UTC) + TOKEN_LIFE
        return {**payload, "token": sign(key, replace(command, payload=payload), expiry, proof)}

    def _key_for(self, scope: Scope, proof: Proof) -> Key | None:
        """Return the key that signs a command; None if there is none. Raises `NothingSent` if none may prove this."""
        keys = list(self.keys) if self.sender is None else self._keys_for_senders
        proving = [key for key in keys if key.may_prove(proof)]
        if keys and not proving:
            raise NothingSent(
                f"no key of this client may prove a {proof}: nothing was sent. {self.inbox_problem or ''}"
            )
        if self.sender is not None:  # only a key that proves persons carries the groups that a sign-in proved
            proving.sort(key=lambda key: key.proves != "person")
        # Without a key of the scope another one: the workflow refuses it with the reason.
        return next((key for key in proving if scope in key.scope), next(iter(proving), None))

    # Steering

    async def steer(
        self, tree: Tree, run: str, owner: str, command: str, payload: Mapping[str, JSON], type_: type[Result]
    ) -> Result:
        """Send a command to one workflow by update and return its result, parsed as `type_`.

        Raises `Refusal`, `NoWorker`, or `UnknownRun` if the workflow has ended.
        """
        argument = self.sign_command(run, owner, command=command, payload=payload)
        return await tree.update(owner, command, argument, type_, id=f"{command}:{argument['key']}")

    async def assign(self, tree: Tree, open_questions: OpenQuestions, command: AssignmentCommand) -> AssignmentReceipt:
        """Send a command that changes whom a question waits for to the workflow that asks, and return its receipt.

        Raises `Refusal`; or `NothingSent` if no worker answers, as only an update is checked.
        """
        if open_questions.silence is not None:
            raise NothingSent(
                f"{open_questions.silence}; only a worker can check who sends a {command.name}. Start one."
            )
        question = find_question(open_questions.questions, command.question)
        if question is None:
            raise open_questions.unknown(command.question)
        command = command.model_copy(update={"question": question.id, "by": self.find_sender(command.by)})
        payload = command.model_dump(mode="json", exclude={"token", "groups"}, exclude_none=True)
        check_value(payload, self.limits.answer, command.name)
        scope: Scope = "steer" if command.steers else "answer"
        argument = self._sign(scope, SignedCommand(open_questions.run, question.owner, command.name, payload))
        id_ = f"{command.name}:{command.key}:{make_digest(payload)}"
        try:
            return await tree.update(question.owner, command.name, argument, AssignmentReceipt, id=id_)
        except UnknownRun:
            raise closed_by_its_end(question.owner) from None

    def sign_command(self, run: str, owner: str, *, command: str, payload: Mapping[str, JSON]) -> JSONObject:
        """Return the argument of a command to one workflow: with a new idempotency key, signed if there are keys."""
        by = payload.get("by")
        sender = self.find_sender(by if isinstance(by, str) else None)
        argument = {**payload, "by": sender, "key": secrets.token_hex(8)}
        check_value(argument, self.limits.answer, command)
        return self._sign("steer", SignedCommand(run, owner, command, argument))

    # By signal

    async def _by_signal(
        self, tree: Tree, batch: AnswerBatch, owner: str | None, questions: Sequence[Question], reason: str
    ) -> list[Sent]:
        """Signal each workflow its answers; `questions` are those known here, `reason` says why no update was sent."""
        by_owner: dict[str, list[Answer]] = defaultdict(list)
        for answer in batch.answers:
            question = find_question(questions, answer.question)
            if question is not None:
                _check_signal(question, batch.by)
                check(question, answer)
                answer = answer.model_copy(update={"question": question.id})
            workflow = owner or (question.owner if question else None)
            if workflow is None:
                text = f"{reason.removesuffix('.')}; and the workflow that asks {answer.question!r} is not known here"
                raise NothingSent(f"{text}: nothing was sent. Name it with --owner WORKFLOW_ID, or start a worker.")
            if question is None and answer.action == "accept" and await _may_ask_secrets(tree, workflow):
                text = f"it is not known what {answer.question!r} asks for, and {workflow} may ask for secrets"
                raise NothingSent(f"{text}, which are never sent by signal; nothing was sent. Start a worker.")
            by_owner[workflow].append(answer)
        for workflow, answers in by_owner.items():
            await _signal(tree, workflow, batch.model_copy(update={"answers": answers}))
        return [
            Sent(question=answer.question, owner=workflow)
            for workflow, answers in by_owner.items()
            for answer in answers
        ]


def no_signals(reason: str = "no worker answers") -> NothingSent:
    """Return the error for what could only go as a signal, where keys are set: a signal cannot be refused."""
    return NothingSent(f"{reason}; a guarded run takes no signals: nothing was sent. Start a worker.")


class TakenByAnother(Exception):
    """The step that waited for an event has gone on before the event reached it."""


def _make_batch(event: SystemEvent, question: str) -> AnswerBatch:
    """Return the answer that an event is to a question."""
    answer = Answer(question=question, content=event.content)
    return AnswerBatch(answers=[answer], by=event.by, key=event.answer_key)


def find_question(questions: Sequence[Question], wanted: str) -> Question | None:
    """Return the question with this id, address or step name, or whose id starts so; None if there is none.

    What a tool or a graph asks has a name of its own; the name of its step stands for it, too.

    Raises `Ambiguous` if there are several.
    """
    exact = [question for question in questions if wanted in (question.id, question.address)]
    by_name = [question for question in questions if name_at(question.address) == wanted]
    by_step = [question for question in questions if wanted in names_at(question.address)]
    by_prefix = [question for question in questions if question.id.startswith(wanted)]
    matches = exact or by_name or by_step or by_prefix
    if len(matches) > 1:
        names = ", ".join(f"{question.id} ({question.address})" for question in matches)
        raise Ambiguous(f"{wanted!r} could be any of {names}; give an id")
    return matches[0] if matches else None


def check(question: Question, answer: Answer) -> None:
    """Raise `Refusal` if the question would refuse the answer."""
    if answer.action != "accept":
        return
    try:
        question.accept(answer.content)
    except (InvalidAnswer, BadSchema) as error:
        raise Refusal("invalid_answer", f"question {question.id}: {error}") from None


def must_be_seen(question: Question) -> bool:
    """Return whether an answer must carry the digest of what was shown: it is a consent, or goes on from a stop."""
    return question.asked.consents or question.asked.is_breakpoint


def content_problems(question: Question, content: JSON) -> Sequence[tuple[str, str]]:
    """Return what a question would refuse in the content of an answer, each with its path; [] if it accepts it."""
    asked = question.asked
    try:
        asked.secret_values(content) if asked.hidden else asked.accept(content)
    except InvalidAnswer as error:
        return error.problems
    except BadSchema as error:
        return [("", str(error))]
    return []


_NOT_BY_SIGNAL = "nothing was sent. Start a worker and answer again, as an update (without --signal)."


def _check_signal(question: Question, by: str | None) -> None:
    """Raise `NothingSent` if the workflow would refuse a signal: it could not report that later."""
    if refusal := question.asked.signal_refusal:
        raise NothingSent(f"question {question.id}: {refusal}; {_NOT_BY_SIGNAL}")
    if question.proof is not None:
        raise NothingSent(f"question {question.id}: {SIGN_IN}; nothing was sent.")
    if question.people.restricted:
        reason = f"takes no signals, as {who_may(question.people)} may answer"
        raise NothingSent(f"question {question.id} {reason}; {_NOT_BY_SIGNAL}")
    claimant = question.claimant(datetime.now(UTC))
    if claimant is not None and claimant != read_user(by):
        raise NothingSent(f"question {question.id} is claimed by {claimant}; nothing was sent.")


async def _views(tree: Tree, described: WorkflowExecutionDescription, looks: int) -> list[WorkflowView]:
    """Return the views of a run, queried so many times more while a worker is busy."""
    # After a worker was killed, its workflows look for some seconds as if it were only busy.
    for _ in range(looks - 1):
        try:
            return await tree.views(described.id, described)
        except Busy as error:
            if not error.is_alive:
                raise
    return await tree.views(described.id, described)


_SECRETS = [name for name, kind in list_kinds_for_steps().items() if kind.hidden]
"""The values of `ask` in a blueprint that ask for secrets."""


async def _may_ask_secrets(tree: Tree, workflow: str) -> bool:
    """Return whether the input of the workflow contains `ask: secret` anywhere."""
    try:
        first = await first_event(tree.client, workflow)
    except RPCError as error:
        if is_missing(error):
            return False  # the signal fails with the message for that
        raise
    payloads = first.workflow_execution_started_event_attributes.input.payloads
    return any(map(_contains_secret, await tree.client.data_converter.decode(payloads)))


def _contains_secret(value: object) -> bool:
    match value:
        case dict():
            ask = value.get("ask")
            hides = ask.get("hidden") is True if isinstance(ask, dict) else ask in _SECRETS
            return hides or any(map(_contains_secret, value.values()))
        case list():
            return any(map(_contains_secret, value))
    return False


async def _signal(tree: Tree, workflow: str, batch: AnswerBatch) -> None:
    try:
        await tree.client.get_workflow_handle(workflow).signal(ANSWER, batch)
    except RPCError as error:
        if is_missing(error):
            await EarlierAnswers(tree, workflow).read_receipts(batch)  # taken by update before, or refused
            return
        raise

"""Send answers to the workflows that asked, exactly once, and return receipts. `Runs` uses it for every command.

Answers go by update where a worker is there, so that they have been accepted or refused on return; else by signal. An
answer under a key that was used before is looked up in the events: the same answer gets its receipt again, another
one is refused.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeVar

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema
from holdfast.blueprint.question_kinds import ASK_KINDS
from holdfast.client.errors import Ambiguous, NothingSent
from holdfast.client.memory import QuestionMemory
from holdfast.client.outgoing import check_batch
from holdfast.client.replies import EarlierReply, closes, find_reply, has_key, refusal_of_closed, refuse_closed
from holdfast.client.secrets import SecretDirectory, forget, kept, says_the_same
from holdfast.client.tree import Tree, UnknownRun, questions_of
from holdfast.client.workers import Busy, NoWorker, last_poll
from holdfast.protocol.address import parts
from holdfast.protocol.answers import Answer, Answers, Receipt, Refusal
from holdfast.protocol.door import SizeLimits, check_value
from holdfast.protocol.events import (
    QuestionAccepted,
    QuestionClosed,
)
from holdfast.protocol.guard import Key, Scope, sign
from holdfast.protocol.people import who_may
from holdfast.protocol.questions import InvalidAnswer, Question
from holdfast.protocol.runs import ANSWER, WorkflowView
from holdfast.protocol.values import Value

Result = TypeVar("Result")
TOKEN_LIFE = timedelta(minutes=10)
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


@dataclass(frozen=True)
class Answering:
    """The way a client sends answers and commands: with which keys, limits and secret store."""

    keys: Sequence[Key] = ()
    """The keys that sign commands; without one, commands carry no token."""
    memory: QuestionMemory = field(default_factory=QuestionMemory)
    """The questions seen last, so that they can be answered when no worker is there to ask."""
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The groups of this client's configuration, for lists; who may answer is decided by those of the worker."""
    secrets: SecretDirectory | None = None
    """The store that keeps the values of secrets; what is sent holds references only."""
    limits: SizeLimits = SizeLimits()
    """The limits of what is sent from here; a run and its worker have limits of their own."""

    async def open_questions(
        self, tree: Tree, described: WorkflowExecutionDescription, *, patient: bool = True
    ) -> OpenQuestions:
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
        if await last_poll(tree.client, described.task_queue) is None:
            return OpenQuestions(run, self.memory.of(run), ended, "no worker answers")
        try:
            views = [] if ended else await _views(tree, run, BUSY_LOOKS if patient else 1)
        except NoWorker as error:
            if patient and isinstance(error, Busy) and error.is_alive:
                raise
            return OpenQuestions(run, self.memory.of(run), ended, str(error))
        questions = questions_of(views)
        self.memory.keep(questions)
        return OpenQuestions(run, questions, ended)

    async def answer(
        self, tree: Tree, found: OpenQuestions, batch: Answers, *, signal: bool = False, owner: str | None = None
    ) -> list[Receipt | Sent]:
        """Send a batch of answers to questions that a walk of the run's tree has found; see `Runs.answer`."""
        check_batch(batch, self.limits.answer)
        if found.silence is None and not signal:
            try:
                return list(await self._by_update(tree, found, batch))
            except NoWorker as error:  # it polled a moment ago, but is gone: leave the answer for the next one
                if isinstance(error, Busy) and error.is_alive:
                    raise
                found = replace(found, questions=self.memory.of(found.run), silence=str(error))
        reason = found.silence or "no worker answers"
        if self.keys:
            raise NothingSent(f"{reason}; a guarded run takes no signals: nothing was sent. Start a worker.")
        return list(await self._by_signal(tree, batch, owner, found.questions, reason))

    async def closed_under(self, tree: Tree, run: str, key: str) -> str | None:
        """Return the id of the question that was answered under this key, or None."""
        reply = await find_reply(tree, run, has_key(key))
        return None if reply is None else reply.data.id

    # By update

    async def _by_update(self, tree: Tree, found: OpenQuestions, batch: Answers) -> list[Receipt]:
        run = found.run
        if found.has_ended:  # perhaps by this very answer, sent for the second time
            return await self._receipts_of_ended(tree, run, batch)
        # Per owner the pairs of an answer as the caller gave it and as it is sent, with references for secrets.
        unsent: dict[str, list[tuple[Answer, Answer]]] = defaultdict(list)
        receipts: list[Receipt] = []
        try:
            for answer in batch.answers:
                owner, sendable = await self._prepared(tree, found, answer, batch.key)
                unsent[owner].append((answer, sendable))
            for owner in list(unsent):
                answers = [sendable for _, sendable in unsent[owner]]
                receipts += await self._update(tree, run, owner, batch.model_copy(update={"answers": answers}))
                del unsent[owner]
        except Refusal:
            for original, sendable in [pair for pairs in unsent.values() for pair in pairs]:
                forget(sendable, original, self.secrets)
            raise
        return receipts

    async def _prepared(self, tree: Tree, found: OpenQuestions, answer: Answer, key: str | None) -> tuple[str, Answer]:
        """Return the id of the workflow that asks, and the answer as it is sent: with the question's id.

        Raises `Refusal` for an answer that the workflow would refuse, before anything is sent.
        """
        question = find_question(found.questions, answer.question)
        if question is not None:
            answer = answer.model_copy(update={"question": question.id})
            if question.asked.hidden and answer.action == "accept":
                answer = kept(question.asked, answer, self.secrets)
            check(question, answer)
            return question.owner, answer
        closing = await find_reply(tree, found.run, closes(answer.question))
        if closing is not None:  # perhaps a retry of the same answer: its owner decides
            return closing.workflow, self._repeated(answer, closing, key)
        names = ", ".join(f"{question.id} ({question.address})" for question in found.questions[:20]) or "none"
        raise Refusal("unknown_question", f"no question {answer.question!r} is open in {found.run}; open: {names}")

    def _repeated(self, answer: Answer, reply: EarlierReply, key: str | None) -> Answer:
        """Return an answer to a closed question as it may be sent: for a secret with the references of the first time.

        Raises `Refusal` if a secret is not the one that was accepted under this key: nothing of it leaves the client.
        """
        before = reply.data
        if answer.action != "accept" or not (isinstance(before, QuestionClosed) and before.secret):
            return answer
        if key is None or key != before.key:
            raise refusal_of_closed(reply)
        if not says_the_same(answer.content, before.content, self.secrets):
            raise Refusal("key_conflict", f"key {key!r} was used for another answer; use a new key")
        return answer.model_copy(update={"content": before.content})

    async def _update(self, tree: Tree, run: str, owner: str, batch: Answers) -> list[Receipt]:
        id_ = f"{batch.key}:{batch.digest}"
        argument = self._signed("answer", run, owner, ANSWER, json.loads(batch.model_dump_json(exclude={"token"})))
        try:
            receipts: list[Receipt] = await tree.update(owner, ANSWER, argument, list[Receipt], id=id_)
            return receipts
        except UnknownRun as ended:
            try:
                return await self._receipts_of_ended(tree, owner, batch)
            except NoWorker:  # its events cannot be read; but an update that never reached it was not accepted
                if ended.tried:
                    raise
                raise Refusal("run_closed", f"{owner} has ended; it has no open questions") from None

    async def _receipts_of_ended(self, tree: Tree, workflow: str, batch: Answers) -> list[Receipt]:
        """Return the receipts if the workflow, which has ended, accepted this batch; else raise `Refusal`."""
        if receipts := await self._earlier_receipts(tree, workflow, batch):
            return receipts
        await refuse_closed(tree, workflow, batch)
        raise Refusal("run_closed", f"{workflow} has ended; it has no open questions")

    async def _earlier_receipts(self, tree: Tree, workflow: str, batch: Answers) -> list[Receipt]:
        """Return the receipts of a batch that was accepted before under its key; [] if none was.

        Raises `Refusal` if the key was used for another answer.
        """
        reply = await find_reply(tree, workflow, has_key(batch.key)) if batch.key is not None else None
        if reply is None:
            return []
        data, answers = reply.data, list(batch.answers)
        if len(answers) == 1:  # it may name its question by address; the answers of a larger batch carry ids
            answers = [answers[0].model_copy(update={"question": data.id})]
            answers = [self._repeated(answers[0], reply, batch.key)]
        if batch.model_copy(update={"answers": answers}).digest != data.digest:
            raise Refusal("key_conflict", f"key {batch.key!r} was used for another answer; use a new key")
        status: Literal["answered", "waiting_quorum"] = (
            "waiting_quorum" if isinstance(data, QuestionAccepted) else "answered"
        )
        return [Receipt(question=answer.question, status=status, by=data.by, at=reply.at) for answer in answers]

    def _signed(self, scope: Scope, run: str, owner: str, command: str, payload: JSONObject) -> JSONObject:
        """Return the argument of a command with a token that proves its origin; without keys as it is.

        Args:
            payload: The argument as JSON has it, so that the workflow verifies the very value that was signed.
        """
        key = next((key for key in self.keys if scope in key.scope), None)
        key = key or next(iter(self.keys), None)  # no key has the scope: the workflow refuses it with the reason
        if key is None:
            return payload
        expiry = datetime.now(UTC) + TOKEN_LIFE
        return {**payload, "token": sign(key, run=run, owner=owner, command=command, payload=payload, expiry=expiry)}

    # Steering

    async def steer(
        self, tree: Tree, run: str, owner: str, command: str, payload: Mapping[str, JSON], type_: type[Result]
    ) -> Result:
        """Send a command to one workflow by update and return its result, parsed as `type_`.

        Raises `Refusal`, `NoWorker`, or `UnknownRun` if the workflow has ended.
        """
        argument = self.steering(run, owner, command=command, payload=payload)
        return await tree.update(owner, command, argument, type_, id=f"{command}:{argument['key']}")

    def steering(self, run: str, owner: str, *, command: str, payload: Mapping[str, JSON]) -> JSONObject:
        """Return the argument of a command to one workflow: with a new idempotency key, signed if there are keys."""
        argument = {**payload, "key": secrets.token_hex(8)}
        check_value(argument, self.limits.answer, command)
        return self._signed("steer", run, owner, command, argument)

    # By signal

    async def _by_signal(
        self, tree: Tree, batch: Answers, owner: str | None, questions: Sequence[Question], reason: str
    ) -> list[Sent]:
        """Signal each workflow its answers; `questions` are those known here, `reason` says why no update was sent."""
        by_owner: dict[str, list[Answer]] = defaultdict(list)
        for answer in batch.answers:
            question = find_question(questions, answer.question)
            if question is not None:
                _check_signal(question)
                check(question, answer)
                answer = answer.model_copy(update={"question": question.id})
            workflow = owner or (question.owner if question else None)
            if workflow is None:
                text = f"{reason}; and the workflow that asks {answer.question!r} is not known here"
                raise NothingSent(f"{text}: nothing was sent. Name it with --owner WORKFLOW_ID, or start a worker.")
            if question is None and answer.action == "accept" and await _may_ask_secrets(tree, workflow):
                text = f"no worker can tell what {answer.question!r} asks, and {workflow} may ask for secrets"
                raise NothingSent(f"{text}, which are never sent by signal; nothing was sent. Start a worker.")
            by_owner[workflow].append(answer)
        for workflow, answers in by_owner.items():
            await _signal(tree, workflow, batch.model_copy(update={"answers": answers}))
        return [
            Sent(question=answer.question, owner=workflow)
            for workflow, answers in by_owner.items()
            for answer in answers
        ]


def find_question(questions: Sequence[Question], wanted: str) -> Question | None:
    """Return the question with this id, address or step name, or whose id starts so; None if there is none.

    Raises `Ambiguous` if there are several.
    """
    exact = [question for question in questions if wanted in (question.id, question.address)]
    by_name = [question for question in questions if parts(question.address)[-1][1] == wanted]
    by_prefix = [question for question in questions if question.id.startswith(wanted)]
    matches = exact or by_name or by_prefix
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


def _check_signal(question: Question) -> None:
    """Raise `NothingSent` if the workflow would refuse a signal: it could not report that later."""
    if refusal := question.asked.signal_refusal:
        reason = f"question {question.id}: {refusal}"
        raise NothingSent(f"{reason}; nothing was sent. Answer it without --signal, while a worker is there.")
    if question.people.restricted:
        reason = f"question {question.id} takes no signals, as {who_may(question.people)} may answer"
        raise NothingSent(f"{reason}; nothing was sent. Answer it without --signal, while a worker is there.")


async def _views(tree: Tree, run: str, looks: int) -> list[WorkflowView]:
    """Return the views of a run, queried so many times more while a worker is busy."""
    # After a worker was killed, its workflows look for some seconds as if it were only busy.
    for _ in range(looks - 1):
        try:
            return await tree.views(run)
        except Busy as error:
            if not error.is_alive:
                raise
    return await tree.views(run)


_SECRETS = [name for name, kind in ASK_KINDS.items() if kind.hidden]
"""The values of `ask` in a blueprint that ask for secrets."""


async def _may_ask_secrets(tree: Tree, workflow: str) -> bool:
    """Return whether the input of the workflow contains `ask: secret` anywhere."""
    handle = tree.client.get_workflow_handle(workflow)
    try:
        first = await anext(handle.fetch_history_events(page_size=1))
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return False  # the signal fails with the message for that
        raise
    payloads = first.workflow_execution_started_event_attributes.input.payloads
    return any(map(_contains_secret, await tree.client.data_converter.decode(payloads)))


def _contains_secret(value: object) -> bool:
    match value:
        case dict():
            return value.get("ask") in _SECRETS or any(map(_contains_secret, value.values()))
        case list():
            return any(map(_contains_secret, value))
    return False


async def _signal(tree: Tree, workflow: str, batch: Answers) -> None:
    try:
        await tree.client.get_workflow_handle(workflow).signal(ANSWER, batch)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise Refusal(
                "run_closed", f"{workflow} has ended, or there is no such workflow; nothing was sent"
            ) from None
        raise

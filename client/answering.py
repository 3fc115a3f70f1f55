"""Sending answers: to the workflow that asked, once, and with a word of what became of them."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json
from temporalio.service import RPCError, RPCStatusCode

from blueprint.jsonschemas import BadSchema
from client.errors import Ambiguous, NothingSent
from client.events import chain
from client.secrets import Directory, forget, kept, says_the_same
from client.tree import NoWorker, Tree, UnknownRun, questions_of
from protocol.address import parts
from protocol.answers import Answer, Answers, Receipt, Refusal
from protocol.guard import sign
from protocol.people import who_may
from protocol.questions import InvalidAnswer, Question
from protocol.runs import ANSWER, BORN, Event
from protocol.values import Value

TOKEN_LIFE = timedelta(minutes=10)
REMEMBERED = 500


class Sent(Value):
    """The answer waits in the owner's history for a worker; whether it is taken, the run will show."""

    question: str
    status: Literal["sent"] = "sent"
    owner: str


@dataclass(frozen=True)
class Answering:
    """How this deployment answers: with a token where it has a key; `memory` is a file of the questions last seen.

    `groups` are those of this client's configuration; the worker's are those that count.
    """

    key: str | None = None
    memory: Path | None = None
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    secrets: Directory | None = None
    """Where the values of secrets are put; what is sent refers to them."""

    async def answer(
        self, tree: Tree, run: str, batch: Answers, *, signal: bool = False, owner: str | None = None
    ) -> list[Receipt | Sent]:
        """See `Runs.answer`."""
        if not signal and await tree.worker_polls(run):
            try:
                return list(await self._by_update(tree, run, batch))
            except NoWorker:  # it polled a moment ago, but is gone: leave the answer for the next one
                known = self.remembered(run)
        else:
            known = await self.known(tree, run)
        if self.key is not None:
            raise NothingSent(
                "no worker answers, and a guarded run takes no signals; nothing was sent. Start a worker."
            )
        return list(await self._by_signal(tree, batch, owner, known))

    async def closed_under(self, tree: Tree, run: str, key: str) -> str | None:
        """The question that took an answer under this key before."""
        found = await _taking_event(tree, run, _under(key))
        return None if found is None else str(found[1].data["id"])

    # By update

    async def _by_update(self, tree: Tree, run: str, batch: Answers) -> list[Receipt]:
        try:
            open_ = questions_of(await _views(tree, run))
        except Refusal:  # the run has ended; it may be by this very answer
            if again := await self._again(tree, run, batch):
                return again
            raise
        self.remember(open_)
        waiting: dict[str, list[tuple[Answer, Answer]]] = defaultdict(list)
        receipts: list[Receipt] = []
        try:
            for answer in batch.answers:
                owner, made = await self._checked(tree, run, answer, open_, batch.key)
                waiting[owner].append((answer, made))
            for owner in list(waiting):
                answers = [made for _, made in waiting[owner]]
                receipts += await self._update(tree, owner, self._signed(run, batch, answers))
                del waiting[owner]
        except Refusal:
            for given, made in [pair for pairs in waiting.values() for pair in pairs]:
                forget(made, given, self.secrets)
            raise
        return receipts

    async def _checked(
        self, tree: Tree, run: str, answer: Answer, open_: Sequence[Question], key: str | None
    ) -> tuple[str, Answer]:
        """The owner, and the answer with the question's id; one that cannot be taken is refused before it is sent."""
        question = find_question(open_, answer.question)
        if question is not None:
            answer = answer.model_copy(update={"question": question.id})
            if (secret := question.secret) is not None and answer.action == "accept":
                answer = kept(secret, answer, self.secrets)
            check(question, answer)
            return question.owner, answer
        closed = await _taking_event(tree, run, _closes(answer.question))
        if closed is not None:  # it may be the same answer once more: the owner knows
            return closed[0], self._once_more(answer, closed[1], key)
        names = ", ".join(f"{one.id} ({one.address})" for one in open_[:20]) or "none"
        raise Refusal("unknown_question", f"no question {answer.question!r} is open in {run}; open: {names}")

    def _once_more(self, answer: Answer, event: Event, key: str | None) -> Answer:
        """An answer to a question that is closed, as it may be sent: of a secret the references of that time.

        Raises `Refusal` if it is not the answer that was taken under this key: nothing of it is sent.
        """
        if answer.action != "accept" or not event.data.get("secret"):
            return answer
        before = event.data.get("content")
        if key is None or key != event.data.get("key"):
            raise _gone(event)
        if not says_the_same(answer.content, before, self.secrets):
            raise Refusal("key_conflict", f"key {key!r} was used for another answer; use a new key")
        return answer.model_copy(update={"content": before})

    async def _update(self, tree: Tree, owner: str, batch: Answers) -> list[Receipt]:
        id_ = f"{batch.key}:{batch.digest}"
        try:
            receipts: list[Receipt] = await tree.update(owner, ANSWER, batch, list[Receipt], id=id_)
            return receipts
        except UnknownRun as ended:
            try:
                return await self._of_closed(tree, owner, batch)
            except NoWorker:  # who was first is not to be learned now; but what never reached it was not taken
                if ended.tried:
                    raise
                raise Refusal("run_closed", f"{owner} has ended; it asks nothing any more") from None

    async def _of_closed(self, tree: Tree, workflow: str, batch: Answers) -> list[Receipt]:
        """What a workflow that has ended says: the receipts once more, if it was this answer; else who was first."""
        if receipts := await self._again(tree, workflow, batch):
            return receipts
        for answer in batch.answers:
            if (found := await _taking_event(tree, workflow, _closes(answer.question))) is not None:
                raise _gone(found[1])
        raise Refusal("run_closed", f"{workflow} has ended; it asks nothing any more")

    async def _again(self, tree: Tree, workflow: str, batch: Answers) -> list[Receipt]:
        """The receipts of the same answers under the same key, if they were taken before."""
        found = await _taking_event(tree, workflow, _under(batch.key)) if batch.key is not None else None
        if found is None:
            return []
        event, answers = found[1], list(batch.answers)
        if len(answers) == 1:  # it may have named its question by address; those of a batch carry ids
            answers = [answers[0].model_copy(update={"question": event.data["id"]})]
            answers = [self._once_more(answers[0], event, batch.key)]
        if batch.model_copy(update={"answers": answers}).digest != event.data.get("digest"):
            raise Refusal("key_conflict", f"key {batch.key!r} was used for another answer; use a new key")
        by = event.data.get("by")
        status: Literal["answered", "waiting_quorum"] = "waiting_quorum" if event.type == ACCEPTED else "answered"
        return [Receipt(question=one.question, status=status, by=by, at=event.time) for one in answers]

    def _signed(self, run: str, batch: Answers, answers: list[Answer]) -> Answers:
        part = batch.model_copy(update={"answers": answers})
        asked = ",".join(answer.question for answer in answers)
        return part.model_copy(update={"token": self.token(run, asked, batch.by)})

    def token(self, run: str, question: str, by: str | None) -> str | None:
        """What shows the run's owner that this deployment sends it; None where there is no key."""
        if self.key is None:
            return None
        return sign(self.key, run=run, question=question, by=by, expiry=datetime.now(UTC) + TOKEN_LIFE)

    # By signal

    async def _by_signal(self, tree: Tree, batch: Answers, owner: str | None, known: Sequence[Question]) -> list[Sent]:
        by_owner: dict[str, list[Answer]] = defaultdict(list)
        for answer in batch.answers:
            question = find_question(known, answer.question)
            if question is not None:
                _check_signal(question)
                check(question, answer)
                answer = answer.model_copy(update={"question": question.id})
            found = owner or (question.owner if question else None)
            if found is None:
                text = f"no worker answers, and who asked {answer.question!r} is not known here"
                raise NothingSent(f"{text}; nothing was sent. Name it with --owner WORKFLOW_ID, or start a worker.")
            if question is None and answer.action == "accept" and await _may_ask_secrets(tree, found):
                text = f"no worker tells what {answer.question!r} asks, and {found} may ask for secrets"
                raise NothingSent(f"{text}, which are never sent by signal; nothing was sent. Start a worker.")
            by_owner[found].append(answer)
        for workflow, answers in by_owner.items():
            await _signal(tree, workflow, batch.model_copy(update={"answers": answers}))
        return [Sent(question=one.question, owner=workflow) for workflow, ones in by_owner.items() for one in ones]

    async def known(self, tree: Tree, run: str) -> list[Question]:
        """The open questions, or, if nobody can say, those remembered of this run."""
        if await tree.worker_polls(run):
            try:
                return questions_of(await tree.views(run))
            except NoWorker:
                return self.remembered(run)
        return self.remembered(run)

    # What is remembered

    def remembered(self, run: str) -> list[Question]:
        """The questions of this run that were seen last, open or not."""
        return [question for question in self._recall() if question.run == run]

    def remember(self, questions: Sequence[Question]) -> None:
        """Keep these questions, so that they can be answered when no worker is there to ask."""
        if self.memory is None or not questions:
            return
        new = {question.id for question in questions}
        kept = [*(question for question in self._recall() if question.id not in new), *questions][-REMEMBERED:]
        text = json.dumps([question.model_dump(mode="json") for question in kept])
        self.memory.parent.mkdir(parents=True, exist_ok=True)
        part = self.memory.with_suffix(f".{os.getpid()}")
        part.write_text(text)
        part.replace(self.memory)

    def _recall(self) -> list[Question]:
        if self.memory is None or not self.memory.exists():
            return []
        try:
            return [Question.model_validate(one) for one in json.loads(self.memory.read_text())]
        except (ValueError, ValidationError):  # of another version: it is only a memory
            return []


def find_question(questions: Sequence[Question], wanted: str) -> Question | None:
    """A question by id, address, the name of its step, or a unique prefix of the id. Raises `Ambiguous`."""
    exact = [one for one in questions if wanted in (one.id, one.address)]
    named = [one for one in questions if parts(one.address)[-1][1] == wanted]
    begun = [one for one in questions if one.id.startswith(wanted)]
    found = exact or named or begun
    if len(found) > 1:
        names = ", ".join(f"{one.id} ({one.address})" for one in found)
        raise Ambiguous(f"{wanted!r} could be any of {names}; give an id")
    return found[0] if found else None


def check(question: Question, answer: Answer) -> None:
    """Refuse what the question would refuse, before anything is sent."""
    if answer.action != "accept":
        return
    try:
        to_json(answer.content)
        question.accept(answer.content)
    except (InvalidAnswer, BadSchema) as error:
        raise Refusal("invalid_answer", f"question {question.id}: {error}") from None
    except PydanticSerializationError as error:  # half a character, or what is no value at all
        raise Refusal("invalid_answer", f"question {question.id}: the answer is no JSON: {error}") from None


def _check_signal(question: Question) -> None:
    """A signal is refused where it matters who answers: tell it now, as nobody would hear of it later."""
    if question.kind == "secret":
        told = f"question {question.id} asks for a secret, and takes no signals, as they stand in the history"
        raise NothingSent(f"{told}; nothing was sent. Answer it without --signal, while a worker is there.")
    if question.people.restricted:
        told = f"question {question.id} takes no signals, as {who_may(question.people)} may answer"
        raise NothingSent(f"{told}; nothing was sent. Answer it without --signal, while a worker is there.")


async def _views(tree: Tree, run: str) -> list[Any]:
    try:
        views = await tree.views(run)
    except UnknownRun:
        raise UnknownRun(run) from None
    if views[0].status in ("completed", "failed", "cancelled"):
        raise Refusal("run_closed", f"run {run} is {views[0].status}; it asks nothing any more")
    return views


async def _may_ask_secrets(tree: Tree, workflow: str) -> bool:
    """Whether what the workflow was started with says `ask: secret` anywhere."""
    handle = tree.client.get_workflow_handle(workflow)
    try:
        first = await anext(handle.fetch_history_events(page_size=1))
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return False  # the signal will tell that there is none
        raise
    payloads = first.workflow_execution_started_event_attributes.input.payloads
    return any(map(_says_secret, await tree.client.data_converter.decode(payloads)))


def _says_secret(value: Any) -> bool:
    match value:
        case dict():
            return value.get("ask") == "secret" or any(map(_says_secret, value.values()))
        case list():
            return any(map(_says_secret, value))
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


def _gone(event: Event) -> Refusal:
    how, who = event.type.removeprefix("question."), event.data.get("by") or "somebody"
    if how == "expired":
        return Refusal("expired", f"question {event.data['id']} expired at {event.time.isoformat()}")
    told = f"question {event.data['id']} was {how} by {who} at {event.time.isoformat()}"
    return Refusal("already_answered", told)


ACCEPTED = "question.accepted"
ENDINGS = ("question.answered", "question.declined", "question.cancelled", "question.expired")


def _closes(question: str) -> Callable[[Event], bool]:
    return lambda event: event.type in ENDINGS and question in (event.data["id"], event.address)


def _under(key: str) -> Callable[[Event], bool]:
    return lambda event: event.type in (*ENDINGS, ACCEPTED) and event.data.get("key") == key


async def _taking_event(tree: Tree, workflow: str, wanted: Callable[[Event], bool]) -> tuple[str, Event] | None:
    """The owner and the event that took an answer, among the last iterations of the workflow and of its loops."""
    try:
        events = await chain(tree, workflow, last_iterations=100)
    except UnknownRun:
        return None
    for event in reversed(events):
        if wanted(event):
            return workflow, event
    for event in reversed(events):
        if event.type in BORN and (found := await _taking_event(tree, event.data["workflow"], wanted)):
            return found
    return None

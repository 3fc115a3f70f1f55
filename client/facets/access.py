"""What one person may do with runs, asked by pages, calls and commands before they act: `runs.access`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.client.answering import Answering
from holdfast.client.delivery import AnswerDelivery
from holdfast.client.earlier_answers import EarlierAnswers, EarlierReply
from holdfast.client.open_questions import OpenQuestions, QuestionFinder, find_question
from holdfast.client.outcomes import read_state
from holdfast.client.permissions import Permissions
from holdfast.client.signals import Sent
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.access import AccessPolicy, Capability, Person, RunAccess, describe_refusal
from holdfast.protocol.answers import AnswerBatch, Receipt, Refusal
from holdfast.protocol.names import SHOWN
from holdfast.protocol.people import why_not
from holdfast.protocol.questions import Question
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.errors import raise_server_errors
from holdfast.runtime.workers import NoWorker

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint


@raise_server_errors
class AccessControl:
    """What the person may do for whom these runs are.

    Args:
        tree: The access to the workflows.
        answering: Who sends, and with which groups.
        permissions: What the person may do; None: whatever Temporal lets them do.
    """

    def __init__(self, tree: Tree, answering: Answering, permissions: Permissions | None) -> None:
        self._tree, self._answering, self._permissions = tree, answering, permissions

    async def may(self, capability: Capability, run: str, by: str | None = None) -> bool:
        """Return whether a person may do something with a run.

        Args:
            capability: What they want to do.
            run: The id of the run.
            by: The person, where these runs are for nobody in particular, such as `user:ana`.

        Raises:
            UnknownRun: There is no such run.
        """
        permissions = self._make_permissions(by)
        if not permissions.rules.enforced and capability not in ("steer", "administer"):
            return True  # what a blueprint says of answers its workflow checks, and an answer costs no call more
        return permissions.may(capability, await self._access(permissions, run))

    async def require(self, capability: Capability, run: str, by: str | None = None) -> None:
        """Raise `Refusal` (`not_allowed`) unless a person may do something with a run; args as in `may`.

        A run that they may not see is unknown to them: `UnknownRun`.
        """
        if await self.may(capability, run, by):
            return
        if not await self.may("see", run, by):
            raise UnknownRun(run)
        permissions = self._make_permissions(by)
        written = (await self._access(permissions, run)).written
        raise Refusal("not_allowed", describe_refusal(capability, self._answering.find_sender(by), written))

    @property
    def sees_all(self) -> bool:
        """True if the person may see the runs of every blueprint that does not say itself who may."""
        return self._permissions is None or self._permissions.sees_all

    @property
    def start_filter(self) -> Callable[[Blueprint], bool] | None:
        """What says whether the person may start runs of a blueprint; None where they may start all."""
        permissions = self._permissions
        if permissions is None or not permissions.rules.enforced:
            return None
        return lambda blueprint: permissions.may("start", self.describe_start(blueprint, None))

    async def select_visible(self, run: str, questions: Sequence[Question], user: str | None = None) -> list[Question]:
        """Return those questions of a run that the person may see for whom these runs are.

        Args:
            run: The id of the run.
            questions: The questions.
            user: The person, where only those are asked for that they may answer: of the ones without assignees.
        """
        permissions = self._permissions
        if permissions is None or not permissions.rules.enforced or not questions:
            return list(questions)
        access = await self._access(permissions, run)
        may_answer = user is None or permissions.may("answer", access)
        return [
            question
            for question in questions
            if permissions.may_see_question(question, access) and (may_answer or question.assignees)
        ]

    async def visible_questions(self, run: str) -> list[Question]:
        """Return the open questions of a run that the person may see. Raises as `Runs.state` does.

        A run of which they may see nothing is unknown to them.
        """
        visible = await self._read_visible(run)
        if not visible and not await self.may("see", run):
            raise UnknownRun(run)
        return visible

    async def _read_visible(self, run: str) -> list[Question]:
        return await self.select_visible(run, (await read_state(self._tree, self._answering, run)).questions)

    async def sees_part(self, run: str) -> bool:
        """Return whether the person may see a run, or one of its open questions."""
        with suppress(UnknownRun, NoWorker):
            return await self.may("see", run) or bool(await self.visible_questions(run))
        return False

    async def answerable(self, run: str, names: Sequence[str]) -> OpenQuestions:
        """Return the open questions that the person may see, for answers to some; raises as `Runs.open_questions` does.

        Args:
            run: The id of the run.
            names: The questions that are to be answered. One that is closed may be named by who could see it: they
                are told who was first, or get the receipt of an answer that is sent again.
        """
        finder = QuestionFinder(self._tree, self._answering.memory)
        recalled = finder.recall(run, names)
        if recalled is not None and await self.may("see", run):
            return recalled
        found = await finder.find(run, names)
        found = replace(found, questions=await self.select_visible(run, found.questions))
        if await self.may("see", run):
            return found
        earlier = EarlierAnswers(self._tree, run)
        for name in names:
            if find_question(found.questions, name) is None:
                await self._require_reply(run, await earlier.find_closing(name))
        return replace(found, events=[], earlier=earlier)

    async def require_question(self, run: str, id: str) -> None:
        """Raise `UnknownRun` unless the person may see a question of a run, open or closed."""
        if await self.may("see", run):
            return
        if not any(question.id == id for question in await self._read_visible(run)):
            await self.find_closing(run, id)

    async def find_closing(self, run: str, id: str, view: WorkflowView | None = None) -> EarlierReply | None:
        """Return the reply that closed a question; None if there is none.

        Args:
            run: The id of the run.
            id: The question, by id or address.
            view: The run's own view, where it was queried after the question was closed.

        Raises:
            UnknownRun: The person may see neither the run nor the question.
        """
        reply = await EarlierAnswers(self._tree, run, view).find_closing(id)
        await self._require_reply(run, reply)
        return reply

    async def require_comment(self, run: str) -> None:
        """Raise `Refusal` (`not_allowed`) where the person sees a run and may not comment; an assignee may."""
        if await self.may("see", run):
            await self.require("comment", run)

    async def _require_reply(self, run: str, reply: EarlierReply | None) -> None:
        """Raise `UnknownRun` unless the person may see the run, or could see the question that a reply has closed."""
        if await self.may("see", run):
            return
        permissions = self._make_permissions(None)
        if reply is not None and reply.data.by not in permissions.person.names:
            with suppress(NoWorker):
                asked = await self._tree.query(reply.workflow, SHOWN, [reply.data.id], list[Question])
                if await self.select_visible(run, asked):
                    return
        if reply is None or reply.data.by not in permissions.person.names:
            raise UnknownRun(run)

    async def why_not_answer(self, question: Question) -> str | None:
        """Return why the person may not answer a question that they see; None if they may."""
        sender = self._answering.find_sender(None)
        if reason := why_not(question.people, sender, self._answering.known_groups):
            return reason
        if question.assignees or await self.may("answer", question.run):
            return None
        permissions = self._make_permissions(None)
        return describe_refusal("answer", sender, (await self._access(permissions, question.run)).written)

    async def check_answering(self, open_questions: OpenQuestions, names: Sequence[str]) -> None:
        """Refuse answers to questions without assignees of a person who may not give them, before they are sent."""
        if self._permissions is None:
            return
        every = [*open_questions.questions, *open_questions.events]
        asked = [find_question(every, name) for name in names]
        if any(question is not None and not question.assignees for question in asked):
            await self.require("answer", open_questions.run)

    async def check_steering(self, run: str) -> None:
        """Refuse a command of a person who may not steer, before it is sent: not every run checks who sends one."""
        if self._permissions is not None:
            await self.require("steer", run)

    def describe_start(self, blueprint: Blueprint, started_by: str | None) -> RunAccess:
        """Return what a run that is started here says of the access to it.

        Args:
            blueprint: Its blueprint.
            started_by: The person who starts it.
        """
        sender = self._answering.sender
        return RunAccess(
            blueprint=blueprint.name,
            started_by=self._answering.find_sender(started_by),
            signed_in=sender is not None and sender.proof == "person",
            written=AccessPolicy.read(blueprint),
        )

    async def _access(self, permissions: Permissions, run: str) -> RunAccess:
        return await permissions.cache.read(self._tree, self._tree.archive, run)

    def _make_permissions(self, by: str | None) -> Permissions:
        person = Person.of(self._answering.find_sender(by), self._answering.known_groups)
        return self._permissions or Permissions(person)


async def send_answers(
    tree: Tree,
    answering: Answering,
    access: AccessControl,
    open_questions: OpenQuestions,
    batch: AnswerBatch,
    *,
    signal: bool = False,
    owner: str | None = None,
) -> list[Receipt | Sent]:
    """Send answers that the person may give; the record keeps a refusal. See `Runs.answer`."""
    await access.check_answering(open_questions, [answer.question for answer in batch.answers])
    try:
        receipts = await AnswerDelivery(tree, answering).send(open_questions, batch, signal=signal, owner=owner)
    except Refusal as refusal:
        if tree.archive is not None:
            sender = answering.sender
            user, proof = (batch.by, None) if sender is None else (sender.user, sender.proof)
            await tree.archive.note_refusal(open_questions.run, batch, refusal, user, proof)
        raise
    answering.memory.settle([receipt.question for receipt in receipts])
    return receipts

"""Whom a question waits for: claim, release, delegate and reassign it. This is `runs.assignment`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from holdfast.blueprint.json_values import JSON
from holdfast.client.answering import Answering
from holdfast.client.earlier_answers import closed_by_its_end
from holdfast.client.facets.access import AccessControl
from holdfast.client.open_questions import OpenQuestions, QuestionFinder, find_question
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.assignment import (
    CLAIM_SECONDS,
    AssignmentCommand,
    AssignmentReceipt,
    Claim,
    Delegation,
    Reassignment,
    Release,
)
from holdfast.protocol.guard import Scope, SignedCommand
from holdfast.protocol.size_limits import check_value
from holdfast.protocol.values import make_digest
from holdfast.runtime.errors import NothingSent, raise_server_errors


@raise_server_errors
class QuestionAssignment:
    """Commands that change whom a question waits for; each needs a worker, which checks who sends it."""

    def __init__(self, tree: Tree, answering: Answering, access: AccessControl) -> None:
        self._tree, self._answering, self._access = tree, answering, access

    async def claim(
        self,
        run: str,
        question: str,
        *,
        by: str,
        seconds: float = CLAIM_SECONDS,
        key: str | None = None,
        comment: str | None = None,
    ) -> AssignmentReceipt:
        """Keep a question for one person: until the claim ends nobody else may answer. A second claim extends it.

        Args:
            run: The id of the run.
            question: The question, by id, address, step name or a unique prefix of the id.
            by: The person who claims it, such as `user:ana`; they must be among those who may answer.
            seconds: How long the claim lasts, at most seven days.
            key: Idempotency key. By default a random one.
            comment: A comment stored with the event.

        Raises:
            Refusal: The command was refused; its `code` says why.
            NothingSent: No worker answers.
            UnknownRun: There is no such run.
            Ambiguous: Several questions could be meant.
        """
        return await self._send(run, Claim, question=question, by=by, key=key, comment=comment, seconds=seconds)

    async def release(
        self, run: str, question: str, *, by: str, key: str | None = None, comment: str | None = None
    ) -> AssignmentReceipt:
        """End a claim: one's own, or as who may steer the run that of somebody else. Args and raises as in `claim`."""
        return await self._send(run, Release, question=question, by=by, key=key, comment=comment)

    async def delegate(
        self, run: str, question: str, to: str, *, by: str, key: str | None = None, comment: str | None = None
    ) -> AssignmentReceipt:
        """Delegate an answer: `by` may no longer answer the question, and `to` may.

        Args:
            run: The id of the run.
            question: The question, by id, address, step name or a unique prefix of the id.
            to: `user:NAME` or `group:NAME`; a delegate counts once in a quorum.
            by: The person who delegates; they must be among those who may answer.
            key: As in `claim`.
            comment: As in `claim`.

        Raises:
            Refusal: As in `claim`; also if `to` may not answer, or if too few people would be left for the quorum.
        """
        return await self._send(run, Delegation, question=question, by=by, key=key, comment=comment, to=to)

    async def reassign(
        self,
        run: str,
        question: str,
        to: Sequence[str],
        *,
        by: str | None = None,
        key: str | None = None,
        comment: str | None = None,
    ) -> AssignmentReceipt:
        """Replace the assignees of a question, for example because one of them is away. A claim and delegations end.

        Args:
            run: The id of the run.
            question: The question, by id, address, step name or a unique prefix of the id.
            to: The new assignees, each `user:NAME` or `group:NAME`.
            by: The person who sends it; they must be among those who may steer the run.
            key: As in `claim`.
            comment: As in `claim`.

        Raises:
            Refusal: As in `claim`; also if too few people would be left for the quorum.
        """
        return await self._send(run, Reassignment, question=question, by=by, key=key, comment=comment, to=list(to))

    async def send(
        self,
        open_questions: OpenQuestions,
        kind: type[AssignmentCommand],
        *,
        question: str,
        key: str | None = None,
        **fields: JSON,
    ) -> AssignmentReceipt:
        """Send one of these commands with its fields, where the run has just been asked for its questions."""
        if kind.steers:
            await self._access.check_steering(open_questions.run)
        else:
            await self._access.check_answering(open_questions, [question])
        command = kind.read({**fields, "question": question, "key": key or secrets.token_hex(8)})
        return await self._update(open_questions, command)

    async def _send(
        self, run: str, kind: type[AssignmentCommand], *, question: str, **fields: JSON
    ) -> AssignmentReceipt:
        open_questions = await QuestionFinder(self._tree, self._answering.memory).find(run, [question])
        return await self.send(open_questions, kind, question=question, **fields)

    async def _update(self, open_questions: OpenQuestions, command: AssignmentCommand) -> AssignmentReceipt:
        """Send a command by update to the workflow that asks. `NothingSent` without a worker: it checks who sends."""
        if open_questions.silence is not None:
            raise NothingSent(
                f"{open_questions.silence}; only a worker can check who sends a {command.name}: nothing was sent"
            )
        question = find_question(open_questions.questions, command.question)
        if question is None:
            raise open_questions.unknown(command.question)
        answering = self._answering
        command = command.model_copy(update={"question": question.id, "by": answering.find_sender(command.by)})
        payload = command.model_dump(mode="json", exclude={"token", "groups"}, exclude_none=True)
        check_value(payload, answering.limits.answer, command.name)
        scope: Scope = "steer" if command.steers else "answer"
        argument = answering.sign(scope, SignedCommand(open_questions.run, question.owner, command.name, payload))
        id_ = f"{command.name}:{command.key}:{make_digest(payload)}"
        try:
            return await self._tree.update(question.owner, command.name, argument, AssignmentReceipt, id=id_)
        except UnknownRun:
            raise closed_by_its_end(question.owner) from None

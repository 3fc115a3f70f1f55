"""Answers by signal, for when no worker is there: nothing says whether they are accepted.

So what the workflow would refuse is refused here, and where people have to prove who they are nothing is sent.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from temporalio.client import WorkflowExecutionDescription
from temporalio.service import RPCError

from holdfast.blueprint.questions import list_kinds_for_steps
from holdfast.client.earlier_answers import EarlierAnswers
from holdfast.client.history import first_event, started_with
from holdfast.client.open_questions import NO_WORKER, OpenQuestions, check_content, find_question
from holdfast.client.tree import Tree
from holdfast.protocol.answers import Answer, AnswerBatch
from holdfast.protocol.names import ANSWER, PIPELINE_WORKFLOW
from holdfast.protocol.people import SIGN_IN, read_user, who_may
from holdfast.protocol.questions import Question
from holdfast.protocol.values import Value
from holdfast.runtime.errors import NothingSent, is_missing

if TYPE_CHECKING:
    from holdfast.protocol.runs import Definition

_NOT_BY_SIGNAL = "nothing was sent. Start a worker and answer again, as an update (without --signal)."
_SECRETS = [name for name, kind in list_kinds_for_steps().items() if kind.hidden]
"""The values of `ask` in a blueprint that ask for secrets."""


class Sent(Value):
    """An answer that was sent as a signal: no worker has accepted or refused it yet."""

    question: str
    status: Literal["sent"] = "sent"
    owner: str


async def send_signals(
    tree: Tree, found: OpenQuestions, batch: AnswerBatch, owner: str | None, reason: str
) -> list[Sent]:
    """Signal each workflow its answers.

    Args:
        tree: The access to the run.
        found: The questions of the run that are known here.
        batch: The answers.
        owner: The id of the workflow that asks; None: as the questions say.
        reason: Why no update was sent.

    Raises `NothingSent` where the workflow would refuse one, or who asks is not known.
    """
    by_owner: dict[str, list[Answer]] = defaultdict(list)
    for answer in batch.answers:
        question = find_question(found.questions, answer.question)
        if question is not None:
            _check_signal(question, batch.by)
            check_content(question, answer)
            answer = answer.model_copy(update={"question": question.id})
        workflow = owner or (question.owner if question else None)
        if workflow is None:
            text = f"{reason.removesuffix('.')}; and the workflow that asks {answer.question!r} is not known here"
            raise NothingSent(f"{text}: nothing was sent. The workflow can be named, too: --owner WORKFLOW_ID.")
        if question is None and answer.action == "accept" and await _may_ask_secrets(tree, workflow):
            text = f"it is not known what {answer.question!r} asks for, and {workflow} may ask for secrets"
            raise NothingSent(f"{text}, which are never sent by signal; nothing was sent. Start a worker.")
        by_owner[workflow].append(answer)
    if not await takes_answers(tree, await tree.describe(found.run)):
        raise no_signals(reason)
    for workflow, answers in by_owner.items():
        await _signal(tree, workflow, batch.model_copy(update={"answers": answers}))
    return [
        Sent(question=answer.question, owner=workflow) for workflow, answers in by_owner.items() for answer in answers
    ]


def no_signals(reason: str = NO_WORKER) -> NothingSent:
    """Return the error for what could only go as a signal, where the run checks who sends it."""
    text = "a run that is guarded, or whose blueprint says who may do this, takes no signals"
    return NothingSent(f"{reason.removesuffix('.')}; {text}: nothing was sent")


async def takes_answers(tree: Tree, described: WorkflowExecutionDescription) -> bool:
    """Return whether a run takes answers by signal."""
    definition = await _read_definition(tree, described)
    return definition is None or not (definition.guarded or definition.access.checks_answers)


async def takes_commands(tree: Tree, described: WorkflowExecutionDescription) -> bool:
    """Return whether a run takes commands and events by signal."""
    definition = await _read_definition(tree, described)
    return definition is None or not (definition.guarded or definition.access.checks_commands)


async def _read_definition(tree: Tree, described: WorkflowExecutionDescription) -> Definition | None:
    """Return what a run was started with; None for a workflow of an author's own, which checks no sender."""
    if described.workflow_type != PIPELINE_WORKFLOW:
        return None
    return await started_with(tree.client, described)


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

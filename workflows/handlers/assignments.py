"""Claims, delegations and reassignments of open questions, by update.

A claim has no timer: whether it still holds is judged when somebody answers, so it costs no event beside its update.
"""

from __future__ import annotations

from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import RawValue

from holdfast.blueprint.people import GROUP
from holdfast.protocol import guard
from holdfast.protocol.answers import Refusal, refuse_closed
from holdfast.protocol.assignment import (
    CLAIM,
    DELEGATE,
    MOST_ASSIGNMENTS,
    REASSIGN,
    RELEASE,
    AssignmentCommand,
    AssignmentReceipt,
    Claim,
    Delegation,
    Reassignment,
    Release,
)
from holdfast.protocol.guard import Verified
from holdfast.protocol.people import SIGN_IN, Groups, eligible, is_excluded, why_not, with_proved
from holdfast.protocol.questions import Question
from holdfast.workflows.door import NOTHING, CommandFields, Door, check_may_answer, digest_of_command, read_value
from holdfast.workflows.handlers.questions import OpenQuestion, Questions


class Assignments:
    """Changes whom the open questions of one workflow wait for."""

    def __init__(self, door: Door, questions: Questions) -> None:
        self.door = door
        self._questions = questions

    # Handlers

    @workflow.update(name=CLAIM, description="Claim an open question: nobody else may answer it for a while.")
    def claim(self, payload: RawValue = NOTHING) -> AssignmentReceipt:
        return self._take(Claim, payload)

    @claim.validator
    def check_claim(self, payload: RawValue = NOTHING) -> None:
        self._check(Claim, payload)

    @workflow.update(name=RELEASE, description="End a claim.")
    def release(self, payload: RawValue = NOTHING) -> AssignmentReceipt:
        return self._take(Release, payload)

    @release.validator
    def check_release(self, payload: RawValue = NOTHING) -> None:
        self._check(Release, payload)

    @workflow.update(name=DELEGATE, description="Delegate your answer to an open question to somebody else.")
    def delegate(self, payload: RawValue = NOTHING) -> AssignmentReceipt:
        return self._take(Delegation, payload)

    @delegate.validator
    def check_delegate(self, payload: RawValue = NOTHING) -> None:
        self._check(Delegation, payload)

    @workflow.update(name=REASSIGN, description="Replace the assignees of an open question.")
    def reassign(self, payload: RawValue = NOTHING) -> AssignmentReceipt:
        return self._take(Reassignment, payload)

    @reassign.validator
    def check_reassign(self, payload: RawValue = NOTHING) -> None:
        self._check(Reassignment, payload)

    @workflow.signal(name=CLAIM)
    def claim_signal(self, payload: RawValue = NOTHING) -> None:
        self._refuse_signal(CLAIM)

    @workflow.signal(name=RELEASE)
    def release_signal(self, payload: RawValue = NOTHING) -> None:
        self._refuse_signal(RELEASE)

    @workflow.signal(name=DELEGATE)
    def delegate_signal(self, payload: RawValue = NOTHING) -> None:
        self._refuse_signal(DELEGATE)

    @workflow.signal(name=REASSIGN)
    def reassign_signal(self, payload: RawValue = NOTHING) -> None:
        self._refuse_signal(REASSIGN)

    def _refuse_signal(self, name: str) -> None:
        raise Refusal("not_allowed", f"the sender of a signal cannot be checked: use holdfast {name}")

    def _take(self, kind: type[AssignmentCommand], raw: RawValue) -> AssignmentReceipt:
        payload = read_value(raw, None)
        command, digest = kind.read(payload), digest_of_command(kind.name, payload)
        if self.door.receipts.find(command.key, digest):
            entry = self._questions.find(command.question)
            return _make_receipt(command, None if entry is None else entry.question)
        receipt = _make_receipt(command, self._questions.assign(command))
        self.door.receipts.add_command(command.key, digest, command.by)
        return receipt

    # Checks, for validators only: they may read the deployment

    def _check(self, kind: type[AssignmentCommand], raw: RawValue) -> None:
        payload = read_value(raw, guard.DEPLOYMENT.limits.answer)
        command = kind.read(payload)
        verified = self._check_sender(command, payload)
        if self.door.receipts.find(command.key, digest_of_command(kind.name, payload)):
            return
        self.door.check_busy()
        entry = self._questions.require(command.question)
        _check_open(entry)
        question = entry.question
        if not command.steers:
            _check_proved(verified, question)
        self._check_command(command, entry, verified)

    def _check_sender(self, command: AssignmentCommand, payload: object) -> Verified | None:
        """Return what the token proves; refuse a command whose token or sender is not right for it."""
        verified = self.door.check_token(command.name, payload)
        if command.steers:
            self.door.access.check_steering(CommandFields.read(payload), verified)
            return verified
        check_may_answer(verified)
        if verified is not None and command.key is None:
            raise Refusal("not_allowed", "a command with a token needs a `key`, so that it counts once")
        return verified

    def _check_command(self, command: AssignmentCommand, entry: OpenQuestion, verified: Verified | None) -> None:
        if isinstance(command, Release):
            self._check_may_release(command, entry, verified)
            return
        if not command.steers:
            if not entry.question.people.assignees:
                self.door.access.check_answering(command.by, command.groups, verified)
            _check_may_take_part(command, entry.question)
            entry.check_unclaimed(command.by)
        if command.recipients:
            _check_recipients(command, entry.question)

    def _check_may_release(self, command: AssignmentCommand, entry: OpenQuestion, verified: Verified | None) -> None:
        claimant = entry.question.claimant(workflow.now())
        if claimant is None:
            text = f"question {entry.question.id} is not claimed; there is nothing to release"
            raise Refusal("not_allowed", text)
        if command.user != claimant and not self.door.access.supervises(command.by, command.groups, verified):
            raise entry.refuse_claimed(claimant)


def _read_groups(command: AssignmentCommand) -> Groups:
    """Return the deployment's groups, with those that the sender's sign-in has proved."""
    return with_proved(guard.DEPLOYMENT.groups, command.by, command.groups)


def _check_open(entry: OpenQuestion) -> None:
    question, assignments = entry.question, entry.assignments
    if question.deadline is not None and question.deadline <= workflow.now():
        raise refuse_closed(question.id, "expired", question.deadline)
    if assignments >= MOST_ASSIGNMENTS:
        text = f"question {question.id} was claimed and delegated {assignments} times, which is the limit"
        raise Refusal("not_allowed", f"{text}; answer it, or decline it")


def _check_proved(verified: Verified | None, question: Question) -> None:
    """Refuse a sender who has not signed in, if only such people may answer.

    Otherwise a name that nothing proves could delegate the question to somebody else, who then signs in and answers.
    """
    if question.proof is not None and (verified is None or verified.proof != question.proof):
        raise Refusal("not_allowed", f"question {question.id}: {SIGN_IN}")


def _check_may_take_part(command: AssignmentCommand, question: Question) -> None:
    """Refuse somebody who may not answer, or has accepted already."""
    if command.user is None:
        way_out = "name them as `by` (on the command line: --by USER)"
        raise Refusal("not_allowed", f"question {question.id}: the sender is not known: {way_out}")
    if reason := why_not(question.people, command.by, _read_groups(command)):
        raise Refusal("not_allowed", f"question {question.id}: {reason}")
    if command.user in question.accepted_by:
        text = f"{command.user} has accepted it before; it waits for somebody else"
        raise Refusal("already_answered", f"question {question.id}: {text}")


def _check_recipients(command: AssignmentCommand, question: Question) -> None:
    """Refuse people who may not answer, groups that are not known, and too few people for the quorum."""
    groups, refuse = guard.DEPLOYMENT.groups, f"question {question.id}: "
    for name in command.recipients:
        if name == command.user and not command.steers:
            raise Refusal("invalid_answer", f"{refuse}{name} is already asked; name somebody else")
        if is_excluded(name, question.people, groups):
            excluded = ", ".join(question.not_by)
            raise Refusal(
                "not_allowed", f"{refuse}{name} cannot be the delegate: the question may not be answered by {excluded}"
            )
        if name in question.accepted_by:
            raise Refusal("not_allowed", f"{refuse}{name} has accepted it already, and counts once; name somebody else")
        if _is_unknown_group(name):
            listed = ", ".join(f"{GROUP}{group}" for group in groups) or "none"
            raise Refusal("not_allowed", f"{refuse}this deployment has no {name}; known: {listed}")
    _check_quorum(question, question.model_copy(update=command.list_changes(question, workflow.now())))


def _is_unknown_group(name: str) -> bool:
    """Return whether nobody is in this group. Where sign-ins prove groups, the file of the worker does not name all."""
    deployment = guard.DEPLOYMENT
    return name.startswith(GROUP) and name.removeprefix(GROUP) not in deployment.groups and deployment.knows_all_groups


def _check_quorum(before: Question, after: Question) -> None:
    """Refuse a change that leaves fewer people than must accept, unless that was so before."""
    people = eligible(after.people, guard.DEPLOYMENT.groups)
    if people is None or after.quorum == 1:
        return
    can = {*people, *after.accepted_by}
    if len(can) < after.quorum:
        text = f"{after.quorum} people must accept, and only {len(can)} could: {_join(sorted(can))}"
        raise Refusal("not_allowed", f"question {before.id}: {text}; name somebody else")


def _join(names: Sequence[str]) -> str:
    return ", ".join(names) or "nobody"


def _make_receipt(command: AssignmentCommand, question: Question | None) -> AssignmentReceipt:
    """Return the receipt; of a repeated command whose question is closed by now, without what it led to."""
    at = workflow.now()
    if question is None:
        return AssignmentReceipt(question=command.question, status=command.status, by=command.by, at=at)
    return AssignmentReceipt(
        question=question.id,
        status=command.status,
        by=command.by,
        at=at,
        until=question.claimed_until,
        assignees=question.assignees,
    )

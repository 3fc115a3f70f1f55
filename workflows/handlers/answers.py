"""Answers to open questions, by update and by signal: who may give one, and what it may hold.

An update is checked by its validator, which alone may read the deployment; its handler only takes it. A signal has no
validator, and its content stands in the history, so it is refused where the sender matters.
"""

from __future__ import annotations

from temporalio import workflow
from temporalio.common import RawValue

from holdfast.blueprint.questions import ROTATE
from holdfast.protocol import guard
from holdfast.protocol.answers import Answer, AnswerBatch, Receipt, Refusal, key_digest, refuse_closed
from holdfast.protocol.guard import Verified
from holdfast.protocol.names import ANSWER
from holdfast.protocol.people import SIGN_IN, who_may, why_not, with_proved
from holdfast.workflows.door import NOTHING, Door, check_may_answer, read_batch, read_value
from holdfast.workflows.handlers.questions import OpenQuestion, Questions


class Answers:
    """Takes answers to the open questions of one workflow."""

    def __init__(self, door: Door, questions: Questions) -> None:
        self.door = door
        self.leaving = False
        """Whether nothing waits for answers any more, in an author's workflow that ends in this task."""
        self._questions = questions

    # Handlers. They take `RawValue`: with a typed argument, a signal that cannot be decoded is dropped in silence, and
    # an update reports only "Failed decoding arguments".

    @workflow.update(name=ANSWER, description="Answer one or several open questions.")
    def answer(self, payload: RawValue) -> list[Receipt]:
        # Nothing here reads the deployment: a handler runs again on replay, and what is allowed may have changed. That
        # the validator has checked, which does not run again.
        answers = read_batch(payload, None)
        return self._questions.take(answers, guard.proof_in(answers.token))

    @answer.validator
    def check_answer(self, payload: RawValue) -> None:
        answers = read_batch(payload, guard.DEPLOYMENT.limits.answer)
        verified = self.door.check_token(ANSWER, read_value(payload, None))
        check_may_answer(verified)
        self._check_key(answers)
        self._check_leaving()
        if self._questions.find_receipts(answers):
            return  # taken before: they get their receipts again, whoever may answer by now
        self._questions.check(answers)
        self._check_deadlines(answers)
        self._check_people(answers, verified.proof if verified else guard.UNPROVED)
        self._check_access(answers, verified)
        self._check_claims(answers, verified)

    @workflow.signal(name=ANSWER, description="The same as the update, without a receipt.")
    def answer_signal(self, payload: RawValue = NOTHING) -> None:
        answers = read_batch(payload, self.door.identity.size_limits.answer)
        try:
            # Before the content is checked: a raw secret would only be called invalid there, and nobody be told to
            # rotate it.
            self._check_signal(answers)
            self._check_claims_by_signal(answers)
            self._check_key(answers)
            self._check_leaving()
            self._questions.check(answers)
            self._questions.take(answers)
        except Refusal as refusal:
            named = answers.answers[0].question if len(answers.answers) == 1 else ""
            question, key = self._questions.find_known_id(named), key_digest(answers.key)
            self.door.refuse_signal(refusal, question=question, key=key, by=answers.by)

    # Checks of both

    def _check_leaving(self) -> None:
        if self.leaving:
            raise Refusal("run_closed", "the workflow has just ended, or goes on in a new history; look again")

    def _check_key(self, answers: AnswerBatch) -> None:
        """Refuse answers under the key of a refused signal to another question."""
        digest = key_digest(answers.key)
        before = {
            signal.question for signal in self.door.refused if digest and signal.key == digest and signal.question
        }
        if other := before - {self._questions.find_known_id(answer.question) for answer in answers.answers}:
            text = f"key {answers.key!r} came with an answer to question {min(other)}, which was refused"
            raise Refusal("key_conflict", f"{text}; use a new key")

    # Checks of the update

    def _check_deadlines(self, answers: AnswerBatch) -> None:
        """Refuse answers at or after the deadline, whether or not the timer has fired yet."""
        for answer in answers.answers:
            entry = self._questions.find(answer.question)
            if entry and entry.question.deadline and entry.question.deadline <= workflow.now():
                raise refuse_closed(entry.question.id, "expired", entry.question.deadline)

    def _check_people(self, answers: AnswerBatch, proof: str) -> None:
        """Refuse answers of people who may not answer these questions.

        Args:
            answers: The batch, whose token has been checked.
            proof: What the token proves.
        """
        groups = with_proved(guard.DEPLOYMENT.groups, answers.by, answers.groups)
        for answer in answers.answers:
            entry = self._questions.require(answer.question)
            reason = why_not(entry.question.people, answers.by, groups) or _why_unproved(entry, answer, proof)
            if reason:
                raise Refusal("not_allowed", f"question {entry.question.id}: {reason}")

    def _check_access(self, answers: AnswerBatch, verified: Verified | None) -> None:
        """Refuse answers to questions without assignees by somebody who may not answer in this run."""
        entries = [self._questions.find(answer.question) for answer in answers.answers]
        if any(entry is not None and not entry.question.assignees for entry in entries):
            self.door.access.check_answering(answers.by, answers.groups, verified)

    def _check_claims(self, answers: AnswerBatch, verified: Verified | None) -> None:
        """Refuse an answer to a question that somebody else has claimed.

        Whoever may steer the run may decline or cancel it all the same: a claim must not hold up a run.
        """
        for answer in answers.answers:
            entry = self._questions.find(answer.question)
            supervises = answer.action != "accept" and self.door.access.supervises(answers.by, answers.groups, verified)
            if entry is not None and not supervises:
                entry.check_unclaimed(answers.by)

    # Checks of the signal

    def _check_claims_by_signal(self, answers: AnswerBatch) -> None:
        for answer in answers.answers:
            if (entry := self._questions.find(answer.question)) is not None:
                entry.check_unclaimed(answers.by)

    def _check_signal(self, answers: AnswerBatch) -> None:
        """Refuse answers to secrets, in guarded runs, and where only some people may answer."""
        entries = [self._questions.find(answer.question) for answer in answers.answers]
        for entry in entries:
            if entry is not None and (refusal := entry.asked.signal_refusal):
                remedy = f"; if a value stood in this one, {ROTATE}" if entry.asked.hidden else ""
                raise Refusal("not_allowed", f"question {entry.question.id}: {refusal}{remedy}")
        if self.door.identity.guarded or self.door.identity.access.checks_answers:
            raise Refusal(
                "not_allowed", "this run checks who answers, and takes answers by update only: use holdfast answer"
            )
        for entry in entries:
            if entry is not None and entry.question.proof is not None:
                raise Refusal("not_allowed", f"question {entry.question.id}: {SIGN_IN}")
            if entry is not None and entry.question.people.restricted:
                reason = f"{who_may(entry.question.people)} may answer, which is checked for updates only"
                raise Refusal("not_allowed", f"question {entry.question.id}: {reason}: use holdfast answer")


def _why_unproved(entry: OpenQuestion, answer: Answer, proof: str) -> str | None:
    """Return why what the token proves is not enough for this answer; None if it is."""
    if entry.question.proof is not None and proof != entry.question.proof:
        return SIGN_IN
    if entry.asked.consents and answer.action == "accept" and proof == "service":
        return "it asks for consent, which a service cannot give: a person who signs in or has a token must answer it"
    return None

"""The base class of every workflow of a run, and of authors: answers, pause and resume, queries.

What a workflow of a run has beside that, a life with an end, stands in `chain`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RawValue

from holdfast.protocol import guard
from holdfast.protocol.access import AccessPolicy, RunAccess
from holdfast.protocol.address import Address
from holdfast.protocol.agents import Usage
from holdfast.protocol.answers import AnswerBatch, Receipt, Refusal, key_digest
from holdfast.protocol.attachments import ATTACHMENT, AttachmentContent, AttachmentQuery
from holdfast.protocol.door import SizeLimit, SizeLimits
from holdfast.protocol.elicitations import ELICIT, ELICITED, Elicited, ElicitedQuery
from holdfast.protocol.events import AnyEvent, Event, RunPaused, RunResumed
from holdfast.protocol.guard import Verified
from holdfast.protocol.questions import Asked, Question, QuestionRequest
from holdfast.protocol.runs import (
    ANSWER,
    CONTEXT,
    EVENTS,
    PAGE_BYTES,
    PAUSE,
    PAUSED_MEMO,
    RESUME,
    SHOWN,
    VIEW,
    AgentDefinition,
    Carried,
    ChildDefinition,
    HistoryLimits,
    LossPolicy,
    RefusedSignal,
    Status,
    WorkflowView,
    summary_of,
)
from holdfast.workflows.arrivals import Arrivals
from holdfast.workflows.calls import Activities
from holdfast.workflows.children import Children
from holdfast.workflows.concurrency import end_if_cancelled, was_cancelled
from holdfast.workflows.details import Display
from holdfast.workflows.door import NOTHING, answers_in, elicitation_in, one_argument, refused, unquoted, value_in
from holdfast.workflows.elicitations import Elicitations
from holdfast.workflows.frame import OwnStart
from holdfast.workflows.history import History
from holdfast.workflows.journal import Journal
from holdfast.workflows.questions import Questions, Reply
from holdfast.workflows.request_counts import RequestCounts
from holdfast.workflows.rest import await_rest
from holdfast.workflows.steering import (
    RunGuard,
    Steering,
    check_may_answer,
    check_payload_token,
    check_token,
    digest_of_command,
)
from holdfast.workflows.turns import Speakers

# Both are part of the view, a query result: over 16 KiB it would go to the external storage of payloads.
KEPT_REFUSALS = 20
SHOWN_TIMERS = 20


@dataclass(frozen=True)
class RunIdentity:
    """The constants of a workflow: its run, its place there, the access to it, and the run's limits.

    Limits are fixed when the run starts. The handler of a signal runs again on replay, and must measure by the same
    limits then; those of the deployment may have changed.
    """

    run: str
    address: Address
    blueprint: str
    guarded: bool = False
    access: AccessPolicy = AccessPolicy()
    started_by: str | None = None
    size_limits: SizeLimits = SizeLimits()
    history_limits: HistoryLimits = HistoryLimits()
    loss_policy: LossPolicy = LossPolicy()


class BaseWorkflow(Arrivals):
    """The part of a workflow that people and clients talk to: handlers, queries, and the state they show."""

    def __init__(self, identity: RunIdentity, state: Carried | None = None, most_rounds: int | None = None) -> None:
        """Begin with the state of the parent, or of the history before; see `ChildWorkflow` for `most_rounds`."""
        state = state or Carried()
        self.run_id, self.address, self.blueprint_name = identity.run, identity.address, identity.blueprint
        self.guarded, self.started_by = identity.guarded, identity.started_by
        self.access = RunGuard(
            RunAccess(blueprint=identity.blueprint, started_by=identity.started_by, written=identity.access)
        )
        self.size_limits = identity.size_limits
        self.history = History(identity.history_limits, most_rounds)
        self.paused = state.paused
        self.journal = Journal(state.next_offset)
        self.hints, self._kept, self._granted, self._nonces = list(state.kept), {}, {}, {}
        self.questions = Questions(
            self.run_id,
            self.journal,
            self.opened,
            guarded=self.guarded or self.access.checks_answers,
            closed=list(state.closed),
        )
        self.loss_policy = identity.loss_policy
        self.activities = Activities(self.until_resumed, self.count, self.loss_policy)
        self.elicitations = Elicitations()
        self.children = Children(self)
        self.usage = state.usage
        self.permits = list(state.permits)
        self.request_counts = RequestCounts(state.request_counts)
        self.speakers = Speakers(state.speakers)
        self.previous_run = state.previous_run
        self.iteration: int | None = None
        self.ended: Status | None = None
        self.leaving = False
        """Whether nothing waits for answers any more, in an author's workflow that ends in this task."""
        self.digest = ""
        self._timers: list[datetime] = []
        self.refused = list(state.refused)
        self.display = Display(self._details_key, lambda: self._view([]), lambda: self.questions.open)

    # For frames

    def note(self, address: Address, event: AnyEvent) -> None:
        self.journal.note(address, event)

    def count(self, usage: Usage) -> None:
        self.usage += usage

    async def until_resumed(self) -> None:
        """Wait while the run is paused; raise `CancelledError` if it was cancelled.

        Every activity, child and step starts behind this call, so a cancelled run starts nothing more.
        """
        if self.paused:
            await workflow.wait_condition(lambda: not self.paused or was_cancelled())
        await end_if_cancelled()

    async def wait_until(self, moment: datetime, summary: str) -> None:
        """Wait until a moment, also while the run is paused: like a deadline it is a time of the world."""
        await end_if_cancelled()
        self.count(Usage(timers=1))
        self._timers.append(moment)
        try:
            await await_rest(whole_task=True)  # only the task has the time
            while (remaining := (moment - workflow.now()).total_seconds()) > 0:
                await workflow.sleep(remaining, summary=summary_of(summary))
                await await_rest(whole_task=True)
        finally:
            self._timers.remove(moment)

    async def ask(self, request: QuestionRequest) -> Reply:
        self.count(Usage(questions=1) if request.asked.for_people else Usage(timers=1))
        return await self.questions.ask(request)

    def change_question(self, address: Address, asked: Asked, parents: Sequence[dict[str, Any]]) -> None:
        self.questions.change(address, asked, parents)

    async def run_child(self, definition: ChildDefinition | AgentDefinition, state: Carried) -> Any:
        """Start a child workflow, wait for its end, and return its result."""
        return await self.children.run(definition, state)

    async def run_own(self, start: OwnStart, begun: Callable[[str], None]) -> RawValue:
        """Run a workflow that is no part of the run to its end, and return its result; see `Children.run_own`."""
        return await self.children.run_own(start, begun)

    def handed_down(self) -> dict[str, Any]:
        """Return the fields of every definition that are the same in the whole run."""
        return {
            "run": self.run_id,
            "guarded": self.guarded,
            "access": self.access.run.written,
            "started_by": self.started_by,
            "size_limits": self.size_limits,
            "history_limits": self.history.limits,
            "loss_policy": self.loss_policy,
        }

    def permit(self, *tools: str) -> None:
        """Remember that a person allowed these tools for the rest of the run."""
        self.permits += [tool for tool in tools if tool not in self.permits]

    # For events of other systems

    @property
    def signal_limit(self) -> SizeLimit:
        """See base class."""
        return self.size_limits.answer

    async def signal_children(self, name: str, argument: BaseModel) -> None:
        """See base class."""
        await self.children.signal(name, argument)

    # Display

    def _details_key(self) -> tuple[Any, ...]:
        """Return the values that the current details are made of, to compare."""
        asked = tuple(
            (
                question.id,
                question.digest,  # a tool that runs again may word an open question anew, under the same id
                question.reminders,
                question.answers_so_far,
                question.claimed_until,
                *question.assignees,
            )
            for question in self.questions.open
        )
        return asked, self.iteration, tuple(self.children.ids), tuple(self.refused), self.paused, self.ended

    # Handlers. They take `RawValue`: with a typed argument, a signal that cannot be decoded is dropped in silence, and
    # an update reports only "Failed decoding arguments".

    @workflow.update(name=ANSWER, description="Answer one or several open questions.")
    def answer(self, payload: RawValue) -> list[Receipt]:
        # No limit and no check here: a handler runs again on replay, and what the deployment allows may have changed.
        # The validator, which does not run again, has checked them.
        self.history.updates += 1
        try:
            answers = answers_in(payload, None)
            return self.questions.take(answers, guard.proof_in(answers.token))
        except Refusal as refusal:
            raise refused(refusal) from None

    @answer.validator
    def _check_answer(self, payload: RawValue) -> None:
        try:
            answers = answers_in(payload, guard.DEPLOYMENT.limits.answer)
            verified = check_token(self.run_id, ANSWER, payload)
            check_may_answer(verified)
            self._check_key(answers)
            self._check_leaving()
            self.questions.check(answers)
            self.questions.check_deadlines(answers)
            self.questions.check_allowed(answers, verified.proof if verified else guard.UNPROVED)
            self._check_access(answers, verified)
            self.check_claims(answers)
        except Refusal as refusal:
            raise refused(refusal) from None

    def _check_access(self, answers: AnswerBatch, verified: Verified | None) -> None:
        """Refuse answers to questions without assignees by somebody who may not answer in this run."""
        questions = [self.questions.named(answer.question) for answer in answers.answers]
        if any(question is not None and not question.assignees for question in questions):
            self.access.check_answering(answers.by, answers.groups, verified)

    @workflow.signal(name=ANSWER, description="The same as the update, without a receipt.")
    @one_argument
    def answer_signal(self, payload: RawValue = NOTHING) -> None:
        self.history.signals += 1
        answers = None
        try:
            answers = answers_in(payload, self.size_limits.answer)
            # Before the content is checked: a raw secret would only be called invalid there, and nobody be told to
            # rotate it.
            self.questions.check_signal(answers)
            self.check_claims_of_signal(answers)
            self._check_key(answers)
            self._check_leaving()
            self.questions.check(answers)
            self.questions.take(answers)
        except Refusal as refusal:
            self.refuse_signal(refusal, answers)

    def refuse_signal(self, refusal: Refusal, answers: AnswerBatch | None = None) -> None:
        """List a refused signal in the view with the reason, without its content."""
        signal = RefusedSignal(at=workflow.now(), code=refusal.code, message=unquoted(refusal))
        if answers is not None:
            named = answers.answers[0].question if len(answers.answers) == 1 else ""
            question, key = self.questions.known_id(named), key_digest(answers.key)
            signal = signal.model_copy(update={"question": question, "key": key, "by": answers.by})
        self.refused = [*self.refused, signal][-KEPT_REFUSALS:]

    def _check_leaving(self) -> None:
        if self.leaving:
            raise Refusal("run_closed", "the workflow has just ended, or goes on in a new history; look again")

    def _check_key(self, answers: AnswerBatch) -> None:
        """Refuse answers under the key of a refused signal to another question. Raises `Refusal`."""
        digest = key_digest(answers.key)
        before = {signal.question for signal in self.refused if digest and signal.key == digest and signal.question}
        if other := before - {self.questions.known_id(answer.question) for answer in answers.answers}:
            text = f"key {answers.key!r} came with an answer to question {min(other)}, which was refused"
            raise Refusal("key_conflict", f"{text}; use a new key")

    def check_busy(self) -> None:
        """Refuse an update that can wait, to keep the remaining ones for answers, pause and resume.

        For validators only, as the threshold is the deployment's. Raises `Refusal`.
        """
        if self.history.updates >= guard.DEPLOYMENT.busy_from:
            text = (
                f"{self.history.updates:,} updates are in this history, and the remaining ones are reserved for answers"
            )
            raise Refusal("busy", f"{text}; answer what is open, or try again once the run has moved on")

    # Not Temporal's own pause of a workflow: with one paused, list, describe and query of SDK 1.35 raised.
    @workflow.update(name=PAUSE, description="Start no further step; answers are still accepted, deadlines still run.")
    async def pause(self, payload: RawValue = NOTHING) -> None:
        await self._take_pause(PAUSE, payload)

    @pause.validator
    def _check_pause(self, payload: RawValue = NOTHING) -> None:
        self._check_pausing(PAUSE, payload)

    @workflow.update(name=RESUME, description="Go on after a pause.")
    async def resume(self, payload: RawValue = NOTHING) -> None:
        await self._take_pause(RESUME, payload)

    @resume.validator
    def _check_resume(self, payload: RawValue = NOTHING) -> None:
        self._check_pausing(RESUME, payload)

    def _check_pausing(self, command: str, raw: RawValue) -> None:
        try:
            self.check_steering(command, value_in(raw, guard.DEPLOYMENT.limits.answer))
        except Refusal as refusal:
            raise refused(refusal) from None

    async def _take_pause(self, command: str, raw: RawValue) -> None:
        self.history.updates += 1
        try:
            payload = value_in(raw, None)
            before = self.steered_before(command, payload)
        except Refusal as refusal:
            raise refused(refusal) from None
        if not before:
            self.steered(command, payload)
            await self._set_paused(command == PAUSE)
        if not self.takes_signals:  # the client sends it to the children next, so each must be listed
            await workflow.wait_condition(lambda: self.children.starting == 0)

    @workflow.signal(name=PAUSE)
    @one_argument
    async def pause_signal(self, payload: RawValue = NOTHING) -> None:
        await self._pause_by_signal(True)

    @workflow.signal(name=RESUME)
    @one_argument
    async def resume_signal(self, payload: RawValue = NOTHING) -> None:
        await self._pause_by_signal(False)

    async def _pause_by_signal(self, paused: bool) -> None:
        self.history.signals += 1
        try:
            self.check_signal()
        except Refusal as refusal:
            self.refuse_signal(refusal)
        else:
            await self._set_paused(paused)

    @workflow.signal(
        name=ELICIT, description="Put a question of an MCP server to people, from the activity that calls it."
    )
    @one_argument
    def elicit(self, payload: RawValue = NOTHING) -> None:
        self.history.signals += 1
        try:
            self.elicitations.put(elicitation_in(payload, self.size_limits.result))
        except Refusal as refusal:
            self.refuse_signal(refusal)

    @workflow.query(name=ELICITED, description="Whether such a question was answered, and how.")
    def elicited(self, wanted: ElicitedQuery) -> Elicited:
        return self.elicitations.look(wanted)

    # Steering

    @property
    def takes_signals(self) -> bool:
        """Return whether commands may come by signal: not where the sender matters, as a signal has no validator."""
        return not self.guarded and self.access.run.written.steer is None

    def check_signal(self) -> None:
        """Refuse a steering signal in a run that checks its senders. Raises `Refusal`."""
        if not self.takes_signals:
            steer = self.access.run.written.steer or []
            reason = "is guarded" if self.guarded else f"is steered by {', '.join(steer)}"
            raise Refusal("not_allowed", f"this run {reason} and takes commands by update only: use holdfast")

    def check_steering(self, command: str, payload: Any) -> bool:
        """Refuse a command from a person who may not steer; return whether its key was used for it before.

        For validators only, as they may read the deployment. Raises `Refusal`.
        """
        steering = Steering.of(payload)
        self.access.check_steering(steering, check_payload_token(self.run_id, command, payload))
        return self.questions.taken_under(steering.key, digest_of_command(command, payload))

    def steered_before(self, command: str, payload: Any) -> bool:
        """Return whether the command was taken before, under its key. Raises `Refusal`."""
        return self.questions.taken_under(Steering.of(payload).key, digest_of_command(command, payload))

    def steered(self, command: str, payload: Any) -> None:
        """Remember the key of an accepted command."""
        steering = Steering.of(payload)
        if steering.key is not None:
            self.questions.remember_command(steering.key, digest_of_command(command, payload), steering.by)

    async def _set_paused(self, paused: bool) -> None:
        if paused == self.paused:
            return
        self.paused = paused
        # Children are paused with the run, and tell nothing of it: one pause is one event of the record.
        if workflow.info().workflow_id == self.run_id:
            self.note(self.address, RunPaused() if paused else RunResumed())
            workflow.upsert_memo({PAUSED_MEMO: True if paused else None})
        # In a guarded run the client sends each child an update of its own: a signal of ours has no token to be
        # checked.
        if self.takes_signals:
            await self.children.signal(PAUSE if paused else RESUME)

    @workflow.query(name=VIEW, description="Status, iteration, open questions, children.")
    def view(self, offset: int = 0) -> WorkflowView:
        return self._view(self._page_of_questions(offset), offset)

    @workflow.query(name=EVENTS, description="The events from an offset on, a page at a time.")
    def events(self, offset: int = 0) -> list[Event]:
        return self.journal.page(offset)

    @workflow.query(name=CONTEXT, description="The context where this workflow stands.")
    def context(self) -> dict[str, Any]:
        return self.current_context()

    @workflow.query(name=ATTACHMENT, description="The content of an attachment of an open question.")
    def attachment(self, wanted: AttachmentQuery) -> AttachmentContent:
        return AttachmentContent(data=self.questions.attachment(wanted.question, wanted.n))

    @workflow.query(name=SHOWN, description="Questions that were closed in this history, as they were shown, by ids.")
    def shown(self, wanted: list[str]) -> list[Question]:
        return _fitting(self.questions.shown(wanted))

    def current_context(self) -> dict[str, Any]:
        return {}

    def _page_of_questions(self, offset: int) -> list[Question]:
        return _fitting(self.questions.open[offset:])

    def _view(self, questions: list[Question], offset: int = 0) -> WorkflowView:
        return WorkflowView(
            run=self.run_id,
            workflow=workflow.info().workflow_id,
            address=self.address,
            blueprint=self.blueprint_name,
            blueprint_digest=self.digest,
            status=self._status(),
            iteration=self.iteration,
            questions=[question for question in questions if question.asked.for_people],
            events=[question for question in questions if not question.asked.for_people],
            kept=self.hints if self._kept else [],
            more_questions=len(self.questions.open) - offset - len(questions),
            children=self.children.ids,
            moving=self.activities.moving,
            timers=sorted(self._timers)[:SHOWN_TIMERS],
            hears=self.hears,
            refused=self.refused,
            usage=self.usage,
            first_offset=self.journal.first,
            next_offset=self.journal.next,
            temporal_run=workflow.info().run_id,
            previous_run=self.previous_run,
        )

    @property
    def hears(self) -> bool:
        """Return whether this workflow takes messages to an agent."""
        return False

    def _status(self) -> Status:
        if self.ended is not None:
            return self.ended
        if self.paused:
            return "paused"
        asked = any(question.asked.for_people for question in self.questions.open)
        return "waiting" if asked and not self.activities.moving else "running"


def _fitting(questions: Sequence[Question]) -> list[Question]:
    """Return as many of the questions as fit a query result, one at least."""
    taken: list[Question] = []
    room = PAGE_BYTES
    for question in questions:
        room -= len(question.model_dump_json(exclude_defaults=True).encode())
        # One that is larger than a page goes alone: a client that was given none could never ask for the one behind it.
        if room < 0 and taken:
            break
        taken.append(question)
    return taken

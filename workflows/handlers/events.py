"""Events of other systems, by update and by signal.

An event for a step that waits is an answer to its question, and comes to the workflow that asks. One that comes early
is kept by the run, which owns it until a step takes it. The workflows of the run know of it by hints: one whose step
begins to wait claims the event, and the run sends it there. So a wait costs nothing where nothing came early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.jsonschemas import misfit
from holdfast.protocol import guard
from holdfast.protocol.answers import Answer, AnswerBatch, Closed, Refusal
from holdfast.protocol.event_delivery import DeliveryRequest
from holdfast.protocol.events import EventDropped, EventKept
from holdfast.protocol.incoming import (
    CLAIM_EVENT,
    HINT,
    KEPT_FOR,
    MOST_KEPT,
    MOST_KEPT_BYTES,
    SEND_EVENT,
    Claimed,
    EventReceipt,
    KeptHint,
    SystemEvent,
    read_event,
)
from holdfast.protocol.questions import Question
from holdfast.protocol.size_limits import SizeLimit, check_value
from holdfast.workflows.calls import Activities
from holdfast.workflows.children import Children
from holdfast.workflows.concurrency import deliver
from holdfast.workflows.door import NOTHING, Door, check_may_answer, decode_payload, read_from_workflow, read_value
from holdfast.workflows.handlers.questions import Questions
from holdfast.workflows.journal import Journal


@dataclass
class _KeptEvent:
    event: SystemEvent
    proof: str
    at: datetime
    size: int


class Events:
    """Takes the events that come to one workflow of a run, and hands them to the steps that wait for them."""

    def __init__(
        self,
        door: Door,
        journal: Journal,
        questions: Questions,
        children: Children,
        activities: Activities,
        hints: Sequence[KeptHint],
    ) -> None:
        """`hints` are the events that the run keeps."""
        self.door = door
        self.hints = list(hints)
        self.awaited_schemas: Callable[[str], list[JSONObject] | None] = lambda name: None
        """Gives the schemas of the payloads that steps of the run wait for under a name; None if it is not known."""
        self._journal, self._questions, self._children, self._activities = journal, questions, children, activities
        self._kept: dict[str, _KeptEvent] = {}
        """By id, oldest first; empty in every workflow but the run's own."""

    @property
    def kept(self) -> list[KeptHint]:
        """Return what the view shows of the events that are kept here."""
        return self.hints if self._kept else []

    @property
    def next_state(self) -> dict[str, Any]:
        """The fields of the state that the next history begins with."""
        return {"kept": self.hints}

    # Sending

    @workflow.update(name=SEND_EVENT, description="An event of another system, for a step that waits for it.")
    def event(self, payload: RawValue = NOTHING) -> EventReceipt:
        event = read_event(decode_payload(payload, None))
        return self._arrive(event, guard.proof_in(event.token), len(payload.payload.data))

    @event.validator
    def check_event(self, payload: RawValue = NOTHING) -> None:
        event = self._read_event(payload, guard.DEPLOYMENT.limits.answer)
        check_may_answer(self.door.check_token(SEND_EVENT, read_value(payload, None)))
        if self._find_earlier(event) is None:
            self.door.check_busy()
            self._check_arrival(event, len(payload.payload.data))

    @workflow.signal(name=SEND_EVENT, description="The same as the update, without a receipt.")
    def event_signal(self, payload: RawValue = NOTHING) -> None:
        self.door.check_signal()
        event = self._read_event(payload, self.door.identity.size_limits.answer)
        self._arrive(event, guard.UNPROVED, len(payload.payload.data))

    @property
    def _run(self) -> str:
        return self.door.identity.run

    def _read_event(self, payload: RawValue, limit: SizeLimit) -> SystemEvent:
        value = decode_payload(payload, limit)
        check_value(value, limit, "the event")
        return read_event(value)

    def _check_arrival(self, event: SystemEvent, size: int) -> None:
        """Refuse an event that no step of the run can ever take, or that there is no more room for."""
        if self._find_waiting(event.name, event.key) is not None:
            return
        if workflow.info().workflow_id != self._run:
            message = f"no step waits here for the event {event.name!r} with the key {event.key!r}"
            raise Refusal("unknown_question", f"{message}; send it to the run {self._run}")
        schemas = self.awaited_schemas(event.name)
        if schemas == []:
            message = f"no step of this run waits for an event {event.name!r}, or would take one that came early"
            raise Refusal("unknown_question", f"{message}; its `wait` steps say which they wait for")
        problems = [misfit(schema, event.payload) for schema in schemas or []]
        if problems and all(problems):
            raise Refusal("invalid_answer", f"the payload does not fit: {problems[0]}")
        young = [kept for kept in self._kept.values() if kept.at + KEPT_FOR > workflow.now()]
        total = sum(kept.size for kept in young)
        if len(young) >= MOST_KEPT or total + size > MOST_KEPT_BYTES:
            reason = f"the run keeps {len(young)} events ({total:,} bytes) that came before any step waited"
            raise Refusal("busy", f"{reason}; at most {MOST_KEPT} and {MOST_KEPT_BYTES:,} bytes: send it later")

    def _arrive(self, event: SystemEvent, proof: str, size: int) -> EventReceipt:
        """Hand an event to the step that waits for it, or keep it; return its receipt. Raises `Refusal`."""
        if (before := self._find_earlier(event)) is not None:
            return self._make_receipt(event, before.question or None, before.at)
        self._check_arrival(event, size)
        self._drop_old()
        if (question := self._find_waiting(event.name, event.key)) is not None:
            self._take_event(question.id, event, proof)
            return self._make_receipt(event, question.id, workflow.now())
        self.door.receipts.add_command(event.kept_key, event.digest, event.by)
        self._keep_event(_KeptEvent(event, proof, workflow.now(), size))
        return self._make_receipt(event, None, workflow.now())

    def _make_receipt(self, event: SystemEvent, question: str | None, at: datetime) -> EventReceipt:
        status: Literal["kept", "taken"] = "kept" if question is None else "taken"
        return EventReceipt(event=event.id, run=self._run, status=status, question=question, at=at)

    def _find_earlier(self, event: SystemEvent) -> Closed | None:
        """Return the record of the same event, if it came before. Raises `Refusal` for another one under its id."""
        for question in reversed(self.door.receipts.closed):
            if question.key in (event.answer_key, event.kept_key):
                answer = AnswerBatch(
                    answers=[Answer(question=question.question or "-", content=event.content)], by=event.by
                )
                if question.digest != (answer.digest if question.question else event.digest):
                    raise Refusal("key_conflict", f"another event came under the id {event.id!r}; use a new id")
                return question
        return None

    def _find_waiting(self, name: str, key: str) -> Question | None:
        """Return the question here that waits for an event, the one asked first."""
        waiting = [question for question in self._questions.open if question.asked.awaits == (name, key)]
        return min(waiting, key=lambda question: (question.asked_at, question.address), default=None)

    def _take_event(self, question: str, event: SystemEvent, proof: str) -> None:
        answer = Answer(question=question, content=event.content)
        self._questions.take(AnswerBatch(answers=[answer], by=event.by, key=event.answer_key), proof)

    # Keeping

    def _keep_event(self, kept: _KeptEvent) -> None:
        event = kept.event
        self._kept[event.id] = kept
        self._journal.note(self.door.identity.address, EventKept(id=event.id, name=event.name, key=event.key))
        hint = KeptHint(id=event.id, name=event.name, key=event.key, until=kept.at + KEPT_FOR)
        self.hints.append(hint)
        # Not awaited: the receipt would wait for the signals to all children. The SDK holds a reference to the task.
        asyncio.create_task(self._children.signal(HINT, hint))

    def _drop_old(self) -> None:
        """Drop the events that were kept for a day. No timer does: it costs nothing until the next one comes."""
        now = workflow.now()
        self.hints = [hint for hint in self.hints if hint.until > now][-MOST_KEPT:]
        for id_, kept in list(self._kept.items()):
            if kept.at + KEPT_FOR <= now:
                del self._kept[id_]
                self._note_dropped(kept.event)

    def _note_dropped(self, event: SystemEvent) -> None:
        dropped = EventDropped(id=event.id, name=event.name, key=event.key)
        self._journal.note(self.door.identity.address, dropped)

    def hand_over(self, question: Question) -> None:
        """Hand a question that was just asked the event that came before it, or claim that from the run."""
        if question.asked.awaits is None or not question.asked.takes_early:
            return
        self._drop_old()
        for hint in [hint for hint in self.hints if (hint.name, hint.key) == question.asked.awaits]:
            self.hints.remove(hint)
            if workflow.info().workflow_id != self._run:
                asyncio.create_task(self._claim(hint))
                return
            if (kept := self._kept.pop(hint.id, None)) is not None and self._fits(question, kept):
                self._take_event(question.id, kept.event, kept.proof)
                return

    def _fits(self, question: Question, kept: _KeptEvent) -> bool:
        """Return whether the question takes the event; one that it does not is dropped: nothing else waits for it."""
        try:
            self._check_taken(question.id, kept.event)
        except Refusal:
            self._note_dropped(kept.event)
            return False
        return True

    def _check_taken(self, question: str, event: SystemEvent) -> None:
        self._questions.check(
            AnswerBatch(answers=[Answer(question=question, content=event.content)], key=event.answer_key)
        )

    # Between the workflows of a run. Anybody can send these signals, so none of them carries an event.

    async def _claim(self, hint: KeptHint) -> None:
        claim = Claimed(id=hint.id, owner=workflow.info().workflow_id)
        await deliver(workflow.get_external_workflow_handle(self._run).signal(CLAIM_EVENT, claim))

    @workflow.signal(name=HINT)
    async def event_kept(self, payload: RawValue = NOTHING) -> None:
        """Hear of an event that the run keeps, and tell the children."""
        if (hint := read_from_workflow(KeptHint, payload)) is None:
            return
        self.hints = [*self.hints, hint][-MOST_KEPT:]
        if self._find_waiting(hint.name, hint.key) is not None:
            self.hints.remove(hint)
            await self._claim(hint)
        else:
            await self._children.signal(HINT, hint)

    @workflow.signal(name=CLAIM_EVENT)
    async def event_claimed(self, payload: RawValue = NOTHING) -> None:
        """Send a workflow of this run an event that is kept here; a claim on any other is stale.

        It comes as any event does, by an update with a token where the run is guarded, which only a worker can make.
        """
        claim = read_from_workflow(Claimed, payload)
        if claim is None or not claim.owner.startswith(f"{self._run}/"):
            return
        if (kept := self._kept.pop(claim.id, None)) is None:
            return
        event = kept.event.model_copy(update={"token": None, "groups": None})
        delivery = DeliveryRequest(run=self._run, owner=claim.owner, event=event, proof=kept.proof)
        try:
            status = await self._activities.deliver_event(delivery)
        except ActivityError:
            status = "not_awaited"
        if status == "not_awaited":
            self._keep_event(kept)
        elif status == "refused":
            self._note_dropped(kept.event)

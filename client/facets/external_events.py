"""Events of other systems, for steps of kind `wait`: `runs.external_events`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.client.answering import Answering
from holdfast.client.delivery import AnswerDelivery
from holdfast.client.earlier_answers import EarlierAnswers
from holdfast.client.listing import runs_waiting_for
from holdfast.client.open_questions import check_content
from holdfast.client.outcomes import read_state
from holdfast.client.outgoing import check_batch
from holdfast.client.question_reader import QuestionReader
from holdfast.client.signals import no_signals, takes_commands
from holdfast.client.tree import Tree, UnknownRun, collect_events
from holdfast.protocol.answers import Answer, AnswerBatch, Refusal
from holdfast.protocol.guard import SignedCommand
from holdfast.protocol.incoming import SEND_EVENT, EventReceipt, SystemEvent, read_event
from holdfast.protocol.size_limits import check_value
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.errors import raise_server_errors
from holdfast.runtime.workers import Busy, NoWorker

EVENT_LOOKS = 5
"""How often a run is looked at for the step that waits for an event."""


class TakenByAnother(Exception):
    """The step that waited for an event has gone on before the event reached it."""


@raise_server_errors
class ExternalEvents:
    """Events that other systems send to runs."""

    def __init__(self, tree: Tree, answering: Answering, reader: QuestionReader) -> None:
        self._tree, self._answering, self._reader = tree, answering, reader

    async def send(
        self,
        run: str,
        name: str,
        key: str,
        payload: JSON = None,
        *,
        id: str | None = None,
        by: str | None = None,
        keep: bool = True,
    ) -> EventReceipt:
        """Send an event of another system to a run, for its step of kind `wait` that waits for this name and key.

        An event that no step waits for yet is kept by the run: at most 100 of them, for a day. Where no worker answers,
        it is sent as a signal.

        Args:
            run: The id of the run.
            name: The event's name.
            key: What tells it from others of its name.
            payload: A JSON value.
            id: The event's id: the same event under the same id counts once. By default a random one.
            by: The system that sends it, such as `user:billing`.
            keep: Whether the run may keep it. If not, it is for a step that waits now, and needs a worker.

        Raises:
            Refusal: The event was refused; its `code` says why.
            NoWorker: No worker answers, and the run may not keep it.
            NothingSent: No worker answers, and it cannot be sent as a signal.
            UnknownRun: There is no such run.
        """
        event = read_event(
            {"name": name, "key": key, "payload": payload, "id": id or secrets.token_hex(8)}
            | {"by": self._answering.find_sender(by)}
        )
        for look in range(EVENT_LOOKS):
            try:
                state = await read_state(self._tree, self._answering, run)
            except NoWorker as error:
                if not keep or (isinstance(error, Busy) and error.is_alive):
                    raise
                return await self._signal(run, event)
            with suppress(TakenByAnother):
                is_new = id is None and look == 0  # nothing can have come under an id that was just made
                return await self._send(state.views, event, keep=keep, is_new=is_new)
        raise Refusal("busy", f"the steps of {run} that wait for {name} come and go; send the event again")

    async def find_runs(self, name: str, key: str) -> list[str]:
        """Return the ids of the runs with a step that waits for an event.

        Visibility finds them, which learns of a step a moment after it begins to wait.

        Args:
            name: The name of the event, as in `for` of the step.
            key: The key of the event.
        """
        return await runs_waiting_for(self._reader, name, key)

    async def _send(
        self, views: Sequence[WorkflowView], event: SystemEvent, *, keep: bool = True, is_new: bool = False
    ) -> EventReceipt:
        """Send an event to the workflow of a run whose step waits for it, else to the run, which keeps it.

        Args:
            views: The run's workflows; none if it has ended.
            event: The event; under an id that came before it gets the receipt of then.
            keep: Whether the run may keep it.
            is_new: Whether no event can have come under its id before.

        Raises:
            Refusal: The event was refused; `unknown_question` if no step waits for it, and the run may not keep it.
            TakenByAnother: The step has gone on in the meantime: look at the run again.
        """
        if not is_new and (early := await self._earlier_event(event, views)):
            return early
        waiting = [
            candidate for candidate in collect_events(views) if candidate.asked.awaits == (event.name, event.key)
        ]
        is_kept = any(hint.id == event.id for hint in views[0].kept)
        if not waiting and not is_kept and not keep:
            raise Refusal("unknown_question", f"no step of {views[0].run} waits for {event.name!r} with this key")
        if not waiting or is_kept:
            return await self._keep_event(event, views[0].run)
        question = min(waiting, key=lambda candidate: (candidate.asked_at, candidate.address))
        batch = _make_batch(event, question.id)
        check_batch(batch, self._answering.limits.answer)
        check_content(question, batch.answers[0])
        try:
            [receipt] = await AnswerDelivery(self._tree, self._answering).update(question.run, question.owner, batch)
        except Refusal as refusal:
            if refusal.code in ("unknown_question", "already_answered", "run_closed"):
                raise TakenByAnother from None
            raise
        return EventReceipt(event=event.id, run=question.run, status="taken", question=receipt.question, at=receipt.at)

    async def _earlier_event(self, event: SystemEvent, views: Sequence[WorkflowView]) -> EventReceipt | None:
        """Return the receipt of an event that a step of the run has taken before under this id."""
        run = views[0].run
        reply = await EarlierAnswers(self._tree, views[0].workflow).find_under(event.answer_key)
        if reply is None:
            return None
        if _make_batch(event, reply.data.id).digest != reply.data.digest:
            raise Refusal("key_conflict", f"another event came under the id {event.id!r}; use a new id")
        return EventReceipt(event=event.id, run=run, status="taken", question=reply.data.id, at=reply.at)

    async def _keep_event(self, event: SystemEvent, run: str) -> EventReceipt:
        argument = self._answering.sign("answer", SignedCommand(run, run, SEND_EVENT, self._write(event)))
        try:
            return await self._tree.update(
                run, SEND_EVENT, argument, EventReceipt, id=f"{event.answer_key}:{event.digest}"
            )
        except UnknownRun:
            raise Refusal("run_closed", f"{run} has ended; it takes no events") from None

    async def _signal(self, run: str, event: SystemEvent) -> EventReceipt:
        """Send an event to a run by signal, for later. Raises `NothingSent` if the run checks who sends it."""
        if self._answering.keys or not await takes_commands(self._tree, await self._tree.describe(run)):
            raise no_signals()
        await self._tree.client.get_workflow_handle(run).signal(SEND_EVENT, self._write(event))
        return EventReceipt(event=event.id, run=run, status="sent", at=datetime.now(UTC))

    def _write(self, event: SystemEvent) -> JSONObject:
        """Return an event as it is sent to a run that keeps it. Raises if it is too large."""
        payload = event.to_json()
        check_value(payload, self._answering.limits.answer, "the event")
        return payload


def _make_batch(event: SystemEvent, question: str) -> AnswerBatch:
    """Return the answer that an event is to a question."""
    answer = Answer(question=question, content=event.content)
    return AnswerBatch(answers=[answer], by=event.by, key=event.answer_key)

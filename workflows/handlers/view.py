"""What a workflow shows: the answers to its queries, and its details and search attributes in Temporal's own tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import SearchAttributeKey

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.address import Address
from holdfast.protocol.attachments import ATTACHMENT, AttachmentContent, AttachmentQuery
from holdfast.protocol.events import Event
from holdfast.protocol.incoming import make_label
from holdfast.protocol.names import CONTEXT, EVENTS, PAGE_BYTES, SHOWN, UNDOS, VIEW
from holdfast.protocol.past import PAST, PastWaits
from holdfast.protocol.people import list_awaited, listed_ids
from holdfast.protocol.questions import Question
from holdfast.protocol.undos import OpenUndo
from holdfast.protocol.usage import Usage
from holdfast.protocol.values import Value
from holdfast.protocol.views import Status, WorkflowView
from holdfast.workflows.calls import Activities
from holdfast.workflows.children import Children
from holdfast.workflows.details import (
    BLUEPRINT_KEY,
    DEADLINE_KEY,
    EVENTS_KEY,
    KEYS,
    QUESTIONS_KEY,
    SINCE_KEY,
    WAITING_KEY,
    write_details,
)
from holdfast.workflows.handlers.events import Events
from holdfast.workflows.handlers.questions import Questions
from holdfast.workflows.handlers.steering import Steering
from holdfast.workflows.journal import Journal
from holdfast.workflows.rest import await_change, await_rest
from holdfast.workflows.undo_log import UndoLogs

Entry = TypeVar("Entry", bound=Value)

# Part of the view, a query result: over 16 KiB it would go to the external storage of payloads.
SHOWN_TIMERS = 20
SINCE_PRECISION = timedelta(minutes=1)
"""How much earlier than the oldest open question the search attribute may say: a fast loop need not write it anew."""


@dataclass
class RunProgress:
    """Where a workflow stands; it is changed by whoever runs the workflow."""

    usage: Usage = Usage()
    previous_run: str | None = None
    """Temporal's run id of the history before."""
    digest: str = ""
    """Of the blueprint."""
    iteration: int | None = None
    ended: Status | None = None
    timers: list[datetime] = field(default_factory=list)
    """When the timers that run are over."""
    deadlines: list[datetime] = field(default_factory=list)
    """When the run, a loop or a block must have ended."""


class View:
    """Shows one workflow."""

    def __init__(
        self,
        progress: RunProgress,
        journal: Journal,
        questions: Questions,
        events: Events,
        steering: Steering,
        children: Children,
        activities: Activities,
        undo_logs: UndoLogs,
    ) -> None:
        self.door = steering.door
        self.read_context: Callable[[], JSONObject] = dict
        """Returns the context where the workflow stands."""
        self.find_hearer: Callable[[], Address | None] = lambda: None
        """Returns the address of the agent that takes messages in this workflow."""
        self._progress, self._journal, self._questions = progress, journal, questions
        self._events, self._steering, self._children, self._activities = events, steering, children, activities
        self._undo_logs = undo_logs
        self._displayed: tuple[object, ...] = ()
        self._told: set[tuple[str, ...]] = set()
        """The questions that the search attributes were written for: their ids, and whom they waited for."""
        before = workflow.info().typed_search_attributes  # of the history before, where this one continues it
        self._attributes = {key: before.get(key) for key in KEYS}

    # Queries

    @workflow.query(name=VIEW, description="Status, iteration, open questions, children.")
    def view(self, offset: int = 0) -> WorkflowView:
        return self._make_view(_cut_page(self._questions.open[offset:]), offset)

    @workflow.query(name=EVENTS, description="The events from an offset on, a page at a time.")
    def events(self, offset: int = 0) -> list[Event]:
        return self._journal.page(offset)

    @workflow.query(name=CONTEXT, description="The context where this workflow stands.")
    def context(self) -> dict[str, Any]:
        return self.read_context()

    @workflow.query(name=ATTACHMENT, description="The content of an attachment of an open question.")
    def attachment(self, wanted: AttachmentQuery) -> AttachmentContent:
        return AttachmentContent(data=self._questions.find_attachment(wanted.question, wanted.n))

    @workflow.query(name=SHOWN, description="Questions that were closed in this history, as they were shown, by ids.")
    def shown(self, wanted: list[str]) -> list[Question]:
        return _cut_page(self._questions.list_shown(wanted))

    @workflow.query(name=UNDOS, description="What is done and would have to be undone, from an offset on, in pages.")
    def undos(self, offset: int = 0) -> list[OpenUndo]:
        return _cut_page(self._undo_logs.open[offset:])

    @workflow.query(name=PAST, description="How questions of this history ended, for a run that goes on from this one.")
    def past(self, offset: int = 0) -> PastWaits:
        return self._questions.list_waits(offset)

    def _make_view(self, questions: list[Question], offset: int = 0) -> WorkflowView:
        identity, progress = self.door.identity, self._progress
        return WorkflowView(
            run=identity.run,
            workflow=workflow.info().workflow_id,
            address=identity.address,
            blueprint=identity.blueprint,
            blueprint_digest=progress.digest,
            status=self._status,
            iteration=progress.iteration,
            questions=[question for question in questions if question.asked.for_people],
            events=[question for question in questions if not question.asked.for_people],
            kept=self._events.kept,
            more_questions=len(self._questions.open) - offset - len(questions),
            children=self._children.ids,
            moving=self._activities.moving,
            timers=sorted(progress.timers)[:SHOWN_TIMERS],
            deadlines=sorted(progress.deadlines)[:SHOWN_TIMERS],
            undoing=self._undo_logs.progress,
            undos=len(self._undo_logs.open),
            hearer=self.find_hearer(),
            refused=self.door.refused,
            usage=progress.usage,
            first_offset=self._journal.first,
            next_offset=self._journal.next,
            temporal_run=workflow.info().run_id,
            previous_run=progress.previous_run,
        )

    @property
    def _status(self) -> Status:
        if self._progress.ended is not None:
            return self._progress.ended
        if self._steering.paused:
            return "paused"
        asked = any(question.asked.for_people for question in self._questions.open)
        return "waiting" if asked and not self._activities.moving else "running"

    # Temporal's own tools

    async def keep_true(self) -> None:
        """Show the workflow whenever what it shows has changed, once a job."""
        while True:
            await await_change(lambda: self._details_key() != self._displayed)
            self.show()

    async def show_at_rest(self) -> None:
        """Show the workflow once nothing more happens by the job at hand: twenty branches that ask make one event."""
        await await_rest(whole_task=False)
        self.show()

    def show(self) -> None:
        """Write the details, and the search attributes if a question was opened, escalated or reassigned."""
        self._displayed = self._details_key()
        view, questions = self._make_view([]), self._questions.open
        if self._progress.ended is None:
            self._write_attributes(questions)
        workflow.set_current_details(write_details(view, questions))

    def _write_attributes(self, questions: Sequence[Question]) -> None:
        """Write what has changed of the search attributes if a question was opened, escalated or reassigned.

        They may name what was closed since, as closing writes nothing: who reads them asks the workflow. Each of them
        costs some 80 bytes of the event. Whether there is one depends on no time: a replay may see another.
        """
        told, self._told = self._told, {(question.id, *question.assignees) for question in questions}
        fresh = [question for question in questions if (question.id, *question.assignees) not in told]
        # An author's own workflow was started by the author, without the name that lists find it by.
        values = {BLUEPRINT_KEY: self.door.identity.blueprint, **_list_names(questions)}
        names = {key: value for key, value in values.items() if value and value != self._attributes[key]}
        if fresh and (names or any(question.deadline and question.asked.for_people for question in fresh)):
            changed = {**names, **_list_times(questions, self._attributes[SINCE_KEY])}
            self._attributes |= changed
            workflow.upsert_search_attributes([key.value_set(value) for key, value in changed.items()])

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
            for question in self._questions.open
        )
        progress = self._progress
        refused, paused = tuple(self.door.refused), self._steering.paused
        undoing = self._undo_logs.progress
        return asked, progress.iteration, tuple(self._children.ids), refused, paused, progress.ended, undoing


def _list_names(questions: Sequence[Question]) -> dict[SearchAttributeKey[Any], Any]:
    """Return whom and what the open questions wait for, and their ids, by search attribute."""
    events = sorted({make_label(*question.asked.awaits) for question in questions if question.asked.awaits})
    questions = [question for question in questions if question.asked.for_people]
    return {
        EVENTS_KEY: listed_ids(events),
        WAITING_KEY: list_awaited(question.people for question in questions),
        QUESTIONS_KEY: listed_ids([question.id for question in questions]),
    }


def _list_times(questions: Sequence[Question], since: datetime | None) -> dict[SearchAttributeKey[Any], Any]:
    """Return the nearest deadline, and when the oldest open question was asked, unless that is about `since`."""
    questions = [question for question in questions if question.asked.for_people]
    asked, deadlines = [q.asked_at for q in questions], [q.deadline for q in questions if q.deadline]
    times: dict[SearchAttributeKey[Any], Any] = {DEADLINE_KEY: min(deadlines)} if deadlines else {}
    if asked and (since is None or min(asked) - since >= SINCE_PRECISION):
        times[SINCE_KEY] = min(asked)
    return times


def _cut_page(entries: Sequence[Entry]) -> list[Entry]:
    """Return as many of the questions, or of other values, as fit a query result, one at least."""
    taken: list[Entry] = []
    room = PAGE_BYTES
    for entry in entries:
        room -= len(entry.model_dump_json(exclude_defaults=True).encode())
        # One that is larger than a page goes alone: a client that was given none could never ask for the one behind it.
        if room < 0 and taken:
            break
        taken.append(entry)
    return taken

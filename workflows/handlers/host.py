"""The objects of one workflow of a run, put together, and what the frames of its steps use of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.questions import Asked
from holdfast.protocol.address import Address
from holdfast.protocol.children import AgentDefinition, Carried, ChildDefinition
from holdfast.protocol.events import EventData
from holdfast.protocol.incoming import KeptHint
from holdfast.protocol.past import Past
from holdfast.protocol.questions import Question, QuestionRequest
from holdfast.protocol.runs import write_summary
from holdfast.protocol.usage import Usage
from holdfast.workflows.calls import Activities
from holdfast.workflows.children import Children
from holdfast.workflows.concurrency import end_if_cancelled
from holdfast.workflows.door import Door
from holdfast.workflows.earlier_run import EarlierRun
from holdfast.workflows.frame import AgentRoom, AskingCall, OwnStart
from holdfast.workflows.handlers.answers import Answers
from holdfast.workflows.handlers.assignments import Assignments
from holdfast.workflows.handlers.elicitations import Elicitations
from holdfast.workflows.handlers.events import Events
from holdfast.workflows.handlers.questions import Questions
from holdfast.workflows.handlers.steering import Steering
from holdfast.workflows.handlers.view import RunProgress, View
from holdfast.workflows.history import History
from holdfast.workflows.identity import RunIdentity
from holdfast.workflows.journal import Journal
from holdfast.workflows.ledger import Ledgers
from holdfast.workflows.replies import Reply
from holdfast.workflows.rest import await_rest
from holdfast.workflows.superseding import Superseding
from holdfast.workflows.turns import Speakers
from holdfast.workflows.undo_log import UndoLogs


class Host:
    """One workflow of a run, or an author's own: its identity, its history, and the objects that serve it."""

    def __init__(
        self,
        identity: RunIdentity,
        state: Carried | None = None,
        most_rounds: int | None = None,
        past: Past | None = None,
    ) -> None:
        """Begin with the state of the parent, or of the history before; see `RunWorkflow` for `most_rounds`.

        `past` is what the same workflow did in the run that this one goes on from.
        """
        state = state or Carried()
        self.identity = identity
        self.history = History(identity.history_limits, most_rounds)
        self.journal = Journal(state.next_offset)
        self.progress = RunProgress(usage=state.usage, previous_run=state.previous_run)
        self.permits = list(state.permits)
        self.ledgers = Ledgers(state.ledgers)
        self.speakers = Speakers(state.speakers)
        self.superseding = Superseding()
        self.earlier = EarlierRun(past)
        self.undo_logs = UndoLogs()
        self.agent_room: AgentRoom | None = None
        self.activities = Activities(identity, self.earlier, self.until_resumed, self.count)
        self.children = Children(self)
        self.door = Door(identity, self.history, state)
        self.questions = Questions(
            identity.run, self.journal, self.door.receipts, self.superseding, self.earlier, self._hand_over_event
        )
        self.assignments = Assignments(self.door, self.questions)
        self.answers = Answers(self.door, self.questions)
        self.events = Events(self.door, self.journal, self.questions, self.children, self.activities, state.kept)
        self.steering = Steering(self.door, self.journal, self.children, paused=state.paused)
        self.elicitations = Elicitations(self.door)
        self.view = View(
            self.progress,
            self.journal,
            self.questions,
            self.events,
            self.steering,
            self.children,
            self.activities,
            self.undo_logs,
        )

    @property
    def next_state(self) -> dict[str, Any]:
        """The fields of the state that the next history begins with."""
        # An offset and a run id instead of the events: 1,000 of them took 363 kB each time.
        own = {"next_offset": self.journal.next, "previous_run": workflow.info().run_id}
        return {**own, **self.door.next_state, **self.events.next_state, **self.steering.next_state}

    def _hand_over_event(self, question: Question) -> None:
        self.events.hand_over(question)

    # For frames and children, see `frame.HostForFrames`

    @property
    def paused(self) -> bool:
        """Return whether the run is paused."""
        return self.steering.paused

    @property
    def hints(self) -> list[KeptHint]:
        """Return the events that the run keeps."""
        return self.events.hints

    def note(self, address: Address, event: EventData) -> None:
        """Append an event to the journal."""
        self.earlier.arrive(address)
        self.journal.note(address, event)

    def count(self, usage: Usage) -> None:
        """Count what was spent."""
        self.progress.usage += usage

    def permit(self, *tools: str) -> None:
        """Remember that a person allowed these tools for the rest of the run."""
        self.permits += [tool for tool in tools if tool not in self.permits]

    async def until_resumed(self) -> None:
        """Wait while the run is paused; see `Steering.until_resumed`."""
        await self.steering.until_resumed()

    async def wait_until(self, address: Address, moment: datetime, summary: str) -> None:
        """Wait until a moment, also while the run is paused: like a deadline it is a time of the world."""
        await end_if_cancelled()
        self.count(Usage(timers=1))
        if self.earlier.take_done(address):
            self.mark_done(address)
            return
        self.progress.timers.append(moment)
        try:
            await await_rest(whole_task=True)  # only the task has the time
            while (remaining := (moment - workflow.now()).total_seconds()) > 0:
                await workflow.sleep(remaining, summary=write_summary(summary))
                await await_rest(whole_task=True)
        finally:
            self.progress.timers.remove(moment)
        self.mark_done(address)

    def mark_done(self, address: Address) -> None:
        """Remember that a timer passed at an address, or a signal was delivered, for a run that goes on from this."""
        self.questions.done.append(address)

    def mark_broken(self, address: Address) -> None:
        """Remember that a block had failed or was cancelled when its last steps began, for a run that goes on."""
        self.questions.broken_blocks.append(address)

    def was_done(self, address: Address) -> bool:
        """Return whether the earlier run did at an address what `mark_done` remembers; once for each time."""
        return self.earlier.take_done(address)

    @contextmanager
    def show_deadline(self, moment: datetime) -> Iterator[None]:
        """Show when a run, a loop or a block must have ended, while it works."""
        self.progress.deadlines.append(moment)
        try:
            yield
        finally:
            self.progress.deadlines.remove(moment)

    async def ask(self, request: QuestionRequest) -> Reply:
        """Ask a question, and wait for its end."""
        self.count(Usage(questions=1) if request.asked.for_people else Usage(timers=1))
        return await self.questions.ask(request)

    def change_question(self, address: Address, asked: Asked, parents: Sequence[JSONObject]) -> None:
        """Change the form of the open question at an address."""
        self.questions.change(address, asked, parents)

    def let_ask(self, address: Address, call: AskingCall) -> AbstractContextManager[None]:
        """Let an MCP server ask in the middle of a call."""
        return self.elicitations.let_ask(address, call)

    async def run_child(self, definition: ChildDefinition | AgentDefinition, state: Carried) -> Any:
        """Start a child workflow, wait for its end, and return its result."""
        return await self.children.run(definition, state)

    async def run_own(self, start: OwnStart, begun: Callable[[str], None]) -> RawValue:
        """Run a workflow that is no part of the run to its end, and return its result; see `Children.run_own`."""
        return await self.children.run_own(start, begun)

"""What a run is, what happened in it so far, and what happens now: `runs.watch`. Reading adds nothing to a history."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.client.answering import Answering
from holdfast.client.events import Cursor, all_events, below, follow, iterations, last_iteration
from holdfast.client.history import started_with
from holdfast.client.obstacles import Obstacle, find_obstacles
from holdfast.client.outcomes import await_outcome, has_ended, outcome_so_far, read_state
from holdfast.client.states import Done, Outcome, RunState
from holdfast.client.stopping import at_once
from holdfast.client.successors import find_retry_name
from holdfast.client.trace import build_trace, view, view_run
from holdfast.client.tree import CLOSED, Tree, UnknownRun
from holdfast.client.views import StepView
from holdfast.client.views.runs import RunView
from holdfast.protocol.address import Address, name_at
from holdfast.protocol.answers import Refusal
from holdfast.protocol.attachments import ATTACHMENT, AttachmentContent, AttachmentQuery
from holdfast.protocol.events import Event, StepCompleted
from holdfast.protocol.questions import Question
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.errors import BadInput, raise_server_errors
from holdfast.runtime.workers import NoWorker

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint

PACE_SECONDS = 0.2


@raise_server_errors
class RunWatch:
    """The blueprint, the events, the steps, the context and the attachments of a run."""

    def __init__(self, tree: Tree, answering: Answering) -> None:
        self._tree, self._answering = tree, answering

    async def view(self, run: str, last: int | None = 100) -> RunView:
        """Return a run with everything that is known of it, and the `last` iterations of each loop; None gives all.

        Of one that has ended it has no steps where no worker tells them. Raises as `Runs.state` does.
        """
        try:
            return await self._view(run, last)
        except NoWorker as error:
            if not await self.has_ended(run):
                raise
            return await self._view_end(run, error)

    async def _view(self, run: str, last: int | None) -> RunView:
        state = await read_state(self._tree, self._answering, run)
        outcome, trace = await self.outcome(state), await self.trace(state, last)
        retried_as = await find_retry_name(self._tree, run) if state.status in CLOSED else None
        return RunView(state, outcome, trace, await self.find_obstacles(state), retried_as)

    async def _view_end(self, run: str, silence: NoWorker) -> RunView:
        """Return how a run has ended, which no worker has to tell."""
        outcome = await await_outcome(self._tree, run)
        try:
            blueprint = (await self.blueprint(run)).name
        except (BadInput, UnknownRun):  # a workflow of an author's own, or forgotten
            blueprint = ""
        state = RunState(run, outcome.status, blueprint, [])
        return RunView(state, outcome, view_run(state, [], None), silence=silence)

    async def blueprint(self, run: str) -> Blueprint:
        """Return the blueprint that a run was started with, from its history or the archive; no worker is asked.

        Raises:
            UnknownRun: There is no such run, or it is forgotten and its blueprint was not archived.
            BadInput: It is a workflow of an author's own, without a blueprint.
        """
        try:
            described = await self._tree.describe(run)
        except UnknownRun:
            archived = None if self._tree.archive is None else await self._tree.archive.blueprint(run)
            if archived is None:
                raise
            return archived
        return (await started_with(self._tree.client, described)).blueprint

    async def completed_steps(self, run: str) -> list[Done]:
        """Return the completed steps of a run in the order of their completion, of each loop in its last 100 rounds."""
        return [
            Done(event.address, event.data.name, event.data.kind, event.data.output)
            for event in await below(self._tree, run, 100)
            if isinstance(event.data, StepCompleted)
        ]

    async def steps_before(self, outcome: Outcome) -> list[Done] | None:
        """Return the completed steps of a run that did not complete; None if it did, or if no worker can be asked."""
        if outcome.status not in ("failed", "cancelled"):
            return None
        try:
            return await self.completed_steps(outcome.run)
        except (NoWorker, UnknownRun):
            return None

    async def outcome(self, state: RunState) -> Outcome:
        """Return the outcome of a run so far, with its context.

        If it waits in a loop, that is the context of the iteration with the first open question.
        """
        return await outcome_so_far(self._tree, state)

    async def trace(self, state: RunState, last: int | None = 100) -> StepView:
        """Return the run with its steps, as everybody shows them.

        Args:
            state: The run, from `Runs.state`.
            last: How many iterations of each loop are kept, the last ones; None keeps all.
        """
        own = state.views[0] if state.views and state.status not in CLOSED else None
        return view_run(state, await below(self._tree, state.run, last, own), last)

    async def iterations(self, state: RunState, address: Address, workflow: str, first: int, before: int) -> StepView:
        """Return a loop with some of its iterations; of a long one only these are read.

        Args:
            state: The run, from `Runs.state`.
            address: The address of the loop.
            workflow: The loop's workflow (see `StepView.workflow`).
            first: The first iteration, from 1.
            before: The iteration to end before.

        Raises:
            UnknownRun: The run has no such workflow, or it is forgotten.
            NoWorker: No worker answers.
        """
        if not workflow.startswith(f"{state.run}/"):
            raise UnknownRun(workflow)
        events = await iterations(self._tree, workflow, first, before)
        name = name_at(address)
        loop = replace(build_trace(events, name=name, address=address, status=state.status), kind="loop")
        return view(loop, state.questions)

    async def last_iteration(self, workflow: str) -> int:
        """Return the number of the last iteration of a loop's workflow; 0 if there is none. Raises as `iterations`."""
        return await last_iteration(self._tree, workflow)

    async def events(self, run: str) -> list[Event]:
        """Return the events of a run and its children so far, in order; `offset` counts from 0 over the whole run."""
        return await all_events(self._tree, run)

    async def follow(self, run: str, after: int = -1) -> AsyncIterator[Event]:
        """Yield the events with an offset above `after` as they come, until the run has ended."""
        async for event, _ in self.follow_from(run):
            if event.offset > after:
                yield event

    async def follow_from(
        self, run: str, after: Cursor | None = None, pace: float = PACE_SECONDS
    ) -> AsyncGenerator[tuple[Event, Cursor], None]:
        """Yield the events behind a cursor as they come, each with its own cursor, until the run has ended.

        Args:
            run: The id of the run.
            after: The cursor of the last event that is known; None: yield all.
            pace: Seconds between two looks at the run.

        Raises:
            UnknownRun: There is no such run.
            NoWorker: No worker answers; go on later with the last cursor.
        """
        async for placed in follow(self._tree, run, after, self._until_closed(run, pace)):
            yield placed

    async def _until_closed(self, run: str, pace: float) -> AsyncIterator[bool]:
        while True:
            yield await self.has_ended(run)
            await asyncio.sleep(pace)

    async def has_ended(self, run: str) -> bool:
        """Return whether a run has ended. Raises `UnknownRun`."""
        return await has_ended(self._tree, run)

    async def find_obstacles(self, state: RunState) -> list[Obstacle]:
        """Return what keeps the workflows of a run from going on though nobody is asked."""

        async def look(view: WorkflowView) -> list[Obstacle]:
            try:
                return await find_obstacles(self._tree.client, await self._tree.describe(view.workflow))
            except UnknownRun:  # it has ended, and is not retained
                return []

        open_views = [view for view in state.views if view.status not in CLOSED]
        return [obstacle for found in await at_once(look, open_views) for obstacle in found]

    async def attachment(self, question: Question, n: int) -> bytes:
        """Return the content of an attachment of an open question.

        Args:
            question: The question, as `questions` gives it.
            n: The number of the attachment, from 1.

        Raises:
            BadInput: The question has no such attachment.
            Refusal: The question is not open any more.
            NoWorker: No worker answers.
        """
        if n not in [attachment.n for attachment in question.attachments]:
            raise BadInput(f"question {question.id} has no attachment {n}; it has {len(question.attachments)}")
        wanted = AttachmentQuery(question=question.id, n=n)
        try:
            content = await self._tree.query(question.owner, ATTACHMENT, wanted, AttachmentContent)
        except UnknownRun:
            content = AttachmentContent()
        if content.data is None:
            raise Refusal("unknown_question", f"question {question.id} is not open any more; its attachments are gone")
        return base64.b64decode(content.data)

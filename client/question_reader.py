"""The open questions of workflows as they are now, for everybody who lists, counts or watches them.

Visibility finds the workflows, and its attributes may name questions that were closed since: closing one writes none.
So each workflow is confirmed here. One whose history has not grown is not queried again, and those who ask at the
same time share a query.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus

from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.questions import Question
from holdfast.runtime.workers import NoWorker, is_polled

MOST_KEPT = 5_000
"""The workflows whose questions are kept."""
MOST_READ = 16
"""The workflows that are read at a time."""
SILENT_SECONDS = 5.0
"""How long a workflow that did not answer counts as silent for who has no patience."""
PATIENCE_SECONDS = 2.0
"""How long a list that people look at waits for a workflow; the query goes on, and the next list has its questions."""


@dataclass(frozen=True)
class OpenInWorkflow:
    """What is open in one workflow."""

    began: float
    """When it was read, on the monotonic clock."""
    place: tuple[str, int] | None
    """Temporal's run id, and the length of the history then; None: it is to be queried again."""
    questions: Sequence[Question] | None
    """The open questions; None: no worker answered."""
    events: Sequence[Question] = ()
    """The events of other systems that it waits for."""
    last: Sequence[Question] = ()
    """The questions when a worker answered last."""

    @property
    def is_silent(self) -> bool:
        """Return whether no worker answered a moment ago."""
        return self.questions is None and time.monotonic() - self.began < SILENT_SECONDS


class QuestionReader:
    """Reads what is open in workflows.

    Args:
        tree: The access to the workflows.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._kept: OrderedDict[str, OpenInWorkflow] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._places = asyncio.Semaphore(MOST_READ)

    async def read(
        self, workflow: str, patience: float | None = None, task_queue: str | None = None
    ) -> list[Question] | None:
        """Return the open questions of a workflow, none if it has ended; None if no worker can be asked.

        Args:
            workflow: The workflow's id.
            patience: Seconds after which one that does not answer counts as silent; None: as long as a query takes.
            task_queue: That of the workflow, if it is known.
        """
        found = await self._read(workflow, patience, task_queue)
        return None if found is None or found.questions is None else list(found.questions)

    async def read_events(self, workflow: str) -> list[Question] | None:
        """Return the events that a workflow waits for, none if it has ended; None if no worker can be asked."""
        found = await self._read(workflow)
        return None if found is None or found.questions is None else list(found.events)

    def find(self, run: str, id: str) -> Question | None:
        """Return a question as it was read last, by its run and id; None if it was not read, or is closed."""
        read = (question for kept in self._kept.values() for question in kept.last)
        return next((question for question in read if (question.run, question.id) == (run, id)), None)

    def forget(self, workflow: str, closed: str | None = None) -> None:
        """Query a workflow anew next time: something was sent to it.

        Its questions are still found: if nobody answers the query, a form of one comes back with what was typed.

        Args:
            workflow: The id of the workflow.
            closed: The id of its question that is closed, and no longer found.
        """
        if (kept := self._kept.get(workflow)) is not None:
            last = [question for question in kept.last if question.id != closed]
            self._kept[workflow] = replace(kept, began=0.0, place=None, last=last)

    async def _read(
        self, workflow: str, patience: float | None = None, task_queue: str | None = None
    ) -> OpenInWorkflow | None:
        kept = self._kept.get(workflow)
        if patience is not None and kept is not None and kept.is_silent:
            return kept
        reading = asyncio.ensure_future(self._read_in_turn(workflow, time.monotonic(), task_queue))
        reading.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # perhaps nobody waits for it
        try:
            return await asyncio.wait_for(asyncio.shield(reading), patience)
        except TimeoutError:
            return None

    async def _read_in_turn(self, workflow: str, arrived: float, task_queue: str | None) -> OpenInWorkflow:
        """Read a workflow, or return what somebody has begun to read since this reader arrived."""
        async with self._locks.setdefault(workflow, asyncio.Lock()):
            kept = self._kept.get(workflow)
            if kept is not None and kept.began >= arrived:
                return kept
            async with self._places:
                found = await self._read_now(workflow, kept, task_queue)
            self._kept[workflow] = found
            self._kept.move_to_end(workflow)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            return found

    async def _read_now(self, workflow: str, kept: OpenInWorkflow | None, task_queue: str | None) -> OpenInWorkflow:
        began = time.monotonic()
        try:
            if kept is None and task_queue is not None:
                # A command reads a workflow once, and a description would cost it more than the query.
                return await self._query(workflow, began, task_queue)
            described = await self.tree.describe(workflow)
            if described.status != WorkflowExecutionStatus.RUNNING:
                return OpenInWorkflow(began, None, ())
            # Before the query: what happens meanwhile may be in its result, and is read once more.
            place = (described.run_id, described.history_length)
            if kept is not None and kept.place == place:
                return replace(kept, began=began)
            return replace(await self._query(workflow, began, described.task_queue, described), place=place)
        except UnknownRun:
            return OpenInWorkflow(began, None, ())
        except NoWorker:
            return OpenInWorkflow(began, None, None, last=() if kept is None else kept.last)

    async def _query(
        self, workflow: str, began: float, task_queue: str, described: WorkflowExecutionDescription | None = None
    ) -> OpenInWorkflow:
        """Query a workflow. Raises `UnknownRun` or `NoWorker`."""
        if not await is_polled(self.tree.client, task_queue):
            raise NoWorker(task_queue)  # a query would take many seconds to fail
        view = await self.tree.view(workflow, unless_ended=True, described=described)
        return OpenInWorkflow(began, None, view.questions, view.events, view.questions)

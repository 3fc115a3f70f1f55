"""The open workflows that the recorder looks at: which there are, and when each is read next.

Visibility lists them. A production server makes ten lists a second for a namespace, for all who ask, so that each round
looks at a part of the list of all, and at a list of its own of what is new.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from temporalio.client import Client

from holdfast.client.visibility import ListReader, list_executions
from holdfast.server.record.progress import ListedWorkflow, match_open, match_recent, read_listed

A_PART = 1_000
"""Rows of the list of all open workflows that one round looks at. With 100,000 of them it takes a hundred rounds until
all were looked at, which finds what is neither new nor in its time: a second question beside one that has waited."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Seconds between two reads of a workflow that nothing new is listed of."""
STILL_SHARE = 10
"""One in so many reads of a round is of a workflow that has been still for long, where others wait to be read."""


@dataclass
class WorkflowWatch:
    """A workflow between two reads of it."""

    due: float = 0.0
    """On the monotonic clock."""
    pause: float = FIRST_PAUSE
    length: int = -1
    """The number of events in its history at the last read."""

    def put_off(self, *, moved: bool, longest: float = LONGEST_PAUSE) -> None:
        """Set the next read: soon after something new, ever later while nothing is."""
        self.pause = FIRST_PAUSE if moved else min(self.pause * 2, longest)
        self.due = time.monotonic() + self.pause


@dataclass
class OpenWatch(WorkflowWatch):
    """An open workflow, as it was listed last."""

    listed: ListedWorkflow = field(kw_only=True)
    look: int = field(kw_only=True)
    """The number of the last look at the list of all that it was in."""


class OpenWatches:
    """Finds the open workflows, and says which are to be read.

    Args:
        client: The client of their namespace.
        task_queue: Only those on this queue.
    """

    def __init__(self, client: Client, task_queue: str | None) -> None:
        self._client, self._queue = client, task_queue
        self._watches: dict[str, OpenWatch] = {}
        self._all = self._begin()
        self._look = 0
        self._since = datetime.now(UTC)
        """When the list of what is new was read last."""

    def _begin(self) -> ListReader:
        return ListReader(self._client, match_open(self._queue))

    async def find(self) -> None:
        """Look at the next part of the list of all, and at what is new if that was not all of it."""
        began, is_first = datetime.now(UTC), self._all.place == b""
        left = A_PART
        while left > 0 and (rows := await self._all.read(left)):
            left -= len(rows)
            self._note(read_listed(row.info) for row in rows)
        is_last = self._all.place is None
        if is_last:
            self._watches = {run: watch for run, watch in self._watches.items() if watch.look == self._look}
            self._all, self._look = self._begin(), self._look + 1
        if not (is_first and is_last):
            recent = list_executions(self._client, match_recent(self._queue, self._since))
            self._note([read_listed(row.info) async for row in recent])
        self._since = began

    def _note(self, listed: Iterable[ListedWorkflow]) -> None:
        for workflow in listed:
            watch = self._watches.get(workflow.temporal_run)
            if watch is None or watch.listed.signature != workflow.signature:
                self._watches[workflow.temporal_run] = OpenWatch(listed=workflow, look=self._look)
            else:
                watch.look = self._look

    def __contains__(self, temporal_run: str) -> bool:
        """Return whether a workflow was listed, by Temporal's id of its run."""
        return temporal_run in self._watches

    def forget(self, temporal_run: str) -> None:
        """Look no more at a workflow that has ended."""
        self._watches.pop(temporal_run, None)

    def choose_due(self, most: int) -> list[OpenWatch]:
        """Return the workflows to read now, so many at most: what has changed, what has moved lately, then the others.

        A part is left for those that have been still for long, so that they are read however much the others move.
        """
        now = time.monotonic()
        due = sorted((watch for watch in self._watches.values() if watch.due <= now), key=lambda watch: watch.due)
        still = [watch for watch in due if watch.pause == LONGEST_PAUSE]
        lively = [watch for watch in due if watch.pause < LONGEST_PAUSE]
        kept = min(len(still), most // STILL_SHARE)
        return [*lively[: most - kept], *still][:most]

"""The story of a run beside its questions: what happened so far, and what happens after an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from temporalio.service import RPCError

from holdfast.client.event_texts import progress
from holdfast.client.events import below
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.events import Event, QuestionReplied
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.workers import NoWorker
from holdfast.server.web.pages.templating import name_place

MOST_LINES = 40
ITERATIONS = 5
"""The last iterations of each loop that the story tells."""
PATIENCE_SECONDS = 2.0
"""How long a page waits for the story: a run with hundreds of children takes longer to read."""


@dataclass(frozen=True)
class StoryLine:
    """One line of the story."""

    text: str
    at: datetime
    place: str = ""
    """The place of a question in the run, as people read it."""
    reply: QuestionReplied | None = None
    """What became of a question; None for a line of another kind."""

    @property
    def is_answer(self) -> bool:
        """Return whether a person decided something."""
        return self.reply is not None


async def read_story(
    tree: Tree, run: str, since: datetime | None = None, view: WorkflowView | None = None
) -> list[StoryLine] | None:
    """Return the last lines of a run's story, oldest first; None if it cannot be read now.

    Args:
        tree: The access to the run.
        run: Its id.
        since: Only what happened at this time or later.
        view: The view of the run's own workflow, where it has just been queried.
    """
    try:
        events = await asyncio.wait_for(below(tree, run, ITERATIONS, view), PATIENCE_SECONDS)
    except (TimeoutError, NoWorker, UnknownRun, RPCError):
        return None
    return list_lines([event for event in events if since is None or event.time >= since])


def list_lines(events: Sequence[Event]) -> list[StoryLine]:
    """Return the lines of events that people need to see, the last `MOST_LINES` of them."""
    lines = []
    for event in events:
        if (line := progress(event)) is not None:
            reply = event.data if isinstance(event.data, QuestionReplied) else None
            lines.append(StoryLine(line.plain.strip(), event.time, name_place(event.address), reply))
    return sorted(lines, key=lambda line: line.at)[-MOST_LINES:]

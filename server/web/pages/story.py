"""The story of a run beside its questions: what happened so far, and what happens after an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from temporalio.service import RPCError

from holdfast.blueprint.questions import find_asked
from holdfast.client.event_texts import progress
from holdfast.client.events import below
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.address import name_at
from holdfast.protocol.events import (
    Event,
    ItemStarted,
    QuestionAsked,
    QuestionMet,
    QuestionReplied,
    StepCompleted,
    StepStarted,
)
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.workers import NoWorker
from holdfast.server.web.addresses import question_path
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
    output: object = None
    """What a step returned, beside the text."""
    place: str = ""
    """The place of a question in the run, as people read it."""
    reply: QuestionReplied | None = None
    """What became of a question; None for a line of another kind."""
    link: str = ""
    """The address of the page of that question, where the whole answer is; empty for a question of another run."""

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
    return [line for line in list_lines(run, events) if since is None or line.at >= since][-MOST_LINES:]


def list_lines(run: str, events: Sequence[Event]) -> list[StoryLine]:
    """Return the lines of a run's events that people need to see, sorted by time."""
    labels: dict[str, str] = {}  # by the address of an item of a map, or of a step of a plan
    stops: dict[str, str] = {}
    for event in events:
        match event.data:
            case ItemStarted(label=str(label)) | StepStarted(title=str(label)):
                labels[event.address] = label
            case QuestionAsked(id=id_, kind=kind, message=message) if _is_stop(kind):
                stops[id_] = message
    shown = ((event, line) for event in events if (line := progress(event)) is not None)
    lines = [_make_line(run, event, line.plain.strip(), labels, stops) for event, line in shown]
    return sorted(lines, key=lambda line: line.at)


def _make_line(run: str, event: Event, text: str, labels: Mapping[str, str], stops: Mapping[str, str]) -> StoryLine:
    place = name_place(event.address, labels)
    match event.data:
        case QuestionReplied() as reply:
            link = "" if isinstance(reply, QuestionMet) else question_path(run, reply.id)
            place = stops.get(reply.id, place).rstrip(".")
            return StoryLine(text, event.time, place=place, reply=reply, link=link)
        case StepCompleted(output=output):
            name = labels.get(event.address) or name_at(event.address)
            return StoryLine(f"✓ {name}", event.time, output=output, place=place)
    return StoryLine(text, event.time, place=place)


def _is_stop(kind: str) -> bool:
    """Return whether a question is a stop before or after a step: its address is not that of the step."""
    asked = find_asked(kind)
    return asked is not None and asked.is_breakpoint

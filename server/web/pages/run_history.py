"""The page of what people did in a run: questions, answers, reminders, messages to agents, changes of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.client.events import below
from holdfast.protocol.events import (
    AgentTold,
    Event,
    PlanRevised,
    QuestionAsked,
    QuestionEscalated,
    QuestionEvent,
    QuestionReminded,
    QuestionReplied,
    QuestionReturned,
    QuestionVerified,
    RunPaused,
    RunResumed,
)
from holdfast.server.record.entries import RecordedComment
from holdfast.server.web.outage import read_anyway
from holdfast.server.web.pages.run_pages import REPETITIONS, read_head
from holdfast.server.web.pages.templating import name_of_person, name_place, render
from holdfast.server.web.site import find_site, permit


@dataclass(frozen=True)
class HistoryEntry:
    """Something that a person did, or was asked."""

    word: str
    """The kind of the entry, a key of the texts below `runs.event`."""
    at: datetime
    place: str
    by: str = ""
    """The person who did it."""
    whom: str = ""
    """The people who were asked."""
    text: str = ""
    content: object = None
    comment: str = ""


def list_entries(events: Sequence[Event], comments: Iterable[RecordedComment] = ()) -> list[HistoryEntry]:
    """Return the entries of a run's events, and of the comments beside its questions, the newest first."""
    entries = [entry for event in events if (entry := _entry(event)) is not None]
    places = {event.data.id: name_place(event.address) for event in events if isinstance(event.data, QuestionAsked)}
    entries += [
        HistoryEntry(
            "commented", comment.at, places.get(comment.question or "", ""), comment.by or "", comment=comment.text
        )
        for comment in comments
        if comment.text is not None
    ]
    return sorted(entries, key=lambda entry: entry.at)[::-1]


def _entry(event: Event) -> HistoryEntry | None:
    word, place = event.type.partition(".")[2], name_place(event.address)
    match event.data:
        case QuestionAsked(message=message, assignees=assignees):
            return HistoryEntry(word, event.time, place, whom=_names(assignees), text=message)
        case QuestionReplied() as reply:
            content = None if reply.to_json().get("secret") else reply.content
            return HistoryEntry(word, event.time, place, reply.by or "", content=content, comment=reply.comment or "")
        case QuestionReminded(assignees=assignees) | QuestionEscalated(assignees=assignees):
            return HistoryEntry(word, event.time, place, whom=_names(assignees))
        case QuestionVerified(reason=reason, agent=agent) as verdict:
            return HistoryEntry(_choose_word(verdict), event.time, place, agent or "", text=reason or "")
        case QuestionReturned(reason=reason):
            return HistoryEntry("given_back", event.time, place, text=reason)
        case QuestionEvent() as other:
            return HistoryEntry(word, event.time, place, str(other.to_json().get("by") or ""))
        case AgentTold(text=text, by=by):
            return HistoryEntry(word, event.time, place, by or "", text=text)
        case PlanRevised(reason=reason, by=by):
            return HistoryEntry(word, event.time, place, by or "", text=reason or "")
        case RunPaused() | RunResumed():
            return HistoryEntry(word, event.time, place)
    return None


def _choose_word(verdict: QuestionVerified) -> str:
    if verdict.verified:
        return "verified"
    return "given_back" if verdict.given_back else "not_verified"


def _names(assignees: Sequence[str] | str | None) -> str:
    return assignees if isinstance(assignees, str) else ", ".join(map(name_of_person, assignees or ()))


async def show_history_page(request: Request) -> Response:
    """Show who was asked and who answered what in a run, and what else people did."""
    runs = await permit(request, "see")
    head = await read_head(request, runs)
    events = [] if head.state is None else await below(runs.tree, head.run, REPETITIONS)
    record = find_site(request).record
    comments = [] if record is None else await record.comments(head.run)
    has_loop = any(";loop:" in event.address for event in events)
    return render(request, "runs/history.html", head=head, entries=list_entries(events, comments), has_loop=has_loop)


HISTORY: Sequence[BaseRoute] = [Route("/runs/{run}/history", read_anyway(show_history_page))]

"""The command `questions`: list what waits for people, once or each time that it changes."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, TypeVar

import typer

from holdfast.blueprint.json_values import JSON
from holdfast.cli.command import perform
from holdfast.cli.completion import complete_run
from holdfast.cli.flags import PAGE_ROWS, AsJson, PlaceInList
from holdfast.cli.output import DONE, clear_screen, print_json, say
from holdfast.cli.render import waiting_text
from holdfast.cli.session import Session, open_session
from holdfast.cli.tables import ago, cell, console, print_table, room
from holdfast.client.proposals import question_json
from holdfast.client.reading import person
from holdfast.client.states import Waiting
from holdfast.client.views.questions import QuestionView
from holdfast.protocol.questions import Question
from holdfast.runtime.embedded import Startup

app = typer.Typer(rich_markup_mode=None)
WATCH_SECONDS = 1.5
"""The pause between two looks at what waits."""
Listing = TypeVar("Listing")
UNKNOWN = "(not available now; `holdfast show` says why)"


@app.command()
def questions(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help="A run; default: all runs.", show_default=False, autocompletion=complete_run
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--for", metavar="USER", help="Only questions that wait for this person.")
    ] = None,
    after: PlaceInList = None,
    follow: Annotated[
        bool, typer.Option("--watch", help="Print the list again whenever it changes, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List open questions and whom they wait for, fifty workflows per page; with RUN, all questions of that run.

    With --watch and --json, print a line of JSON whenever the list has changed.
    """
    user = None if user is None else person(user)
    wanted = _QuestionFilter(run, user, after)
    perform(_watch(wanted, as_json) if follow else _list(wanted, as_json), as_json)


@dataclass(frozen=True)
class _QuestionFilter:
    """The questions to list: those of a run, or a page of all."""

    run: str | None
    user: str | None
    after: str | None
    """The cursor of the page before."""

    def explain_next(self, cursor: str) -> str:
        """Return the command that prints the next page."""
        named = [] if self.user is None else ["--for", self.user]
        return shlex.join(["holdfast", "questions", *named, "--after", cursor])


@dataclass(frozen=True)
class _OpenList:
    """Open questions: those of a run, or of all runs with the workflows that ask them."""

    questions: list[Question]
    rows: list[Waiting]
    following: str | None = None
    """The cursor of the next page."""

    def to_json(self) -> list[JSON]:
        """Return what the command prints with `--json`."""
        of_run = [question_json(question) for question in self.questions]
        return [*of_run, *(entry for row in self.rows for entry in row.to_json())]


async def _list(wanted: _QuestionFilter, as_json: bool) -> int:
    session = await open_session(Startup.NOTHING)
    listed = await _look(session, wanted)
    if as_json:
        print_json(listed.to_json())
    else:
        _show(listed, wanted)
    if listed.following is not None:
        say(f"more: {wanted.explain_next(listed.following)}")
    return DONE


async def _watch(wanted: _QuestionFilter, as_json: bool) -> int:
    session = await open_session(Startup.NOTHING)
    if as_json:
        return await watch(lambda: _look_as_json(session, wanted), partial(print_json, indent=None))
    return await watch(lambda: _look(session, wanted), lambda listed: _show_anew(listed, wanted))


async def _look_as_json(session: Session, wanted: _QuestionFilter) -> list[JSON]:
    return (await _look(session, wanted)).to_json()


async def _look(session: Session, wanted: _QuestionFilter) -> _OpenList:
    runs, user = session.runs, wanted.user
    if wanted.run is not None:
        open_ = await runs.questions(await runs.resolve(wanted.run))
        return _OpenList(runs.lists.select_for(user, open_), [])
    rows, following = await runs.lists.find_waiting(user, cursor=wanted.after, size=PAGE_ROWS)
    return _OpenList([], rows, following)


def _show(listed: _OpenList, wanted: _QuestionFilter) -> None:
    if listed.questions:
        out = console(sys.stdout)
        text = waiting_text(listed.questions, None) if room(out) is None else waiting_text(listed.questions)
        out.print(text, end="")
    elif listed.rows:
        lines = [line for row in listed.rows for line in _rows_text(row)]
        print_table(("RUN", "QUESTION", "STEP", "SINCE", "FOR", "MESSAGE"), lines)
    elif listed.following is None:
        say(_nothing_open(wanted.user) if wanted.after is None else "No open question comes after that.")


def _show_anew(listed: _OpenList, wanted: _QuestionFilter) -> None:
    """Show the list in place of the one before, on a terminal."""
    clear_screen()
    _show(listed, wanted)


def _nothing_open(user: str | None) -> str:
    return "No open questions." if user is None else f"No open questions for {user}."


def _rows_text(row: Waiting) -> list[tuple[str, ...]]:
    if row.open is None:
        return [(row.run, "?", row.owner, ago(row.since), ", ".join(row.waiting_for), UNKNOWN)]
    seen = map(QuestionView, row.open)
    return [
        (row.run, view.question.id, view.asker, ago(view.question.asked_at), view.who, cell(view.question.message, 200))
        for view in seen
    ]


async def watch(look: Callable[[], Awaitable[Listing]], show: Callable[[Listing], None]) -> int:
    """Show a listing each time that it has changed, until Ctrl-C.

    Args:
        look: Returns the listing, a value that can be compared.
        show: Prints it.
    """
    before: Listing | None = None
    while True:
        listing = await look()
        if listing != before:
            before = listing
            show(listing)
        await asyncio.sleep(WATCH_SECONDS)

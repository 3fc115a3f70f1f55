"""The commands that show what happened in a run: `show`, `follow`."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from holdfast.cli.command import perform
from holdfast.cli.flags import AsJson, RunName
from holdfast.cli.output import DONE, UNREACHABLE, print_json, say
from holdfast.cli.render import (
    MOST_ITERATIONS,
    Extract,
    context_text,
    event_text,
    events_text,
    failure_text,
    tree_text,
    usage_text,
    waiting_text,
)
from holdfast.cli.session import open_run
from holdfast.cli.tables import STYLES, console, room
from holdfast.client.events import Cursor
from holdfast.client.states import Outcome
from holdfast.client.texts import result_text
from holdfast.client.tree import CLOSED
from holdfast.client.views.runs import RunView

app = typer.Typer(rich_markup_mode=None)
NO_EVENT = "-1"
"""The number before that of the first event."""


@app.command()
def show(
    run: RunName,
    every: Annotated[
        bool, typer.Option("--all", help="Show every iteration of a loop, not only the last ones.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a run as a tree: status, open questions, steps, context, usage."""
    perform(_show(run, every, as_json), as_json)


@app.command()
def follow(
    run: RunName,
    after: Annotated[
        str,
        typer.Option("--after", metavar="N|CURSOR", help="Start after this event: its number, or (faster) its cursor."),
    ] = NO_EVENT,
    as_json: AsJson = False,
) -> None:
    """Print the events of a run as they happen, until it ends; with --json one object per line."""
    perform(_follow(run, after, as_json), as_json)


async def _show(run: str, every: bool, as_json: bool) -> int:
    session, run = await open_run(run)
    seen = await session.runs.watch.view(run, None if every else 100)
    if as_json:
        print_json(seen.to_json())
    else:
        _print_run(seen, every)
        if seen.silence is not None:
            say(str(seen.silence))
    return DONE if seen.silence is None else UNREACHABLE


def _make_head(run: str, status: str) -> Text:
    return Text(f"{run}  ", "bold").append(status, STYLES.get(status, ""))


def _print_end(out: Console, outcome: Outcome) -> None:
    """Print how a run has ended, which no worker has to tell."""
    if outcome.status == "completed":
        out.print(f"result  {result_text(outcome.output)}")
    else:
        out.print(failure_text(outcome.run, outcome.status, outcome.error), style="red")


def _print_run(seen: RunView, every: bool) -> None:
    out = console(sys.stdout)
    state = seen.state
    head = _make_head(state.run, state.status)
    if state.undoing is not None:
        head.append(f", {state.undoing}", STYLES["undone"])
    elif state.cancel_requested:
        head.append(", cancel requested", STYLES["cancelled"])
    out.print(head)
    if state.blueprint:
        out.print(f"blueprint {state.blueprint}", style="dim")
    if seen.state.past is not None:
        out.print(f"goes on from {seen.state.past}", style="dim")
    whole: dict[str, None] = {"limit": None} if room(out) is None else {}
    out.print(tree_text(seen.trace.steps, Extract(None if every else MOST_ITERATIONS, **whole)), end="")
    if state.questions:
        out.print(waiting_text(state.questions, **whole), end="")
    if state.events:
        out.print(events_text(state.events), end="")
    for obstacle in seen.obstacles:
        out.print(f"stuck  {obstacle.workflow}: {obstacle.message}", style="red")
    if seen.outcome.context:
        out.print(context_text(seen.outcome.context, **whole), end="")
    if state.usage.requests:
        out.print(usage_text(state.usage))
    if state.status in CLOSED:
        _print_end(out, seen.outcome)
    if seen.retried_as is not None:
        out.print(f"retried as {seen.retried_as}")


async def _follow(run: str, after: str, as_json: bool) -> int:
    session, run = await open_run(run)
    number = int(after) if re.fullmatch(r"-?\d+", after) else -1
    cursor = None if number >= 0 or after == NO_EVENT else Cursor.read(run, after)
    out = console(sys.stdout)
    async for event, place in session.runs.watch.follow_from(run, cursor):
        if event.offset <= number:
            continue
        if as_json:
            print_json({**event.to_json(), "cursor": str(place)}, indent=None)
        else:
            out.print(event_text(event, room(out)))
            sys.stdout.flush()
    return DONE

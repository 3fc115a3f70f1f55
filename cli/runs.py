"""The read-only commands: `runs`, `show`, `follow`, `result`."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.text import Text

from holdfast.cli.command import perform
from holdfast.cli.flags import PAGE_ROWS, AsJson, PlaceInList, RunName
from holdfast.cli.output import DONE, FAILED, WAITING, json_text, print_json, print_text, say
from holdfast.cli.render import (
    MOST_ITERATIONS,
    STYLES,
    Extract,
    ago,
    console,
    context_text,
    done_text,
    event_text,
    events_text,
    failure_text,
    print_table,
    room,
    tree_text,
    usage_text,
    waiting_text,
)
from holdfast.cli.session import open_session
from holdfast.client.event_texts import result_text
from holdfast.client.events import Cursor
from holdfast.client.states import Done, Listed, Outcome
from holdfast.client.tree import CLOSED
from holdfast.client.views.runs import RunView
from holdfast.runtime.embedded import Startup

app = typer.Typer(rich_markup_mode=None)
NO_EVENT = "-1"
"""The number before that of the first event."""


@app.command()
def runs(
    blueprint: Annotated[
        str | None, typer.Option("--blueprint", metavar="NAME", help="Only runs of this blueprint.")
    ] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only runs that wait for a person.")] = False,
    after: PlaceInList = None,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first, fifty per page."""
    perform(_runs(_RunsPage(blueprint, waiting, after), as_json), as_json)


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


@app.command()
def result(
    run: RunName,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the result of a run, or its status if it has not ended.

    Exit code 0 if the run has completed, 1 if it failed or was cancelled. Without --wait: 3 if it waits for a person,
    0 with the status `running` if it is still running.
    """
    perform(_result(run, wait, as_json), as_json)


@dataclass(frozen=True)
class _RunsPage:
    """The runs to list: a page of those that fit."""

    blueprint: str | None
    waiting: bool
    after: str | None
    """The cursor of the page before."""

    def explain_next(self, cursor: str) -> str:
        """Return the command that prints the next page."""
        named = [] if self.blueprint is None else ["--blueprint", self.blueprint]
        flags = ["--waiting"] if self.waiting else []
        return shlex.join(["holdfast", "runs", *named, *flags, "--after", cursor])


def _status(run: Listed) -> str:
    return f"{run.status}, stuck" if run.stuck else run.status


async def _runs(wanted: _RunsPage, as_json: bool) -> int:
    session = await open_session(Startup.NOTHING)
    listed, following = await session.runs.lists.page(
        wanted.after, blueprint=wanted.blueprint, status="waiting" if wanted.waiting else None, size=PAGE_ROWS
    )
    if as_json:
        print_json([run.to_json() for run in listed])
    elif listed:
        rows = [(run.run, run.blueprint, _status(run), ago(run.started), ", ".join(run.waiting_for)) for run in listed]
        print_table(("RUN", "BLUEPRINT", "STATUS", "STARTED", "WAITING FOR"), rows)
    elif wanted.after is not None:
        say("No run comes after that.")
    else:
        is_filtered = wanted.blueprint or wanted.waiting
        say("No matching runs." if is_filtered else "No runs yet. Start one with: holdfast run FILE")
    if following is not None:
        say(f"more: {wanted.explain_next(following)}")
    return DONE


async def _show(run: str, every: bool, as_json: bool) -> int:
    session = await open_session(Startup.NOTHING)
    runs = session.runs
    seen = await runs.watch.view(await runs.resolve(run), None if every else 100)
    if as_json:
        print_json(seen.to_json())
    else:
        _print_run(seen, every)
    return DONE


def _print_run(seen: RunView, every: bool) -> None:
    out = console(sys.stdout)
    state = seen.state
    head = Text(f"{state.run}  ", "bold").append(state.status, STYLES.get(state.status, ""))
    out.print(head if state.undoing is None else head.append(f", {state.undoing}", STYLES["undone"]))
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
    if state.status == "completed":
        out.print(f"result  {result_text(seen.outcome.output)}")
    elif state.status in CLOSED:
        out.print(failure_text(state.run, state.status, seen.outcome.error), style="red")
    if seen.retried_as is not None:
        out.print(f"retried as {seen.retried_as}")


async def _follow(run: str, after: str, as_json: bool) -> int:
    session = await open_session(Startup.NOTHING)
    run = await session.runs.resolve(run)
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


async def _result(run: str, wait: bool, as_json: bool) -> int:
    session = await open_session(Startup.NOTHING)
    run = await session.runs.resolve(run)
    outcome = await session.runs.result(run) if wait else await session.runs.outcome(run)
    if outcome.status in CLOSED:
        return print_outcome(outcome, as_json, await session.runs.watch.steps_before(outcome))
    if as_json:
        print_json(outcome.to_json())
    else:
        print_text(outcome.status)
    say(HINTS[outcome.status].format(run=run))
    return DONE if outcome.status == "running" else WAITING


def print_outcome(outcome: Outcome, as_json: bool, done: Sequence[Done] | None = None) -> int:
    """Print the result of a run that has ended, or its failure and the steps it has done; return the exit code."""
    if as_json:
        print_json(outcome.to_json(done))
    elif outcome.status == "completed":
        output = outcome.output
        print_text(output if isinstance(output, str) else json_text(output))
    else:
        say(failure_text(outcome.run, outcome.status, outcome.error))
        if done:
            console().print(done_text(done), end="")
    return DONE if outcome.status == "completed" else FAILED


HINTS = {
    "waiting": "run {run} waits for a person; see: holdfast questions {run}",
    "paused": "run {run} is paused; resume it with: holdfast resume {run}",
    "running": "run {run} is still running; wait for its end with --wait",
}

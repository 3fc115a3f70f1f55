"""The commands that say how runs are: `runs`, `result`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from holdfast.cli.command import perform
from holdfast.cli.flags import PAGE_ROWS, AsJson, PlaceInList, RunName
from holdfast.cli.output import DONE, FAILED, WAITING, json_text, print_json, print_text, say
from holdfast.cli.session import open_run, open_session
from holdfast.cli.tables import ago, console, print_table
from holdfast.client.states import Done, Listed, Outcome
from holdfast.client.tree import CLOSED
from holdfast.runtime.embedded import Startup

app = typer.Typer(rich_markup_mode=None)


@app.command()
def runs(
    beginning: Annotated[
        str, typer.Argument(metavar="[RUN]", help="Only runs whose ids begin so.", show_default=False)
    ] = "",
    blueprint: Annotated[
        str | None, typer.Option("--blueprint", metavar="NAME", help="Only runs of this blueprint.")
    ] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only runs that wait for a person.")] = False,
    after: PlaceInList = None,
    as_json: AsJson = False,
) -> None:
    """List runs, open ones first, then the newest, fifty per page."""
    perform(_runs(_RunsPage(beginning, blueprint, waiting, after), as_json), as_json)


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

    beginning: str
    blueprint: str | None
    waiting: bool
    after: str | None
    """The cursor of the page before."""

    def explain_next(self, cursor: str) -> str:
        """Return the command that prints the next page."""
        named = [self.beginning] if self.beginning else []
        named += [] if self.blueprint is None else ["--blueprint", self.blueprint]
        flags = ["--waiting"] if self.waiting else []
        return shlex.join(["holdfast", "runs", *named, *flags, "--after", cursor])


def _status(run: Listed) -> str:
    return f"{run.status}, stuck" if run.stuck else run.status


async def _runs(wanted: _RunsPage, as_json: bool) -> int:
    session = await open_session(Startup.NOTHING)
    listed, following = await session.runs.lists.page(
        wanted.after,
        blueprint=wanted.blueprint,
        status="waiting" if wanted.waiting else None,
        beginning=wanted.beginning,
        size=PAGE_ROWS,
    )
    if as_json:
        print_json([run.to_json() for run in listed])
    elif listed:
        rows = [(run.run, run.blueprint, _status(run), ago(run.started), ", ".join(run.waiting_for)) for run in listed]
        print_table(("RUN", "BLUEPRINT", "STATUS", "STARTED", "WAITING FOR"), rows)
    elif wanted.after is not None:
        say("No run comes after that.")
    else:
        is_filtered = wanted.beginning or wanted.blueprint or wanted.waiting
        say("No matching runs." if is_filtered else "No runs yet. Start one with: holdfast run FILE")
    if following is not None:
        say(f"more: {wanted.explain_next(following)}")
    return DONE


async def _result(run: str, wait: bool, as_json: bool) -> int:
    session, run = await open_run(run)
    outcome = await session.runs.result(run) if wait else await session.runs.outcome(run)
    if outcome.status in CLOSED:
        return print_outcome(outcome, as_json, await session.runs.watch.steps_before(outcome))
    if as_json:
        print_json(outcome.to_json())
    else:
        print_text(outcome.status)
    say(HINTS[outcome.status].format(run=run, quoted=shlex.quote(run)))
    return DONE if outcome.status == "running" else WAITING


def print_outcome(outcome: Outcome, as_json: bool, done: Sequence[Done] | None = None) -> int:
    """Print the result of a run that has ended, or its failure and the steps it has done; return the exit code."""
    if as_json:
        print_json(outcome.to_json(done))
    elif outcome.status == "completed":
        output = outcome.output
        print_text(output if isinstance(output, str) else json_text(output))
    else:
        from holdfast.cli.render import done_text, failure_text  # noqa: PLC0415  it loads all events

        say(failure_text(outcome.run, outcome.status, outcome.error))
        if done:
            console().print(done_text(done), end="")
    return DONE if outcome.status == "completed" else FAILED


HINTS = {
    "waiting": "run {run} waits for a person; see: holdfast questions {quoted}",
    "paused": "run {run} is paused; resume it with: holdfast resume {quoted}",
    "running": "run {run} is still running; wait for its end with --wait",
}

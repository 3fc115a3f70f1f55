"""`runs`, `show`, `follow`, `result`, `graph`: looking at runs, changing nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from blueprint import Blueprint, load
from blueprint.graph import Marks
from blueprint.graph import graph as drawn
from client.cli.flags import AsJson, File, RunName
from client.cli.output import DONE, WAITING, print_json, say
from client.cli.perform import perform
from client.cli.running import error_json, outcome_json, print_outcome
from client.cli.session import open_session
from client.marks import marks_of
from client.render import (
    MOST_ITERATIONS,
    STYLES,
    console,
    context_text,
    event_line,
    failure_text,
    print_table,
    shown,
    tree_text,
    usage_text,
    waiting_text,
    when,
)
from client.runs import Listed, Outcome, Runs, Standing
from protocol.address import child_workflow_id

app = typer.Typer(rich_markup_mode=None)
ENDED = ("completed", "failed", "cancelled")


@app.command()
def runs(
    blueprint: Annotated[
        str | None, typer.Option("--blueprint", metavar="B", help="Only those of a blueprint.")
    ] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="That wait for a person.")] = False,
    as_json: AsJson = False,
) -> None:
    """The runs, newest first."""
    perform(_runs(blueprint, waiting, as_json), as_json)


@app.command()
def show(
    run: RunName,
    every: Annotated[bool, typer.Option("--all", help="All iterations of every loop, not the last ones.")] = False,
    as_json: AsJson = False,
) -> None:
    """A run as a tree: status, open questions, steps, context, what was spent."""
    perform(_show(run, every, as_json), as_json)


@app.command()
def follow(
    run: RunName,
    after: Annotated[int, typer.Option("--after", metavar="N", help="Begin behind the event with this number.")] = -1,
    as_json: AsJson = False,
) -> None:
    """The events of a run as they come, until it ends; with --json one object a line."""
    perform(_follow(run, after, as_json), as_json)


@app.command()
def result(
    run: RunName,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """How a run ended, or how it stands.

    Exit code 0 for a run that has completed, 1 for one that failed or was cancelled. Without --wait, one that waits
    for a person gives 3, and one that is under way gives 0 with the status `running`.
    """
    perform(_result(run, wait, as_json), as_json)


@app.command()
def graph(
    file: File,
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="Colour it by where this run of it stands.")
    ] = None,
) -> None:
    """A blueprint as a Mermaid flowchart, to be pasted into Markdown or https://mermaid.live.

    With --run: done, running, waiting for a person, failed and skipped steps in colours, of every loop those of its
    last iteration.
    """
    perform(_graph(file, run))


async def _runs(blueprint: str | None, waiting: bool, as_json: bool) -> int:
    session = await open_session()
    found = await session.runs.runs(blueprint=blueprint, waiting=waiting)
    if as_json:
        print_json([_listed(one) for one in found])
    elif found:
        rows = [(one.run, one.blueprint, one.status, when(one.started)) for one in found]
        print_table(("RUN", "BLUEPRINT", "STATUS", "STARTED"), rows)
    else:
        say("no such runs" if blueprint or waiting else "no runs yet; start one with: holdfast run FILE")
    return DONE


def _listed(one: Listed) -> dict[str, Any]:
    return {
        "run": one.run,
        "blueprint": one.blueprint,
        "status": one.status,
        "started": one.started.isoformat(),
        "closed": None if one.closed is None else one.closed.isoformat(),
    }


@dataclass(frozen=True)
class Seen:
    """All that can be seen of a run."""

    standing: Standing
    outcome: Outcome
    trace: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """What `show --json` prints."""
        return {
            "run": self.standing.run,
            "status": self.standing.status,
            "blueprint": self.standing.blueprint,
            "context": self.outcome.context,
            "questions": [question.model_dump(mode="json") for question in self.standing.questions],
            "children": self.children(),
            "usage": self.standing.usage.model_dump(mode="json"),
            "result": self.outcome.output,
            "error": error_json(self.outcome),
            "trace": self.trace,
        }

    def children(self) -> list[dict[str, Any]]:
        """The workflows below the run, as the trace and those under way tell of them."""
        ended = {
            child_workflow_id(self.standing.run, span["address"]): {"status": span["status"]}
            for span in _children(self.trace)
        }
        living = {
            view.workflow: {"status": view.status, "iteration": view.iteration} for view in self.standing.views[1:]
        }
        return [{"workflow": workflow, **told} for workflow, told in (ended | living).items()]


def _children(span: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The loops and plans in a trace, outer ones first."""
    if span["kind"] in ("loop", "plan") and span["status"] != "skipped":
        yield span
    inner = [step for iteration in span.get("iterations", []) for step in iteration["steps"]]
    for step in [*span.get("steps", []), *inner]:
        yield from _children(step)


async def _show(run: str, every: bool, as_json: bool) -> int:
    session = await open_session()
    runs = session.runs
    standing = await runs.standing(await runs.resolve(run))
    outcome = await _outcome(runs, standing)
    seen = Seen(standing, outcome, await runs.trace(standing, None if every else 100))
    if as_json:
        print_json(seen.to_json())
    else:
        _print_seen(seen, every)
    return DONE


async def _outcome(runs: Runs, standing: Standing) -> Outcome:
    """How the run ended; of one that failed, with the context it had."""
    context = await runs.context(standing)
    ended = await runs.result(standing.run) if standing.status in ENDED else Outcome(standing.run, standing.status)
    return replace(ended, context=context if ended.context is None else ended.context)


def _print_seen(seen: Seen, every: bool) -> None:
    out = console(sys.stdout)
    standing = seen.standing
    out.print(Text(f"{standing.run}  ", "bold").append(standing.status, STYLES.get(standing.status, "")))
    out.print(f"blueprint {standing.blueprint}", style="dim")
    out.print(tree_text(seen.trace, None if every else MOST_ITERATIONS), end="")
    if standing.questions:
        out.print(waiting_text(standing.questions), end="")
    if seen.outcome.context:
        out.print(context_text(seen.outcome.context), end="")
    if standing.usage.requests:
        out.print(usage_text(standing.usage))
    if standing.status == "completed":
        out.print(f"result  {shown(seen.outcome.output)}")
    elif standing.status in ENDED:
        out.print(failure_text(standing.run, standing.status, seen.outcome.error), style="red")


async def _follow(run: str, after: int, as_json: bool) -> int:
    session = await open_session()
    run = await session.runs.resolve(run)
    out = console(sys.stdout)
    async for event in session.runs.follow(run, after):
        if as_json:
            print_json(event.model_dump(mode="json"), indent=None)
        else:
            out.print(event_line(event))
            sys.stdout.flush()
    return DONE


async def _result(run: str, wait: bool, as_json: bool) -> int:
    session = await open_session()
    run = await session.runs.resolve(run)
    outcome = await session.runs.result(run) if wait else await session.runs.outcome(run)
    if outcome.status in ENDED:
        return print_outcome(outcome, as_json)
    if as_json:
        print_json(outcome_json(outcome))
    else:
        print(outcome.status, flush=True)
    say(HINTS[outcome.status].format(run=run))
    return DONE if outcome.status == "running" else WAITING


HINTS = {
    "waiting": "run {run} waits for a person: holdfast questions {run}",
    "paused": "run {run} is paused; it goes on with: holdfast resume {run}",
    "running": "run {run} is under way; --wait waits for its end",
}


async def _graph(file: Path, run: str | None) -> int:
    blueprint = load(file)
    marks = None if run is None else await _marks(run, blueprint)
    print(drawn(blueprint, marks), end="", flush=True)
    return DONE


async def _marks(run: str, blueprint: Blueprint) -> Marks:
    session = await open_session()
    standing = await session.runs.standing(await session.runs.resolve(run))
    if standing.blueprint != blueprint.name:
        say(f"run {standing.run} is of {standing.blueprint}, not of {blueprint.name}: steps of other names stay white")
    return marks_of(await session.runs.trace(standing), standing.questions)

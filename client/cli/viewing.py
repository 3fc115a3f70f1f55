"""The read-only commands: `runs`, `show`, `follow`, `result`, `graph`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from holdfast.blueprint import Blueprint, load
from holdfast.blueprint.graph import RunOverlay
from holdfast.blueprint.graph import graph as flowchart
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds import kind_named
from holdfast.client.cli.command import perform
from holdfast.client.cli.flags import AsJson, File, RunName
from holdfast.client.cli.output import DONE, WAITING, print_json, print_text, say
from holdfast.client.cli.running import done_before, error_json, outcome_json, print_outcome
from holdfast.client.cli.session import open_session
from holdfast.client.overlay import marks_of
from holdfast.client.render import (
    MOST_ITERATIONS,
    STYLES,
    ago,
    console,
    context_text,
    event_line,
    failure_text,
    print_table,
    shown,
    tree_text,
    usage_text,
    waiting_text,
)
from holdfast.client.runs import Runs
from holdfast.client.states import Listed, Outcome, RunState
from holdfast.client.trace import Span
from holdfast.protocol.address import Address, child_workflow_id

app = typer.Typer(rich_markup_mode=None)
ENDED = ("completed", "failed", "cancelled")


@app.command()
def runs(
    blueprint: Annotated[
        str | None, typer.Option("--blueprint", metavar="NAME", help="Only runs of this blueprint.")
    ] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only runs that wait for a person.")] = False,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    perform(_runs(blueprint, waiting, as_json), as_json)


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
    after: Annotated[int, typer.Option("--after", metavar="N", help="Start after the event with this number.")] = -1,
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


@app.command()
def graph(
    file: File,
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="Colour the steps by their status in this run.")
    ] = None,
) -> None:
    """Print a blueprint as a Mermaid flowchart, to paste into Markdown or https://mermaid.live.

    With --run, steps that are done, running, waiting for a person, failed or skipped are coloured; in a loop, those of
    its last iteration.
    """
    perform(_graph(file, run))


async def _runs(blueprint: str | None, waiting: bool, as_json: bool) -> int:
    session = await open_session()
    listed = await session.runs.runs(blueprint=blueprint, waiting=waiting)
    if as_json:
        print_json([_run_json(run) for run in listed])
    elif listed:
        rows = [(run.run, run.blueprint, run.status, ago(run.started), ", ".join(run.waiting_for)) for run in listed]
        print_table(("RUN", "BLUEPRINT", "STATUS", "STARTED", "WAITING FOR"), rows)
    else:
        say("No matching runs." if blueprint or waiting else "No runs yet. Start one with: holdfast run FILE")
    return DONE


def _run_json(run: Listed) -> JSONObject:
    return {
        "run": run.run,
        "blueprint": run.blueprint,
        "status": run.status,
        "waiting_for": run.waiting_for,
        "started": run.started.isoformat(),
        "closed": None if run.closed is None else run.closed.isoformat(),
    }


@dataclass(frozen=True)
class RunReport:
    """Everything that `show` prints about a run."""

    state: RunState
    outcome: Outcome
    trace: Span

    def to_json(self) -> JSONObject:
        """Return the JSON object of `show --json`."""
        return {
            "run": self.state.run,
            "status": self.state.status,
            "blueprint": self.state.blueprint,
            "context": self.outcome.context,
            "questions": [question.model_dump(mode="json") for question in self.state.questions],
            "children": self.children(),
            "usage": self.state.usage.model_dump(mode="json"),
            "result": self.outcome.output,
            "error": error_json(self.outcome),
            "trace": self.trace.to_json(),
        }

    def children(self) -> list[JSONObject]:
        """Return the child workflows of the run: ended ones from the trace, running ones from their views."""
        ended = {
            child_workflow_id(self.state.run, Address(span.address)): {"status": span.status}
            for span in _children(self.trace)
        }
        running = {view.workflow: {"status": view.status, "iteration": view.iteration} for view in self.state.views[1:]}
        return [{"workflow": workflow, **child} for workflow, child in (ended | running).items()]


def _children(span: Span) -> Iterator[Span]:
    """Yield the loops and plans in a trace, outer ones first: each runs as a child workflow."""
    if kind_named(span.kind).runs_steps_in_child and span.status != "skipped":
        yield span
    inner = [step for iteration in span.iterations for step in iteration.steps]
    for step in [*span.steps, *inner]:
        yield from _children(step)


async def _show(run: str, every: bool, as_json: bool) -> int:
    session = await open_session()
    runs = session.runs
    state = await runs.standing(await runs.resolve(run))
    outcome = await _outcome(runs, state)
    report = RunReport(state, outcome, await runs.trace(state, None if every else 100))
    if as_json:
        print_json(report.to_json())
    else:
        _print_report(report, every)
    return DONE


async def _outcome(runs: Runs, state: RunState) -> Outcome:
    """Return the outcome so far, with the current context if the outcome itself carries none (as of a failed run)."""
    context = await runs.context(state)
    ended = await runs.result(state.run) if state.status in ENDED else Outcome(state.run, state.status)
    return replace(ended, context=context if ended.context is None else ended.context)


def _print_report(report: RunReport, every: bool) -> None:
    out = console(sys.stdout)
    state = report.state
    out.print(Text(f"{state.run}  ", "bold").append(state.status, STYLES.get(state.status, "")))
    out.print(f"blueprint {state.blueprint}", style="dim")
    out.print(tree_text(report.trace, None if every else MOST_ITERATIONS), end="")
    if state.questions:
        out.print(waiting_text(state.questions), end="")
    if report.outcome.context:
        out.print(context_text(report.outcome.context), end="")
    if state.usage.requests:
        out.print(usage_text(state.usage))
    if state.status == "completed":
        out.print(f"result  {shown(report.outcome.output)}")
    elif state.status in ENDED:
        out.print(failure_text(state.run, state.status, report.outcome.error), style="red")


async def _follow(run: str, after: int, as_json: bool) -> int:
    session = await open_session()
    run = await session.runs.resolve(run)
    out = console(sys.stdout)
    async for event in session.runs.follow(run, after):
        if as_json:
            print_json(event.to_json(), indent=None)
        else:
            out.print(event_line(event))
            sys.stdout.flush()
    return DONE


async def _result(run: str, wait: bool, as_json: bool) -> int:
    session = await open_session()
    run = await session.runs.resolve(run)
    outcome = await session.runs.result(run) if wait else await session.runs.outcome(run)
    if outcome.status in ENDED:
        return print_outcome(outcome, as_json, await done_before(session.runs, outcome))
    if as_json:
        print_json(outcome_json(outcome))
    else:
        print_text(outcome.status)
    say(HINTS[outcome.status].format(run=run))
    return DONE if outcome.status == "running" else WAITING


HINTS = {
    "waiting": "run {run} waits for a person; see: holdfast questions {run}",
    "paused": "run {run} is paused; resume it with: holdfast resume {run}",
    "running": "run {run} is still running; wait for its end with --wait",
}


async def _graph(file: Path, run: str | None) -> int:
    blueprint = load(file)
    overlay = None if run is None else await _overlay(run, blueprint)
    print_text(flowchart(blueprint, overlay), end="")
    return DONE


async def _overlay(run: str, blueprint: Blueprint) -> RunOverlay:
    session = await open_session()
    state = await session.runs.standing(await session.runs.resolve(run))
    if state.blueprint != blueprint.name:
        say(f"run {state.run} is of blueprint {state.blueprint}, not {blueprint.name}: only equal names are coloured")
    return marks_of(await session.runs.trace(state), state.questions)

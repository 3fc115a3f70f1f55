"""The commands that say what a blueprint will do, or did: `explain`, `graph`.

Only `graph --run` asks a server: what that needs is imported there.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.blueprint.explain import explain as explanation
from holdfast.blueprint.explain.demands import add_demands
from holdfast.blueprint.explain.outline import WIDTH
from holdfast.blueprint.graph import graph as flowchart
from holdfast.blueprint.load import Parsed, parse_file
from holdfast.cli.command import perform
from holdfast.cli.completion import complete_run
from holdfast.cli.flags import AsJson, File
from holdfast.cli.lookup import read_tool_facts
from holdfast.cli.output import DONE, USAGE, print_json, print_text, say
from holdfast.client.reading import BadUsage

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint

app = typer.Typer(rich_markup_mode=None)


@app.command()
def explain(file: File, as_json: AsJson = False) -> None:
    """Explain in plain words what a blueprint will do: its steps, its questions to people, its cost, its result."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    parsed = _valid(file, as_json)
    assert parsed.blueprint is not None
    facts = asyncio.run(read_tool_facts(file, parsed))
    known = (None,) if facts is None else facts
    description = explanation(parsed.blueprint, min(columns, WIDTH), *known)
    if as_json:
        print_json(description.to_json())
    else:
        print_text(description.text, end="")


def _valid(file: Path, as_json: bool) -> Parsed:
    """Return the parsed blueprint; if it has problems, print them and exit with code 2."""
    parsed = parse_file(file)
    if parsed.blueprint is not None and not parsed.problems:
        return parsed
    message = "\n".join(map(str, parsed.problems))
    if as_json:
        problems = [problem.to_json() for problem in parsed.problems]
        print_json({"error": {"type": "blueprint_invalid", "message": message, "problems": problems}})
    say(message)
    raise typer.Exit(USAGE)


@app.command()
def graph(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="A blueprint; default: the one that RUN was started with."),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Colour the steps by their status in this run.",
            autocompletion=complete_run,
        ),
    ] = None,
) -> None:
    """Print a blueprint as a Mermaid flowchart, to paste into Markdown or https://mermaid.live.

    With --run, steps that are done, running, waiting for a person, failed or skipped are coloured; in a loop, those of
    its last iteration.
    """
    perform(_graph(file, run))


async def _graph(file: Path | None, run: str | None) -> int:
    blueprint = None if file is None else await _load_with_demands(file)
    if run is not None:
        print_text(await _graph_of_run(run, blueprint), end="")
    elif blueprint is not None:
        print_text(flowchart(blueprint), end="")
    else:
        raise BadUsage("name a blueprint, or a run: holdfast graph FILE, or holdfast graph --run RUN")
    return DONE


async def _load_with_demands(file: Path) -> Blueprint:
    """Return a blueprint with what the owners of its tools demand, as far as that can be known."""
    parsed = parse_file(file)
    facts = await read_tool_facts(file, parsed)
    return add_demands(parsed.valid(), {} if facts is None else facts.demands)


async def _graph_of_run(run: str, blueprint: Blueprint | None) -> str:
    """Return the flowchart of a run, drawn from a blueprint of the caller's or from its own."""
    from holdfast.cli.session import open_run  # noqa: PLC0415  see the head of this file
    from holdfast.client.overlay import mark_steps  # noqa: PLC0415  see the head of this file

    session, run = await open_run(run)
    runs = session.runs
    drawn = blueprint or await runs.watch.blueprint(run)
    state = await runs.state(run)
    if state.blueprint != drawn.name:
        say(f"run {state.run} is of blueprint {state.blueprint}, not {drawn.name}: only equal names are coloured")
    return flowchart(drawn, mark_steps(await runs.watch.trace(state), state.questions))

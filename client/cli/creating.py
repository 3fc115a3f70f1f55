"""`create`: a first blueprint, made of what a person answers, or of a plan."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from blueprint import loads
from client.cli.attending import Attendance, Parked
from client.cli.flags import AnswersFile, AsJson
from client.cli.from_plan import Origin, create_from
from client.cli.output import DONE, USAGE, WAITING, print_json, say
from client.cli.perform import perform
from client.cli.running import print_outcome
from client.cli.session import Session, open_session
from client.cli.writing import check_free, tell_command, write_all
from client.prompts import Interrupted, Lines, Source, Terminal, Written
from client.reading import BadUsage, person, read_entries
from client.render import console
from client.runs import Outcome
from client.wizard import Wanted, blueprint_text, questions, replies_text

app = typer.Typer(rich_markup_mode=None)
KINDS_OF_BEGINNING = """\
holdfast create [FILE] --wizard       answer some questions, and get a blueprint that runs
holdfast create [FILE] --from PLAN    make a blueprint of a plan: JSON, or a text of ReWOO, LLMCompiler, HuggingGPT
examples to copy and change: examples/ of the source tree; the language: docs/blueprint.md"""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")


@app.command()
def create(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="What to write; default: NAME.yaml. Never overwritten.")
    ] = None,
    wizard: Annotated[bool, typer.Option("--wizard", help="Ask, and write a blueprint of the answers.")] = False,
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="Go on with the questions of an earlier --wizard.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="PLAN", help="Make it of a plan: JSON, or ReWOO, LLMCompiler, HuggingGPT; - is piped in."
        ),
    ] = None,
    goal: Annotated[
        str | None, typer.Option("--goal", metavar="TEXT", help="What a plan of --from is for, if it does not say.")
    ] = None,
    answers: AnswersFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a first blueprint, and the command that runs it.

    The questions of --wizard are a run themselves: a blueprint of the `clarify` kind. They are answered as those of
    `holdfast run` are: from --answers first, then at a terminal, or by a line each from what is piped in. Where nobody
    answers, they wait, the exit code is 3, and --run goes on with them.

    With --from nothing is asked, and no server is needed. A FILE that ends in .json gets the plan itself.
    """
    if plan is not None:
        if wizard or run is not None or answers is not None:
            say("--from asks nothing: leave out --wizard, --run and --answers")
            raise typer.Exit(USAGE)
        perform(create_from(Origin(plan, goal), file, as_json), as_json)
    if goal is not None:
        say("--goal is that of a plan: it goes with --from")
        raise typer.Exit(USAGE)
    if not wizard and run is None:
        say(KINDS_OF_BEGINNING)
        raise typer.Exit(USAGE)
    perform(_create(_Creation(file, run, answers, as_json)), as_json)


@dataclass(frozen=True)
class _Creation:
    """What was typed."""

    file: Path | None
    run: str | None
    answers: Path | None
    as_json: bool

    def sources(self) -> list[Source]:
        """Where answers come from, in order; as for `holdfast run`."""
        out = console()
        written: list[Source] = [] if self.answers is None else [Written(read_entries(self.answers), out)]
        if sys.stdin is None or sys.stdin.closed:
            return written
        here = Terminal(out, editing=sys.stdout.isatty() and not self.as_json) if sys.stdin.isatty() else Lines(out)
        return [*written, here]

    def known(self) -> dict[str, str]:
        """What needs not be asked: the name, if the file's is one."""
        stem = "" if self.file is None else self.file.stem
        return {"name": stem} if _NAME.fullmatch(stem) else {}

    def again(self, run: str, file: str | None = None) -> str:
        """The command that goes on with the answers of a run."""
        file = file or (None if self.file is None else str(self.file))
        return shlex.join(["holdfast", "create", *([file] if file else []), "--run", run])


async def _create(creation: _Creation) -> int:
    if creation.file is not None:
        check_free(creation.file)
    sources = creation.sources()
    session = await open_session()
    run = await _begun(session, creation)
    attendance = Attendance(session.runs, run, sources=sources, by=person(None), out=console())
    try:
        end = await attendance.until_rest()
    except (asyncio.CancelledError, Interrupted):  # Ctrl-C
        return _left(creation, run)
    if isinstance(end, Parked):
        return _left(creation, run)
    if end.status != "completed":
        return print_outcome(end, creation.as_json)
    try:
        return _write(creation, end)
    except BadUsage as error:
        other = creation.again(run, "OTHER.yaml")
        raise BadUsage(f"{error}; the answers are kept, so write them elsewhere with: {other}") from error


async def _begun(session: Session, creation: _Creation) -> str:
    """The run that asks: a new one, or the earlier one. Raises `BadUsage` if that asks something else."""
    asking = questions()
    if creation.run is None:
        return await session.runs.start(asking, creation.known(), started_by=person(None))
    run = await session.runs.resolve(creation.run)
    if (standing := await session.runs.standing(run)).blueprint != asking.name:
        raise BadUsage(f"{run} is a run of {standing.blueprint}, not of the wizard")
    return run


def _left(creation: _Creation, run: str) -> int:
    if creation.as_json:
        print_json({"run": run, "status": "waiting"})
    say(f"\nnothing was written yet; go on with: {creation.again(run)}")
    return WAITING


def _write(creation: _Creation, end: Outcome) -> int:
    """Write the blueprint, and what it needs beside it; say what was written and how it is run."""
    wanted = _wanted(end)
    file = creation.file or Path(f"{wanted.name}.yaml")
    beside = file.with_name(f"{file.stem}.replies.yaml")
    text, replies = blueprint_text(wanted, beside.name), replies_text(wanted)
    loads(text, file=str(file), folder=file.parent)
    files = {file: text, **({beside: replies} if replies is not None else {})}
    write_all(files)
    tell_command(file, creation.as_json, run=end.run, files=list(map(str, files)))
    return DONE


def _wanted(end: Outcome) -> Wanted:
    try:
        return Wanted.model_validate(end.output)
    except ValidationError as error:
        raise BadUsage(f"the output of {end.run} is none of the wizard's") from error

"""`run`, `start`, `attach`: a run begins, and is attended from this terminal."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from blueprint import Blueprint, load
from blueprint.changes import UnknownStep, with_model, with_stops
from client.cli.attending import Attendance, Parked
from client.cli.flags import After, AnswersFile, AsJson, Before, By, File, Given, Id, Model, RunName
from client.cli.output import DONE, FAILED, INTERRUPTED, WAITING, json_text, print_json, say
from client.cli.perform import perform
from client.cli.session import Session, open_session
from client.prompts import Interrupted, Lines, Source, Terminal, Written
from client.reading import BadUsage, input_of, person, read_entries
from client.render import console, failure_text, waiting_text
from client.runs import Outcome

app = typer.Typer(rich_markup_mode=None)


@app.command()
def run(
    file: File,
    input: Given = None,
    id: Id = None,
    answers: AnswersFile = None,
    model: Model = None,
    before: Before = None,
    after: After = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Start a run, show what it does, ask what it asks, print its result.

    Questions are answered from --answers first; then a terminal is asked, or a line is read from what is piped in.
    Where nobody answers, the run is left waiting, the command that answers it is printed, and the exit code is 3.
    So it is after Ctrl-C, which never ends a run (130 if it was not waiting). `holdfast attach` goes on with it.
    """
    perform(_run(_Beginning(file, input, id, model, before or [], after or []), _Here(answers, by, as_json)), as_json)


@app.command()
def start(
    file: File,
    input: Given = None,
    id: Id = None,
    model: Model = None,
    before: Before = None,
    after: After = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Start a run and print its id."""
    perform(_start(_Beginning(file, input, id, model, before or [], after or []), by, as_json), as_json)


@app.command()
def attach(run: RunName, answers: AnswersFile = None, by: By = None, as_json: AsJson = False) -> None:
    """Go on with a run in this terminal, as `holdfast run` does after starting it."""
    perform(_attach(run, _Here(answers, by, as_json)), as_json)


@dataclass(frozen=True)
class _Beginning:
    """What a run is started from."""

    file: Path
    given: str | None
    id: str | None
    model: str | None
    before: list[str]
    after: list[str]

    def blueprint(self) -> Blueprint:
        """The file's blueprint, with what was asked for beside it. Raises `BlueprintError` or `BadUsage`."""
        blueprint = load(self.file)
        if self.model is not None:
            blueprint = with_model(blueprint, _model(self.model))
        try:
            return with_stops(blueprint, self.before, self.after)
        except UnknownStep as error:
            raise BadUsage(str(error)) from None


def _model(name: str) -> str:
    """A script's path is relative to where the command was typed."""
    kind, colon, file = name.partition(":")
    return f"{kind}:{Path(file).absolute()}" if kind == "scripted" and colon else name


@dataclass(frozen=True)
class _Here:
    """How this terminal takes part in a run."""

    answers: Path | None
    by: str | None
    as_json: bool

    def sources(self) -> list[Source]:
        """Where answers come from, in order."""
        out = console()
        written: list[Source] = [] if self.answers is None else [Written(read_entries(self.answers), out)]
        if sys.stdin is None or sys.stdin.closed:
            return written
        if sys.stdin.isatty():
            # The line editor writes to standard output, where nothing but JSON may appear.
            return [*written, Terminal(out, editing=sys.stdout.isatty() and not self.as_json)]
        return [*written, Lines(out)]


async def _run(beginning: _Beginning, here: _Here) -> int:
    blueprint = beginning.blueprint()
    input_ = input_of(beginning.given, blueprint.inputs)
    sources = here.sources()
    session = await open_session()
    run = await session.runs.start(blueprint, input_, run=beginning.id, started_by=person(here.by))
    page = session.page(run)
    say(f"run {run}" + (f"  {page}" if page else ""))
    return await _attend(session, run, sources, here)


async def _start(beginning: _Beginning, by: str | None, as_json: bool) -> int:
    blueprint = beginning.blueprint()
    input_ = input_of(beginning.given, blueprint.inputs)
    session = await open_session()
    run = await session.runs.start(blueprint, input_, run=beginning.id, started_by=person(by))
    print_json({"run": run}) if as_json else print(run)
    return DONE


async def _attach(run: str, here: _Here) -> int:
    sources = here.sources()
    session = await open_session()
    run = await session.runs.resolve(run)
    return await _attend(session, run, sources, here)


async def _attend(session: Session, run: str, sources: list[Source], here: _Here) -> int:
    attendance = Attendance(session.runs, run, sources=sources, by=person(here.by), out=console())
    try:
        end = await attendance.until_rest()
    except (asyncio.CancelledError, Interrupted):  # Ctrl-C
        say(f"\nthe run goes on; come back with: holdfast attach {run}")
        return WAITING if attendance.waits_for_a_person else INTERRUPTED
    except BadUsage:  # a line of input that is no text
        say(f"the run goes on; come back with: holdfast attach {run}")
        raise
    if isinstance(end, Parked):
        return _parked(run, end, here.as_json)
    return print_outcome(end, here.as_json)


def _parked(run: str, parked: Parked, as_json: bool) -> int:
    """Who waits for what, and the command that answers it."""
    if as_json:
        questions = [question.model_dump(mode="json") for question in parked.questions]
        print_json({"run": run, "status": "waiting", "questions": questions})
    say(f"\nrun {run} waits for a person")
    console().print(waiting_text(parked.questions), end="")
    say(f"or go on here with: holdfast attach {run}")
    return WAITING


def print_outcome(outcome: Outcome, as_json: bool) -> int:
    """The result of a run that has ended; its exit code."""
    if as_json:
        print_json(outcome_json(outcome))
    elif outcome.status == "completed":
        output = outcome.output
        print(output if isinstance(output, str) else json_text(output), flush=True)
    else:
        say(failure_text(outcome.run, outcome.status, outcome.error))
    return DONE if outcome.status == "completed" else FAILED


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """What `run --json` and `result --json` print."""
    return {
        "run": outcome.run,
        "status": outcome.status,
        "output": outcome.output,
        "context": outcome.context,
        "error": error_json(outcome),
    }


def error_json(outcome: Outcome) -> dict[str, Any] | None:
    """Why a run did not complete: type, message, address, reason."""
    shown = {"type", "message", "address", "reason"}
    return None if outcome.error is None else outcome.error.model_dump(mode="json", include=shown)

"""The commands that attend a run from this terminal: `run`, which starts it, and `attach`."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import typer

from holdfast.cli.attendance import Attendance, Parked, answer_sources
from holdfast.cli.command import perform
from holdfast.cli.flags import After, AnswersFile, AsJson, Before, By, Check, File, Id, Input, Model, RunName
from holdfast.cli.output import INTERRUPTED, WAITING, print_json, say
from holdfast.cli.prompt import PromptInterrupted
from holdfast.cli.prompts import AnswerFile, AnswerSource, Terminal
from holdfast.cli.render import waiting_text
from holdfast.cli.runs import print_outcome
from holdfast.cli.session import Session, open_session
from holdfast.cli.start import StartArguments
from holdfast.cli.tables import console
from holdfast.client.reading import BadUsage, person
from holdfast.server.web.addresses import question_address

app = typer.Typer(rich_markup_mode=None)


@app.command()
def run(
    file: File,
    input: Input = None,
    id: Id = None,
    answers: AnswersFile = None,
    model: Model = None,
    before: Before = None,
    after: After = None,
    by: By = None,
    check: Check = True,
    as_json: AsJson = False,
) -> None:
    """Start a run, show its progress, ask its questions, print its result.

    Questions are answered from --answers first, then at the terminal, or from piped input, one line each. If nobody
    answers, the run stays waiting, the command that answers it is printed, and the exit code is 3. Ctrl-C never ends
    a run: it goes on, and the exit code is 3, or 130 if it was not waiting. `holdfast attach` returns to it.
    """
    arguments = StartArguments(file, input, id, model, before or [], after or [], check)
    perform(_run(arguments, Attendant(answers, by, as_json)), as_json)


@app.command()
def attach(run: RunName, answers: AnswersFile = None, by: By = None, as_json: AsJson = False) -> None:
    """Continue a run in this terminal: show its progress, ask its questions, print its result."""
    perform(_attach(run, Attendant(answers, by, as_json)), as_json)


@dataclass(frozen=True)
class Attendant:
    """The person at this terminal, and a file of their answers."""

    answers: Path | None
    by: str | None
    as_json: bool


async def _run(arguments: StartArguments, attendant: Attendant) -> int:
    beginning = arguments.read()
    sources = answer_sources(attendant.answers)
    session, run = await beginning.start(person(attendant.by))
    page = session.page(run)
    say(f"run {run}" + (f"  {page}" if page else ""))
    return await attend(session, run, sources, attendant, is_new=True)


async def _attach(run: str, attendant: Attendant) -> int:
    sources = answer_sources(attendant.answers)
    session = await open_session()
    run = await session.runs.resolve(run)
    return await attend(session, run, sources, attendant)


async def attend(
    session: Session,
    run: str,
    sources: list[AnswerSource],
    attendant: Attendant,
    *,
    is_new: bool = False,
    tell_past: bool = True,
) -> int:
    """Show the progress of a run, ask its questions, print its result, and return the exit code.

    Args:
        session: The connection.
        run: The run.
        sources: Where its questions are answered from.
        attendant: Who attends it.
        is_new: Whether it was started just now.
        tell_past: Whether the progress of a run is shown that has ended before.
    """
    by = person(attendant.by)
    inbox = await session.inbox(by)
    if inbox and any(isinstance(source, Terminal) for source in sources):
        say(f"answer here, or at {inbox}")
    attendance = Attendance(session.runs, run, sources=sources, by=by, out=console(), is_new=is_new)
    files = [source for source in sources if isinstance(source, AnswerFile)]
    try:
        is_past = not (is_new or tell_past) and await session.runs.watch.has_ended(run)
        end = await (session.runs.result(run) if is_past else attendance.until_rest())
    except (asyncio.CancelledError, PromptInterrupted):  # Ctrl-C
        say(f"\nthe run goes on; return to it with: holdfast attach {shlex.quote(run)}")
        return WAITING if attendance.waits_for_a_person else INTERRUPTED
    except BadUsage:  # a line of input that is not UTF-8 text
        say(f"the run goes on; return to it with: holdfast attach {shlex.quote(run)}")
        raise
    finally:
        for file in files:
            _print_unused(file, attendant)
    if isinstance(end, Parked):
        return _report_parked(session, run, end, inbox, attendant.as_json)
    done = await session.runs.watch.steps_before(end) if attendant.as_json else None
    return print_outcome(end, attendant.as_json, done)


def _print_unused(file: AnswerFile, attendant: Attendant) -> None:
    """Name the answers that were not used: a misspelt step, or a run that went another way."""
    if unused := file.left_over():
        say(f"unused answers in {attendant.answers}: {'; '.join(unused)}")


def _report_parked(session: Session, run: str, parked: Parked, inbox: str | None, as_json: bool) -> int:
    """Print the open questions and the commands that answer them; return the exit code."""
    if as_json:
        questions = [question.model_dump(mode="json") for question in parked.questions]
        print_json({"run": run, "status": "waiting", "questions": questions})
    say(f"\nrun {run} waits for a person")
    console().print(waiting_text(parked.questions), end="")
    say(f"or answer at this terminal with: holdfast attach {shlex.quote(run)}")
    if inbox:
        say(f"or in a browser, at {_find_page(parked, inbox)}")
    for owner in dict.fromkeys(question.owner for question in parked.questions):
        if page := session.page(owner):
            say(f"in Temporal's UI, at {page}")
    return WAITING


def _find_page(parked: Parked, inbox: str) -> str:
    """Return the address that shows what a run waits for: a single question's own page, else the inbox."""
    if len(parked.questions) != 1:
        return inbox
    parts = urlsplit(inbox)  # a one-time link signs in at any page
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + question_address(parked.questions[0])))

"""The command `create`: write a first blueprint from a person's answers, or from a plan."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from holdfast.blueprint import loads
from holdfast.client.cli.attending import Attendance, Parked
from holdfast.client.cli.command import perform
from holdfast.client.cli.flags import AnswersFile, AsJson
from holdfast.client.cli.from_plan import Origin, create_from
from holdfast.client.cli.from_template import create_from_template, template_names
from holdfast.client.cli.output import DONE, USAGE, WAITING, print_json, say
from holdfast.client.cli.running import print_outcome
from holdfast.client.cli.session import Session, open_session
from holdfast.client.cli.writing import check_free, print_command, run_command, write_all
from holdfast.client.prompts import AnswerFile, AnswerSource, PipedAnswers, PromptInterrupted, Terminal
from holdfast.client.reading import BadUsage, person, read_entries
from holdfast.client.render import console
from holdfast.client.states import Outcome
from holdfast.client.wizard import WizardAnswers, blueprint_text, questions, replies_text

app = typer.Typer(rich_markup_mode=None)
WAYS = """\
holdfast create [FOLDER] --template NAME   copy an example with its tools and tests: {templates}
holdfast create [FILE] --wizard            answer some questions and get a blueprint that runs
holdfast create [FILE] --from PLAN         make one from a plan: JSON, or a text of ReWOO, LLMCompiler, HuggingGPT
the language: docs/blueprint.md"""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")


@app.command()
def create(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="The file to write; default: NAME.yaml. With --template a folder; default: NAME. Never overwritten.",
        ),
    ] = None,
    template: Annotated[
        str | None, typer.Option("--template", metavar="NAME", help="Copy an example, with its tools and tests.")
    ] = None,
    wizard: Annotated[
        bool, typer.Option("--wizard", help="Ask some questions and write a blueprint from the answers.")
    ] = False,
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="Continue the questions of an earlier --wizard.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="PLAN",
            help="Make the blueprint from a plan: JSON, ReWOO, LLMCompiler or HuggingGPT; - reads standard input.",
        ),
    ] = None,
    goal: Annotated[
        str | None, typer.Option("--goal", metavar="TEXT", help="The goal of the plan, if it names none itself.")
    ] = None,
    answers: AnswersFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a first blueprint, and the command that runs it.

    --template copies one of the tested examples into a folder of its own; it asks nothing and needs no server. Without
    any option the names of the examples are listed.

    --wizard asks its questions in a run of its own, a blueprint of the `clarify` kind. They are answered like those of
    `holdfast run`: from --answers first, then at the terminal, or from piped input, one line each. If nobody answers,
    they stay open, the exit code is 3, and --run continues with them.

    --from asks nothing and needs no server. A FILE that ends in .json gets the plan itself.
    """
    _check_one_way({"--template": template, "--from": plan, "--wizard": wizard or run or answers})
    if goal is not None and plan is None:
        raise _misuse("--goal needs --from")
    if template is not None:
        perform(create_from_template(template, file, as_json), as_json)
    if plan is not None:
        perform(create_from(Origin(plan, goal), file, as_json), as_json)
    if not wizard and run is None:
        raise _misuse(WAYS.format(templates=", ".join(template_names())))
    perform(_create(_Creation(file, run, answers, as_json)), as_json)


def _check_one_way(ways: Mapping[str, object]) -> None:
    """Leave with exit code 2 if more than one way is given."""
    given = [option for option, value in ways.items() if value]
    if len(given) > 1:
        raise _misuse(f"{given[0]} cannot be combined with {' or '.join(given[1:])}, or its options")


def _misuse(text: str) -> typer.Exit:
    say(text)
    return typer.Exit(USAGE)


@dataclass(frozen=True)
class _Creation:
    """The arguments of the command."""

    file: Path | None
    run: str | None
    answers: Path | None
    as_json: bool

    def sources(self) -> list[AnswerSource]:
        """Return the sources of answers, in the order in which they are asked; as for `holdfast run`."""
        out = console()
        files: list[AnswerSource] = [] if self.answers is None else [AnswerFile(read_entries(self.answers), out)]
        if sys.stdin is None or sys.stdin.closed:
            return files
        stdin = (
            Terminal(out, editing=sys.stdout.isatty() and not self.as_json) if sys.stdin.isatty() else PipedAnswers(out)
        )
        return [*files, stdin]

    def facts(self) -> dict[str, str]:
        """Return the answers that need not be asked: the name, if the file's is a valid one."""
        stem = "" if self.file is None else self.file.stem
        return {"name": stem} if _NAME.fullmatch(stem) else {}

    def resume_command(self, run: str, file: str | None = None) -> str:
        """Return the command that continues with the answers of a run."""
        file = file or (None if self.file is None else str(self.file))
        return shlex.join(["holdfast", "create", *([file] if file else []), "--run", run])


async def _create(creation: _Creation) -> int:
    if creation.file is not None:
        check_free(creation.file)
    sources = creation.sources()
    session = await open_session()
    run = await _start_or_find(session, creation)
    attendance = Attendance(session.runs, run, sources=sources, by=person(None), out=console())
    try:
        end = await attendance.until_rest()
    except (asyncio.CancelledError, PromptInterrupted):  # Ctrl-C
        return _waiting(creation, run)
    if isinstance(end, Parked):
        return _waiting(creation, run)
    if end.status != "completed":
        return print_outcome(end, creation.as_json)
    try:
        return _write(creation, end)
    except BadUsage as error:
        other = creation.resume_command(run, "OTHER.yaml")
        raise BadUsage(f"{error}; the answers are kept; write to another file with: {other}") from error


async def _start_or_find(session: Session, creation: _Creation) -> str:
    """Return the wizard's run: a new one, or the earlier one. Raises `BadUsage` if that is not a run of the wizard."""
    asking = questions()
    if creation.run is None:
        return await session.runs.start(asking, creation.facts(), started_by=person(None))
    run = await session.runs.resolve(creation.run)
    if (state := await session.runs.standing(run)).blueprint != asking.name:
        raise BadUsage(f"{run} is a run of {state.blueprint}, not of the wizard")
    return run


def _waiting(creation: _Creation, run: str) -> int:
    if creation.as_json:
        print_json({"run": run, "status": "waiting"})
    say(f"\nnothing was written yet; continue with: {creation.resume_command(run)}")
    return WAITING


def _write(creation: _Creation, end: Outcome) -> int:
    """Write the blueprint and its replies file; print what was written and the command that runs it."""
    answers = _wizard_answers(end)
    file = creation.file or Path(f"{answers.name}.yaml")
    replies_file = file.with_name(f"{file.stem}.replies.yaml")
    text, replies = blueprint_text(answers, replies_file.name), replies_text(answers)
    loads(text, file=str(file), folder=file.parent)
    files = {file: text, **({replies_file: replies} if replies is not None else {})}
    write_all(files)
    print_command(run_command(file), creation.as_json, run=end.run, files=list(map(str, files)))
    return DONE


def _wizard_answers(end: Outcome) -> WizardAnswers:
    try:
        return WizardAnswers.model_validate(end.output)
    except ValidationError as error:
        raise BadUsage(f"the output of {end.run} is not that of the wizard") from error

"""`create --wizard`: ask in a run of a blueprint of our own, and write the new blueprint from the answers."""

from __future__ import annotations

import asyncio
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from holdfast.blueprint import loads
from holdfast.client.cli.attending import Attendance, Parked, answer_sources
from holdfast.client.cli.output import DONE, WAITING, print_json, say
from holdfast.client.cli.running import print_outcome
from holdfast.client.cli.session import Session, open_session
from holdfast.client.cli.writing import check_free, print_command, run_command, write_all
from holdfast.client.prompt import PromptInterrupted
from holdfast.client.reading import BadUsage, person
from holdfast.client.render import console
from holdfast.client.states import Outcome
from holdfast.client.wizard import WizardAnswers, blueprint_text, questions, replies_text

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")


@dataclass(frozen=True)
class Dialog:
    """The arguments of `create` for the wizard."""

    file: Path | None
    run: str | None
    answers: Path | None
    as_json: bool

    def facts(self) -> dict[str, str]:
        """Return the answers that need not be asked: the name, if the file's is a valid one."""
        stem = "" if self.file is None else self.file.stem
        return {"name": stem} if _NAME.fullmatch(stem) else {}

    def resume_command(self, run: str, file: str | None = None) -> str:
        """Return the command that continues with the answers of a run."""
        file = file or (None if self.file is None else str(self.file))
        return shlex.join(["holdfast", "create", *([file] if file else []), "--run", run])


async def create_by_wizard(dialog: Dialog) -> int:
    """Ask the questions, and write the blueprint once all are answered; return the exit code."""
    if dialog.file is not None:
        check_free(dialog.file)
    sources = answer_sources(dialog.answers)
    session = await open_session()
    run = await _start_or_find(session, dialog)
    attendance = Attendance(session.runs, run, sources=sources, by=person(None), out=console())
    try:
        end = await attendance.until_rest()
    except (asyncio.CancelledError, PromptInterrupted):  # Ctrl-C
        return _waiting(dialog, run)
    if isinstance(end, Parked):
        return _waiting(dialog, run)
    if end.status != "completed":
        return print_outcome(end, dialog.as_json)
    try:
        return _write(dialog, end)
    except BadUsage as error:
        other = dialog.resume_command(run, "OTHER.yaml")
        raise BadUsage(f"{error}; the answers are kept; write to another file with: {other}") from error


async def _start_or_find(session: Session, dialog: Dialog) -> str:
    """Return the wizard's run: a new one, or the earlier one. Raises `BadUsage` if that is not a run of the wizard."""
    asking = questions()
    if dialog.run is None:
        return await session.runs.start(asking, dialog.facts(), started_by=person(None))
    run = await session.runs.resolve(dialog.run)
    if (state := await session.runs.standing(run)).blueprint != asking.name:
        raise BadUsage(f"{run} is a run of {state.blueprint}, not of the wizard")
    return run


def _waiting(dialog: Dialog, run: str) -> int:
    if dialog.as_json:
        print_json({"run": run, "status": "waiting"})
    say(f"\nnothing was written yet; continue with: {dialog.resume_command(run)}")
    return WAITING


def _write(dialog: Dialog, end: Outcome) -> int:
    """Write the blueprint and its replies file; print what was written and the command that runs it."""
    answers = _wizard_answers(end)
    file = dialog.file or Path(f"{answers.name}.yaml")
    replies_file = file.with_name(f"{file.stem}.replies.yaml")
    text, replies = blueprint_text(answers, replies_file.name), replies_text(answers)
    loads(text, file=str(file), folder=file.parent)
    files = {file: text, **({replies_file: replies} if replies is not None else {})}
    write_all(files)
    print_command(run_command(file), dialog.as_json, run=end.run, files=list(map(str, files)))
    return DONE


def _wizard_answers(end: Outcome) -> WizardAnswers:
    try:
        return WizardAnswers.model_validate(end.output)
    except ValidationError as error:
        raise BadUsage(f"the output of {end.run} is not that of the wizard") from error

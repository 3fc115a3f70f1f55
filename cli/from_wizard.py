"""`create --wizard`: ask what a new blueprint is for, and write it from the answers. Nothing runs for it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.blueprint.jsonschemas import list_misfits
from holdfast.blueprint.load import loads
from holdfast.cli.new_files import check_free, print_command, run_command, write_all
from holdfast.cli.output import DONE, INTERRUPTED, say
from holdfast.cli.prompt import PromptInterrupted
from holdfast.cli.prompts import read_choice
from holdfast.cli.wizard import WizardAnswers, WizardQuestion, blueprint_text, next_question, replies_text
from holdfast.client.answer_files import Entry, read_entries
from holdfast.client.reading import BadUsage


@dataclass(frozen=True)
class Dialog:
    """The arguments of `create` for the wizard."""

    file: Path | None
    answers: Path | None
    as_json: bool

    def prefill(self) -> dict[str, str]:
        """Return the answers that need not be asked: the name, if the file's is a valid one."""
        name = next_question({})
        stem = "" if self.file is None else self.file.stem
        return {"name": stem} if name is not None and not _problem(name, stem) else {}


async def create_by_wizard(dialog: Dialog) -> int:
    """Ask the questions, and write the blueprint once all are answered; return the exit code."""
    if dialog.file is not None:
        check_free(dialog.file)
    entries = [] if dialog.answers is None else read_entries(dialog.answers)
    answers = dialog.prefill()
    try:
        while (question := next_question(answers)) is not None:
            answer = _find_answer(entries, question)
            answers[question.name] = await _ask(question, dialog.file) if answer is None else answer
    except PromptInterrupted:  # Ctrl-C
        say("\nnothing was written")
        return INTERRUPTED
    return _write(dialog, WizardAnswers.model_validate(answers))


def _find_answer(entries: Sequence[Entry], question: WizardQuestion) -> str | None:
    """Return the answer of a file; None if it has none. Raises `BadUsage` for one that does not fit."""
    entry = next((entry for entry in entries if entry.pattern == question.name), None)
    if entry is None:
        return None
    if problem := _problem(question, entry.content):
        raise BadUsage(f"the answer to {question.name} {problem}")
    return str(entry.content)


async def _ask(question: WizardQuestion, file: Path | None) -> str:
    """Return what is typed, asked again until it fits. Raises `BadUsage` where nothing more comes."""
    say(question.message)
    while True:
        text = await read_choice("> ", question.words)
        if text is None:
            raise BadUsage(
                f"nothing was written: no answer to {question.name}; type it, pipe in a line, or give --answers"
            )
        if not sys.stdin.isatty():
            say(text)
        text = _whole_word(text.strip(), question)
        problem = _problem(question, text) or (_check_free(text) if question.name == "name" and file is None else None)
        if problem is None:
            return text
        say(f"refused: {problem}")


def _whole_word(text: str, question: WizardQuestion) -> str:
    """Return the word to choose that begins like the text, if it is the only one; else the text."""
    words = [word for word in question.words if text and word.startswith(text.lower())]
    return words[0] if len(words) == 1 else text


def _problem(question: WizardQuestion, answer: object) -> str | None:
    """Return why an answer cannot be used; None if it can."""
    return next((message for _, message in list_misfits(question.schema, answer)), None)


def _check_free(name: str) -> str | None:
    """Return why a name cannot be used for the file, which is told before anything else is asked."""
    try:
        check_free(Path(f"{name}.yaml"))
    except BadUsage as error:
        return str(error)
    return None


def _write(dialog: Dialog, answers: WizardAnswers) -> int:
    """Write the blueprint and its replies file; print what was written and the command that runs it."""
    file = dialog.file or Path(f"{answers.name}.yaml")
    replies_file = file.with_name(f"{file.stem}.replies.yaml")
    text, replies = blueprint_text(answers, replies_file.name), replies_text(answers)
    loads(text, file=str(file), folder=file.parent)
    files = {file: text, **({replies_file: replies} if replies is not None else {})}
    write_all(files)
    print_command(run_command(file), dialog.as_json, files=list(map(str, files)))
    return DONE

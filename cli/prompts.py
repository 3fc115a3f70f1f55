"""Sources of answers for the CLI: a person at a terminal, lines piped in, a file of answers.

`holdfast run` and `attach` ask them, one question at a time.
"""

from __future__ import annotations

import getpass
import io
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.text import Text

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.parts import Option
from holdfast.blueprint.questions import YES, InvalidAnswer
from holdfast.cli.prompt import Prompt, PromptInterrupted
from holdfast.cli.render import question_text, wrap
from holdfast.client.answer_files import Entry
from holdfast.client.forms import ABSENT, FormField, list_fields, shown_default
from holdfast.client.reading import BadUsage, from_json, in_short, parse_content
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.display import one_line
from holdfast.protocol.questions import Question

if TYPE_CHECKING:
    from holdfast.cli.line_editor import LineEditor

HELP = """\
/decline  refuse to answer; the blueprint decides what happens then
/cancel   cancel the step that asks
/later    leave the question open and exit; so do Ctrl-D and Ctrl-C
Tab completes names, the arrow keys recall earlier input, Alt-Enter begins a new line of a text"""
COMMANDS = ("/decline", "/cancel", "/later", "/help")
WAKE_SECONDS = 0.2


class AnswerSource(Protocol):
    """A source of answers; `answer` returns None if it has none for the question."""

    async def answer(self, question: Question) -> Answer | None: ...

    def tell_refusal(self, question: Question, reason: str) -> None:
        """Report that its last answer was refused."""


class AnswerFile:
    """The answers of a file; the first entry that fits is used."""

    def __init__(self, entries: Sequence[Entry], out: Console) -> None:
        self.entries, self.out = entries, out

    async def answer(self, question: Question) -> Answer | None:
        """Return the answer of the first unused entry that fits."""
        for entry in self.entries:
            if entry.can_answer(question):
                try:
                    return entry.answer(question)
                except Refusal as refusal:
                    self.tell_refusal(question, refusal.message)
        return None

    def tell_refusal(self, question: Question, reason: str) -> None:
        """See base class."""
        self.out.print(f"the file's answer was refused: {one_line(reason)}")

    def left_over(self) -> list[str]:
        """Return the entries that were not used as often as they say, each with its place in the file."""
        unused = []
        for index, entry in enumerate(self.entries):
            if entry.remaining:
                count = f", {entry.remaining} of {entry.times} times" if entry.times > 1 else ""
                unused.append(f"[{index}] {entry.pattern}{count}")
        return unused


class PipedAnswers:
    """Standard input that is not a terminal: one answer a line, written like VALUE on the command line."""

    def __init__(self, out: Console) -> None:
        self.out = out
        self.asked = ""

    async def answer(self, question: Question) -> Answer | None:
        """Return the answer in the next line; None at the end of input."""
        if question.id != self.asked and not _is_at_end():
            self.asked = question.id
            self.out.print(question_text(question))
        while (line := read_line()) is not None:
            self.out.print("> …" if question.asked.hidden else f"> {line}")
            try:
                return Answer(question=question.id, content=parse_content(line, question))
            except Refusal as refusal:
                self.tell_refusal(question, refusal.message)
        return None

    def tell_refusal(self, question: Question, reason: str) -> None:
        """See base class."""
        self.out.print(f"refused: {one_line(reason)}")


@cache
def line_editor() -> LineEditor:
    """Return the line editor of this process, which is imported for the first prompt: see there."""
    from holdfast.cli.line_editor import LineEditor  # noqa: PLC0415  most commands prompt for nothing

    return LineEditor()


def can_edit() -> bool:
    """Return whether a person can be prompted with a line editor.

    It reads standard input, shows on standard error, and moves the cursor.
    """
    streams = (sys.stdin, sys.stderr)
    at_terminal = all(stream is not None and not stream.closed and stream.isatty() for stream in streams)
    return at_terminal and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


class _CommandTyped(Exception):
    """A command typed instead of a value: decline, cancel or, with None for the answer, leave the question open."""

    def __init__(self, answer: Answer | None) -> None:
        super().__init__()
        self.answer = answer


class Terminal:
    """A person at a terminal, asked again, with the reason, until the answer fits."""

    def __init__(self, out: Console, *, editing: bool) -> None:
        self.out, self.editing = out, editing

    async def answer(self, question: Question) -> Answer | None:
        """Ask the question; return None if it is left open."""
        self.out.print(wrap(question_text(question), self.out))
        self.out.print(wrap(Text(_instructions(question), "dim"), self.out))
        fields = list_fields(question)
        try:
            while True:
                try:
                    content = await (self._form(question, fields) if fields else self._line(question))
                except Refusal as refusal:
                    self.tell_refusal(question, refusal.message)
                    continue
                problems = question.find_problems(content)
                if not problems:
                    return Answer(question=question.id, content=content, digest=question.digest)
                self.tell_refusal(question, str(InvalidAnswer.of(problems)))
        except _CommandTyped as command:
            return command.answer

    def tell_refusal(self, question: Question, reason: str) -> None:
        """See base class."""
        self.out.print(one_line(reason), style="red")

    async def _line(self, question: Question) -> JSON:
        text = await self._ask(_prompt_for(question), question)
        if not text.strip() and question.default is not None:
            return question.default
        return read_choice_text(text, question)

    async def _form(self, question: Question, fields: Sequence[FormField]) -> JSONObject:
        """Ask for a form field by field; a JSON object typed for the first field is the whole form."""
        values: JSONObject = {}
        # A whole form with secrets may not be typed where it can be seen.
        takes_whole = not question.asked.hidden or all(field.is_hidden for field in fields)
        for field in fields:
            prompt = _prompt_for_field(field)
            while True:
                text = await self._ask(prompt, question)
                if field is fields[0] and takes_whole and (whole := _whole(text, field, question)) is not None:
                    return whole
                value = field.value(text)
                if (reason := field.problem(value)) is None:
                    break
                is_consent = question.asked.yes_or_no and field is fields[0] and bool(text.strip())
                problems = question.find_problems(text) if is_consent else []
                self.tell_refusal(question, str(InvalidAnswer.of(problems or [(field.name, reason)])))
                if not (field.is_boolean or field.schema.get("enum")):  # what may be typed is told again
                    prompt = replace(prompt, text=f"{one_line(field.name)}: ")
            if value is not ABSENT:
                values[field.name] = value
        return values

    async def _ask(self, prompt: Prompt, question: Question) -> str:
        """Return the text that is typed. Raises `_CommandTyped` for a command."""
        while True:
            text = await self._read(prompt)
            match text and text.strip():
                case None | "/later":
                    raise _CommandTyped(None)
                case "/decline":
                    raise _CommandTyped(Answer(question=question.id, action="decline"))
                case "/cancel":
                    raise _CommandTyped(Answer(question=question.id, action="cancel"))
                case "/help":
                    self.out.print(HELP, style="dim")
                case _:
                    return text or ""

    async def _read(self, prompt: Prompt) -> str | None:
        if self.editing:
            return await line_editor().read(prompt)
        return _read_hidden(prompt.text) if prompt.hidden else read_line(prompt.text)


def _prompt_for(question: Question) -> Prompt:
    """Return the prompt for an answer in one go, with the words that answer it."""
    asked = question.asked
    names = [name for option in question.options for name in _list_names(option)]
    words = [*names, *(("yes", "no") if asked.yes() is not None and not names else ()), *COMMANDS]
    is_text = not names and question.requestedSchema.get("type", "string") == "string"
    return Prompt("> ", asked.hidden, words, asked.most_choices > 1, long=is_text and not asked.hidden)


def _list_names(option: Option) -> list[str]:
    """Return the names by which an option is typed: its label only where that is another word."""
    return [option.id, *([option.label] if option.label and option.label.casefold() != option.id.casefold() else [])]


def _prompt_for_field(field: FormField) -> Prompt:
    """Return the prompt for one field of a form."""
    values = [field.words.get(str(value), str(value)) for value in field.schema.get("enum", [])]
    words = [*values, *(("yes", "no") if field.is_boolean else ()), *COMMANDS]
    is_text = not values and field.schema.get("type") == "string" and not field.is_hidden
    return Prompt(f"{one_line(field.label)}: ", field.is_hidden, words, long=is_text)


def _instructions(question: Question) -> str:
    """Return a line that says how to answer the question in a terminal."""
    asked, fields = question.asked, question.asked.fields
    mixed = any(not field.get("writeOnly") for field in fields.values())
    which = " for a secret" if mixed else ""
    hints = [f"what is typed{which} is not shown"] if asked.hidden else []
    if asked.hint:
        hints.append(asked.hint)
    elif fields:
        hints.append(f"{len(fields)} fields" + ("" if asked.hidden and mixed else ", or one JSON object"))
    elif question.options:
        many = f"up to {asked.most_choices}, separated by commas" if asked.most_choices > 1 else "one"
        hints.append(f"{many}, by number or name" + (", or your own words" if asked.takes_own_words else ""))
    if not asked.needs_data:
        hints.append("Enter: go on")
    if question.default is not None and not fields:
        hints.append(f"Enter: {shown_default(question.default)}")
    return one_line(" · ".join([*hints, "/help for more"]))


def read_choice_text(text: str, question: Question) -> JSON:
    """Return the content of a typed answer; a number stands for an option unless an option has that name."""
    if question.options:
        names = [name for option in question.options for name in (option.id, option.label)]
        numbers = {str(n): option.id for n, option in enumerate(question.options, 1) if str(n) not in names}
        content = parse_content(text, question)
        if isinstance(content, list):
            return [numbers.get(item.strip(), item) if isinstance(item, str) else item for item in content]
        return numbers.get(content.strip(), _complete(content, question))
    return parse_content(text, question)


def _complete(text: str, question: Question) -> str:
    """Return the only option that starts with the text, unless free text may be meant; else the text."""
    start = text.strip().casefold()
    names = {option.id: (option.id.casefold(), option.label.casefold()) for option in question.options}
    if question.asked.takes_own_words or not start or any(start in spelled for spelled in names.values()):
        return text
    matches = [id_ for id_, spelled in names.items() if any(name.startswith(start) for name in spelled)]
    return matches[0] if len(matches) == 1 else text


def _whole(text: str, first: FormField, question: Question) -> JSONObject | None:
    """Return the whole form if it was typed for its first field; a bare yes or no to a boolean is that field."""
    if first.is_boolean and text.strip().lower() in YES:
        return None
    short = in_short(text, question)
    return short if isinstance(short, dict) else _object(text)


def _object(text: str) -> JSONObject | None:
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_line(prompt: str = "") -> str | None:
    """Return a line of standard input without its end; None at the end of input. Raises `PromptInterrupted`."""
    if prompt:
        print(prompt, end="", file=sys.stderr, flush=True)
    with _ctrl_c():
        line = sys.stdin.buffer.readline()
    if not line:
        return None
    try:
        return line.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise BadUsage(f"a line of standard input is not UTF-8 text (byte {error.start})") from error


def _is_at_end() -> bool:
    """Return whether standard input has certainly ended, without waiting for it."""
    buffer = sys.stdin.buffer
    poll = select.poll()  # `select.select` takes no file with a number over 1,023
    poll.register(buffer, select.POLLIN)
    return bool(poll.poll(0)) and isinstance(buffer, io.BufferedReader) and not buffer.peek(1)


async def read_secret(prompt: str) -> str | None:
    """Return a line that is typed and not shown; None at Ctrl-D. Raises `PromptInterrupted`."""
    return await line_editor().read(Prompt(prompt, hidden=True)) if can_edit() else _read_hidden(prompt)


async def read_value(prompt: str) -> str | None:
    """Return a secret that is typed without echo, or a line that is piped in; None if nothing is given."""
    try:
        return await read_secret(prompt) if sys.stdin.isatty() else read_line()
    except PromptInterrupted:  # Ctrl-C
        return None


async def read_choice(prompt: str, words: Sequence[str]) -> str | None:
    """Return a line that is typed, with words to complete; None at Ctrl-D. Raises `PromptInterrupted`."""
    return await line_editor().read(Prompt(prompt, words=words)) if can_edit() else read_line(prompt)


def _read_hidden(prompt: str) -> str | None:
    try:
        with _ctrl_c():
            return getpass.getpass(one_line(prompt))
    except EOFError:
        print(file=sys.stderr)
        return None


@contextmanager
def _ctrl_c() -> Iterator[None]:
    """Raise `PromptInterrupted` at Ctrl-C at once: asyncio's own handler waits until its loop runs again."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with _frequent_wake_ups():
            yield
    except KeyboardInterrupt:
        raise PromptInterrupted from None
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _frequent_wake_ups() -> Iterator[None]:
    """Interrupt a blocking read five times a second."""
    # A read that starts just after the signal arrived does not see it: Python acts on it at the next interruption.
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, WAKE_SECONDS, WAKE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

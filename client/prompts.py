"""Where answers come from in a terminal: a person who is asked, lines that are piped in, a file of answers."""

from __future__ import annotations

import getpass
import io
import select
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from rich.console import Console

from blueprint.jsonschemas import BadSchema, problems_of
from client.reading import BadUsage, Entry, accepted, content_of, from_json, value_of
from client.render import question_text
from protocol.answers import Answer
from protocol.questions import Question

with suppress(ImportError):  # where it is missing, arrow keys are typed as they are
    import readline  # noqa: F401 from here on `input` edits its line

HELP = """\
/decline  refuse to answer; the blueprint says what follows
/cancel   cancel the step that asks
/later    leave the question open and go; so do Ctrl-D and Ctrl-C"""
YES = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
WAKE_SECONDS = 0.2
ABSENT = object()
"""What a field that is left out has for a value."""


class Interrupted(Exception):
    """Ctrl-C while a person was asked, or a line was awaited."""


class Source(Protocol):
    """Gives an answer to a question, or None if it has none for it."""

    def answer(self, question: Question) -> Answer | None: ...

    def refused(self, question: Question, reason: str) -> None:
        """Say why the answer it gave was not taken."""


class Written:
    """A file of answers, used in the order of asking."""

    def __init__(self, entries: Sequence[Entry], out: Console) -> None:
        self.entries, self.out = entries, out

    def answer(self, question: Question) -> Answer | None:
        for entry in self.entries:
            if question.id not in entry.tried and entry.fits(question):
                return entry.answer(question)
        return None

    def refused(self, question: Question, reason: str) -> None:
        self.out.print(f"the file's answer was refused: {reason}")


class Lines:
    """Standard input that is no terminal: an answer a line, as a VALUE on the command line."""

    def __init__(self, out: Console) -> None:
        self.out = out
        self.asked = ""

    def answer(self, question: Question) -> Answer | None:
        if question.id != self.asked and not _is_at_end():
            self.asked = question.id
            self.out.print(question_text(question))
        line = read_line()
        if line is None:
            return None
        self.out.print("> …" if question.kind == "secret" else f"> {line}")
        return Answer(question=question.id, content=content_of(line, question))

    def refused(self, question: Question, reason: str) -> None:
        self.out.print(f"refused: {reason}")


class _Left(Exception):
    """The person typed a command instead of an answer: decline, cancel, or (None) go."""

    def __init__(self, answer: Answer | None) -> None:
        super().__init__()
        self.answer = answer


class Terminal:
    """A person at a terminal; asked again, with the reason, until the answer fits."""

    def __init__(self, out: Console, *, editing: bool) -> None:
        self.out, self.editing = out, editing

    def answer(self, question: Question) -> Answer | None:
        self.out.print(question_text(question))
        self.out.print(_how(question), style="dim")
        try:
            while True:
                content = self._form(question) if _fields_of(question) else self._line(question)
                reason = accepted(question, content)
                if reason is None:
                    return Answer(question=question.id, content=content, digest=question.digest)
                self.refused(question, reason)
        except _Left as left:
            return left.answer

    def refused(self, question: Question, reason: str) -> None:
        self.out.print(reason, style="red")

    def _line(self, question: Question) -> Any:
        text = self._ask("> ", question)
        if not text.strip() and question.default is not None:
            return question.default
        return chosen(text, question)

    def _form(self, question: Question) -> dict[str, Any]:
        """The form field by field; or whole, if a JSON object is typed for the first."""
        given: dict[str, Any] = {}
        for index, (name, field) in enumerate(_fields_of(question).items()):
            required = name in question.requestedSchema.get("required", [])
            text = self._ask(f"{_label(name, field, required)}: ", question)
            if index == 0 and (whole := _whole(text, question)) is not None:
                return whole
            value = field_value(text, field)
            while reason := _misfit(field, value, required):
                self.refused(question, f"{name}: {reason}")
                text = self._ask(f"{name}: ", question)
                if index == 0 and (whole := _whole(text, question)) is not None:
                    return whole
                value = field_value(text, field)
            if value is not ABSENT:
                given[name] = value
        return given

    def _ask(self, prompt: str, question: Question) -> str:
        """What was typed, unless it is a command: then raises `_Left`."""
        while True:
            text = self._read(prompt, hidden=question.kind == "secret")
            match text and text.strip():
                case None | "/later":
                    raise _Left(None)
                case "/decline":
                    raise _Left(Answer(question=question.id, action="decline"))
                case "/cancel":
                    raise _Left(Answer(question=question.id, action="cancel"))
                case "/help":
                    self.out.print(HELP, style="dim")
                case _:
                    return text or ""

    def _read(self, prompt: str, *, hidden: bool) -> str | None:
        if hidden:
            return read_hidden(prompt)
        return read_edited(prompt) if self.editing else read_line(prompt)


def _how(question: Question) -> str:
    """How this question is answered in a terminal."""
    words = ["what is typed is not shown"] if question.kind == "secret" else []
    fields = _fields_of(question)
    if question.kind == "review":
        words.append("yes: it is right · no, and why · a JSON object of what is to be other")
    elif fields:
        words.append(f"{len(fields)} fields, or one JSON object")
    elif question.options:
        many = f"up to {question.max_selections}, separated by commas" if question.max_selections > 1 else "one"
        words.append(f"{many}, by number or name" + (", or your own words" if question.allow_custom else ""))
    if question.needs_no_data:
        words.append("Enter: go on")
    if question.default is not None and not fields:
        words.append(f"Enter: {_named(question.default)}")
    return " · ".join([*words, "/help for more"])


def _named(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def chosen(text: str, question: Question) -> Any:
    """An answer as typed: options by number too, where no option is called so."""
    if question.options:
        names = [name for option in question.options for name in (option.id, option.label)]
        numbers = {str(n): option.id for n, option in enumerate(question.options, 1) if str(n) not in names}
        content = content_of(text, question)
        if isinstance(content, list):
            return [numbers.get(item.strip(), item) if isinstance(item, str) else item for item in content]
        return numbers.get(content.strip(), content)
    if question.field.get("type") == "boolean":
        return YES.get(text.strip().lower(), text)
    return content_of(text, question)


def _fields_of(question: Question) -> Mapping[str, dict[str, Any]]:
    """The fields of a form that can be asked one by one: an object of named values."""
    if question.kind == "checkpoint":
        return {}
    schema = question.requestedSchema
    properties = schema.get("properties", {})
    if question.kind == "secret":  # of what is typed nothing is known but that it is text
        return {name: {key: field[key] for key in field if key != "pattern"} for name, field in properties.items()}
    if question.options or schema.get("type") != "object" or not all(isinstance(p, dict) for p in properties.values()):
        return {}
    return properties  # type: ignore[no-any-return]


def _label(name: str, field: dict[str, Any], required: bool) -> str:
    what = field.get("description") or field.get("title")
    notes = [] if "enum" not in field else [" | ".join(map(str, field["enum"]))]
    if "enum" not in field and isinstance(field.get("type"), str) and field["type"] != "string":
        notes.append({"boolean": "yes | no"}.get(field["type"], field["type"]))
    if "default" in field:
        notes.append(f"Enter: {_named(field['default'])}")
    elif not required:
        notes.append("Enter: leave out")
    told = f" ({'; '.join(notes)})" if notes else ""
    return f"{name}{': ' + what if what else ''}{told}"


def field_value(text: str, field: dict[str, Any]) -> Any:
    if not text.strip():
        return field.get("default", ABSENT)
    if field.get("type") == "boolean":
        return YES.get(text.strip().lower(), text)
    for value in field.get("enum", []):
        if text.strip() == str(value):
            return value
    return value_of(text, field)


def _misfit(field: dict[str, Any], value: Any, required: bool) -> str | None:
    """Why a field's value cannot be right; one whose schema refers elsewhere is checked with the whole form."""
    if value is ABSENT:
        return "this field is needed" if required else None
    try:
        problems = problems_of(field, value)
    except BadSchema:
        return None
    return "; ".join(f"{path}: {reason}" if path else reason for path, reason in problems) or None


def _whole(text: str, question: Question) -> dict[str, Any] | None:
    """A whole form, typed for its first field."""
    if question.kind == "review":
        said = content_of(text, question)
        return said if isinstance(said, dict) else None
    return _object(text)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_line(prompt: str = "") -> str | None:
    """One line of standard input as it stands, without its end; None at the end of input. Raises `Interrupted`."""
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
    """Whether standard input is known to have ended; one that may still give something has not."""
    buffer = sys.stdin.buffer
    ready, _, _ = select.select([buffer], [], [], 0)
    return bool(ready) and isinstance(buffer, io.BufferedReader) and not buffer.peek(1)


def read_edited(prompt: str) -> str | None:
    """One line of a terminal, with the arrow keys at work; None at Ctrl-D. Raises `Interrupted`."""
    try:
        with _ctrl_c():
            return input(prompt)
    except EOFError:
        print(file=sys.stderr)
        return None


def read_hidden(prompt: str) -> str | None:
    """One line of a terminal that does not show it; None at Ctrl-D. Raises `Interrupted`."""
    try:
        with _ctrl_c():
            return getpass.getpass(prompt)
    except EOFError:
        print(file=sys.stderr)
        return None


@contextmanager
def _ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the wait for input: asyncio's own handler would only note it until the loop runs again."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with _woken():
            yield
    except KeyboardInterrupt:
        raise Interrupted from None
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _woken() -> Iterator[None]:
    """Interrupt a wait now and then: one that begins just behind a signal sees it at the next interruption only."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, WAKE_SECONDS, WAKE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

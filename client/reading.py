"""What a person typed or wrote down, read as values: inputs, answers, files of answers."""

from __future__ import annotations

import difflib
import getpass
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NoReturn

from blueprint.errors import BlueprintError, Problem
from blueprint.jsonschemas import shown_path
from blueprint.source import PlacedDict, PlacedList, plain, read
from protocol.address import parts
from protocol.answers import Answer
from protocol.questions import InvalidAnswer, Question, Secret

ENTRY_KEYS = ("question", "content", "decline", "times")


class BadUsage(ValueError):
    """What was typed cannot be done; the message says what to type."""


def value_of(text: str, schema: dict[str, Any] | None) -> Any:
    """Literal text where the schema says string, else JSON if it parses, else text.

    >>> value_of("42", {"type": "string"}), value_of("42", None), value_of("a: b", None), value_of("NaN", {})
    ('42', 42, 'a: b', 'NaN')
    """
    if schema is not None and says_string(schema):
        return text
    try:
        return from_json(text)
    except BadUsage:
        raise
    except ValueError:
        return text


def from_json(text: str) -> Any:
    """JSON as the standard has it: `NaN` and the like are none. Raises ValueError; `BadUsage` for half a character."""
    value = json.loads(text, parse_constant=_no_json)
    if "\\ud" in text.lower() and (place := next(_halves(value, ()), None)) is not None:
        where = shown_path(place) or "the text"
        raise BadUsage(f"{where} holds half a character (a lone surrogate such as \\ud800), which is no text")
    return value


def _halves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Where texts and keys stand that hold half a character."""
    match value:
        case str() if any("\ud800" <= character <= "\udfff" for character in value):
            yield path
        case dict():
            for key, inner in value.items():
                yield from _halves(key, path)
                yield from _halves(inner, (*path, key))
        case list():
            for index, inner in enumerate(value):
                yield from _halves(inner, (*path, index))


def _no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def says_string(schema: dict[str, Any]) -> bool:
    """Whether only text fits.

    >>> says_string({"enum": ["1", "2"]}), says_string({"type": ["string", "null"]})
    (True, False)
    """
    if "type" in schema:
        return bool(schema["type"] == "string")
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return bool(values) and all(isinstance(value, str) for value in values)


def content_of(text: str, question: Question | None) -> Any:
    """An answer's content as typed; `a,b` is a list where several options may be chosen."""
    if question is None:
        return value_of(text, None)
    if question.secret is not None:
        return _secret_of(text, question.secret)
    if question.kind == "review" and (verdict := _verdict_of(text, question)) is not None:
        return verdict
    if question.needs_no_data and not text.strip():
        return None
    if question.max_selections == 1:
        if question.field is not question.requestedSchema:
            return _fact_of(text, question)
        if text.strip() in words_of(question.requestedSchema):
            return {question.requestedSchema["required"][0]: text.strip()}
        return text if question.options else value_of(text, question.requestedSchema)
    try:
        listed = from_json(text)
    except ValueError:
        listed = None
    if isinstance(listed, list):
        return listed
    names = {name for option in question.options for name in (option.id, option.label)}
    return [text] if text in names else [part.strip() for part in text.split(",")]


def words_of(schema: dict[str, Any]) -> list[str]:
    """The words that a form may be answered with: where it needs one field only, and that is one of some words.

    >>> words_of({"type": "object", "required": ["action"], "properties": {"action": {"enum": ["retry", "abort"]}}})
    ['retry', 'abort']
    """
    match schema:
        case {"type": "object", "required": [str(name)], "properties": dict(fields)} if isinstance(
            fields.get(name), dict
        ):
            words = fields[name].get("enum", [])
            return list(words) if all(isinstance(word, str) for word in words) else []
    return []


def _verdict_of(text: str, question: Question) -> dict[str, Any] | None:
    """What is said of a payload in short: yes; no, and why; an object of what is to be other. Nothing says nothing."""
    word, _, reason = text.strip().partition(",")
    match word.strip().lower():
        case "yes" | "y" | "ok" if not reason:
            return {"verdict": "unchanged"}
        case "no" | "n":
            return {"verdict": "rejected", **({"reason": reason.strip()} if reason.strip() else {})}
    try:
        changed = from_json(text)
    except ValueError:
        return None
    payload = question.info.get("payload") if isinstance(question.info, dict) else None
    if not isinstance(changed, dict) or not isinstance(payload, dict) or "verdict" in changed:
        return None
    known = payload.keys() | question.requestedSchema["properties"]["payload"].get("properties", {}).keys()
    return {"verdict": "edited", "payload": {**payload, **changed}} if changed.keys() <= known else None


def _secret_of(text: str, asked: Secret) -> Any:
    """A secret as typed: literal text, or a JSON object of several; for the only name its text will do."""
    if asked.form is None:
        return text
    try:
        value = from_json(text)
    except ValueError:
        value = text
    names = list(asked.form["properties"])
    return value if isinstance(value, dict) or len(names) > 1 else {names[0]: text}


def _fact_of(text: str, question: Question) -> Any:
    """A fact as typed; a JSON object may tell several."""
    try:
        value = from_json(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else value_of(text, question.field)


def input_of(text: str | None, schema: dict[str, Any] | None) -> Any:
    """The value of `--input`: `@FILE` is read, JSON and YAML by the file's ending; else see `value_of`."""
    if text is None:
        return None
    if not text.startswith("@"):
        return value_of(text, schema)
    path = Path(text[1:])
    written = text_of_file(path)
    if path.suffix.lower() in (".json", ".yaml", ".yml"):
        return document(written, str(path))
    return written


def text_of_file(path: Path) -> str:
    """The text as it stands in the file. Raises `BadUsage`."""
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise BadUsage(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadUsage(f"{path} is not UTF-8 text (byte {error.start})") from error


def text_of_input() -> str:
    """All of standard input. Raises `BadUsage`."""
    if sys.stdin is None or sys.stdin.closed:
        raise BadUsage("there is no standard input to read from")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadUsage(f"standard input is not UTF-8 text (byte {error.start})") from error


def document(text: str, file: str) -> Any:
    """A JSON or YAML document's plain value. Raises `BlueprintError` with every problem."""
    return plain(_placed(text, file))


def _placed(text: str, file: str) -> Any:
    value, _, problems = read(text, file)
    if problems:
        raise BlueprintError(problems)
    return value


@dataclass
class Entry:
    """One answer of a file: which questions it answers, with what, how often."""

    pattern: str
    content: Any = None
    decline: bool = False
    times: int = 1
    tried: set[str] = field(default_factory=set)
    """Ids of the questions it was given to, so that one that refused it is not asked again."""

    def fits(self, question: Question) -> bool:
        """By id, by the name of its step, or by a glob over name or address."""
        names = (question.id, question.address, name_of(question))
        return self.times > len(self.tried) and any(fnmatchcase(name, self.pattern) for name in names)

    def answer(self, question: Question) -> Answer:
        self.tried.add(question.id)
        if self.decline:
            return Answer(question=question.id, action="decline")
        return Answer(question=question.id, content=self.content)


def name_of(question: Question) -> str:
    """The name of the step that asks."""
    return parts(question.address)[-1][1]


def read_entries(path: Path) -> list[Entry]:
    """The entries of a file of answers. Raises `BadUsage` or `BlueprintError` with every problem."""
    value = _placed(text_of_file(path), str(path))
    shape = "a list of {question: NAME, content: …}"
    if not isinstance(value, PlacedList):
        raise BadUsage(f"{path}: expected {shape}")
    if problems := entry_problems(value):
        raise BlueprintError(problems)
    return entries_of(value)


def entries_of(written: PlacedList) -> list[Entry]:
    """The entries of a list that has no problems, as if none had been used yet."""
    return [
        Entry(item["question"], plain(item.get("content")), bool(item.get("decline")), item.get("times", 1))
        for item in written
    ]


def entry_problems(written: PlacedList, path: str = "", also: Sequence[str] = ()) -> list[Problem]:
    """What is wrong with a list of answers that stands at a path; `also` are keys that it may have besides."""
    problems: list[Problem] = []
    for index, (item, place) in enumerate(zip(written, written.places, strict=True)):
        where = f"{path}[{index}]"
        if isinstance(item, PlacedDict):
            problems += _entry_problems(item, where, (*ENTRY_KEYS, *also))
        else:
            told = "expected an entry of a list of {question: NAME, content: …}"
            problems.append(place.problem(where, "bad_entry", told))
    return problems


def _entry_problems(item: PlacedDict, path: str, known: Sequence[str]) -> list[Problem]:
    problems = []
    for key in item:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            problems.append(item.key_place(key).problem(f"{path}.{key}", "unknown_key", f"unknown key {key!r}", hint))
    if not isinstance(item.get("question"), str) or not item["question"]:
        text = "question must be the name of a step, an id, or a glob over addresses"
        problems.append(item.place.problem(path, "bad_entry", text))
    if "decline" in item and item["decline"] is not True:
        problems.append(item.value_place("decline").problem(f"{path}.decline", "bad_entry", "decline can only be true"))
    if ("content" in item) == ("decline" in item):
        problems.append(item.place.problem(path, "bad_entry", "give exactly one of content and decline"))
    times = item.get("times", 1)
    if type(times) is not int or times < 1:
        place = item.value_place("times")
        problems.append(place.problem(f"{path}.times", "bad_entry", "times must be a whole number, 1 or more"))
    return problems


def answers_for(entries: Sequence[Entry], questions: Sequence[Question]) -> tuple[list[Answer], list[Entry]]:
    """An answer to each open question that an entry fits, the first one; and the entries that fit none."""
    answers = []
    for question in questions:
        entry = next((one for one in entries if one.fits(question)), None)
        if entry is not None:
            answers.append(entry.answer(question))
    return answers, [entry for entry in entries if not entry.tried]


def accepted(question: Question, content: Any) -> str | None:
    """Why the question would refuse the content; None if it takes it, or what will stand for it."""
    try:
        question.accept(content) if question.secret is None else question.secret.by_name(content)
    except InvalidAnswer as error:
        return str(error)
    return None


def person(name: str | None) -> str:
    """Who answers: as given, else `HOLDFAST_USER`, else the login; a bare name is a user's.

    >>> person("ana"), person("group:editors")
    ('user:ana', 'group:editors')
    """
    name = name or os.environ.get("HOLDFAST_USER") or _login()
    return name if ":" in name else f"user:{name}"


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())

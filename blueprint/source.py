"""Read YAML (scalars as in 1.2, so JSON too) into plain values that remember their positions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import Any

import yaml
from yaml import ScalarToken
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from holdfast.blueprint.errors import Problem
from holdfast.blueprint.json_values import JSON

MAX_BYTES = 1024 * 1024
MAX_NODES = 10_000
MAX_LEVELS = 100
MAX_NUMBER = 2**63

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where it is there: twenty times as fast
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_JSON = re.compile(r'\s*(\{\s*"|\[\s*[\[{"])')
_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
# Scalars are resolved here: by YAML 1.1, which PyYAML implements, `no` and the key `on` are booleans, 1:30 is 90.
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
AMBIGUOUS = re.compile(
    "|".join([*map(re.escape, filter(None, _WORDS)), _INTEGER.pattern, _FLOAT.pattern, _NO_NUMBER.pattern])
)
"""Text that means something else unless it is quoted."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file's name, as the person wrote it, and its text."""

    file: str
    text: str = field(repr=False)

    def at(self, index: int) -> Position:
        line = self.text.count("\n", 0, index) + 1
        return Position(self, line, index - self.text.rfind("\n", 0, index), index, index)


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a value: line and column from 1, and its span in the text."""

    source: Source = field(repr=False)
    line: int
    column: int
    start: int
    end: int

    @property
    def raw(self) -> str:
        """Return the value as it is written."""
        return self.source.text[self.start : self.end]

    def problem(self, path: str, code: str, message: str, hint: str | None = None) -> Problem:
        return Problem(self.source.file, self.line, self.column, path, code, message, hint)

    def of(self, pattern: str) -> Position:
        """Return the position of group 1 of the pattern inside this one, or this one if there is no match."""
        match = re.search(pattern, self.raw)
        return self.source.at(self.start + match.start(1)) if match else self


class PlacedDict(dict[str, Any]):
    """An object with its position, and those of its keys and values."""

    __slots__ = ("place", "places")

    def __init__(self, place: Position) -> None:
        super().__init__()
        self.place = place
        self.places: dict[str, tuple[Position, Position]] = {}

    @classmethod
    def at(cls, place: Position, **values: object) -> PlacedDict:
        """Return an object that is not in the text: it and its keys have the position of what it stands for."""
        built = cls(place)
        for key, value in values.items():
            built.put(key, value, place)
        return built

    def put(self, key: str, value: object, places: tuple[Position, Position] | Position) -> None:
        """Set a key; `places` are the positions of the key and of its value."""
        self[key] = value
        self.places[key] = (places, places) if isinstance(places, Position) else places

    def copy(self) -> PlacedDict:
        """Return a shallow copy with the same positions."""
        same = PlacedDict(self.place)
        same.update(self)
        same.places = dict(self.places)
        return same

    def take(self, key: str) -> tuple[JSON, tuple[Position, Position]]:
        """Remove a key; return its value and the positions of both."""
        return self.pop(key), self.places.pop(key)

    def key_place(self, key: str) -> Position:
        return self.places[key][0]

    def value_place(self, key: str) -> Position:
        return self.places[key][1]


class PlacedList(list[Any]):
    """A list with its position, and those of its items."""

    __slots__ = ("place", "places")

    def __init__(self, place: Position) -> None:
        super().__init__()
        self.place = place
        self.places: list[Position] = []

    @classmethod
    def at(cls, place: Position, *values: object) -> PlacedList:
        """Return a list that is not in the text: it and its items have the position of what it stands for."""
        built = cls(place)
        for value in values:
            built.add(value, place)
        return built

    def each(self, change: Callable[[Any, Position, int], object]) -> PlacedList:
        """Return a list of changed items; `change` gets each item with its position and its index."""
        changed = PlacedList(self.place)
        for index, (value, place) in enumerate(zip(self, self.places, strict=True)):
            changed.add(change(value, place, index), place)
        return changed

    def add(self, value: object, place: Position) -> None:
        self.append(value)
        self.places.append(place)

    def drop_last(self) -> None:
        self.pop()
        self.places.pop()


def read(text: str, file: str) -> tuple[JSON, Position, list[Problem]]:
    """Read a document; return its value (None if it cannot be read), its position and its problems."""
    source = Source(file, text)
    reader = _Composer(source)
    try:
        _check_text(source)
        value, place = reader.document()
        return value, place, reader.problems
    except _Unreadable as error:
        json_text = _as_yaml(text)
        if json_text is not None and json_text != text:
            return read(json_text, file)
        reported = any(problem.line == error.problem.line for problem in reader.problems)
        return None, source.at(0), reader.problems if reported else [error.problem, *reader.problems]


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment in a YAML text."""

    place: Position
    text: str
    """The comment, with its `#`."""
    alone: bool
    """True if nothing else stands on its line."""


def comments(source: Source) -> list[Comment]:
    """Return the comments of a text that `read` accepts: they stand where no token does."""
    result: list[Comment] = []
    end = 0
    try:
        for token in yaml.scan(source.text, Loader=_LOADER):
            start = token.start_mark.index
            result += _comments_between(source, end, start)
            end = max(end, token.end_mark.index)
            if isinstance(token, ScalarToken) and token.style in ("|", ">"):
                result += _comments_between(source, start, source.text.find("\n", start))
    except yaml.YAMLError:  # JSON with tabs between its values
        return []
    return [*result, *_comments_between(source, end, len(source.text))]


def _comments_between(source: Source, start: int, end: int) -> Iterator[Comment]:
    for match in re.compile(r"(?<!\S)#[^\n\r]*").finditer(source.text, start, end):
        before = source.text[source.text.rfind("\n", 0, match.start()) + 1 : match.start()]
        yield Comment(source.at(match.start()), match.group(), not before.strip())


def plain(value: object) -> JSON:
    """Return the value without positions."""
    match value:
        case dict():
            return {key: plain(part) for key, part in value.items()}
        case list():
            return [plain(part) for part in value]
    return value


class _Unreadable(Exception):
    def __init__(self, place: Position, message: str, hint: str | None = None) -> None:
        self.problem = place.problem("", "bad_yaml", message, hint)


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: JSON
    place: Position
    size: int
    key: str | None  # its text, if it can be a key


class _Composer:
    """A builder of values from libyaml's events. Counts every node before it is built, each use of an alias too."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.anchors: dict[str, _Anchored | None] = {}
        self.nodes = 0
        self.events = _events(source)

    def document(self) -> tuple[JSON, Position]:
        next(self.events)  # the start of the stream
        if isinstance(next(self.events), StreamEndEvent):
            raise _Unreadable(self.source.at(0), "the document is empty", "a blueprint has at least `steps`")
        value, place = self._value(next(self.events), 0)
        next(self.events)
        following = next(self.events)
        if isinstance(following, DocumentStartEvent):
            place = self._place(following)
            raise _Unreadable(place, "a second document starts here", "a blueprint is one document: remove the ---")
        return value, place

    def _value(self, event: Event, level: int) -> tuple[JSON, Position]:
        place = self._place(event)
        if isinstance(event, AliasEvent):
            anchored = self._anchor(event, place)
            return anchored.value, place
        before = self.nodes
        self._count(1, place)
        assert isinstance(event, NodeEvent)
        self._refuse_tag(event, place)
        if event.anchor:
            self.anchors[event.anchor] = None
        value, key = self._build(event, place, level)
        if event.anchor:
            self.anchors[event.anchor] = _Anchored(value, place, self.nodes - before, key)
        return value, place

    def _build(self, event: NodeEvent, place: Position, level: int) -> tuple[JSON, str | None]:
        if level >= MAX_LEVELS:
            raise _Unreadable(place, f"nested deeper than {MAX_LEVELS} levels", "let an import hold the inner steps")
        match event:
            case ScalarEvent(value=text):
                return self._scalar(event, place), text
            case SequenceStartEvent():
                return self._list(place, level), None
            case _:
                return self._dict(place, level), None

    def _list(self, place: Position, level: int) -> PlacedList:
        items = PlacedList(place)
        while not isinstance(event := next(self.events), SequenceEndEvent):
            items.add(*self._value(event, level + 1))
        return items

    def _dict(self, place: Position, level: int) -> PlacedDict:
        mapping = PlacedDict(place)
        while not isinstance(event := next(self.events), MappingEndEvent):
            key, key_place = self._key(event, level)
            value, value_place = self._value(next(self.events), level + 1)
            if key is None:
                continue
            if key in mapping:
                first = mapping.key_place(key)
                message = f"the key {_brief(key)} appears twice"
                self._add(key_place, "duplicate_key", message, f"first in line {first.line}: keep one of them")
                continue
            mapping.put(key, value, (key_place, value_place))
        return mapping

    def _key(self, event: Event, level: int) -> tuple[str | None, Position]:
        """Return the key's text; a key that is no string is taken by its source text."""
        place = self._place(event)
        text = self._key_text(event, place, level)
        if text == "<<" and isinstance(event, ScalarEvent) and event.implicit[0]:
            hint = "write the keys out, or let an alias stand for the whole value"
            self._add(place, "bad_yaml", "merge keys (<<) are not part of YAML 1.2", hint)
            return None, place
        return text, place

    def _key_text(self, event: Event, place: Position, level: int) -> str | None:
        if isinstance(event, AliasEvent):
            text = self._anchor(event, place).key
        else:
            self._value(event, level + 1)
            text = event.value if isinstance(event, ScalarEvent) else None
        if text is None:
            twice = isinstance(event, MappingStartEvent) and self.source.text[place.start - 1 : place.start] == "{"
            hint = 'put a template into quotes: "{{ … }}"' if twice else None
            self._add(place, "bad_yaml", "a key must be text, not a list or an object", hint)
        return text

    def _scalar(self, event: ScalarEvent, place: Position) -> JSON:
        text: str = event.value
        if _SURROGATE.search(text):
            self._add(place, "bad_yaml", "a text holds half a character (a lone surrogate)")
            return ""
        if not event.implicit[0]:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            return self._integer(text, place)
        if _FLOAT.fullmatch(text) or _NO_NUMBER.fullmatch(text):
            return self._float(text, place)
        return text

    def _integer(self, text: str, place: Position) -> int:
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        # Python converts no number of more than 4,300 digits. One of a hundred is over the limit in any case.
        number = int(text[2:] if base != 10 else text, base) if len(text) < 100 else MAX_NUMBER + 1
        if abs(number) > MAX_NUMBER:
            message = f"the number {_brief(text)} is over 2^63"
            self._add(place, "bad_value", message, "put it into quotes to make it text")
            return 0
        return number

    def _float(self, text: str, place: Position) -> float:
        number = 0.0 if _NO_NUMBER.fullmatch(text) else float(text)
        if isinf(number) or _NO_NUMBER.fullmatch(text):
            message = f"{_brief(text)} is not a number in JSON"
            self._add(place, "bad_value", message, "put it into quotes to make it text")
            return 0.0
        return number

    def _anchor(self, event: AliasEvent, place: Position) -> _Anchored:
        if event.anchor not in self.anchors:
            hint = f"write &{event.anchor} before the value it stands for"
            raise _Unreadable(place, f"the alias *{event.anchor} has no anchor before it", hint)
        anchored = self.anchors[event.anchor]
        if anchored is None:
            raise _Unreadable(place, f"the alias *{event.anchor} stands inside its own anchor")
        self._count(anchored.size, place)
        return anchored

    def _refuse_tag(self, event: NodeEvent, place: Position) -> None:
        tag = event.tag if isinstance(event, ScalarEvent | CollectionStartEvent) else None
        if tag is not None:
            name = tag.replace("tag:yaml.org,2002:", "!!")
            self._add(place, "bad_yaml", f"tags such as {_brief(name)} are not part of this language", "remove it")

    def _count(self, nodes: int, place: Position) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            message = f"more than {MAX_NODES:,} values, each use of an alias counted"
            raise _Unreadable(place, message, "split it into imports")

    def _add(self, place: Position, code: str, message: str, hint: str | None = None) -> None:
        self.problems.append(place.problem("", code, message, hint))

    def _place(self, event: Event) -> Position:
        start, end = event.start_mark, event.end_mark
        assert start is not None and end is not None
        return Position(self.source, start.line + 1, start.column + 1, start.index, end.index)


def _events(source: Source) -> Iterator[Event]:
    try:
        yield from yaml.parse(source.text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        if (broken := _broken_json(source)) is not None:
            raise broken from None
        mark = error.problem_mark or error.context_mark
        index = 0 if mark is None else min(mark.index, len(source.text))
        place = source.at(0) if mark is None else Position(source, mark.line + 1, mark.column + 1, index, index)
        message = " ".join(filter(None, (error.problem, error.context))) or "cannot be read"
        raise _Unreadable(place, f"invalid YAML: {message}", _yaml_hint(source, place)) from None


def _broken_json(source: Source) -> _Unreadable | None:
    """Return the problem of a text that should be JSON, by the name of its file or its first characters."""
    if not source.file.lower().endswith(".json") and _JSON.match(source.text) is None:
        return None
    try:
        json.loads(source.text)
    except json.JSONDecodeError as error:
        place = source.at(error.pos)
        return _Unreadable(place, f"invalid JSON: {error.msg[0].lower()}{error.msg[1:]}", _json_way_out(source, place))
    except (ValueError, RecursionError):
        return None
    return None


def _json_way_out(source: Source, place: Position) -> str | None:
    """A hint for the slips that are made most often."""
    before = source.text[: place.start].rstrip()[-1:]
    character = source.text[place.start : place.start + 1]
    if before == "," and character in ("}", "]"):
        return "take the comma out: nothing follows it"
    if character == "'":
        return 'JSON has texts in double quotes: "…"'
    if not character:
        return "it ends too early: is a } or ] missing?"
    if before in ('"', "}", "]") and character in ('"', "{", "["):
        return "is a comma missing?"
    return None


def _yaml_hint(source: Source, place: Position) -> str | None:
    """A hint for the slips that are made most often."""
    lines = source.text.splitlines()
    near = [lines[number] for number in (place.line - 1, place.line - 2) if 0 <= number < len(lines)]
    character = source.text[place.start : place.start + 1]
    if character == "\t" or any(re.match(r" *\t", line) for line in near):
        return "indent with spaces, not with tabs"
    if any(re.search(r"(: |- |:\t)\{\{", line) for line in near):
        return 'put a template into quotes: "{{ … }}"'
    if character in ("@", "`", "%"):
        return f"a text that begins with {character} needs quotes"
    if any(re.search(r"[{\[].*[\"']", line) for line in near):
        return (
            "between { } or [ ] commas separate values; a text with any of , : { } [ ] in it needs quotes around it all"
        )
    if any(re.search(r": [^\"'|>].*: ", line) for line in near):
        return "a text with ': ' in it needs quotes"
    return _hint_of_column(lines[: place.line])


def _hint_of_column(lines: Sequence[str]) -> str | None:
    """A hint where the last of these lines is a key that begins in another column than the keys above it."""
    keys = [key for line in lines if (key := re.match(r"[ -]*(?=[\w'\"-]+ *:(\s|$))", line)) and line.strip()]
    if len(keys) < 2 or keys[-1].string != lines[-1]:
        return None
    here, above = len(keys[-1].group()), len(keys[-2].group())
    has_value = not keys[-2].string.rstrip().endswith((":", "|", ">", "-"))
    if here > above and has_value:
        return "it begins further right than the key above it, which has its value: put both in one column"
    if here < above and here not in {len(key.group()) for key in keys[:-1]}:
        return "no key above it begins in this column: put it below the key that it belongs to"
    return None


def _check_text(source: Source) -> None:
    size = len(source.text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        message = f"the document has {size:,} bytes, more than {MAX_BYTES:,}"
        raise _Unreadable(source.at(0), message, "keep long texts in files of their own")
    if odd := _UNPRINTABLE.search(source.text):
        message = f"the character U+{ord(odd.group()):04X} cannot stand in YAML"
        raise _Unreadable(source.at(odd.start()), message, "remove it")


def _as_yaml(text: str) -> str | None:
    """Rewrite JSON that YAML 1.1 parsers refuse: tabs between values, characters written as surrogate pairs."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return re.sub(r"\\u([dD][89abAB]..)\\u([dD][c-fC-F]..)|\\.|\t", _one_character, text)


def _one_character(match: re.Match[str]) -> str:
    if match.group() == "\t":
        return " "
    if match.group(1) is None:
        return match.group()
    high, low = int(match.group(1), 16), int(match.group(2), 16)
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


def _brief(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")

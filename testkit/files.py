"""A file of tests, read: every mistake in it at once, with its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from activities.scripted import Reply
from blueprint import BlueprintError, Problem, load
from blueprint.expressions.error import did_you_mean
from blueprint.grammar import Blueprint
from blueprint.source import Place, PlacedDict, PlacedList, plain, read
from client.config import Config
from client.reading import entry_problems, text_of_file
from testkit import SUFFIX
from testkit.names import Names, is_pattern, names_of

FILE_KEYS = ("blueprint", "model", "tools", "tests")
CASE_KEYS = ("name", "input", "model", "tools", "answers", "expect")
EXPECT_KEYS = ("status", "output", "context", "questions", "trace", "calls", "error")
QUESTION_KEYS = ("step", "address", "kind", "message", "options", "default", "info", "iteration", "assignees", "quorum")
SPAN_KEYS = ("status", "times", "iterations", "items", "exit", "branch", "output")
ERROR_KEYS = ("type", "message", "address", "reason")
STATUSES = ("completed", "failed", "cancelled", "waiting")
FREE_MODELS = ("scripted", "echo")
"""Providers that need no network and cost nothing."""


@dataclass(frozen=True)
class Case:
    """One test: what a run gets, and what is expected of it, as written."""

    name: str
    place: Place
    path: str
    """Where it stands in its file, such as `tests[2]`."""
    input: Any = None
    model: Script | None = None
    tools: Mapping[str, list[Any]] = field(default_factory=dict)
    """The replies of tools that are not really called."""
    answers: PlacedList | None = None
    expect: PlacedDict | None = None

    @property
    def status(self) -> str:
        """How the run is expected to end."""
        written = self.expect if self.expect is not None else {}
        return str(written.get("status", "failed" if "error" in written else "completed"))


@dataclass(frozen=True)
class Script:
    """The replies of models: a file, or what stands in the test itself."""

    place: Place
    file: Path | None = None
    replies: Any = None


@dataclass(frozen=True)
class CaseFile:
    """The tests of one blueprint; `shown` is how the file was named."""

    path: Path
    shown: str
    blueprint: Blueprint
    names: Names
    cases: list[Case]


def read_cases(path: Path, config: Config) -> CaseFile:
    """The tests in a file. Raises `BlueprintError` with everything that is wrong with them, or with their blueprint."""
    value, place, problems = read(text_of_file(path), str(path))
    if problems:
        raise BlueprintError(problems)
    if not isinstance(value, PlacedDict):
        raise BlueprintError([place.problem("", "bad_value", "a file of tests is an object", "tests: [{name: …}]")])
    reader = _Reader(path, config)
    cases = reader.file(value)
    if reader.blueprint is None or reader.problems:
        raise BlueprintError(reader.problems)
    return CaseFile(path.resolve(), str(path), reader.blueprint, reader.names, cases)


def _beside(tests: Path) -> str:
    """The blueprint or plan that a file of tests stands beside."""
    stem = tests.name.removesuffix(SUFFIX)
    is_plan = not (tests.parent / f"{stem}.yaml").exists() and (tests.parent / f"{stem}.json").exists()
    return f"{stem}.json" if is_plan else f"{stem}.yaml"


class _Reader:
    """Reads one file; `problems` is what was found on the way."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path, self.config = path, config
        self.problems: list[Problem] = []
        self.blueprint: Blueprint | None = None
        self.names = Names()

    def file(self, written: PlacedDict) -> list[Case]:
        self._only(written, FILE_KEYS, "")
        self._load(written)
        tests = self._value(written, "tests", PlacedList, "a list of tests", "", needed=True)
        if tests is not None and not tests:
            self._add(tests.place, "tests", "bad_value", "'tests' is empty", "write at least one {name: …}")
        items = [] if tests is None else list(zip(tests, tests.places, strict=True))
        cases = [self._case(item, place, f"tests[{n}]", written) for n, (item, place) in enumerate(items)]
        self._distinct(cases)
        return cases

    def _load(self, written: PlacedDict) -> None:
        """The blueprint: the one that is named, else the one beside the tests."""
        name = self._value(written, "blueprint", str, "the path of a blueprint", "")
        path = self.path.parent / (name or _beside(self.path))
        try:
            self.blueprint = load(path)
        except BlueprintError as error:
            self.problems += error.problems
        else:
            self.names = names_of(self.blueprint)

    def _distinct(self, cases: Iterable[Case]) -> None:
        first: dict[str, Case] = {}
        for case in cases:
            if case.name and case.name in first:
                hint = f"first in line {first[case.name].place.line}"
                self._add(
                    case.place, f"{case.path}.name", "duplicate_name", f"the name {case.name!r} is there twice", hint
                )
            first.setdefault(case.name, case)

    def _case(self, written: Any, place: Place, path: str, around: PlacedDict) -> Case:
        if not isinstance(written, PlacedDict):
            self._add(place, path, "bad_value", "a test is an object", "{name: …, input: …, expect: {…}}")
            return Case("", place, path)
        self._only(written, CASE_KEYS, path)
        name = self._value(written, "name", str, "text that says what is tested", path, needed=True)
        if name is not None and not name.strip():
            self._add(written.value_place("name"), f"{path}.name", "bad_value", "'name' is empty", "say what is tested")
        expect = self._value(written, "expect", PlacedDict, f"an object with {', '.join(EXPECT_KEYS)}", path)
        if expect is not None:
            self._expect(expect, f"{path}.expect")
        return Case(
            name=name or "",
            place=written.places.get("name", (place, place))[1],
            path=path,
            input=plain(written.get("input")),
            model=self._model(*_nearer(written, around, "model", path), place),
            tools=self._tools(*_nearer(written, around, "tools", path)),
            answers=self._answers(written, path),
            expect=expect,
        )

    # What a run gets

    def _model(self, holder: PlacedDict, path: str, place: Place) -> Script | None:
        match holder.get("model"):
            case None:
                self._check_models(place, path)
                return None
            case str(name):
                return self._script_file(holder.value_place("model"), self.path.parent / name, path)
            case PlacedDict() as by_name:
                self._check_replies(by_name, f"{path}model")
                return Script(holder.value_place("model"), replies=plain(by_name))
        told = "'model' must be an object {<step or agent>: [replies]}, or the path of a file of replies"
        self._add(holder.value_place("model"), f"{path}model", "bad_value", told)
        return None

    def _check_models(self, place: Place, path: str) -> None:
        """A test asks no model that costs or needs a network."""
        for name, model in self.names.models.items():
            meant = self.config.models[model].model if model in self.config.models else model
            if meant.partition(":")[0] not in FREE_MODELS:
                told = f"{name} would ask the model {model!r}"
                self._add(place, f"{path}model", "missing_key", told, "write its replies under `model`")

    def _script_file(self, place: Place, file: Path, path: str) -> Script | None:
        if not file.is_file():
            self._add(place, f"{path}model", "unreadable_file", f"there is no file {file}", "paths begin at this file")
            return None
        return Script(place, file=file.resolve())

    def _check_replies(self, written: PlacedDict, path: str) -> None:
        for name, replies in written.items():
            known = {*self.names.steps, *self.names.agents}
            self._known(name.removesuffix("-summary"), known, "step or agent", written.key_place(name), path)
            items = replies if isinstance(replies, PlacedList) else []
            if not items:
                told, hint = f"the replies of {name!r} must be a list", f"{name}: [the first, the second]"
                self._add(written.value_place(name), f"{path}.{name}", "bad_value", told, hint)
            for index, reply in enumerate(items):
                if isinstance(reply, PlacedDict):
                    self._only(reply, tuple(Reply.model_fields), f"{path}.{name}[{index}]")

    def _tools(self, holder: PlacedDict, path: str) -> dict[str, list[Any]]:
        written = self._value(holder, "tools", PlacedDict, "an object {<tool>: [replies]}", path.removesuffix("."))
        for name in written or ():
            self._known_tool(name, written, f"{path}tools")
            self._tool_replies(written, name, f"{path}tools.{name}")
        return dict(plain(written)) if written else {}

    def _tool_replies(self, holder: PlacedDict, name: str, path: str) -> None:
        replies = holder[name]
        if not isinstance(replies, PlacedList) or not replies:
            told = f"the replies of {name!r} must be a list"
            self._add(holder.value_place(name), path, "bad_value", told, f"{name}: [{{output: …}}]")
            return
        for index, reply in enumerate(replies):
            if isinstance(reply, PlacedDict) and (len(reply) != 1 or not reply.keys() & {"output", "error"}):
                told = "an object here is {output: …} or {error: text}"
                self._add(replies.places[index], f"{path}[{index}]", "bad_value", told, "write {output: {…}}")

    def _known_tool(self, name: str, holder: PlacedDict, path: str) -> None:
        if not name.startswith("mcp:"):
            self._known(name, self.names.tools, "tool", holder.key_place(name), path)

    def _answers(self, written: PlacedDict, path: str) -> PlacedList | None:
        answers = self._value(written, "answers", PlacedList, "a list of {question: NAME, content: …}", path)
        if not isinstance(answers, PlacedList):
            return None
        self.problems += entry_problems(answers, f"{path}.answers", ("by",))
        for index, entry in enumerate(answers):
            if isinstance(entry, PlacedDict):
                self._value(entry, "by", str, "who answers, such as user:ana", f"{path}.answers[{index}]")
        return answers

    # What is expected

    def _expect(self, written: PlacedDict, path: str) -> None:
        self._only(written, EXPECT_KEYS, path)
        status = self._value(written, "status", str, f"one of {', '.join(STATUSES)}", path)
        if status is not None and status not in STATUSES:
            hint = did_you_mean(status, STATUSES) or f"one of {', '.join(STATUSES)}"
            self._add(
                written.value_place("status"), f"{path}.status", "bad_value", f"{status!r} is no status here", hint
            )
        self._value(written, "context", PlacedDict, "an object {<path>: <value>}", path)
        error = self._value(written, "error", PlacedDict, f"an object with {', '.join(ERROR_KEYS)}", path)
        if error is not None:
            self._only(error, ERROR_KEYS, f"{path}.error")
        self._expected_questions(written, path)
        self._expected_spans(written, f"{path}.trace", path)
        calls = self._value(written, "calls", PlacedDict, "an object {<tool>: [what it was called with]}", path)
        for name in calls or ():
            self._known_tool(name, calls, f"{path}.calls")

    def _expected_questions(self, holder: PlacedDict, path: str) -> None:
        written = holder.get("questions")
        if isinstance(written, PlacedDict) and list(written) == ["contains"]:
            written = written["contains"]
        if "questions" in holder and not isinstance(written, PlacedList):
            told = "'questions' must be a list of messages, or of objects; or {contains: such a list}"
            self._add(holder.value_place("questions"), f"{path}.questions", "bad_value", told)
        for index, one in enumerate(written if isinstance(written, PlacedList) else ()):
            if isinstance(one, PlacedDict) and list(one) != ["contains"]:
                self._only(one, QUESTION_KEYS, f"{path}.questions[{index}]")

    def _expected_spans(self, holder: PlacedDict, path: str, above: str) -> None:
        written = self._value(holder, "trace", PlacedDict, "an object {<step>: {status, times, …}}", above)
        for name in written or ():
            if not is_pattern(name):
                known = {*self.names.steps, *self.names.called}
                self._known(name, known, "step or tool", written.key_place(name), path)
            span = self._value(written, name, PlacedDict, f"an object with {', '.join(SPAN_KEYS)}", path)
            if span is not None:
                self._only(span, SPAN_KEYS, f"{path}.{name}")

    # What every part needs

    def _value(self, holder: PlacedDict, key: str, kind: Any, what: str, path: str, *, needed: bool = False) -> Any:
        """What stands at a key, if it is of the kind."""
        where = f"{path}.{key}" if path else key
        if key not in holder:
            if needed:
                self._add(holder.place, where, "missing_key", f"{key!r} is missing", f"it is {what}")
            return None
        if isinstance(holder[key], kind):
            return holder[key]
        self._add(holder.value_place(key), where, "bad_value", f"{key!r} must be {what}")
        return None

    def _only(self, written: PlacedDict, known: Iterable[str], path: str) -> None:
        known = tuple(known)
        for key in written:
            if key not in known:
                hint = did_you_mean(key, known) or f"known here: {', '.join(known)}"
                where = f"{path}.{key}" if path else key
                self._add(written.key_place(key), where, "unknown_key", f"unknown key {key!r}", hint)

    def _known(self, name: str, known: Iterable[str], what: str, place: Place, path: str) -> None:
        names = sorted(known)
        if self.blueprint is not None and not self.names.open and name not in names:
            hint = did_you_mean(name, names) or f"the blueprint has: {', '.join(names) or 'none'}"
            self._add(place, f"{path}.{name}", "unknown_name", f"the blueprint has no {what} {name!r}", hint)

    def _add(self, place: Place, path: str, code: str, message: str, hint: str | None = None) -> None:
        self.problems.append(place.problem(path, code, message, hint))


def _nearer(written: PlacedDict, around: PlacedDict, key: str, path: str) -> tuple[PlacedDict, str]:
    """Who says it: the test itself, else the file for all of its tests; and what the path there begins with."""
    return (written, f"{path}.") if key in written or key not in around else (around, "")


def files_in(places: Iterable[Path]) -> Iterator[Path]:
    """The files of tests among files and folders; what is hidden is left out."""
    for place in places:
        if place.is_dir():
            found = sorted(place.rglob(f"*{SUFFIX}"))
            yield from (one for one in found if not any(part.startswith(".") for part in one.relative_to(place).parts))
        else:
            yield place

"""The reader of test files: it reports all mistakes at once, each with its position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.activities.scripted import ScriptedReply
from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.load import is_target, load
from holdfast.blueprint.source import PlacedDict, PlacedList, Position, plain, read
from holdfast.blueprint.text_files import walk_files
from holdfast.client.answer_files import entry_problems
from holdfast.client.reading import text_of_file
from holdfast.runtime.config import Config
from holdfast.testkit import SUFFIX
from holdfast.testkit.names import DeclaredNames, collect_names, is_pattern

FILE_KEYS = ("blueprint", "model", "tools", "tests")
CASE_KEYS = ("name", "by", "input", "model", "tools", "answers", "expect")
REPLY_KEYS = {"output", "error", "type", "arguments"}
"""Keys of an object that a tool replies."""
EXPECT_KEYS = ("status", "output", "context", "questions", "trace", "calls", "error")
QUESTION_KEYS = ("step", "address", "kind", "message", "options", "default", "info", "iteration", "assignees", "quorum")
SPAN_KEYS = ("status", "times", "iterations", "items", "exit", "branch", "output")
ERROR_KEYS = ("type", "message", "address", "reason")
STATUSES = ("completed", "failed", "cancelled", "waiting")
FREE_MODELS = ("scripted", "echo")
"""Providers that need no network and cost nothing."""


@dataclass(frozen=True)
class Case:
    """A test: what a run gets, and what is expected of it, as written."""

    name: str
    place: Position
    path: str
    """Its path in its file, such as `tests[2]`."""
    by: str | None = None
    """Who starts the run."""
    input: JSON = None
    model: Script | None = None
    tools: Mapping[str, list[JSON]] = field(default_factory=dict)
    """Replies of tools, which are then not called."""
    answers: PlacedList | None = None
    expect: PlacedDict | None = None

    @property
    def status(self) -> str:
        """The status that the run is expected to end with."""
        expect = self.expect if self.expect is not None else {}
        return str(expect.get("status", "failed" if "error" in expect else "completed"))


@dataclass(frozen=True)
class Script:
    """The replies of models, in a file or in the test itself."""

    place: Position
    file: Path | None = None
    replies: JSON = None


@dataclass(frozen=True)
class CaseFile:
    """The tests of one blueprint; `display_path` is the path as the user gave it."""

    path: Path
    display_path: str
    blueprint: Blueprint
    names: DeclaredNames
    cases: list[Case]


def read_cases(path: Path, config: Config) -> CaseFile:
    """Return the tests in a file.

    Raises:
        BlueprintError: With all problems of the tests, or of their blueprint.
    """
    value, place, problems = read(text_of_file(path), str(path))
    if problems:
        raise BlueprintError(problems)
    if not isinstance(value, PlacedDict):
        raise BlueprintError([place.problem("", "bad_value", "a file of tests is an object", "tests: [{name: …}]")])
    if not path.name.endswith(SUFFIX) and "blueprint" not in value:
        hint = f"write its tests into {path.stem}{SUFFIX}, or name its blueprint: blueprint: FILE"
        raise BlueprintError([place.problem("", "no_tests", "this is no file of tests", hint)])
    reader = _CaseReader(path, config)
    cases = reader.file(value)
    if reader.blueprint is None or reader.problems:
        raise BlueprintError(reader.problems)
    return CaseFile(path.resolve(), str(path), reader.blueprint, reader.names, cases)


def _default_blueprint(tests: Path) -> str:
    """Return the name of the blueprint or plan that belongs to a test file by its name."""
    stem = tests.name.removesuffix(SUFFIX)
    is_plan = not (tests.parent / f"{stem}.yaml").exists() and (tests.parent / f"{stem}.json").exists()
    return f"{stem}.json" if is_plan else f"{stem}.yaml"


class _CaseReader:
    """The reader of one file; it collects `problems`."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path, self.config = path, config
        self.problems: list[Problem] = []
        self.blueprint: Blueprint | None = None
        self.names = DeclaredNames()

    def file(self, content: PlacedDict) -> list[Case]:
        self._reject_unknown_keys(content, FILE_KEYS, "")
        self._load(content)
        tests = self._value(content, "tests", PlacedList, "a list of tests", "", needed=True)
        if tests is not None and not tests:
            self._add_problem(tests.place, "tests", "bad_value", "'tests' is empty", "write at least one {name: …}")
        items = [] if tests is None else list(zip(tests, tests.places, strict=True))
        cases = [self._case(item, place, f"tests[{n}]", content) for n, (item, place) in enumerate(items)]
        self._require_distinct_names(cases)
        return cases

    def _load(self, content: PlacedDict) -> None:
        """Load the blueprint that is named, else the one beside the tests."""
        name = self._value(content, "blueprint", str, "the path of a blueprint, or pkg.mod:name", "")
        beside = self.path.parent / (name or _default_blueprint(self.path))
        try:
            self.blueprint = load(name if name is not None and is_target(name) else beside)
        except BlueprintError as error:
            self.problems += error.problems
        else:
            self.names = collect_names(self.blueprint)

    def _require_distinct_names(self, cases: Iterable[Case]) -> None:
        first: dict[str, Case] = {}
        for case in cases:
            if case.name and case.name in first:
                hint = f"first in line {first[case.name].place.line}"
                self._add_problem(
                    case.place, f"{case.path}.name", "duplicate_name", f"the name {case.name!r} is there twice", hint
                )
            first.setdefault(case.name, case)

    def _case(self, case: object, place: Position, path: str, file_content: PlacedDict) -> Case:
        if not isinstance(case, PlacedDict):
            self._add_problem(place, path, "bad_value", "a test is an object", "{name: …, input: …, expect: {…}}")
            return Case("", place, path)
        self._reject_unknown_keys(case, CASE_KEYS, path)
        name = self._value(case, "name", str, "text that says what is tested", path, needed=True)
        if name is not None and not name.strip():
            self._add_problem(
                case.value_place("name"), f"{path}.name", "bad_value", "'name' is empty", "say what is tested"
            )
        expect = self._value(case, "expect", PlacedDict, f"an object with {', '.join(EXPECT_KEYS)}", path)
        if expect is not None:
            self._expect(expect, f"{path}.expect")
        return Case(
            name=name or "",
            place=case.places.get("name", (place, place))[1],
            path=path,
            by=self._value(case, "by", str, "who starts the run, such as user:ana", path),
            input=plain(case.get("input")),
            model=self._model(*_find_holder(case, file_content, "model", path), place),
            tools=self._tools(*_find_holder(case, file_content, "tools", path)),
            answers=self._answers(case, path),
            expect=expect,
        )

    # Input of the run

    def _model(self, holder: PlacedDict, path: str, place: Position) -> Script | None:
        match holder.get("model"):
            case None:
                self._check_models(place, path)
                return None
            case str(name):
                return self._script_file(holder.value_place("model"), self.path.parent / name, path)
            case PlacedDict() as by_name:
                self._check_replies(by_name, f"{path}model")
                return Script(holder.value_place("model"), replies=plain(by_name))
        message = "'model' must be an object {<step or agent>: [replies]}, or the path of a file of replies"
        self._add_problem(holder.value_place("model"), f"{path}model", "bad_value", message)
        return None

    def _check_models(self, place: Position, path: str) -> None:
        """Refuse models that cost money or need a network."""
        for name, model in self.names.models.items():
            provider_model = self.config.models[model].model if model in self.config.models else model
            if provider_model.partition(":")[0] not in FREE_MODELS:
                message = f"{name} would ask the model {model!r}"
                self._add_problem(place, f"{path}model", "missing_key", message, "write its replies under `model`")

    def _script_file(self, place: Position, file: Path, path: str) -> Script | None:
        if not file.is_file():
            self._add_problem(
                place, f"{path}model", "unreadable_file", f"there is no file {file}", "paths are relative to this file"
            )
            return None
        return Script(place, file=file.resolve())

    def _check_replies(self, replies_by_name: PlacedDict, path: str) -> None:
        for name, replies in replies_by_name.items():
            declared = {*self.names.steps, *self.names.agents}
            if not is_pattern(name):
                place = replies_by_name.key_place(name)
                self._require_declared(name.removesuffix("-summary"), declared, "step or agent", place, path)
            items = replies if isinstance(replies, PlacedList) else []
            if not items:
                message, hint = f"the replies of {name!r} must be a list", f"{name}: [the first, the second]"
                self._add_problem(replies_by_name.value_place(name), f"{path}.{name}", "bad_value", message, hint)
            for index, reply in enumerate(items):
                if isinstance(reply, PlacedDict):
                    self._reject_unknown_keys(reply, tuple(ScriptedReply.model_fields), f"{path}.{name}[{index}]")

    def _tools(self, holder: PlacedDict, path: str) -> dict[str, list[JSON]]:
        replies_by_tool = self._value(
            holder, "tools", PlacedDict, "an object {<tool>: [replies]}", path.removesuffix(".")
        )
        for name in replies_by_tool or ():
            self._require_declared_tool(name, replies_by_tool, f"{path}tools")
            self._tool_replies(replies_by_tool, name, f"{path}tools.{name}")
        return dict(plain(replies_by_tool)) if replies_by_tool else {}

    def _tool_replies(self, holder: PlacedDict, name: str, path: str) -> None:
        replies = holder[name]
        if not isinstance(replies, PlacedList) or not replies:
            message = f"the replies of {name!r} must be a list"
            self._add_problem(holder.value_place(name), path, "bad_value", message, f"{name}: [{{output: …}}]")
            return
        for index, reply in enumerate(replies):
            place, where = replies.places[index], f"{path}[{index}]"
            if not isinstance(reply, PlacedDict):
                continue
            if len(reply.keys() & {"output", "error"}) != 1 or reply.keys() - REPLY_KEYS:
                message = "an object must be {output: …} or {error: text}, with `arguments` for certain calls only"
                self._add_problem(place, where, "bad_value", message, "write {output: {…}}")
            elif "type" in reply and not (isinstance(reply["type"], str) and "error" in reply):
                message = "'type' is that of an error, such as outcome_unknown"
                self._add_problem(place, where, "bad_value", message, "write {error: text, type: outcome_unknown}")

    def _require_declared_tool(self, name: str, holder: PlacedDict, path: str) -> None:
        if not name.startswith("mcp:"):
            self._require_declared(name, self.names.tools, "tool", holder.key_place(name), path)

    def _answers(self, case: PlacedDict, path: str) -> PlacedList | None:
        answers = self._value(case, "answers", PlacedList, "a list of {question: NAME, content: …}", path)
        if not isinstance(answers, PlacedList):
            return None
        self.problems += entry_problems(answers, f"{path}.answers", ("by",))
        for index, entry in enumerate(answers):
            if isinstance(entry, PlacedDict):
                self._value(entry, "by", str, "who answers, such as user:ana", f"{path}.answers[{index}]")
        return answers

    # Expectations

    def _expect(self, expect: PlacedDict, path: str) -> None:
        self._reject_unknown_keys(expect, EXPECT_KEYS, path)
        status = self._value(expect, "status", str, f"one of {', '.join(STATUSES)}", path)
        if status is not None and status not in STATUSES:
            hint = did_you_mean(status, STATUSES) or f"one of {', '.join(STATUSES)}"
            self._add_problem(
                expect.value_place("status"), f"{path}.status", "bad_value", f"unknown status {status!r}", hint
            )
        self._value(expect, "context", PlacedDict, "an object {<path>: <value>}", path)
        error = self._value(expect, "error", PlacedDict, f"an object with {', '.join(ERROR_KEYS)}", path)
        if error is not None:
            self._reject_unknown_keys(error, ERROR_KEYS, f"{path}.error")
        self._expected_questions(expect, path)
        self._expected_spans(expect, f"{path}.trace", path)
        calls = self._value(expect, "calls", PlacedDict, "an object {<tool>: [what it was called with]}", path)
        for name in calls or ():
            self._require_declared_tool(name, calls, f"{path}.calls")

    def _expected_questions(self, holder: PlacedDict, path: str) -> None:
        questions = holder.get("questions")
        if isinstance(questions, PlacedDict) and list(questions) == ["contains"]:
            questions = questions["contains"]
        if "questions" in holder and not isinstance(questions, PlacedList):
            message = "'questions' must be a list of messages, or of objects; or {contains: such a list}"
            self._add_problem(holder.value_place("questions"), f"{path}.questions", "bad_value", message)
        for index, question in enumerate(questions if isinstance(questions, PlacedList) else ()):
            if isinstance(question, PlacedDict) and list(question) != ["contains"]:
                self._reject_unknown_keys(question, QUESTION_KEYS, f"{path}.questions[{index}]")

    def _expected_spans(self, holder: PlacedDict, path: str, above: str) -> None:
        spans = self._value(holder, "trace", PlacedDict, "an object {<step>: {status, times, …}}", above)
        for name in spans or ():
            if not is_pattern(name):
                declared = {*self.names.steps, *self.names.called}
                self._require_declared(name, declared, "step or tool", spans.key_place(name), path)
            span = self._value(spans, name, PlacedDict, f"an object with {', '.join(SPAN_KEYS)}", path)
            if span is not None:
                self._reject_unknown_keys(span, SPAN_KEYS, f"{path}.{name}")

    # Helpers

    def _value(
        self, holder: PlacedDict, key: str, kind: type, description: str, path: str, *, needed: bool = False
    ) -> JSON:
        """Return the value at a key if it has this type, else None, with a problem."""
        key_path = f"{path}.{key}" if path else key
        if key not in holder:
            if needed:
                self._add_problem(holder.place, key_path, "missing_key", f"{key!r} is missing", f"it is {description}")
            return None
        if isinstance(holder[key], kind):
            return holder[key]
        self._add_problem(holder.value_place(key), key_path, "bad_value", f"{key!r} must be {description}")
        return None

    def _reject_unknown_keys(self, holder: PlacedDict, allowed: Iterable[str], path: str) -> None:
        allowed = tuple(allowed)
        for key in holder:
            if key not in allowed:
                hint = did_you_mean(key, allowed) or f"known here: {', '.join(allowed)}"
                key_path = f"{path}.{key}" if path else key
                self._add_problem(holder.key_place(key), key_path, "unknown_key", f"unknown key {key!r}", hint)

    def _require_declared(self, name: str, declared: Iterable[str], noun: str, place: Position, path: str) -> None:
        names = sorted(declared)
        if self.blueprint is not None and not self.names.open and name not in names:
            hint = did_you_mean(name, names) or f"the blueprint has: {', '.join(names) or 'none'}"
            self._add_problem(place, f"{path}.{name}", "unknown_name", f"the blueprint has no {noun} {name!r}", hint)

    def _add_problem(self, place: Position, path: str, code: str, message: str, hint: str | None = None) -> None:
        self.problems.append(place.problem(path, code, message, hint))


def _find_holder(case: PlacedDict, file_content: PlacedDict, key: str, path: str) -> tuple[PlacedDict, str]:
    """Return the object that has the key, and the prefix of its path: the test itself, else the file."""
    return (case, f"{path}.") if key in case or key not in file_content else (file_content, "")


def files_in(places: Iterable[Path]) -> Iterator[Path]:
    """Yield the test files among files and folders, that of a blueprint too; hidden ones in folders are skipped."""
    for place in places:
        if place.is_dir():
            yield from sorted(walk_files(place, (SUFFIX,)))
        else:
            beside = place.with_name(f"{place.stem}{SUFFIX}")
            yield beside if not place.name.endswith(SUFFIX) and beside.exists() else place

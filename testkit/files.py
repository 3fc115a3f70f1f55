"""The reader of test files: it reports all mistakes at once, each with its position."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.activities.scripted import ScriptedReply
from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.load import is_target, load
from holdfast.blueprint.source import PlacedDict, PlacedList, Position, plain, read
from holdfast.blueprint.text_files import walk_files
from holdfast.client.answer_files import entry_problems
from holdfast.client.reading import text_of_file
from holdfast.protocol.answers import REFUSALS
from holdfast.runtime.config import Config
from holdfast.testkit import SUFFIX
from holdfast.testkit.expectations import EXPECT_KEYS, check_durations, check_expectations
from holdfast.testkit.names import DeclaredNames, collect_names, is_pattern
from holdfast.testkit.problems import ProblemCollector

FILE_KEYS = ("blueprint", "model", "tools", "tests")
CASE_KEYS = ("name", "by", "input", "model", "tools", "answers", "expect")
ANSWER_KEYS = ("by", "after", "refused")
"""Keys of an answer beside those of every file of answers."""
REPLY_KEYS = {"output", "error", "type", "arguments"}
"""Keys of an object that a tool replies."""
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
    if reader.blueprint is None or reader.problems.found:
        raise BlueprintError(reader.problems.found)
    return CaseFile(path.resolve(), str(path), reader.blueprint, reader.problems.names, cases)


def _default_blueprint(tests: Path) -> str:
    """Return the name of the blueprint or plan that belongs to a test file by its name."""
    stem = tests.name.removesuffix(SUFFIX)
    is_plan = not (tests.parent / f"{stem}.yaml").exists() and (tests.parent / f"{stem}.json").exists()
    return f"{stem}.json" if is_plan else f"{stem}.yaml"


class _CaseReader:
    """The reader of one file; it collects `problems`."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path, self.config = path, config
        self.problems = ProblemCollector()
        self.blueprint: Blueprint | None = None

    def file(self, content: PlacedDict) -> list[Case]:
        self.problems.reject_unknown_keys(content, FILE_KEYS, "")
        self._load(content)
        tests = self.problems.read_value(content, "tests", PlacedList, "a list of tests", "", needed=True)
        if tests is not None and not tests:
            self.problems.add(tests.place, "tests", "bad_value", "'tests' is empty", "write at least one {name: …}")
        items = [] if tests is None else list(zip(tests, tests.places, strict=True))
        cases = [self._case(item, place, f"tests[{n}]", content) for n, (item, place) in enumerate(items)]
        self._require_distinct_names(cases)
        return cases

    def _load(self, content: PlacedDict) -> None:
        """Load the blueprint that is named, else the one beside the tests."""
        name = self.problems.read_value(content, "blueprint", str, "the path of a blueprint, or pkg.mod:name", "")
        beside = self.path.parent / (name or _default_blueprint(self.path))
        try:
            self.blueprint = load(name if name is not None and is_target(name) else beside)
        except BlueprintError as error:
            self.problems.found += error.problems
        else:
            self.problems.names = collect_names(self.blueprint)

    def _require_distinct_names(self, cases: Iterable[Case]) -> None:
        first: dict[str, Case] = {}
        for case in cases:
            if case.name and case.name in first:
                hint = f"first in line {first[case.name].place.line}"
                self.problems.add(
                    case.place, f"{case.path}.name", "duplicate_name", f"the name {case.name!r} is there twice", hint
                )
            first.setdefault(case.name, case)

    def _case(self, case: object, place: Position, path: str, file_content: PlacedDict) -> Case:
        if not isinstance(case, PlacedDict):
            self.problems.add(place, path, "bad_value", "a test is an object", "{name: …, input: …, expect: {…}}")
            return Case("", place, path)
        self.problems.reject_unknown_keys(case, CASE_KEYS, path)
        name = self.problems.read_value(case, "name", str, "text that says what is tested", path, needed=True)
        if name is not None and not name.strip():
            self.problems.add(
                case.value_place("name"), f"{path}.name", "bad_value", "'name' is empty", "say what is tested"
            )
        expect = self.problems.read_value(case, "expect", PlacedDict, f"an object with {', '.join(EXPECT_KEYS)}", path)
        if expect is not None:
            check_expectations(expect, f"{path}.expect", self.problems)
        tools = self._tools(*_find_holder(case, file_content, "tools", path))
        return Case(
            name=name or "",
            place=case.places.get("name", (place, place))[1],
            path=path,
            by=self.problems.read_value(case, "by", str, "who starts the run, such as user:ana", path),
            input=plain(case.get("input")),
            model=self._model(*_find_holder(case, file_content, "model", path), place, tools),
            tools=tools,
            answers=self._answers(case, path),
            expect=expect,
        )

    # Input of the run

    def _model(self, holder: PlacedDict, path: str, place: Position, tools: Collection[str]) -> Script | None:
        match holder.get("model"):
            case None:
                self._check_models(place, path, tools)
                return None
            case str(name):
                return self._script_file(holder.value_place("model"), self.path.parent / name, path)
            case PlacedDict() as by_name:
                self._check_replies(by_name, f"{path}model")
                return Script(holder.value_place("model"), replies=plain(by_name))
        message = "'model' must be an object {<step or agent>: [replies]}, or the path of a file of replies"
        self.problems.add(holder.value_place("model"), f"{path}model", "bad_value", message)
        return None

    def _check_models(self, place: Position, path: str, tools: Collection[str]) -> None:
        """Refuse models that cost money or need a network, but those of functions that the test stands in for."""
        objects = self.problems.names.objects
        for name, model in self.problems.names.models.items():
            if objects.get(name) in tools:
                continue
            provider_model = self.config.models[model].model if model in self.config.models else model
            if provider_model.partition(":")[0] not in FREE_MODELS:
                message, hint = f"{name} would ask the model {model!r}", "write its replies under `model`"
                if name in objects:
                    message = f"{name} is an agent of your code, which would ask models of its own"
                    hint += f"; of a function with @agent, what it returns under `tools`: {{{objects[name]}: [reply]}}"
                self.problems.add(place, f"{path}model", "missing_key", message, hint)

    def _script_file(self, place: Position, file: Path, path: str) -> Script | None:
        if not file.is_file():
            self.problems.add(
                place, f"{path}model", "unreadable_file", f"there is no file {file}", "paths are relative to this file"
            )
            return None
        return Script(place, file=file.resolve())

    def _check_replies(self, replies_by_name: PlacedDict, path: str) -> None:
        for name, replies in replies_by_name.items():
            declared = {*self.problems.names.steps, *self.problems.names.agents}
            if not is_pattern(name):
                place = replies_by_name.key_place(name)
                self.problems.require_declared(name.removesuffix("-summary"), declared, "step or agent", place, path)
            items = replies if isinstance(replies, PlacedList) else []
            if not items:
                message, hint = f"the replies of {name!r} must be a list", f"{name}: [the first, the second]"
                self.problems.add(replies_by_name.value_place(name), f"{path}.{name}", "bad_value", message, hint)
            for index, reply in enumerate(items):
                if isinstance(reply, PlacedDict):
                    self.problems.reject_unknown_keys(
                        reply, tuple(ScriptedReply.model_fields), f"{path}.{name}[{index}]"
                    )

    def _tools(self, holder: PlacedDict, path: str) -> dict[str, list[JSON]]:
        replies_by_tool = self.problems.read_value(
            holder, "tools", PlacedDict, "an object {<tool>: [replies]}", path.removesuffix(".")
        )
        for name in replies_by_tool or ():
            self.problems.require_declared_tool(name, replies_by_tool, f"{path}tools")
            self._tool_replies(replies_by_tool, name, f"{path}tools.{name}")
        return dict(plain(replies_by_tool)) if replies_by_tool else {}

    def _tool_replies(self, holder: PlacedDict, name: str, path: str) -> None:
        replies = holder[name]
        if not isinstance(replies, PlacedList) or not replies:
            message = f"the replies of {name!r} must be a list"
            self.problems.add(holder.value_place(name), path, "bad_value", message, f"{name}: [{{output: …}}]")
            return
        for index, reply in enumerate(replies):
            place, where = replies.places[index], f"{path}[{index}]"
            if not isinstance(reply, PlacedDict):
                continue
            if len(reply.keys() & {"output", "error"}) != 1 or reply.keys() - REPLY_KEYS:
                message = "an object must be {output: …} or {error: text}, with `arguments` for certain calls only"
                self.problems.add(place, where, "bad_value", message, "write {output: {…}}")
            elif "type" in reply and not (isinstance(reply["type"], str) and "error" in reply):
                message = "'type' is that of an error, such as outcome_unknown"
                self.problems.add(place, where, "bad_value", message, "write {error: text, type: outcome_unknown}")

    def _answers(self, case: PlacedDict, path: str) -> PlacedList | None:
        answers = self.problems.read_value(case, "answers", PlacedList, "a list of {question: NAME, content: …}", path)
        if not isinstance(answers, PlacedList):
            return None
        self.problems.found += entry_problems(answers, f"{path}.answers", ANSWER_KEYS)
        for index, entry in enumerate(answers):
            if isinstance(entry, PlacedDict):
                self._check_answer(entry, f"{path}.answers[{index}]")
        return answers

    def _check_answer(self, answer: PlacedDict, path: str) -> None:
        """Check what an answer of a test has beside those of every file of answers."""
        self.problems.read_value(answer, "by", str, "who answers, such as user:ana", path)
        check_durations(answer, path, self.problems)
        if "refused" in answer and answer["refused"] not in REFUSALS:
            hint = did_you_mean(str(answer["refused"]), REFUSALS) or f"one of {', '.join(REFUSALS)}"
            place = answer.value_place("refused")
            message = f"no answer is refused as {answer['refused']!r}"
            self.problems.add(place, f"{path}.refused", "bad_value", message, hint)


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

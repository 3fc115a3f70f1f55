"""Load a blueprint from text: positions, short forms, imports, checks, silenced warnings. Reports all problems."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.blueprint.check import check
from holdfast.blueprint.check.advice import advise
from holdfast.blueprint.codes import CODES, WARNINGS
from holdfast.blueprint.errors import Problem, in_order
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.kinds import KINDS, Blueprint, PlainStep
from holdfast.blueprint.load.modules import is_target, read_target
from holdfast.blueprint.load.parsed import Parsed
from holdfast.blueprint.plan.document import is_plan, path_in_plan, plan_inside, strip_fences, wrap_plan
from holdfast.blueprint.positions import Parts, path_text
from holdfast.blueprint.source import MAX_BYTES, Comment, PlacedDict, Position, Source, comments, read
from holdfast.blueprint.sugar import DocumentExpansion, core_form
from holdfast.blueprint.text_files import UnreadableFile, text_of_file
from holdfast.blueprint.validate import validate

MAX_IMPORT_LEVELS = 20
MAX_VALUES = 100_000
"""The limit of a blueprint with all its imports, each counted as often as it is imported."""


def load(path: str | Path) -> Blueprint:
    """Return the blueprint in a file, or of `pkg.mod:name`. Raises `BlueprintError` with all its problems."""
    return parse_file(path).valid()


_OTHER_LANGUAGES = {
    ".toml": ("TOML", "a blueprint is a file of YAML or JSON"),
    ".py": ("Python", "name a pipeline in it by its module, such as flows:NAME for one in flows.py"),
}
"""By the ending of a file what it is written in, and the way out."""


def parse_file(path: str | Path) -> Parsed:
    """Parse a file like `load`, but return the problems, and warnings too."""
    if is_target(str(path)):
        return read_target(str(path))
    loading = _Loading()
    return loading.add_warnings(loading.file(Path(path), str(path), None))


def loads(text: str, *, file: str = "<text>", folder: Path | None = None, name: str | None = None) -> Blueprint:
    """Return the blueprint in a text. Raises `BlueprintError` with all its problems.

    `folder` is what paths in it are relative to, `file` the name that problems show.

    >>> loads("steps: [{name: greet, uses: stringify}]", name="hello").steps[0].uses
    'stringify'
    """
    return parse(text, file=file, folder=folder, name=name).valid()


def parse(text: str, *, file: str = "<text>", folder: Path | None = None, name: str | None = None) -> Parsed:
    """Parse a text like `loads`, but return the problems, and warnings too."""
    loading = _Loading()
    return loading.add_warnings(loading.text(text, file, folder, name or _take_name(file)))


def parse_document(document: PlacedDict, *, folder: Path | None, name: str) -> Parsed:
    """Parse a document that is not in a text, such as one that Python built; it is changed."""
    loading = _Loading()
    parsed = loading.document(document, folder, name)
    return loading.add_warnings(replace(parsed, problems=in_order(parsed.problems)))


@dataclass
class _Loading:
    """The state of one load: files that are read already, and the chain of imports, to detect a cycle."""

    done: dict[str, Parsed] = field(default_factory=dict)
    chain: list[tuple[str, str]] = field(default_factory=list)
    """The files being read, each by its real path and as it is shown."""
    warnings: list[Problem] = field(default_factory=list)

    def file(self, path: Path, file: str, place: tuple[Position, str] | None) -> Parsed:
        """Parse a file; `place` is where it is imported, if it is."""
        real = os.path.realpath(path)
        if real in self.done:
            return self.done[real]
        if real in [opened for opened, _ in self.chain]:
            names = [*(name for _, name in self.chain), file]
            return _make_failure(
                place, file, "import_cycle", f"imports itself: {' -> '.join(names)}", "remove one of them"
            )
        if len(self.chain) >= MAX_IMPORT_LEVELS:
            message = f"imports are nested deeper than {MAX_IMPORT_LEVELS} levels"
            return _make_failure(place, file, "bad_value", message, "import the inner ones from the outer blueprint")
        if (other := _OTHER_LANGUAGES.get(path.suffix)) is not None:
            return _make_failure(place, file, "unreadable_file", f"{file!r} is {other[0]}, not a blueprint", other[1])
        try:
            text = text_of_file(path, MAX_BYTES)
        except UnreadableFile as error:
            hint = error.hint or "check the path; a blueprint is a file of YAML or JSON in UTF-8"
            return _make_failure(place, file, "unreadable_file", f"cannot read {file!r}: {error}", hint)
        self.chain.append((real, file))
        self.done[real] = self.text(text, file, path.parent, _take_name(file))
        self.chain.pop()
        return self.done[real]

    def text(self, text: str, file: str, folder: Path | None, name: str) -> Parsed:
        value, place, problems = read(strip_fences(text), file)
        if any(problem.code == "bad_yaml" for problem in problems):
            return Parsed(None, in_order(problems))
        if not isinstance(value, PlacedDict):
            form = "a list" if isinstance(value, list) else "empty" if value is None else "a single value"
            hint = "write at least `steps:` with a list of steps"
            problems.append(place.problem("", "bad_value", f"a blueprint is an object with keys, this is {form}", hint))
            return Parsed(None, in_order(problems))
        parsed = self.document(value, folder, name)
        if not parsed.problems:
            self._apply_suppressions(place.source)
        return replace(parsed, problems=in_order([*problems, *parsed.problems]))

    def document(self, value: PlacedDict, folder: Path | None, name: str) -> Parsed:
        """Parse a blueprint, or a plan as the blueprint that runs it."""
        value = plan_inside(value)
        if not is_plan(value):
            return self._blueprint(value, folder, name, ())
        parsed = self._blueprint(wrap_plan(value), folder, name, ())
        problems = [replace(problem, path=path_in_plan(problem.path)) for problem in parsed.problems]
        return replace(parsed, problems=problems, is_plan=True)

    def add_warnings(self, parsed: Parsed) -> Parsed:
        """Return what came of the load with the warnings that were found on the way; with problems there are none."""
        return replace(parsed, warnings=[] if parsed.problems else in_order(self.warnings))

    def _apply_suppressions(self, source: Source) -> None:
        """Drop the warnings that comments of this file silence."""
        own = [warning for warning in self.warnings if warning.file == source.file]
        others = [warning for warning in self.warnings if warning.file != source.file]
        self.warnings = [*others, *apply_suppressions(own, source)]

    def _blueprint(self, document: PlacedDict, folder: Path | None, name: str, prefix: Parts) -> Parsed:
        expansion = DocumentExpansion(KINDS, folder)
        core = core_form(document, expansion, name, path_text(prefix))
        imported, size = self._imports(core, folder, prefix)
        import_problems = [problem for parsed in imported.values() for problem in parsed.problems]
        imports = {alias: parsed.blueprint or _make_placeholder() for alias, parsed in imported.items()}
        size += _size(core)
        if size > MAX_VALUES:
            message = f"more than {MAX_VALUES:,} values with all imports"
            import_problems.append(core.place.problem(path_text(prefix), "bad_value", message, "import less often"))
            return Parsed(None, [*expansion.problems, *import_problems])
        validated = validate(core, imports, prefix)
        problems = [*expansion.problems, *import_problems, *validated.problems]
        if validated.blueprint is not None:
            found = check(validated.blueprint, core, prefix, validated.repaired, validated.unread)
            problems += found.problems
            if not problems:
                self.warnings += [*found.warnings, *advise(validated.blueprint, core, prefix)]
        return Parsed(validated.blueprint, problems, size, core=core, imports=imported)

    def _imports(self, core: PlacedDict, folder: Path | None, prefix: Parts) -> tuple[dict[str, Parsed], int]:
        """Return the parsed imports by alias, and the number of values they have."""
        definitions = core.get("imports")
        if not isinstance(definitions, PlacedDict):
            return {}, 0
        imported = {
            alias: self._import(value, definitions.value_place(alias), folder, (*prefix, "imports", alias))
            for alias, value in definitions.items()
        }
        for alias, parsed in imported.items():
            if parsed.blueprint is not None and parsed.blueprint.access is not None:
                self._warn_of_access(definitions.value_place(alias), path_text((*prefix, "imports", alias)))
        return imported, sum(parsed.size for parsed in imported.values())

    def _warn_of_access(self, place: Position, path: str) -> None:
        message = "'access' of a blueprint that is imported has no effect: that of the run's own blueprint counts"
        problem = place.problem(path, "unused_access", message, "write it into the blueprint that is run")
        self.warnings.append(replace(problem, severity="warning"))

    def _import(self, value: object, place: Position, folder: Path | None, path: Parts) -> Parsed:
        match value:
            case str() if value and folder is not None:
                file = os.path.normpath(os.path.join(os.path.dirname(place.source.file), value))
                return self.file(folder / value, file, (place, path_text(path)))
            case str() if value:
                message = f"cannot read {value!r}: this blueprint has no folder"
                return _make_failure(
                    (place, path_text(path)), value, "unreadable_file", message, "read the blueprint from a file"
                )
            case PlacedDict():
                return self._blueprint(value, folder, str(path[-1]), path)
        message, hint = "an import is the path of a blueprint", "such as ./review.yaml"
        return _make_failure((place, path_text(path)), "", "bad_value", message, hint)


def _make_placeholder() -> Blueprint:
    """Return what stands for an import that cannot be read, so that the rest is checked."""
    return Blueprint(name="unreadable", steps=[PlainStep(kind="step", name="unreadable")])


def _make_failure(place: tuple[Position, str] | None, file: str, code: str, message: str, hint: str | None) -> Parsed:
    if place is None:
        return Parsed(None, [Problem(file, 0, 0, "", code, message, hint)])
    position, path = place
    return Parsed(None, [position.problem(path, code, message, hint)])


def _take_name(file: str) -> str:
    """Return the default name of a blueprint: the file's stem.

    >>> _take_name("flows/my brief.yaml"), _take_name("<text>")
    ('my-brief', 'blueprint')
    """
    if file.startswith("<"):
        return "blueprint"
    return re.sub(r"[^A-Za-z0-9_-]+", "-", Path(file).stem).strip("-") or "blueprint"


def _size(value: object) -> int:
    match value:
        case dict():
            return 1 + sum(map(_size, value.values()))
        case list():
            return 1 + sum(map(_size, value))
    return 1


_MARK = re.compile(r"#\s*holdfast\s*:([^#]*)")
_IGNORE = re.compile(r"\s*ignore\s+(\w+(?:\s*,\s*\w+)*)\s*")
_USAGE = "write # holdfast: ignore CODE, or several with commas between them"


@dataclass(frozen=True)
class _Suppression:
    """A code of a comment `# holdfast: ignore CODE, CODE`, and the line that it is about: its own, or the next."""

    comment: Comment
    code: str
    line: int

    def silences(self, warning: Problem) -> bool:
        return (warning.code, warning.line) == (self.code, self.line)

    def problem(self) -> Problem:
        """Return a warning that the comment silences nothing, with the reason."""
        if self.code in WARNINGS:
            message = f"line {self.line} has no {self.code}" if self.line else "nothing stands below this comment"
            return _make_warning(self.comment, "unneeded_ignore", message, "remove it")
        if self.code in CODES:
            return _make_warning(self.comment, "unneeded_ignore", f"{self.code} cannot be silenced", "fix the problem")
        hint = did_you_mean(self.code, sorted(WARNINGS)) or f"warnings: {', '.join(WARNINGS)}"
        return _make_warning(self.comment, "unknown_ignore", f"unknown warning {self.code!r}", hint)


def apply_suppressions(warnings: Sequence[Problem], source: Source) -> list[Problem]:
    """Return the warnings that no comment silences, and those about comments that silence nothing."""
    if not _MARK.search(source.text):
        return list(warnings)
    marked = [(comment, directive[1]) for comment in comments(source) if (directive := _MARK.search(comment.text))]
    unclear = [
        _make_warning(comment, "unknown_ignore", f"cannot read the comment {comment.text!r}", _USAGE)
        for comment, directive in marked
        if not _IGNORE.fullmatch(directive)
    ]
    suppressions = [suppression for comment, directive in marked for suppression in _suppressions(comment, directive)]
    kept = [warning for warning in warnings if not any(suppression.silences(warning) for suppression in suppressions)]
    unused = [
        suppression.problem()
        for suppression in suppressions
        if not any(suppression.silences(warning) for warning in warnings)
    ]
    return [*kept, *unclear, *unused]


def _suppressions(comment: Comment, directive: str) -> Iterator[_Suppression]:
    match = _IGNORE.fullmatch(directive)
    line = _next_line(comment) if comment.alone else comment.place.line
    for code in re.split(r"\s*,\s*", match[1]) if match else ():
        yield _Suppression(comment, code, line)


def _next_line(comment: Comment) -> int:
    """Return the line that a comment above it is about: the next that is neither blank nor a comment."""
    lines = comment.place.source.text.splitlines()
    below = range(comment.place.line, len(lines))
    return next((n + 1 for n in below if lines[n].strip() and not lines[n].lstrip().startswith("#")), 0)


def _make_warning(comment: Comment, code: str, message: str, hint: str) -> Problem:
    return replace(comment.place.problem("", code, message, hint), severity="warning")

"""Text to blueprint: positions, short forms, imports, grammar, checks. Everything that is wrong is told at once."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from blueprint.check import check
from blueprint.check.advice import advise
from blueprint.errors import BlueprintError, Problem, in_order
from blueprint.expressions.error import did_you_mean
from blueprint.grammar import Blueprint, PlainStep
from blueprint.ignoring import heeded
from blueprint.places import Parts, shown
from blueprint.plan.document import blueprint_of, is_plan, told_of_plan
from blueprint.shape import shaped
from blueprint.source import MAX_BYTES, Place, PlacedDict, Source, read
from blueprint.sugar import Notes, core_form

MAX_IMPORT_LEVELS = 20
MAX_VALUES = 100_000
"""Of a blueprint with all its imports, each counted as often as it is imported."""
_STANDS_IN = [PlainStep(kind="step", name="unreadable")]


@dataclass(frozen=True)
class Parsed:
    """What became of a text: a blueprint if nothing is wrong."""

    blueprint: Blueprint | None
    problems: list[Problem]
    size: int = 0
    """Its values, with those of its imports."""
    warnings: list[Problem] = field(default_factory=list)
    """What runs, and is hardly what was meant; looked for where nothing is wrong."""


def load(path: str | Path) -> Blueprint:
    """The blueprint in a file, or a `BlueprintError` with everything that is wrong."""
    return _sound(examine(path))


def examine(path: str | Path) -> Parsed:
    """Like `load`, with the problems as a value, and with warnings."""
    loading = _Loading()
    parsed = loading.file(Path(path), str(path), None)
    return replace(parsed, warnings=[] if parsed.problems else in_order(loading.warnings))


def loads(text: str, *, file: str = "<text>", folder: Path | None = None, name: str | None = None) -> Blueprint:
    """The blueprint in a text; `folder` is what paths in it are relative to, `file` how problems call it.

    >>> loads("steps: [{name: greet, uses: stringify}]", name="hello").steps[0].uses
    'stringify'
    """
    return _sound(parse(text, file=file, folder=folder, name=name))


def parse(text: str, *, file: str = "<text>", folder: Path | None = None, name: str | None = None) -> Parsed:
    """Like `loads`, with the problems as a value."""
    return _Loading().text(text, file, folder, name or _name_of(file))


def _sound(parsed: Parsed) -> Blueprint:
    if parsed.blueprint is None or parsed.problems:
        raise BlueprintError(parsed.problems)
    return parsed.blueprint


@dataclass
class _Loading:
    """One load: each file is read once, and a file that imports itself is seen."""

    done: dict[str, Parsed] = field(default_factory=dict)
    chain: list[tuple[str, str]] = field(default_factory=list)
    """The files being read, each by its real path and as it is shown."""
    warnings: list[Problem] = field(default_factory=list)

    def file(self, path: Path, file: str, place: tuple[Place, str] | None) -> Parsed:
        """A file's blueprint; `place` is where it is imported, if it is."""
        real = os.path.realpath(path)
        if real in self.done:
            return self.done[real]
        if real in [known for known, _ in self.chain]:
            names = [*(name for _, name in self.chain), file]
            return _failed(place, file, "import_cycle", f"imports itself: {' -> '.join(names)}", "remove one of them")
        if len(self.chain) >= MAX_IMPORT_LEVELS:
            told = f"imports are nested deeper than {MAX_IMPORT_LEVELS} levels"
            return _failed(place, file, "bad_value", told, "import the inner ones from the outer blueprint")
        try:
            text = _text_of(path)
        except (OSError, ValueError) as error:
            return _failed(place, file, "unreadable_file", f"cannot read {file!r}: {_why(error)}", _near(path))
        self.chain.append((real, file))
        self.done[real] = self.text(text, file, path.parent, _name_of(file))
        self.chain.pop()
        return self.done[real]

    def text(self, text: str, file: str, folder: Path | None, name: str) -> Parsed:
        value, place, problems = read(text, file)
        if any(problem.code == "bad_yaml" for problem in problems):
            return Parsed(None, in_order(problems))
        if not isinstance(value, PlacedDict):
            what = "a list" if isinstance(value, list) else "empty" if value is None else "a single value"
            hint = "write at least `steps:` with a list of steps"
            problems.append(place.problem("", "bad_value", f"a blueprint is an object with keys, this is {what}", hint))
            return Parsed(None, in_order(problems))
        plan = is_plan(value)
        parsed = self._document(blueprint_of(value) if plan else value, folder, name, ())
        if not parsed.problems:
            self._heed(place.source)
        found = [replace(one, path=told_of_plan(one.path)) for one in parsed.problems] if plan else parsed.problems
        return Parsed(parsed.blueprint, in_order([*problems, *found]), parsed.size)

    def _heed(self, source: Source) -> None:
        """Leave out what comments of this file silence."""
        own = [warning for warning in self.warnings if warning.file == source.file]
        others = [warning for warning in self.warnings if warning.file != source.file]
        self.warnings = [*others, *heeded(own, source)]

    def _document(self, written: PlacedDict, folder: Path | None, name: str, prefix: Parts) -> Parsed:
        notes = Notes(folder)
        core = core_form(written, notes, name, shown(prefix))
        imports, found, size = self._imports(core, folder, prefix)
        size += _size(core)
        if size > MAX_VALUES:
            told = f"more than {MAX_VALUES:,} values with all imports"
            found.append(core.place.problem(shown(prefix), "bad_value", told, "import less often"))
            return Parsed(None, [*notes.problems, *found])
        shape = shaped(core, imports, prefix)
        problems = [*notes.problems, *found, *shape.problems]
        if shape.blueprint is not None:
            problems += check(shape.blueprint, core, prefix, shape.mended)
        if shape.blueprint is not None and not problems:
            self.warnings += advise(shape.blueprint, core, prefix)
        return Parsed(shape.blueprint, problems, size)

    def _imports(
        self, core: PlacedDict, folder: Path | None, prefix: Parts
    ) -> tuple[dict[str, Blueprint], list[Problem], int]:
        """The imported blueprints by alias; one that cannot be read is stood in for, so that the rest is checked."""
        written = core.get("imports")
        blueprints: dict[str, Blueprint] = {}
        problems: list[Problem] = []
        size = 0
        if not isinstance(written, PlacedDict):
            return blueprints, problems, size
        for alias, value in written.items():
            parsed = self._import(value, written.value_place(alias), folder, (*prefix, "imports", alias))
            problems += parsed.problems
            size += parsed.size
            blueprints[alias] = parsed.blueprint or Blueprint(name="unreadable", steps=[*_STANDS_IN])
        return blueprints, problems, size

    def _import(self, value: Any, place: Place, folder: Path | None, path: Parts) -> Parsed:
        match value:
            case str() if value and folder is not None:
                file = os.path.normpath(os.path.join(os.path.dirname(place.source.file), value))
                return self.file(folder / value, file, (place, shown(path)))
            case str() if value:
                told = f"cannot read {value!r}: this blueprint has no folder"
                return _failed((place, shown(path)), value, "unreadable_file", told, "read the blueprint from a file")
            case PlacedDict():
                return self._document(value, folder, str(path[-1]), path)
        told, hint = "an import is the path of a blueprint", "such as ./review.yaml"
        return _failed((place, shown(path)), "", "bad_value", told, hint)


def _failed(place: tuple[Place, str] | None, file: str, code: str, message: str, hint: str | None) -> Parsed:
    if place is None:
        return Parsed(None, [Problem(file, 0, 0, "", code, message, hint)])
    where, path = place
    return Parsed(None, [where.problem(path, code, message, hint)])


def _text_of(path: Path) -> str:
    with path.open("rb") as opened:
        raw = opened.read(MAX_BYTES + 4)
    return raw.decode("utf-8-sig", "strict" if len(raw) <= MAX_BYTES else "replace")


def _why(error: OSError | ValueError) -> str:
    match error:
        case OSError(strerror=str(reason)):
            return reason[0].lower() + reason[1:]
        case UnicodeDecodeError():
            return f"it is no UTF-8 text (byte {error.start})"
    return str(error)


def _near(path: Path) -> str:
    """A file beside it whose name is nearly the same, if there is one."""
    try:
        beside = sorted(os.listdir(path.parent))
    except (OSError, ValueError):
        beside = []
    close = did_you_mean(path.name, [name for name in beside if name != path.name])
    return close or "check the path; a blueprint is a file of YAML or JSON in UTF-8"


def _name_of(file: str) -> str:
    """A blueprint's name if it has none of its own: the file's stem.

    >>> _name_of("flows/my brief.yaml"), _name_of("<text>")
    ('my-brief', 'blueprint')
    """
    if file.startswith("<"):
        return "blueprint"
    return re.sub(r"[^A-Za-z0-9_-]+", "-", Path(file).stem).strip("-") or "blueprint"


def _size(value: Any) -> int:
    match value:
        case dict():
            return 1 + sum(map(_size, value.values()))
        case list():
            return 1 + sum(map(_size, value))
    return 1

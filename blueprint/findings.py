"""The problems that the checks find, each with its position in the text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from holdfast.blueprint.errors import Problem
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.expressions.texts import read_structure
from holdfast.blueprint.positions import Parts, find_place, path_text, split_path
from holdfast.blueprint.source import PlacedDict, Position

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_PATH = re.compile(r"(context\.)?[^\s.\[\]{}]+(\.[^\s.\[\]{}]+)*")
_MARKS = ("{{", "{%", "{#")


@dataclass
class Findings:
    """The problems of one document; paths are written as in `steps[2].loop.exit_expression`."""

    tree: PlacedDict
    prefix: Parts
    repaired: frozenset[Parts]
    unread: frozenset[Parts] = frozenset()
    """Values that do not fit: they are told already, and are left out."""
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def add(self, path: str, code: str, message: str, hint: str | None = None, *, at: str | None = None) -> None:
        """Add a problem at the value of a path; group 1 of the pattern `at` is the faulty word in that value."""
        parts = split_path(self.tree, path)
        if code == "missing_key" and parts[:-1] in self.repaired:
            return  # the holder is a repaired one: what the author's would need is unknown
        place = find_place(self.tree, parts)
        self.add_at(place.of(at) if at else place, path, code, message, hint)

    def add_key(self, path: str, code: str, message: str, hint: str | None = None) -> None:
        """Add a problem at the key of a path, for one that should not be there at all."""
        self.add_at(find_place(self.tree, split_path(self.tree, path), key=True), path, code, message, hint)

    def add_at(self, place: Position, path: str, code: str, message: str, hint: str | None) -> None:
        before = path_text(self.prefix)
        self.problems.append(place.problem(f"{before}.{path}" if before else path, code, message, hint))

    def warn(self, path: str, code: str, message: str, hint: str, *, at: str | None = None) -> None:
        """Add a warning at the value of a path; `at` as for `add`."""
        place = find_place(self.tree, split_path(self.tree, path))
        self._warn_at(place.of(at) if at else place, path, code, message, hint)

    def warn_key(self, path: str, code: str, message: str, hint: str) -> None:
        """Add a warning at the key of a path."""
        self._warn_at(find_place(self.tree, split_path(self.tree, path), key=True), path, code, message, hint)

    def _warn_at(self, place: Position, path: str, code: str, message: str, hint: str) -> None:
        before = path_text(self.prefix)
        problem = place.problem(f"{before}.{path}" if before else path, code, message, hint)
        self.warnings.append(replace(problem, severity="warning"))

    def was_repaired(self, *parts: str | int) -> bool:
        """Return whether the value there is a repaired one, and not the author's."""
        return parts in self.repaired or parts[:-1] in self.repaired

    def is_repaired_within(self, path: str) -> bool:
        """Return whether something inside the value of a path was repaired, so that parts of it may be missing."""
        parts = split_path(self.tree, path)
        return any(repaired[: len(parts)] == parts for repaired in self.repaired)

    def is_unread(self, path: str) -> bool:
        """Return whether the author has written a value there that was left out: it is no missing one."""
        return split_path(self.tree, path) in self.unread

    def place(self, path: str) -> Position:
        return find_place(self.tree, split_path(self.tree, path))


def iterate_texts(template: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield every text of a template, with its path."""
    match template:
        case str():
            yield path, template
        case dict():
            for key, part in template.items():
                yield from iterate_texts(part, f"{path}.{key}")
        case list():
            for index, part in enumerate(template):
                yield from iterate_texts(part, f"{path}[{index}]")


def is_literal(template: object, marks: Collection[str] = _MARKS) -> bool:
    """Return whether the template has no marks to fill in."""
    return not any(mark in text for _, text in iterate_texts(template, "") for mark in marks)


def check_known(name: str, kind: str, available: Iterable[str], path: str, findings: Findings) -> None:
    """Report a name that is not among the available ones, with the nearest of them; `kind` says what it names."""
    names = sorted(available)
    if name not in names:
        listed = f"known {kind}s: {', '.join(names)}" if names else f"this blueprint names no {kind}s"
        findings.add(path, "unknown_name", f"unknown {kind} {name!r}", did_you_mean(name, names) or listed)


def check_function(name: str, path: str, findings: Findings) -> None:
    if not _FUNCTION.fullmatch(name):
        findings.add(path, "bad_value", f"{name[:60]!r} does not name a function", "write package.module:function")


def check_path(text: str, path: str, findings: Findings) -> None:
    """Report a text that is not a path in the context."""
    if not _PATH.fullmatch(text) or text in ("context", "context."):
        message = f"{text[:60]!r} is not a path in the context"
        findings.add(path, "bad_value", message, "write keys with dots between them, such as stats.total")


def may_be_object(template: object) -> bool:
    """Return whether a template may give an object: a mapping, a text of one, or a text that is filled in."""
    match template:
        case str():
            return not is_literal(template) or isinstance(read_structure(template), dict)
        case _:
            return isinstance(template, dict)

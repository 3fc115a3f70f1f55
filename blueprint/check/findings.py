"""What the checks find, put at its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from blueprint.errors import Problem
from blueprint.expressions.error import did_you_mean
from blueprint.places import Parts, parts_of, place_of, shown
from blueprint.source import Place, PlacedDict

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_MARKS = ("{{", "{%", "{#")


@dataclass
class Findings:
    """The problems of one document; paths are written as in `steps[2].loop.exit_expression`."""

    tree: PlacedDict
    prefix: Parts
    mended: frozenset[Parts]
    problems: list[Problem] = field(default_factory=list)

    def add(self, path: str, code: str, message: str, hint: str | None = None, *, at: str | None = None) -> None:
        """`at` is a pattern whose group 1 is the very word, inside the value at the path."""
        parts = parts_of(self.tree, path)
        if code == "missing_key" and parts[:-1] in self.mended:
            return  # what it would be, if the author's mistake were right, is not known
        place = place_of(self.tree, parts)
        self.add_at(place.of(at) if at else place, path, code, message, hint)

    def add_key(self, path: str, code: str, message: str, hint: str | None = None) -> None:
        """At the key, for what should not be there at all."""
        self.add_at(place_of(self.tree, parts_of(self.tree, path), key=True), path, code, message, hint)

    def add_at(self, place: Place, path: str, code: str, message: str, hint: str | None) -> None:
        before = shown(self.prefix)
        self.problems.append(place.problem(f"{before}.{path}" if before else path, code, message, hint))

    def was_mended(self, *parts: str | int) -> bool:
        """Whether what stands there is not what the author wrote."""
        return parts in self.mended or parts[:-1] in self.mended

    def place(self, path: str) -> Place:
        return place_of(self.tree, parts_of(self.tree, path))


def texts_of(template: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every text of a template, with its path."""
    match template:
        case str():
            yield path, template
        case dict():
            for key, part in template.items():
                yield from texts_of(part, f"{path}.{key}")
        case list():
            for index, part in enumerate(template):
                yield from texts_of(part, f"{path}[{index}]")


def is_literal(template: Any) -> bool:
    """Whether nothing in it is to be filled in."""
    return not any(mark in text for _, text in texts_of(template, "") for mark in _MARKS)


def known(name: str, what: str, known: Iterable[str], path: str, findings: Findings) -> None:
    """A name that is not there is told, with the nearest."""
    names = sorted(known)
    if name not in names:
        listed = f"known {what}s: {', '.join(names)}" if names else f"this blueprint names no {what}s"
        findings.add(path, "unknown_name", f"unknown {what} {name!r}", did_you_mean(name, names) or listed)


def check_function(name: str, path: str, findings: Findings) -> None:
    if not _FUNCTION.fullmatch(name):
        findings.add(path, "bad_value", f"{name[:60]!r} names no function", "write package.module:function")

"""`# holdfast: ignore CODE, CODE` at a line's end, or alone above it: the author has seen that line's warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from blueprint.codes import CODES, WARNINGS
from blueprint.errors import Problem
from blueprint.expressions.error import did_you_mean
from blueprint.source import Comment, Source, comments

_MARK = re.compile(r"#\s*holdfast\s*:([^#]*)")
_IGNORE = re.compile(r"\s*ignore\s+(\w+(?:\s*,\s*\w+)*)\s*")
_WAY = "write # holdfast: ignore CODE, or several with commas between them"


@dataclass(frozen=True)
class _Ignored:
    """One code that a comment names, and the line that it means."""

    comment: Comment
    code: str
    line: int

    def silences(self, warning: Problem) -> bool:
        return (warning.code, warning.line) == (self.code, self.line)

    def problem(self) -> Problem:
        """Why it silences nothing."""
        if self.code in WARNINGS:
            told = f"line {self.line} has no {self.code}" if self.line else "nothing stands below this comment"
            return _told(self.comment, "unneeded_ignore", told, "remove it")
        if self.code in CODES:
            return _told(self.comment, "unneeded_ignore", f"{self.code} cannot be silenced", "correct what it tells")
        hint = did_you_mean(self.code, sorted(WARNINGS)) or f"warnings: {', '.join(WARNINGS)}"
        return _told(self.comment, "unknown_ignore", f"unknown warning {self.code!r}", hint)


def heeded(warnings: Sequence[Problem], source: Source) -> list[Problem]:
    """The warnings of a file that no comment in it silences, and those about comments that silence nothing."""
    if not _MARK.search(source.text):
        return list(warnings)
    found = [(comment, said[1]) for comment in comments(source) if (said := _MARK.search(comment.text))]
    unclear = [
        _told(comment, "unknown_ignore", f"what does {comment.text!r} mean?", _WAY)
        for comment, said in found
        if not _IGNORE.fullmatch(said)
    ]
    ignored = [one for comment, said in found for one in _ignored(comment, said)]
    kept = [warning for warning in warnings if not any(one.silences(warning) for one in ignored)]
    idle = [one.problem() for one in ignored if not any(one.silences(warning) for warning in warnings)]
    return [*kept, *unclear, *idle]


def _ignored(comment: Comment, said: str) -> Iterator[_Ignored]:
    named = _IGNORE.fullmatch(said)
    line = _next_line(comment) if comment.alone else comment.place.line
    for code in re.split(r"\s*,\s*", named[1]) if named else ():
        yield _Ignored(comment, code, line)


def _next_line(comment: Comment) -> int:
    """The line that a comment above it means: the next one that is neither blank nor a comment."""
    lines = comment.place.source.text.splitlines()
    below = range(comment.place.line, len(lines))
    return next((n + 1 for n in below if lines[n].strip() and not lines[n].lstrip().startswith("#")), 0)


def _told(comment: Comment, code: str, message: str, hint: str) -> Problem:
    return replace(comment.place.problem("", code, message, hint), severity="warning")

"""`# holdfast: ignore CODE, CODE` at a line's end, or alone above it: the author has seen that line's warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from holdfast.blueprint.codes import CODES, WARNINGS
from holdfast.blueprint.errors import Problem
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.source import Comment, Source, comments

_MARK = re.compile(r"#\s*holdfast\s*:([^#]*)")
_IGNORE = re.compile(r"\s*ignore\s+(\w+(?:\s*,\s*\w+)*)\s*")
_USAGE = "write # holdfast: ignore CODE, or several with commas between them"


@dataclass(frozen=True)
class _Suppression:
    """A code that a comment names, and the line that the comment is about."""

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

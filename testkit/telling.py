"""How a test went, for people and for programs."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from testkit.expecting import CONTAINS, NOTHING, Difference
from testkit.running import Verdict

WIDTH = 100
"""Characters up to which two values are shown one below the other, and not as a diff."""


def lines_of(verdict: Verdict) -> Iterator[str]:
    """A line for a test that passed; for one that did not, what was expected, what was there, and where."""
    yield f"  {'✓' if verdict.passed else '✗'} {verdict.case.name}  ({verdict.seconds:.1f} s)"
    for one in verdict.differences:
        yield from (f"      {line}" for line in difference_lines(one))


def difference_lines(one: Difference) -> Iterator[str]:
    place = f"{one.place.source.file}:{one.place.line}:{one.place.column}"
    yield f"{place} {one.path}" + (f": {one.note}" if one.note else "")
    if one.expected is NOTHING and one.was is NOTHING:
        return
    expected, was = _shown(one.expected), _shown(one.was)
    if "\n" in expected + was or len(expected + was) > 2 * WIDTH:
        yield from _diff(expected, was)
    else:
        yield f"  expected  {expected}"
        yield f"  was       {was}"


def _diff(expected: str, was: str) -> Iterator[str]:
    yield "  - expected, + was"
    for line in difflib.ndiff(expected.splitlines(), was.splitlines()):
        if not line.startswith("?"):
            yield f"  {line}"


def _shown(value: Any) -> str:
    """A text of one line as in Python, a longer one as it is, all else as JSON."""
    match value:
        case dict() if list(value) == [CONTAINS]:
            return f"something that contains {_shown(value[CONTAINS])}"
        case str():
            return value if "\n" in value else repr(value)
        case dict() | list():
            short = json.dumps(value, ensure_ascii=False)
            return short if len(short) <= WIDTH else json.dumps(value, ensure_ascii=False, indent=2)
        case None | bool():
            return json.dumps(value)
    return str(value)


def summary(verdicts: Sequence[Verdict], seconds: float) -> str:
    failed = sum(not one.passed for one in verdicts)
    counted = [f"{failed} failed"] if failed else []
    return f"{', '.join([*counted, f'{len(verdicts) - failed} passed'])} in {seconds:.1f} s"


def as_json(verdicts: Sequence[Verdict], seconds: float) -> dict[str, Any]:
    return {
        "ok": all(one.passed for one in verdicts),
        "passed": sum(one.passed for one in verdicts),
        "failed": sum(not one.passed for one in verdicts),
        "seconds": round(seconds, 3),
        "tests": [_test(one) for one in verdicts],
    }


def _test(verdict: Verdict) -> dict[str, Any]:
    return {
        "file": verdict.file.shown,
        "line": verdict.case.place.line,
        "name": verdict.case.name,
        "ok": verdict.passed,
        "seconds": round(verdict.seconds, 3),
        "differences": [_difference(one) for one in verdict.differences],
    }


def _difference(one: Difference) -> dict[str, Any]:
    """`expected` and `was` are left out where there is nothing to tell."""
    place = {"file": one.place.source.file, "line": one.place.line, "column": one.place.column, "path": one.path}
    values = {"expected": one.expected, "was": one.was}
    told = {"note": one.note} if one.note else {}
    return {**place, **{key: value for key, value in values.items() if value is not NOTHING}, **told}

"""Reports of results, as text for `holdfast test` and pytest, and as JSON."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence

from holdfast.blueprint.json_values import JSONObject
from holdfast.testkit.matching import CONTAINS, NOTHING, Difference
from holdfast.testkit.running import CaseResult

WIDTH = 100
"""The length up to which two values are printed below each other rather than as a diff."""


def write_lines(result: CaseResult) -> Iterator[str]:
    """Yield the lines of a result: its name, and its differences if it failed."""
    yield f"  {'✓' if result.passed else '✗'} {result.case.name}  ({result.seconds:.1f} s)"
    for difference in result.differences:
        yield from (f"      {line}" for line in difference_lines(difference))


def difference_lines(difference: Difference) -> Iterator[str]:
    place = f"{difference.place.source.file}:{difference.place.line}:{difference.place.column}"
    yield f"{place} {difference.path}" + (f": {difference.note}" if difference.note else "")
    if difference.expected is NOTHING and difference.was is NOTHING:
        return
    expected, was = _format_value(difference.expected), _format_value(difference.was)
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


def _format_value(value: object) -> str:
    """Return a text of one line as in Python, a longer one as it is, and everything else as JSON."""
    match value:
        case dict() if list(value) == [CONTAINS]:
            return f"something that contains {_format_value(value[CONTAINS])}"
        case str():
            return value if "\n" in value else repr(value)
        case dict() | list():
            short = json.dumps(value, ensure_ascii=False)
            return short if len(short) <= WIDTH else json.dumps(value, ensure_ascii=False, indent=2)
        case None | bool():
            return json.dumps(value)
    return str(value)


def summary(results: Sequence[CaseResult], seconds: float) -> str:
    failed = sum(not result.passed for result in results)
    counted = [f"{failed} failed"] if failed else []
    return f"{', '.join([*counted, f'{len(results) - failed} passed'])} in {seconds:.1f} s"


def as_json(results: Sequence[CaseResult], seconds: float) -> JSONObject:
    return {
        "ok": all(result.passed for result in results),
        "passed": sum(result.passed for result in results),
        "failed": sum(not result.passed for result in results),
        "seconds": round(seconds, 3),
        "tests": [_case_json(result) for result in results],
    }


def _case_json(result: CaseResult) -> JSONObject:
    return {
        "file": result.file.display_path,
        "line": result.case.place.line,
        "name": result.case.name,
        "ok": result.passed,
        "seconds": round(result.seconds, 3),
        "differences": [_difference_json(difference) for difference in result.differences],
    }


def _difference_json(difference: Difference) -> JSONObject:
    """Return a difference as JSON, without `expected` and `was` where they are `NOTHING`."""
    place = {
        "file": difference.place.source.file,
        "line": difference.place.line,
        "column": difference.place.column,
        "path": difference.path,
    }
    values = {"expected": difference.expected, "was": difference.was}
    note = {"note": difference.note} if difference.note else {}
    return {**place, **{key: value for key, value in values.items() if value is not NOTHING}, **note}

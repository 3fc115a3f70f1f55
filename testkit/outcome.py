"""What became of a run under test, and where that differs from what its test expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from blueprint.source import PlacedDict, PlacedList
from client.reading import name_of
from client.runs import Outcome
from protocol.questions import Question
from testkit.expecting import CONTAINS, NOTHING, At, Difference, differences
from testkit.files import Case
from testkit.names import is_pattern

Span = Mapping[str, Any]


@dataclass(frozen=True)
class Happened:
    """A run that has ended, or waits for a person."""

    outcome: Outcome
    questions: Sequence[Question]
    """Everything that was asked, in the order of asking."""
    open: Sequence[Question]
    context: dict[str, Any]
    trace: Span
    calls: Mapping[str, list[Any]]
    """What each tool was called with."""


def unmet(case: Case, happened: Happened) -> Iterator[Difference]:
    """Every difference; of a run that ended in another way than expected only that."""
    written = case.expect
    here = At(case.place, f"{case.path}.expect")
    if happened.outcome.status != case.status:
        at = here if written is None or "status" not in written else here.key(written, "status")
        yield at.differs(case.status, happened.outcome.status, _why(happened))
        return
    for key in written or ():
        assert written is not None
        yield from _unmet(key, written[key], here.key(written, key), happened)


def _unmet(key: str, expected: Any, at: At, happened: Happened) -> Iterator[Difference]:
    match key:
        case "output":
            yield from differences(expected, happened.outcome.output, at)
        case "context":
            for path in expected:
                yield from differences(expected[path], _at_path(happened.context, path), at.key(expected, path))
        case "error":
            yield from _facts(expected, _error(happened.outcome), at)
        case "questions":
            yield from _questions(expected, [_question(one) for one in happened.questions], at)
        case "trace":
            for name in expected:
                yield from _facts(expected[name], _span(name, happened.trace), at.key(expected, name))
        case "calls":
            for tool in expected:
                yield from differences(expected[tool], happened.calls.get(tool, []), at.key(expected, tool))


def _why(happened: Happened) -> str | None:
    error = happened.outcome.error
    if error is not None:
        place = f" at {error.address}" if error.address else ""
        return f"{error.type}: {error.message}{place}"
    if happened.open:
        asked = "; ".join(f"{name_of(one)} asks {one.message!r}" for one in happened.open)
        return f"it waits for a person, and no answer of the test fits: {asked}"
    return None


def _at_path(context: Any, path: str) -> Any:
    """
    >>> _at_path({"notes": [{"text": "hi"}]}, "notes.0.text"), _at_path({"a.b": 1}, "a.b"), _at_path({}, "a")
    ('hi', 1, nothing)
    """
    if isinstance(context, dict) and path in context:
        return context[path]
    key, _, rest = path.partition(".")
    match context:
        case dict() if key in context:
            found = context[key]
        case list() if key.isdecimal() and int(key) < len(context):
            found = context[int(key)]
        case _:
            return NOTHING
    return _at_path(found, rest) if rest else found


def _error(outcome: Outcome) -> dict[str, Any]:
    return {} if outcome.error is None else outcome.error.model_dump(mode="json")


def _facts(expected: PlacedDict, facts: Mapping[str, Any], at: At) -> Iterator[Difference]:
    """Of facts only those count that are written; an address may be a glob."""
    for key in expected:
        if key == "address" and isinstance(expected[key], str):
            if not fnmatchcase(str(facts.get(key)), expected[key]):
                yield at.key(expected, key).differs(expected[key], facts.get(key, NOTHING))
        else:
            yield from differences(expected[key], facts.get(key, NOTHING), at.key(expected, key))


# Questions


def _question(question: Question) -> dict[str, Any]:
    """A question as a test speaks of it; options are their ids."""
    facts = question.model_dump(mode="json")
    return {**facts, "step": name_of(question), "options": [option.id for option in question.options]}


def _questions(expected: Any, asked: list[dict[str, Any]], at: At) -> Iterator[Difference]:
    if isinstance(expected, PlacedDict):
        yield from _among(expected[CONTAINS], asked, at.key(expected, CONTAINS))
        return
    for index in range(max(len(expected), len(asked))):
        if index >= len(asked):
            yield at.item(expected, index).differs(expected[index], NOTHING, "this was not asked")
        elif index >= len(expected):
            yield at.differs(NOTHING, _told(asked[index]), "this was asked besides")
        else:
            yield from _asked(expected[index], asked[index], at.item(expected, index))


def _asked(expected: Any, asked: dict[str, Any], at: At) -> Iterator[Difference]:
    """A text, or what a text contains, is about the message."""
    if isinstance(expected, PlacedDict) and list(expected) != [CONTAINS]:
        yield from _facts(expected, asked, at)
    else:
        yield from differences(expected, asked["message"], at)


def _among(expected: PlacedList, asked: list[dict[str, Any]], at: At) -> Iterator[Difference]:
    for index, one in enumerate(expected):
        here = at.item(expected, index)
        if not any(next(_asked(one, question, here), None) is None for question in asked):
            yield here.differs(one, [_told(question) for question in asked], "this was not asked")


def _told(asked: dict[str, Any]) -> dict[str, Any]:
    return {key: asked[key] for key in ("step", "kind", "message")}


# The trace


def _span(name: str, trace: Span) -> dict[str, Any]:
    """How often a step or a tool ran, and how it went the last time."""
    key = "address" if is_pattern(name) else "name"
    found = [span for span in _inside(trace) if fnmatchcase(span[key], name)]
    ran = [span for span in found if span["status"] != "skipped"]
    if not found:
        return {"status": "not reached", "times": 0}
    last = found[-1]
    facts = {"status": last["status"], "times": len(ran), "output": last["output"]}
    if "branch" in last:
        facts["branch"] = last["branch"]
    for key in ("iterations", "items"):
        if key in last:
            facts[key] = len(last[key])
    if "exit" in last:
        facts["exit"] = last["exit"]["reason"]
    return facts


def _inside(span: Span) -> Iterator[Span]:
    repeated = [row["steps"] for row in (*span.get("iterations", []), *span.get("items", []))]
    for steps in [span.get("steps", []), *repeated, *span.get("branches", {}).values()]:
        for one in steps:
            yield one
            yield from _inside(one)

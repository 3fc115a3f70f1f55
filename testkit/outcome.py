"""The comparison of a finished run with the expectations of its test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.source import PlacedDict, PlacedList
from holdfast.blueprint.step_traits import find_traits
from holdfast.client.states import Outcome
from holdfast.client.texts import shown_raise
from holdfast.client.views import StepView
from holdfast.protocol.address import name_asker
from holdfast.protocol.questions import Question
from holdfast.testkit.files import Case
from holdfast.testkit.matching import CONTAINS, NOTHING, At, Difference, differences
from holdfast.testkit.names import is_pattern


@dataclass(frozen=True)
class ObservedRun:
    """A run that has ended, or waits for a person."""

    outcome: Outcome
    questions: Sequence[Question]
    """Every question, in the order of asking."""
    open: Sequence[Question]
    trace: StepView
    calls: Mapping[str, list[JSON]]
    """The arguments of each tool's calls."""


def unmet_expectations(case: Case, observed: ObservedRun) -> Iterator[Difference]:
    """Yield every difference; if the status differs, only that."""
    expect = case.expect
    expect_at = At(case.place, f"{case.path}.expect")
    if observed.outcome.status != case.status:
        at = expect_at if expect is None or "status" not in expect else expect_at.key(expect, "status")
        yield at.differs(case.status, observed.outcome.status, _status_note(observed))
        return
    for key in expect or ():
        assert expect is not None
        yield from _compare_section(key, expect[key], expect_at.key(expect, key), observed)


def _compare_section(key: str, expected: JSON, at: At, observed: ObservedRun) -> Iterator[Difference]:
    match key:
        case "output":
            yield from differences(expected, observed.outcome.output, at)
        case "context":
            for path in expected:
                yield from differences(expected[path], _at_path(observed.outcome.context, path), at.key(expected, path))
        case "error":
            yield from _facts(expected, _error(observed.outcome), at)
        case "questions":
            yield from _questions(expected, [_question(question) for question in observed.questions], at)
        case "trace":
            for name in expected:
                yield from _facts(expected[name], _span(name, observed.trace), at.key(expected, name))
        case "calls":
            for tool in expected:
                yield from differences(expected[tool], observed.calls.get(tool, []), at.key(expected, tool))


def _status_note(observed: ObservedRun) -> str | None:
    error = observed.outcome.error
    if error is not None:
        place = f" at {error.address}" if error.address else ""
        raised = f"; raised at {shown_raise(error.raised_at)}" if error.raised_at else ""
        return f"{error.type}: {error.message}{place}{raised}"
    if observed.open:
        asked = "; ".join(f"{name_asker(question.address)} asks {question.message!r}" for question in observed.open)
        return f"it waits for a person, and no answer of the test fits: {asked}"
    return None


def _at_path(context: JSON, path: str) -> JSON:
    """Return the value at a dotted path; `NOTHING` if there is none.

    >>> _at_path({"notes": [{"text": "hi"}]}, "notes.0.text"), _at_path({"a.b": 1}, "a.b"), _at_path({}, "a")
    ('hi', 1, nothing)
    """
    if isinstance(context, dict) and path in context:
        return context[path]
    key, _, rest = path.partition(".")
    match context:
        case dict() if key in context:
            value = context[key]
        case list() if key.isdecimal() and int(key) < len(context):
            value = context[int(key)]
        case _:
            return NOTHING
    return _at_path(value, rest) if rest else value


def _error(outcome: Outcome) -> JSONObject:
    return {} if outcome.error is None else outcome.error.model_dump(mode="json")


def _facts(expected: PlacedDict, facts: Mapping[str, JSON], at: At) -> Iterator[Difference]:
    """Compare only the facts that are expected; an expected address may be a glob."""
    for key in expected:
        if key == "address" and isinstance(expected[key], str):
            if not fnmatchcase(str(facts.get(key)), expected[key]):
                yield at.key(expected, key).differs(expected[key], facts.get(key, NOTHING))
        else:
            yield from differences(expected[key], facts.get(key, NOTHING), at.key(expected, key))


# Questions


def _question(question: Question) -> JSONObject:
    """Return a question with the names tests use; options are their ids."""
    facts = question.model_dump(mode="json")
    return {**facts, "step": name_asker(question.address), "options": [option.id for option in question.options]}


def _questions(expected: JSON, asked: list[JSONObject], at: At) -> Iterator[Difference]:
    if isinstance(expected, PlacedDict):
        yield from _find_questions(expected[CONTAINS], asked, at.key(expected, CONTAINS))
        return
    for index in range(max(len(expected), len(asked))):
        if index >= len(asked):
            yield at.item(expected, index).differs(expected[index], NOTHING, "this was not asked")
        elif index >= len(expected):
            yield at.differs(NOTHING, _summary(asked[index]), "this question was not expected")
        else:
            yield from _compare_question(expected[index], asked[index], at.item(expected, index))


def _compare_question(expected: JSON, asked: JSONObject, at: At) -> Iterator[Difference]:
    """Compare one question; an expected text, or `contains` alone, applies to its message."""
    if isinstance(expected, PlacedDict) and list(expected) != [CONTAINS]:
        yield from _facts(expected, asked, at)
    else:
        yield from differences(expected, asked["message"], at)


def _find_questions(expected: PlacedList, asked: list[JSONObject], at: At) -> Iterator[Difference]:
    for index, wanted in enumerate(expected):
        wanted_at = at.item(expected, index)
        if not any(next(_compare_question(wanted, question, wanted_at), None) is None for question in asked):
            yield wanted_at.differs(wanted, [_summary(question) for question in asked], "this was not asked")


def _summary(asked: JSONObject) -> JSONObject:
    return {key: asked[key] for key in ("step", "kind", "message")}


# The trace


def _span(name: str, trace: StepView) -> JSONObject:
    """Return the facts about a step or tool: how often it ran, and how its last run went."""
    matches = [step for step in trace.below() if fnmatchcase(step.address if is_pattern(name) else step.name, name)]
    ran = [step for step in matches if step.mark != "skipped"]
    if not matches:
        return {"status": "not reached", "times": 0}
    last = matches[-1]
    facts: JSONObject = {"status": last.status, "times": len(ran), "output": last.output}
    if last.branch is not None:
        facts["branch"] = last.branch
    if find_traits(last.kind).iterates:
        facts["iterations"] = len(last.iterations)
    if items := last.map_items:
        facts["items"] = len(items)
    if last.exit is not None:
        facts["exit"] = last.exit.reason
    return facts

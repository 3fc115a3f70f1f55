"""The comparison of a finished run with the expectations of its test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from holdfast.blueprint.durations import read_duration, say_duration
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.source import PlacedDict
from holdfast.blueprint.step_traits import find_traits
from holdfast.client.states import Outcome
from holdfast.client.texts import shown_raise
from holdfast.client.views import StepView
from holdfast.protocol.address import name_asker
from holdfast.protocol.events import Event, QuestionAsked, QuestionEvent
from holdfast.protocol.questions import Question
from holdfast.testkit.expectations import DURATION_KEYS, HISTORY_TYPES
from holdfast.testkit.files import Case
from holdfast.testkit.matching import CONTAINS, NOTHING, At, Difference, differences, each_part
from holdfast.testkit.names import is_pattern

_MOMENT = 60.0
"""Seconds by which something may come after its time: beside being moved, the clock of a test runs."""


@dataclass(frozen=True)
class ObservedRun:
    """A run that has ended, or waits for a person."""

    outcome: Outcome
    asked: Sequence[Question]
    """Every question and every event that was waited for, as it was at first, in the order of asking."""
    open: Sequence[Question]
    trace: StepView
    calls: Mapping[str, list[JSON]]
    """The arguments of each tool's calls."""
    events: Sequence[Event]
    """What happened."""


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
            asked = [_describe_question(question, observed) for question in observed.asked if question.asked.for_people]
            yield from _compare_list(expected, asked, at, _LISTS[key])
        case "events":
            asked = [_describe_event(event, observed) for event in observed.asked if not event.asked.for_people]
            yield from _compare_list(expected, asked, at, _LISTS[key])
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
    """Compare only the facts that are expected."""
    for key in expected:
        yield from _compare_fact(key, expected[key], facts.get(key, NOTHING), at.key(expected, key))


def _compare_fact(key: str, expected: JSON, was: JSON, at: At) -> Iterator[Difference]:
    """Compare one fact; an expected address may be a glob, and a list may say of its items only what matters."""
    if key == "address" and isinstance(expected, str):
        if not fnmatchcase(str(was), expected):
            yield at.differs(expected, was)
    elif key in _LISTS and isinstance(was, list):
        yield from _compare_list(expected, was, at, _LISTS[key])
    elif key in DURATION_KEYS and isinstance(was, float):
        yield from _compare_duration(expected, was, at, _MOMENT if key == "after" else 0)
    else:
        yield from differences(expected, was, at)


def _compare_duration(expected: JSON, was: float, at: At, tolerance: float) -> Iterator[Difference]:
    """Compare a duration with seconds, which may be more by the tolerance."""
    if expected is None or not 0 <= was - read_duration(expected) <= tolerance:
        yield at.differs(expected, say_duration(int(was) if tolerance else was))


# Questions, and what happened to them


@dataclass(frozen=True)
class _ListForm:
    """How a list is compared: what an item is told by, and what is said of one too many and one too few."""

    shown: Sequence[str]
    """The keys of an item that are shown; an expected text is the value of the first."""
    unexpected: str
    missing: str


_LISTS = {
    "questions": _ListForm(("message", "step", "kind"), "this question was not expected", "this was not asked"),
    "events": _ListForm(("name", "step", "key"), "this event was not expected", "this was not waited for"),
    "options": _ListForm(("id",), "this option was not expected", "this was not offered"),
    "history": _ListForm(("type", "after", "by"), "this was not expected", "this did not happen"),
}


def _compare_list(expected: JSON, items: list[JSONObject], at: At, form: _ListForm) -> Iterator[Difference]:
    """Compare all items in their order, or with `contains` find some."""
    if isinstance(expected, PlacedDict) and list(expected) == [CONTAINS]:
        yield from _find_items(expected[CONTAINS], items, at.key(expected, CONTAINS), form)
        return
    for index in range(max(len(expected), len(items))):
        if index >= len(items):
            yield at.item(expected, index).differs(expected[index], NOTHING, form.missing)
        elif index >= len(expected):
            yield at.differs(NOTHING, _summarize(items[index], form), form.unexpected)
        else:
            yield from _compare_item(expected[index], items[index], at.item(expected, index), form)


def _compare_item(expected: JSON, item: JSONObject, at: At, form: _ListForm) -> Iterator[Difference]:
    if isinstance(expected, PlacedDict) and list(expected) != [CONTAINS]:
        yield from _facts(expected, item, at)
    else:
        yield from differences(expected, item[form.shown[0]], at)


def _find_items(wanted: JSON, items: list[JSONObject], at: At, form: _ListForm) -> Iterator[Difference]:
    for part, part_at in each_part(wanted, at):
        if not any(next(_compare_item(part, item, part_at, form), None) is None for item in items):
            yield part_at.differs(part, [_summarize(item, form) for item in items], form.missing)


def _summarize(item: JSONObject, form: _ListForm) -> JSONObject:
    shown = {key: item[key] for key in form.shown if item.get(key) is not None}
    return shown | {key: say_duration(int(shown[key])) for key in shown.keys() & DURATION_KEYS}


def _describe_question(question: Question, observed: ObservedRun) -> JSONObject:
    """Return a question with the names tests use."""
    return {
        **question.model_dump(mode="json"),
        "step": name_asker(question.address),
        "risk": question.asked.risk,
        "timeout": _measure(question.asked_at, question.deadline),
        "remind_every": _measure(question.asked_at, question.reminds_at),
        "history": list(_describe_history(question, observed)),
    }


def _measure(start: datetime, end: datetime | None) -> float | None:
    """Return the seconds between two moments; None if there is no end."""
    return None if end is None else (end - start).total_seconds()


def _describe_event(event: Question, observed: ObservedRun) -> JSONObject:
    """Return an event that was waited for, with the names tests use."""
    return {**_describe_question(event, observed), "name": event.info["name"], "key": event.info["key"]}


def _describe_history(question: Question, observed: ObservedRun) -> Iterator[JSONObject]:
    """Yield what happened to a question, from its asking on."""
    for event in observed.events:
        data = event.data
        if isinstance(data, QuestionEvent) and data.id == question.id and not isinstance(data, QuestionAsked):
            yield {
                **data.to_json(),
                "type": HISTORY_TYPES[type(data)],
                "after": _measure(question.asked_at, event.time),
            }


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

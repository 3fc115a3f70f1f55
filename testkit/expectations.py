"""What a test may expect of a run: its keys, and the problems of what is written there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from holdfast.blueprint.durations import read_duration
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.parts import Option
from holdfast.blueprint.source import PlacedDict, PlacedList
from holdfast.protocol.events import EVENT_TYPES, QuestionAsked, QuestionEvent
from holdfast.testkit.matching import CONTAINS, At, each_part
from holdfast.testkit.names import is_pattern
from holdfast.testkit.problems import ProblemCollector

EXPECT_KEYS = ("status", "output", "context", "questions", "events", "trace", "calls", "error")
QUESTION_KEYS = (
    *("step", "address", "kind", "message", "options", "default", "info", "risk", "iteration", "assignees"),
    *("not_by", "quorum", "proof", "notify", "timeout", "remind_every", "history"),
)
EVENT_KEYS = ("step", "address", "name", "key", "iteration", "timeout", "history")
"""Keys of an event that a step waits for."""
HISTORY_KEYS = ("type", "after", "by", "content", "comment", "assignees", "reason")
"""Keys of what happened to a question or an event."""
SPAN_KEYS = ("status", "times", "iterations", "items", "exit", "branch", "output")
ERROR_KEYS = ("type", "message", "address", "reason")
STATUSES = ("completed", "failed", "cancelled", "waiting")
HISTORY_TYPES = {
    event: name.removeprefix("question.")
    for name, event in EVENT_TYPES.items()
    if issubclass(event, QuestionEvent) and event is not QuestionAsked
}
"""What can happen to a question, by the events that tell of it."""
DURATION_KEYS = ("timeout", "remind_every", "after")


def check_expectations(expect: PlacedDict, path: str, problems: ProblemCollector) -> None:
    """Add the problems of what a test expects."""
    problems.reject_unknown_keys(expect, EXPECT_KEYS, path)
    status = problems.read_value(expect, "status", str, f"one of {', '.join(STATUSES)}", path)
    if status is not None and status not in STATUSES:
        hint = did_you_mean(status, STATUSES) or f"one of {', '.join(STATUSES)}"
        problems.add(expect.value_place("status"), f"{path}.status", "bad_value", f"unknown status {status!r}", hint)
    problems.read_value(expect, "context", PlacedDict, "an object {<path>: <value>}", path)
    error = problems.read_value(expect, "error", PlacedDict, f"an object with {', '.join(ERROR_KEYS)}", path)
    if error is not None:
        problems.reject_unknown_keys(error, ERROR_KEYS, f"{path}.error")
    _check_list(expect, "questions", path, problems, partial(_check_question, QUESTION_KEYS))
    _check_list(expect, "events", path, problems, partial(_check_question, EVENT_KEYS))
    _check_spans(expect, f"{path}.trace", path, problems)
    calls = problems.read_value(expect, "calls", PlacedDict, "an object {<tool>: [what it was called with]}", path)
    for name in calls or ():
        problems.require_declared_tool(name, calls, f"{path}.calls")


_Check = Callable[[PlacedDict, str, ProblemCollector], None]


def _check_list(holder: PlacedDict, key: str, path: str, problems: ProblemCollector, check: _Check) -> None:
    """Check a list whose items are texts, or objects that `check` looks at."""
    if key not in holder:
        return
    items, at = holder[key], At(holder.value_place(key), f"{path}.{key}")
    if isinstance(items, PlacedDict) and list(items) == [CONTAINS]:
        items, at = items[CONTAINS], at.key(items, CONTAINS)
    elif not isinstance(items, PlacedList):
        message = f"{key!r} must be a list of texts, or of objects; or {{contains: such a list}}"
        problems.add(at.place, at.path, "bad_value", message)
        return
    for item, item_at in each_part(items, at):
        if isinstance(item, PlacedDict) and list(item) != [CONTAINS]:
            check(item, item_at.path, problems)
        elif key == "history":
            _check_type(item, item_at, problems)


def _check_question(keys: tuple[str, ...], question: PlacedDict, path: str, problems: ProblemCollector) -> None:
    problems.reject_unknown_keys(question, keys, path)
    check_durations(question, path, problems)
    _check_list(question, "options", path, problems, _check_option)
    _check_list(question, "history", path, problems, _check_happening)


def _check_option(option: PlacedDict, path: str, problems: ProblemCollector) -> None:
    problems.reject_unknown_keys(option, Option.model_fields, path)


def _check_happening(happening: PlacedDict, path: str, problems: ProblemCollector) -> None:
    problems.reject_unknown_keys(happening, HISTORY_KEYS, path)
    check_durations(happening, path, problems)
    if "type" in happening:
        _check_type(happening["type"], At(happening.value_place("type"), f"{path}.type"), problems)


def _check_type(type_: object, at: At, problems: ProblemCollector) -> None:
    if type_ not in HISTORY_TYPES.values():
        hint = did_you_mean(str(type_), HISTORY_TYPES.values()) or f"one of {', '.join(HISTORY_TYPES.values())}"
        problems.add(at.place, at.path, "bad_value", f"a question has no {type_!r} in its history", hint)


def check_durations(holder: PlacedDict, path: str, problems: ProblemCollector) -> None:
    """Add the problems of the values that are durations; null is none."""
    for key in DURATION_KEYS:
        if holder.get(key) is not None:
            try:
                read_duration(holder[key])
            except ValueError as error:
                problems.add(holder.value_place(key), f"{path}.{key}", "bad_value", str(error))


def _check_spans(holder: PlacedDict, path: str, above: str, problems: ProblemCollector) -> None:
    spans = problems.read_value(holder, "trace", PlacedDict, "an object {<step>: {status, times, …}}", above)
    for name in spans or ():
        if not is_pattern(name):
            declared = {*problems.names.steps, *problems.names.called}
            problems.require_declared(name, declared, "step or tool", spans.key_place(name), path)
        span = problems.read_value(spans, name, PlacedDict, f"an object with {', '.join(SPAN_KEYS)}", path)
        if span is not None:
            problems.reject_unknown_keys(span, SPAN_KEYS, f"{path}.{name}")

"""What a test may expect of a run: its keys, and the problems of what is written there."""

from __future__ import annotations

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.source import PlacedDict, PlacedList
from holdfast.testkit.matching import CONTAINS
from holdfast.testkit.names import is_pattern
from holdfast.testkit.problems import ProblemCollector

EXPECT_KEYS = ("status", "output", "context", "questions", "trace", "calls", "error")
QUESTION_KEYS = ("step", "address", "kind", "message", "options", "default", "info", "iteration", "assignees", "quorum")
SPAN_KEYS = ("status", "times", "iterations", "items", "exit", "branch", "output")
ERROR_KEYS = ("type", "message", "address", "reason")
STATUSES = ("completed", "failed", "cancelled", "waiting")


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
    _check_questions(expect, path, problems)
    _check_spans(expect, f"{path}.trace", path, problems)
    calls = problems.read_value(expect, "calls", PlacedDict, "an object {<tool>: [what it was called with]}", path)
    for name in calls or ():
        problems.require_declared_tool(name, calls, f"{path}.calls")


def _check_questions(holder: PlacedDict, path: str, problems: ProblemCollector) -> None:
    questions = holder.get("questions")
    if isinstance(questions, PlacedDict) and list(questions) == [CONTAINS]:
        questions = questions[CONTAINS]
    if "questions" in holder and not isinstance(questions, PlacedList):
        message = "'questions' must be a list of messages, or of objects; or {contains: such a list}"
        problems.add(holder.value_place("questions"), f"{path}.questions", "bad_value", message)
    for index, question in enumerate(questions if isinstance(questions, PlacedList) else ()):
        if isinstance(question, PlacedDict) and list(question) != [CONTAINS]:
            problems.reject_unknown_keys(question, QUESTION_KEYS, f"{path}.questions[{index}]")


def _check_spans(holder: PlacedDict, path: str, above: str, problems: ProblemCollector) -> None:
    spans = problems.read_value(holder, "trace", PlacedDict, "an object {<step>: {status, times, …}}", above)
    for name in spans or ():
        if not is_pattern(name):
            declared = {*problems.names.steps, *problems.names.called}
            problems.require_declared(name, declared, "step or tool", spans.key_place(name), path)
        span = problems.read_value(spans, name, PlacedDict, f"an object with {', '.join(SPAN_KEYS)}", path)
        if span is not None:
            problems.reject_unknown_keys(span, SPAN_KEYS, f"{path}.{name}")

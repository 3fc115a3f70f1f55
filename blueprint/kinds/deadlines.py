"""The deadline of a blueprint, a loop or a block: its two keys, their checks and their words."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from holdfast.blueprint.durations import read_duration, say_duration
from holdfast.blueprint.findings import Findings, is_literal
from holdfast.blueprint.kinds.description import Ask
from holdfast.blueprint.kinds.template_values import DURATION_SCHEMA, TemplateForm
from holdfast.blueprint.moments import read_moment
from holdfast.blueprint.parts import Template
from holdfast.blueprint.words.text import Vocabulary, say_template

Deadline = Annotated[
    Template,
    Field(
        description="When it must have ended: a duration from its beginning, a time with its offset, or a template of "
        "one. It is a time of the world: waiting for people counts.",
        examples=["3d", "2026-12-01T09:00:00Z", "{{ input.due }}"],
    ),
]
OnDeadline = Annotated[
    Literal["fail", "finish", "ask"],
    Field(
        description="At the deadline: fail, finish with null, or ask a person for as much time again. What is under "
        "way is cancelled, once nobody gives more time.",
    ),
]
CHOICES = {"more": "Give it as much time again", "finish": "End it without a result", "fail": "Let it fail"}
"""What a person may decide at the deadline."""


def check_deadline(deadline: object, on_deadline: str, path: str, findings: Findings) -> None:
    """Report a constant that is no time, and `on_deadline` without a deadline; `path` ends in a dot, or is empty."""
    if deadline is None:
        if on_deadline != "fail" and not findings.is_unread(f"{path}deadline"):
            message = "'on_deadline' without a deadline is never used"
            findings.add_key(f"{path}on_deadline", "conflict", message, "add deadline: 3d")
        return
    if is_literal(deadline):
        try:
            read_deadline(deadline)
        except ValueError:
            message = f"{deadline!r} is neither a duration nor a time"
            hint = "write it like 3d or 1h30m, or like 2026-12-01T09:00:00Z"
            findings.add(f"{path}deadline", "bad_value", message, hint)


def read_deadline(value: object) -> float | datetime:
    """Return a duration in seconds, or a time. Raises `ValueError` for a value that is neither."""
    try:
        return read_duration(value)
    except ValueError:
        return read_moment(value)


DEADLINE = TemplateForm(DURATION_SCHEMA, read_deadline)


def deadline_null_cause(name: str, on_deadline: str) -> str | None:
    """Return why a step's output may be null at its deadline; None if it fails there, or asks."""
    return f"{name} has no output if its deadline passes (on_deadline: finish)" if on_deadline == "finish" else None


def deadline_sentence(deadline: object, on_deadline: str, names: Vocabulary) -> str:
    """Return the sentence about a deadline; "" without one."""
    if deadline is None:
        return ""
    then = {"fail": "it fails", "finish": "it ends without a result", "ask": "a person is asked for more time"}
    return f" If it has not ended {_describe(deadline, names)}, {then[on_deadline]}."


def _describe(deadline: object, names: Vocabulary) -> str:
    if not is_literal(deadline):
        return f"by {say_template(deadline, names)}"
    try:
        return f"within {say_duration(read_duration(deadline))}"
    except ValueError:
        return f"by {deadline}"


def deadline_asks(name: str, deadline: object, on_deadline: str) -> tuple[Ask, ...]:
    """Return the question for more time, if it is asked."""
    if deadline is None or on_deadline != "ask":
        return ()
    return (Ask("decision", f"{name} has not ended by its deadline. Give it more time?", tuple(CHOICES)),)

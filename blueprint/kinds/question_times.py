"""The rules about the times of a question: reminders, escalation, deadline. For the checks, and for steps that ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SHORTEST_REMINDER = 15 * 60
"""Seconds."""


@dataclass(frozen=True)
class QuestionTimes:
    """The times of a question in seconds after it is asked; None for one that is not given, or not known yet."""

    timeout: float | None = None
    remind_every: float | None = None
    rungs: Sequence[float | None] = ()

    @property
    def ends(self) -> bool:
        """True if the deadline ends the question: with an escalation, one that is later than its last step."""
        last = self.rungs[-1] if self.rungs else None
        return self.timeout is not None and (last is None or self.timeout > last)


@dataclass(frozen=True)
class TimeProblem:
    """What is wrong with the times of a question."""

    key: str
    """The path in the step: `remind_every`, `timeout`, `default` or `escalate[0].after`."""
    message: str
    hint: str


def find_time_problems(times: QuestionTimes, *, has_default: bool) -> Iterator[TimeProblem]:
    """Yield what cannot be meant, as far as the times are known."""
    every = times.remind_every
    if every is not None and every < SHORTEST_REMINDER:
        message = f"reminders must be at least 15m apart, not {every:g}s"
        yield TimeProblem("remind_every", message, "write remind_every: 15m, or more")
    for index, (before, after) in enumerate(zip(times.rungs, times.rungs[1:], strict=False), 1):
        if before is not None and after is not None and after <= before:
            message = (
                f"each step of the escalation must come after the one before: {after:g}s is not later than {before:g}s"
            )
            hint = "`after` counts from the start of the question"
            yield TimeProblem(f"escalate[{index}].after", message, hint)
    if times.rungs and times.timeout is not None and not times.ends:
        yield from _find_early_timeout(times, times.timeout, has_default=has_default)


def _find_early_timeout(times: QuestionTimes, timeout: float, *, has_default: bool) -> Iterator[TimeProblem]:
    """Yield what is wrong with a timeout that is not later than the last step: it may only begin the escalation."""
    if times.rungs[0] is not None and timeout != times.rungs[0]:
        message = "the timeout ends the escalation: it must be later than its last step"
        hint = "make it later, or leave it out: then the last ones are waited for as long as it takes"
        yield TimeProblem("timeout", message, hint)
    elif has_default:
        message = "with an escalation a default needs a timeout that is later than its last step"
        yield TimeProblem("default", message, "add timeout: 7d, or remove the default")

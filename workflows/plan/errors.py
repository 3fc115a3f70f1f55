"""What is done about a tool's error: the table of a plan, counted for each execution of a step."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from holdfast.protocol.plans import StepResult
from holdfast.protocol.tool_errors import ErrorKind

RETRIES: dict[ErrorKind, int] = {
    "authorisation": 1,
    "tool_missing": 1,
    "bad_parameters": 2,
    "timeout": 0,
    "business": 1,
}
MOST_RETRIES = 2
"""Of all kinds together, a step and item."""


@dataclass
class Tally:
    """How often a step was tried again."""

    counts: Counter[str] = field(default_factory=Counter)

    def may_retry(self, kind: ErrorKind) -> bool:
        """Whether one more try is left; it is counted."""
        if self.counts[kind] >= RETRIES[kind] or self.counts.total() >= MOST_RETRIES:
            return False
        self.counts[kind] += 1
        return True


def failed(kind: str, message: str, **more: Any) -> StepResult:
    if kind == "cancelled":
        return StepResult(status="cancelled", reason="cancelled")
    return StepResult(status="failed", error={"type": kind, "message": message}, **more)


def given_up(kind: ErrorKind, message: str, *, optional: bool) -> StepResult:
    """What becomes of a step whose tool fails for good: what timed out, and need not be, is skipped."""
    if kind == "timeout" and optional:
        return StepResult(status="skipped", reason="timeout", error={"type": kind, "message": message})
    return failed(kind, message)

"""What templates of a question give: its times, its quorum, its risk. A value that makes no sense fails the step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from holdfast.blueprint.durations import read_duration
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Step
from holdfast.blueprint.kinds.hitl_fields import HitlFields
from holdfast.blueprint.kinds.question_times import QuestionTimes, find_time_problems
from holdfast.blueprint.kinds.template_values import read_quorum, read_risk
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame

_Read = TypeVar("_Read")
_CODES = {
    "timeout": "bad_timeout",
    "default": "bad_timeout",
    "remind_every": "bad_reminder",
    "quorum": "bad_quorum",
    "risk": "bad_risk",
}


def render_duration(key: str, template: float | str | None, step: Step, frame: Frame) -> float | None:
    """Return a duration in seconds, None if none is written. Raises a failure for a value that is none."""
    return None if template is None else _render(key, template, read_duration, step, frame)


def render_rungs(step: HitlFields, frame: Frame) -> list[float]:
    """Return when each step of the escalation comes, in seconds after asking."""
    rungs = enumerate(step.escalate)
    return [_render(f"escalate[{index}].after", rung.after, read_duration, step, frame) for index, rung in rungs]


def render_times(step: HitlFields, rungs: Sequence[float], frame: Frame) -> QuestionTimes:
    """Return the times of a question. Raises a failure for what is no duration, and for times that cannot be meant."""
    timeout = render_duration("timeout", step.timeout, step, frame)
    every = render_duration("remind_every", step.remind_every, step, frame)
    times = QuestionTimes(timeout, every, rungs)
    for problem in find_time_problems(times, has_default=step.default is not None):
        message = f"{problem.key} of {step.name}: {problem.message} ({problem.hint})"
        raise failure(_choose_code(problem.key), message, frame.address)
    return times


def render_quorum(step: HitlFields, frame: Frame) -> int:
    """Return how many people must accept. Raises a failure for what is no such number."""
    return _render("quorum", step.quorum, read_quorum, step, frame)


def render_risk(step: HitlFields, frame: Frame) -> JSON:
    """Return the risk, None if none is written. Raises a failure for what is none."""
    return None if step.risk is None else _render("risk", step.risk, read_risk, step, frame)


def _render(key: str, template: object, read: Callable[[object], _Read], step: Step, frame: Frame) -> _Read:
    value = frame.render(template)
    try:
        if value is None:
            raise ValueError("it is null; write default(…) for where there is none")
        return read(value)
    except ValueError as error:
        shown = f", {template}" if isinstance(template, str) else ""
        raise failure(_choose_code(key), f"{key} of {step.name}{shown}: {error}", frame.address) from None


def _choose_code(key: str) -> str:
    return _CODES.get(key, "bad_escalation")

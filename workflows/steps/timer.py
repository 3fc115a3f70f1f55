"""The `timer` kind: wait for a while, or until a time; the output is the input."""

from __future__ import annotations

from datetime import datetime, timedelta

from temporalio import workflow

from holdfast.blueprint.durations import read_duration
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Timer
from holdfast.blueprint.moments import read_moment
from holdfast.protocol.events import TimerStarted
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame


async def run_timer(step: Timer, frame: Frame) -> JSON:
    value = frame.read_input(step)
    moment = _end(step, frame.after(value))
    frame.note(TimerStarted(until=moment))
    await frame.host.wait_until(frame.address, moment, frame.summary(f"{step.name}: until {moment.isoformat()}"))
    return value


def _end(step: Timer, frame: Frame) -> datetime:
    """Return the moment at which the timer is over. It is absolute: no crash and no pause makes the wait longer."""
    try:
        if step.until is not None:
            return read_moment(frame.render(step.until))
        return workflow.now() + timedelta(seconds=read_duration(frame.render(step.length)))
    except ValueError as error:
        key = "for" if step.until is None else "until"
        raise failure("bad_time", f"'{key}' of {step.name}: {error}", frame.address) from None

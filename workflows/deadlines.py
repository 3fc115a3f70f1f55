"""The deadline of a run, a loop or a block: a time of the world, kept while people are waited for and in a pause."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, Literal

from temporalio import workflow

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds.deadlines import CHOICES, read_deadline
from holdfast.blueprint.questions import Extension
from holdfast.protocol.events import DeadlinePassed
from holdfast.workflows.concurrency import end
from holdfast.workflows.failures import HANDLED, failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.rest import await_rest

OnDeadline = Literal["fail", "finish", "ask"]
FINISHED = object()
"""The result of work that a deadline has ended without a failure."""


async def run_until_deadline(
    work: Coroutine[Any, Any, Any], deadline: object, on_deadline: OnDeadline, frame: Frame, name: str
) -> Any:
    """Return the result of the work, or `FINISHED`. Raises a failure at the deadline.

    Args:
        work: What must have ended; at the deadline it is cancelled, and its end is waited for.
        deadline: A template of a duration or a time; None: there is no deadline.
        on_deadline: What happens then.
        frame: The frame of the block, the loop or the run.
        name: What people read of it.
    """
    if deadline is None:
        return await work
    try:
        length, moment = _read_deadline(frame.render(deadline), frame, name)
    except HANDLED:
        work.close()
        raise
    task = asyncio.create_task(work)
    try:
        if frame.host.was_done(frame.address):  # the earlier run went on without the rest of the work
            await await_rest(whole_task=True)
            return await _break_off(task, moment, "finish", frame, name)
        while not await _ends_by(task, moment, frame):
            verdict = await _decide(task, on_deadline, frame, name)
            if verdict is None:
                break
            if verdict != "more":
                return await _break_off(task, moment, verdict, frame, name)
            moment = workflow.now() + length
    except (asyncio.CancelledError, *HANDLED):
        await end([task])
        raise
    return task.result()


def _read_deadline(value: JSON, frame: Frame, name: str) -> tuple[timedelta, datetime]:
    """Return how long there is from now, and until when. One that has passed already ends the work at once."""
    now = workflow.now()
    try:
        read = read_deadline(value)
    except ValueError:
        message = f"the deadline of {name} is neither a duration nor a time: {value!r}"
        raise failure("bad_time", message, frame.address) from None
    if isinstance(read, datetime):
        return max(read - now, timedelta(hours=1)), read
    length = timedelta(seconds=read)
    return length, now + length


async def _ends_by(task: asyncio.Task[Any], moment: datetime, frame: Frame) -> bool:
    """Return whether the task has ended by then; what comes with the timer in one task came in time."""
    with frame.host.show_deadline(moment):
        while not task.done():
            remaining = (moment - workflow.now()).total_seconds()
            if remaining <= 0:
                return False
            await workflow.wait([task], timeout=remaining)
            if not task.done():
                await await_rest(whole_task=True)
    return True


async def _decide(task: asyncio.Task[Any], on_deadline: OnDeadline, frame: Frame, name: str) -> str | None:
    """Return what happens at the deadline: more, finish or fail; None if the work ends while a person is asked."""
    if on_deadline != "ask":
        return on_deadline
    message = f"{name} has not ended by its deadline. Give it more time?"
    options = [{"id": choice, "label": label} for choice, label in CHOICES.items()]
    asked = Extension.model_validate({"message": message, "options": options})
    question = asyncio.create_task(frame.at("hitl", "deadline").ask(asked))
    try:
        await workflow.wait([task, question], return_when=asyncio.FIRST_COMPLETED)
        await await_rest(whole_task=False)
    finally:
        if not question.done():
            with frame.host.superseding.supersede([frame.at("hitl", "deadline").address]):
                await end([question])
    if task.done():
        return None
    content = question.result().content
    return content if content in CHOICES else "fail"


async def _break_off(task: asyncio.Task[Any], moment: datetime, verdict: str, frame: Frame, name: str) -> object:
    """Cancel what is under way; return `FINISHED`, or raise the failure."""
    await end([task])
    frame.note(DeadlinePassed(until=moment))
    if verdict == "finish":
        frame.host.mark_done(frame.address)
        return FINISHED
    at = moment.isoformat(timespec="seconds")
    raise failure("deadline_passed", f"{name} had not ended by its deadline, {at}", frame.address)

"""One tool call to its end, through interrupts, and through a person's report if nobody knows how it ended."""

from __future__ import annotations

import asyncio

from temporalio.exceptions import ActivityError

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.parts import Retry
from holdfast.blueprint.questions import LostCall
from holdfast.protocol.agents import Completed, Interrupted, ToolOutcome, ToolRequest
from holdfast.protocol.events import ModelUsed, StepRetrying, ToolCalled, ToolDenied, ToolFailed, ToolReturned
from holdfast.protocol.tool_errors import OUTCOME_UNKNOWN
from holdfast.protocol.usage import Usage
from holdfast.workflows.concurrency import CancelledInCall, is_cancelled, is_outcome_unknown
from holdfast.workflows.failures import HANDLED, failure, find_failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.interrupts import AnsweredResult, Interrupts

CALL_AGAIN = "call_again"
"""Type of the error of a call that an agent's library wants made again, otherwise, as by its `ModelRetry`."""
CUT_OFF = "it was cancelled in the middle of the call: it is unknown whether it took effect"


async def call_tool(
    request: ToolRequest, frame: Frame, label: str, *, timeout: float | None = None, retry: Retry | None = None
) -> JSON:
    """Call a tool and return its result. A tool that was interrupted runs again with the answers."""
    return (await complete_tool(request, frame, label, timeout=timeout, retry=retry)).result


async def complete_tool(
    request: ToolRequest, frame: Frame, label: str, *, timeout: float | None = None, retry: Retry | None = None
) -> Completed:
    """Call a tool, as `call_tool` does, and return all that came of it."""
    interrupts = Interrupts(frame)
    request = request.model_copy(update={"address": frame.address})
    if request.tool in frame.host.permits and request.consent == "":
        request = request.model_copy(update={"consent": "approved"})
    try:
        while True:
            frame.note(ToolCalled(tool=request.tool))
            with frame.host.let_ask(frame.address, interrupts):
                outcome = await _outcome(request, interrupts, label, timeout, retry)
            _count_reported(outcome, frame)
            match outcome:
                case Completed():
                    _note_end(request.tool, outcome, frame)
                    await interrupts.end()
                    return outcome
                case Interrupted():
                    request = await interrupts.resolve(outcome, request)
                    await frame.host.until_resumed()
    except AnsweredResult as ended:
        frame.note(ToolReturned(tool=request.tool, result=ended.result))
        await interrupts.end()
        return Completed(result=ended.result)
    except CancelledInCall as cancelled:
        interrupts.drop()
        if isinstance(cancelled.result, Completed | Interrupted):
            _count_reported(cancelled.result, frame)
        if isinstance(cancelled.result, Completed):
            _note_end(request.tool, cancelled.result, frame)
        elif cancelled.result is None:
            frame.note(ToolFailed(tool=request.tool, error=OUTCOME_UNKNOWN, message=CUT_OFF))
        raise
    except (asyncio.CancelledError, *HANDLED):
        interrupts.drop()
        raise


def _count_reported(outcome: ToolOutcome, frame: Frame) -> None:
    """Count what a tool has spent on models that it asked by itself."""
    if (used := outcome.usage) != Usage():
        frame.meter.count(used)
        frame.note(ModelUsed(requests=used.requests, tokens=used.tokens, cost_usd=used.cost_usd))


def _note_end(tool: str, done: Completed, frame: Frame) -> None:
    """Tell how a call ended; a library's `again` is a failure, though it ends neither the call's agent nor a step."""
    if done.again:
        frame.note(ToolFailed(tool=tool, error=CALL_AGAIN, message=done.problem))
    elif done.refused == "failed":
        frame.note(ToolFailed(tool=tool, error="tool_error", message=done.problem))
    elif done.refused == "denied":
        frame.note(ToolDenied(tool=tool, reason=done.problem))
    else:
        frame.note(ToolReturned(tool=tool, result=done.result))


async def _outcome(
    request: ToolRequest, interrupts: Interrupts, label: str, timeout: float | None, retry: Retry | None
) -> ToolOutcome:
    """Return the outcome of one run; if a call that may not run twice was lost, a person decides."""
    frame = interrupts.frame
    while True:
        try:
            call = frame.host.activities.call_tool(request, summary=frame.summary(label), timeout=timeout, retry=retry)
            outcome: ToolOutcome = await frame.spend(call)
            return outcome
        except ActivityError as error:
            if is_cancelled(error) or not is_outcome_unknown(error):
                raise
            await interrupts.end()  # what a server asked in the middle of it
            try:
                report = await _ask_outcome(request, find_failure(error, frame.address).message, frame)
            except asyncio.CancelledError:  # nobody says any more whether it took effect
                raise CancelledInCall from None
            if report["outcome"] == "done":
                return Completed(result=report.get("result"))
            frame.note(StepRetrying(tool=request.tool))
            frame.note(ToolCalled(tool=request.tool))


async def _ask_outcome(request: ToolRequest, reason: str, frame: Frame) -> JSONObject:
    text = (
        f"The result of {request.tool} was lost ({reason}), and it is unknown whether the call took effect. "
        "Check, then answer: done if it did, with its result if there is one; retry to run it again; "
        "fail to let it fail."
    )
    reply = await frame.ask(LostCall(message=text, info={"tool": request.tool, "input": request.input}))
    if reply.status != "answered" or reply.content["outcome"] == "fail":
        raise failure(OUTCOME_UNKNOWN, f"it is unknown how {request.tool} ended", frame.address)
    content: JSONObject = reply.content
    return content

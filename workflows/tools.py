"""One tool call to its end, through interrupts, and through a person's report if nobody knows how it ended."""

from __future__ import annotations

import asyncio

from temporalio.exceptions import ActivityError, ApplicationError

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Retry
from holdfast.protocol.address import Address
from holdfast.protocol.agents import Completed, Interrupted, ToolOutcome, ToolRequest
from holdfast.protocol.events import StepRetrying, ToolCalled, ToolReturned
from holdfast.protocol.questions import Input
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, failure, failure_of
from holdfast.workflows.frame import Frame
from holdfast.workflows.interrupts import AnsweredResult, Interrupts

OUTCOME_UNKNOWN = "outcome_unknown"
_FORM = {
    "type": "object",
    "properties": {"outcome": {"enum": ["done", "retry", "fail"]}, "result": {}},
    "required": ["outcome"],
    "additionalProperties": False,
}


async def call_tool(
    request: ToolRequest, frame: Frame, label: str, *, timeout: float | None = None, retry: Retry | None = None
) -> JSON:
    """Call a tool and return its result. A tool that was interrupted runs again with the answers."""
    interrupts = Interrupts(frame)
    try:
        while True:
            frame.note(ToolCalled(tool=request.tool))
            match await _outcome(request, frame, label, timeout, retry):
                case Completed(result=result):
                    frame.note(ToolReturned(tool=request.tool, result=result))
                    await interrupts.end()
                    return result
                case Interrupted() as outcome:
                    request = await interrupts.resolve(outcome, request)
                    await frame.host.until_resumed()
    except AnsweredResult as ended:
        frame.note(ToolReturned(tool=request.tool, result=ended.result))
        await interrupts.end()
        return ended.result
    except (asyncio.CancelledError, *HANDLED):
        interrupts.drop()
        raise


async def _outcome(
    request: ToolRequest, frame: Frame, label: str, timeout: float | None, retry: Retry | None
) -> ToolOutcome:
    """Return the outcome of one run; if a tool that may not run twice was lost in mid-call, a person decides."""
    while True:
        try:
            call = frame.host.activities.call_tool(request, summary=frame.summary(label), timeout=timeout, retry=retry)
            outcome: ToolOutcome = await frame.spend(call)
            return outcome
        except ActivityError as error:
            if is_cancelled(error) or not _is_unknown(error):
                raise
            report = await _ask_outcome(request, frame)
            if report["outcome"] == "done":
                return Completed(result=report.get("result"))
            frame.note(StepRetrying(tool=request.tool))
            frame.note(ToolCalled(tool=request.tool))


async def _ask_outcome(request: ToolRequest, frame: Frame) -> JSONObject:
    text = (
        f"{request.tool} was lost in mid-call, and nobody knows whether it took effect. Look, then say what happened: "
        '{"outcome": "done", "result": …} if it did, {"outcome": "retry"} to run it again, {"outcome": "fail"} to fail.'
    )
    reply = await frame.ask(Input(message=text, form=_FORM, info={"tool": request.tool, "input": request.input}))
    if reply.status != "answered" or reply.content["outcome"] == "fail":
        raise failure(OUTCOME_UNKNOWN, f"nobody knows how {request.tool} ended", frame.address)
    content: JSONObject = reply.content
    return content


def _is_unknown(error: ActivityError) -> bool:
    return isinstance(error.cause, ApplicationError) and failure_of(error, Address("")).type == OUTCOME_UNKNOWN

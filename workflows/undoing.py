"""Undo what the steps of a block have done: the last first, each once. For blocks, and for branches that have lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from holdfast.blueprint.json_values import JSON
from holdfast.protocol.address import within
from holdfast.protocol.agents import ToolRequest
from holdfast.protocol.children import Failure, PendingUndo
from holdfast.protocol.events import StepUndoing, StepUndone
from holdfast.workflows.failure_review import ask_decision
from holdfast.workflows.failures import HANDLED, find_failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.tools import call_tool


async def undo_all(entries: Sequence[PendingUndo], frame: Frame, on_error: Literal["ask", "continue"]) -> None:
    """Call the undos in order. What cannot be undone is told, and asked about if the author says so.

    Args:
        entries: The undos, in the order in which they are called.
        frame: The frame of the block.
        on_error: What follows the failure of an undo.
    """
    total = len(entries)
    with frame.host.undo_logs.walk(entries) as walk:
        for number, entry in enumerate(walk, 1):
            step = replace(frame, address=entry.address)
            step.note(StepUndoing(tool=entry.undo.uses, number=number, total=total))
            place = within(entry.address, "undo", entry.step)
            inner = replace(frame, address=place, place=f"undo {number} of {total}", new_input=None)
            error = await _undo(entry, inner, on_error)
            told = {} if error is None else {"error": error.type, "message": error.message}
            step.note(StepUndone(tool=entry.undo.uses, **told))


async def _undo(entry: PendingUndo, frame: Frame, on_error: Literal["ask", "continue"]) -> Failure | None:
    """Undo one step; return why it could not be undone, None if it was."""
    value, problem = entry.input, entry.problem
    while True:
        cause: Failure | None
        if problem is None:
            cause = await _call(entry, value, frame)
        else:
            cause = Failure(type="undo_unknown", message=problem, address=frame.address)
        if cause is None or on_error == "continue":
            return cause
        decision = await ask_decision(cause, value, frame, takes_value=False)
        if decision.action in ("skip", "abort"):
            return cause
        problem = None
        value = decision.content if decision.action == "edit" else value


async def _call(entry: PendingUndo, value: JSON, frame: Frame) -> Failure | None:
    request = ToolRequest(tool=entry.undo.uses, input=value, by_name=entry.undo.arguments is not None)
    try:
        await call_tool(request, frame, entry.step, timeout=entry.undo.timeout, retry=entry.undo.retry)
    except HANDLED as error:
        cause = find_failure(error, frame.address)
        message = f"{entry.step} could not be undone by {entry.undo.uses}: {cause.message}"
        return cause.model_copy(update={"message": message})
    return None

"""The `block` kind: steps as one, whose effects are undone if it fails or is cancelled."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import BlockStep
from holdfast.workflows.concurrency import clean_up, is_cancelled
from holdfast.workflows.deadlines import FINISHED, run_until_deadline
from holdfast.workflows.failures import HANDLED, describe_failure, find_failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.undo_log import UndoLog
from holdfast.workflows.undoing import undo_all


async def run_block(step: BlockStep, frame: Frame) -> JSON:
    value = frame.read_input(step)
    log = UndoLog(frame.host.identity.history_limits.undos if frame.undos is None else frame.undos.room)
    frame.host.undo_logs.keep(log)
    try:
        return await _run_with(log, step, frame, value)
    finally:
        frame.host.undo_logs.drop(log)


async def _run_with(log: UndoLog, step: BlockStep, frame: Frame, value: JSON) -> JSON:
    """Run the steps, and what comes at their end; return the block's output."""
    inside = replace(frame, scope=frame.scope.nest(), undos=log)
    work = frame.run_steps(step.steps, inside, value, step.max_parallel)
    try:
        output = await run_until_deadline(work, step.deadline, step.on_deadline, frame.after(value), step.name)
    except (asyncio.CancelledError, *HANDLED) as error:
        await clean_up(_end_badly(step, log, frame, value, _describe_error(error, frame)))
        raise
    if frame.undos is not None:
        frame.undos.take_over(log.pending)
    frame.host.undo_logs.drop(log)
    if step.finally_steps:
        await clean_up(_run_finally(step, frame, value, None))
    return None if output is FINISHED else output


async def _end_badly(step: BlockStep, log: UndoLog, frame: Frame, value: JSON, error: JSONObject) -> None:
    """Undo what was done, and run the last steps; a failure of these is in the trace, and the first one is raised."""
    frame.host.mark_broken(frame.address)
    await undo_all(log.take(frame.address), frame, step.on_undo_error)
    try:
        await _run_finally(step, frame, value, error)
    except HANDLED as failed:
        if is_cancelled(failed):
            raise


async def _run_finally(step: BlockStep, frame: Frame, value: JSON, error: JSONObject | None) -> None:
    if step.finally_steps:
        inside = replace(frame.inside("branch", "finally"), names={**frame.names, "error": error}, undos=None)
        await frame.run_steps(step.finally_steps, inside, value, step.max_parallel)


def _describe_error(error: BaseException, frame: Frame) -> JSONObject:
    """Return what has ended the block, as `error` has it in its last steps."""
    if is_cancelled(error):
        return {"type": "cancelled", "message": "it was cancelled", "address": frame.address, "output": None}
    return describe_failure(find_failure(error, frame.address))

"""The `step` kind: an agent, a tool, a function, an imported blueprint, a built-in, or nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.evaluation import names_in
from holdfast.blueprint.expressions.fields import DECLINED
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Agent, ImportConfig, PlainStep, Undo
from holdfast.blueprint.kinds.references import IMPORT
from holdfast.protocol.agents import Completed, ToolRequest
from holdfast.protocol.children import AgentResult, PendingUndo, ToolBounds
from holdfast.protocol.context import read
from holdfast.workflows.agents import AgentCall, count_left_out, make_opening, run_agent
from holdfast.workflows.assignees import render_asked_people
from holdfast.workflows.attachments import add_files
from holdfast.workflows.bounded_tools import BoundedTools
from holdfast.workflows.builtins import BUILTINS
from holdfast.workflows.concurrency import CancelledInCall, CancelledWithResult
from holdfast.workflows.failures import Skip, failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.imports import run_import
from holdfast.workflows.tool_calls import ToolReplaced
from holdfast.workflows.tools import call_tool


async def run_plain(step: PlainStep, frame: Frame) -> JSON:
    if step.undo is None or frame.undos is None:
        return await _run(step, frame)
    if not frame.undos.room:
        most = frame.host.identity.history_limits.undos
        message = f"{step.name} may not start: {most:,} steps are done that the block around it may have to undo"
        raise failure("too_many_undos", message, frame.address)
    try:
        output = await _run(step, frame)
    except asyncio.CancelledError as cancelled:
        entry = _make_undo_of_cancelled(step, step.undo, cancelled, frame)
        frame.undos.take_over([] if entry is None else [entry])
        raise
    frame.undos.take_over([_make_undo(step, step.undo, output, frame)])
    return output


def _make_undo_of_cancelled(
    step: PlainStep, undo: Undo, cancelled: asyncio.CancelledError, frame: Frame
) -> PendingUndo | None:
    """Return the undo of a step that was cancelled; None if it has done nothing. What it did may not be known."""
    is_import = step.uses is not None and step.uses.startswith(IMPORT)
    match cancelled:
        case CancelledInCall(result=Completed(result=output)) if not is_import:  # else of one of its steps
            return _make_undo(step, undo, output, frame)
        case CancelledWithResult(result=AgentResult(cancelled=False, output=output)) if not is_import:
            return _make_undo(step, undo, output, frame)
        case CancelledWithResult(result=AgentResult(made=[])) if not is_import:
            return None
        case CancelledInCall() | CancelledWithResult():
            pass
        case _ if not is_import:
            return None  # between calls
    message = (
        f"It is unknown whether {step.name} took effect: it was cancelled before it had ended. "
        f"If it did, {undo.uses} undoes it: edit says with which input; skip if it did not"
    )
    return PendingUndo(step=step.name, address=frame.address, undo=undo, problem=message)


def _make_undo(step: PlainStep, undo: Undo, output: JSON, frame: Frame) -> PendingUndo:
    """Return the undo of a step that has completed; what its tool gets is kept as it is now."""
    try:
        given = frame.after(output).render(undo.template)
    except ExpressionError as error:
        message = f"{step.name} took effect, but what {undo.uses} gets cannot be rendered ({error})"
        return PendingUndo(step=step.name, address=frame.address, undo=undo, problem=message)
    return PendingUndo(step=step.name, address=frame.address, undo=undo, input=given)


async def _run(step: PlainStep, frame: Frame) -> JSON:
    value = frame.read_input(step)
    frame = replace(frame, people=render_asked_people(step, frame))
    if step.agent is not None:
        return await _run_agent(step, frame, value)
    if step.uses is None:
        return value
    if step.uses.startswith(IMPORT):
        return await _run_import(step, frame, value)
    if step.uses in BUILTINS:
        return BUILTINS[step.uses](value, frame)
    if (review := _rejected_review(step, value, frame)) is not None:
        message = f"nothing was approved in {review}, so that {step.uses} has nothing to work on"
        raise failure(
            "not_approved",
            f"{message}; write when: steps.{review}.reply.verdict in ['unchanged', 'edited']",
            frame.address,
        )
    return await use_tool(step, value, frame)


async def use_tool(step: PlainStep, value: JSON, frame: Frame, tools: BoundedTools | None = None) -> JSON:
    """Call the tool that a step uses, and return its result; for one that is missing another may be called.

    Args:
        step: The step.
        value: The arguments by name, or the input.
        frame: The frame of the step.
        tools: The bounds within which a step of a plan may call it; None: it is called as an author wrote it.
    """
    assert step.uses is not None
    if tools is not None:
        return await tools.call_as_given(step.uses, value)
    by_name = step.arguments is not None
    request = ToolRequest(tool=step.uses, input=value, by_name=by_name, idempotent=step.idempotent)
    if step.tool_errors is not None:
        request = request.model_copy(update={"unsure_is_final": step.tool_errors.timeout is not None})

    async def call() -> JSON:
        return await call_tool(request, frame, step.name, timeout=step.timeout, retry=step.retry)

    tools = BoundedTools(_make_bounds(step), step.tool_errors, frame)
    try:
        return await tools.calls.make(step.uses, value, call, frame)
    except ToolReplaced as replaced:
        return await tools.call_as_given(replaced.other.reference, value)


def _make_bounds(step: PlainStep) -> ToolBounds:
    """Return the bounds for another tool in place of a missing one: its author has not seen it, a person is asked."""
    tool = step.uses or ""
    nobody = Agent(model="none")  # has no tools and no rules
    return ToolBounds(step=step.name, instruction=tool, agents=[nobody], approved=[tool], instead_of=tool)


def _rejected_review(step: PlainStep, value: JSON, frame: Frame) -> str | None:
    """Return the review whose output, null, is the whole input of the step, or an argument; None if there is none."""
    if step.arguments is None:
        return _null_review(step.input, value, frame)
    reviews = (_null_review(template, value[name], frame) for name, template in step.arguments.items())
    return next((review for review in reviews if review is not None), None)


def _null_review(template: object, value: object, frame: Frame) -> str | None:
    """Return the review whose output is the value of the template, if that is null."""
    if value is not None:
        return None
    steps = frame.scope.collect_steps()
    match sorted(names_in(template)):
        case [("previous_step" | "output",)]:
            name = next((name for name, entry in reversed(steps.items()) if entry["status"] != "skipped"), "")
        case [("steps", name, "output")]:
            pass
        case _:
            return None
    reply = steps.get(name, {}).get("reply", {})
    return name if "verdict" in reply and reply["verdict"] not in ("unchanged", "edited") else None


async def _run_agent(step: PlainStep, frame: Frame, value: object) -> JSON:
    how = {"timeout": step.timeout, "retry": step.retry, "ends_with_tool": step.ends_with_tool}
    asking = AgentCall.of(step.agent or "", step.name, frame.blueprint, **how).with_tool_errors(step.tool_errors)
    opening = add_files(make_opening(step, value, frame), step, frame)
    result = await run_agent(asking, opening, frame, left_out=count_left_out(frame))
    if result.declined:
        raise Skip(DECLINED)
    return result.output


async def _run_import(step: PlainStep, frame: Frame, value: object) -> JSON:
    """Run another blueprint with a context of its own; `config.outputs` maps what comes back."""
    alias = (step.uses or "").removeprefix(IMPORT)
    config = step.config or ImportConfig()
    input_ = value if config.input is None else frame.render(config.input)
    output, context = await run_import(alias, input_, frame)
    for source, target in config.outputs.items():
        frame.apply("set", target, read(context, source))
    return output

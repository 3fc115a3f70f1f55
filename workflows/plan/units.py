"""Steps of a plan, run by the interpreter as the ordinary steps that they are compiled to.

This is the only place that reads what came of those back into the record of the plan. The scheduler runs whole steps
here; a driving agent asks their questions here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from temporalio.exceptions import ChildWorkflowError, TerminatedError

from holdfast.blueprint.expressions.fields import DECLINED
from holdfast.blueprint.expressions.lists import LIST_OUTPUT
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import PlanStep
from holdfast.blueprint.plan.answers import asks, wants_a_yes
from holdfast.blueprint.plan.questions import PlanQuestion, compile_question
from holdfast.blueprint.plan.references import list_references
from holdfast.blueprint.plan.work import PlanWork
from holdfast.protocol.agents import MadeCall, Message, ReturnedCall
from holdfast.protocol.children import Failure
from holdfast.protocol.plans import UnitResult, text_of_result
from holdfast.protocol.tool_errors import useful
from holdfast.workflows.agents import run_agent
from holdfast.workflows.concurrency import CancelledWithFailure, CancelledWithResult, is_cancelled
from holdfast.workflows.failures import HANDLED, Skip, failure, find_failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.interpreter import run_step
from holdfast.workflows.plan.results import CALLS_UNKNOWN, end_by_error, make_cancelled, make_failed, make_skipped
from holdfast.workflows.plan.step_run import StepRun
from holdfast.workflows.steps.hitl import run_hitl
from holdfast.workflows.steps.step import use_tool
from holdfast.workflows.tool_calls import name_tool_error

RESULT_SHOWN = 20_000
"""Most characters of a result that a model is shown without a reference to it."""

Part = Callable[[StepRun, Any, Frame], Awaitable[UnitResult]]
"""Does one of the ordinary steps of a unit, in the frame that the interpreter gives it."""


async def run_unit(run: StepRun) -> None:
    """Run a step to its end, and record its result; a failure is a result, too."""
    step = run.step
    result = UnitResult(status="completed")
    if asks(step):
        result = await _run_part(run, compile_step_question(run), _ask)
    if result.status == "completed" and (step.tools or not asks(step)):
        result = await _run_part(run, run.work, _work)
    run.record(result)


async def _run_part(run: StepRun, step: PlanQuestion | PlanWork, part: Part) -> UnitResult:
    """Run one of the ordinary steps of a unit, and return what came of it.

    The interpreter counts it, notes its events, and handles its failure; one that ends the whole run is raised.
    """
    done: list[UnitResult] = []
    raised_at: str | None = None

    async def execute(_: object, frame: Frame) -> JSON:
        nonlocal raised_at
        try:
            done.append(await part(run, step, frame))
        except HANDLED as error:
            raised_at = find_failure(error, frame.address).raised_at
            raise
        return _tell(done[0], frame)

    frame = replace(run.inside, address=run.scope.frame.address)
    try:
        await run_step(step, frame, None, execute)
    except HANDLED as error:
        if not is_cancelled(error):
            final = find_failure(error, frame.address)
            run.record(make_failed(final.type, final.message, final.raised_at))
        raise
    if done:
        return done[0]
    cause = frame.scope.steps[step.name]["error"]
    return make_failed(cause["type"], cause["message"], raised_at)


def _tell(result: UnitResult, frame: Frame) -> JSON:
    """Return the output of the ordinary step. Raises for one that has not completed, as its executor does."""
    match result.status:
        case "completed":
            return result.value
        case "skipped":
            raise Skip(result.reason or "")
    error = result.error or {"type": "cancelled", "message": "a person cancelled the question"}
    raise failure(error["type"], error["message"], frame.address, raised_at=error.get("raised_at"))


# Questions


def compile_step_question(run: StepRun, note: str = "", suggestions: Sequence[str] = ()) -> PlanQuestion:
    """Return the ordinary step that asks a step's question.

    Args:
        run: The step.
        note: What a model says beside the plan's words.
        suggestions: Answers that a model suggests where the plan names none.
    """
    context, people = run.scope.context, run.frame.people.assignees
    return compile_question(
        run.unit, context.plan, context.layout, assignees=people, note=note, suggestions=suggestions
    )


async def ask_for_driver(run: StepRun, note: str, suggestions: Sequence[str]) -> UnitResult:
    """Ask the question of a step that a driving agent works on; see `compile_step_question`. Raises as `hitl` fails."""
    await run.frame.host.until_resumed()
    return await _ask(run, compile_step_question(run, note, suggestions), run.inside)


async def _ask(run: StepRun, step: PlanQuestion, frame: Frame) -> UnitResult:
    """Ask a step's question; a step with tools is skipped after a no."""
    output = await run_hitl(step, frame)
    match frame.scope.replies[step.name]["action"]:
        case "cancel":
            return make_cancelled()
        case "expire":
            return make_skipped("timeout")
    if run.step.tools and not _lets_tools_run(run.step, output["outcome"]):
        return make_skipped(DECLINED, response=output["response"])
    return UnitResult(status="completed", response=output["response"], data=output)


def _lets_tools_run(step: PlanStep, outcome: str) -> bool:
    """Return whether a question's tools may run: after a yes, where it asks for one; else unless it was declined."""
    return outcome == "confirmed" if wants_a_yes(step) else outcome != "cancelled"


# Work


async def _work(run: StepRun, step: PlanWork, frame: Frame) -> UnitResult:
    try:
        if step.uses is not None:
            return await _call_as_written(run, step, frame)
        return await (_call_tools if step.ends_with_tool else _give_output)(run, step, frame)
    except HANDLED as error:
        cause = find_failure(error, frame.address)
        kind = name_tool_error(error) or _tool_error_in(cause)
        if kind is None or is_cancelled(error) or cause.final:
            raise
        return end_by_error(kind, cause, run.step)


def _tool_error_in(cause: Failure) -> str | None:
    """Return the error of a tool by which the workflow of a step's agent failed; None for any other failure."""
    match cause.output:
        case {"tool_error": str(kind)}:
            return kind
    return None


async def _give_output(run: StepRun, step: PlanWork, frame: Frame) -> UnitResult:
    """Return what an agent gives for the instruction: a text, or data."""
    call = run.scope.context.call_without_tools(step)
    if run.feeds_loop and call.agent.output_schema is None:  # an author's own schema counts more
        call = replace(call, agent=call.agent.model_copy(update={"output_schema": LIST_OUTPUT}))
    opening = [Message(role="user", content=frame.read_input(step))]
    try:
        output = (await run_agent(call, opening, run.frame, _describe_surroundings(run))).output
    except HANDLED as error:
        cause = find_failure(error, run.frame.address)
        if call.agent.output_schema != LIST_OUTPUT or cause.type != "output_invalid" or cause.output is None:
            raise
        output = cause.output  # still no list: the loop asks a person for its items, or fails, or has one item
    if isinstance(output, str):
        return UnitResult(status="completed", response=output)
    return UnitResult(status="completed", response=text_of_result(output), data=output)


async def _call_tools(run: StepRun, step: PlanWork, frame: Frame) -> UnitResult:
    """Return what the step's tools give, which an agent calls; it ends when each of them has returned."""
    tools = run.bind_tools(step.tool_errors)
    found = [await tools.describe_or_replace(tool) for tool in dict.fromkeys(run.step.tools)]
    specs = list({spec.reference: spec for spec in found}.values())
    call = run.scope.context.call_with_tools(step, run.step, specs, tools.calls.tries)
    instruction = frame.read_input(step) or f"Call {', '.join(run.step.tools)}."
    content = f"A person has agreed to this: {write_text(instruction)}" if asks(run.step) else instruction
    opening = [Message(role="user", content=content)]
    try:
        result = await run_agent(call, opening, tools.frame, _describe_surroundings(run))
    except CancelledWithResult as cut:
        _keep_calls(run, cut.result.made, cut.result.returned)
        raise
    except CancelledWithFailure as cut:
        cause = find_failure(cut.error, run.frame.address)
        _keep_calls(run, cause.made, _read_returned(cause))
        raise
    except HANDLED as error:
        cause = find_failure(error, run.frame.address)
        if isinstance(error, ChildWorkflowError) and isinstance(error.cause, TerminatedError):
            return make_failed(cause.type, cause.message, cause.raised_at, reason=CALLS_UNKNOWN)
        _keep_calls(run, cause.made, _read_returned(cause))
        raise
    _keep_calls(run, result.made, result.returned)
    data = result.returned[-1].data
    return UnitResult(status="completed", response=result.text or text_of_result(data), data=data)


def _keep_calls(run: StepRun, made: list[MadeCall], returned: list[ReturnedCall]) -> None:
    """Record the calls that the step's agent made, and what they returned."""
    run.mark(made=made, tool_results=[call.model_dump(mode="json") for call in returned])


def _read_returned(cause: Failure) -> list[ReturnedCall]:
    """Return the calls that had succeeded before the workflow of a step's agent failed."""
    match cause.output:
        case {"returned": list(calls)}:
            return [ReturnedCall.model_validate(call) for call in calls]
    return []


async def _call_as_written(run: StepRun, step: PlanWork, frame: Frame) -> UnitResult:
    """Call the step's only tool with the arguments in the plan."""
    tools, args = run.bind_tools(step.tool_errors), frame.read_input(step)
    data = useful(await use_tool(step, args, tools.frame, tools))
    called = ReturnedCall(tool=tools.find_current(run.step.tools[0]), parameters=args, data=data)
    _keep_calls(run, tools.calls.made, [called])
    return UnitResult(status="completed", response=text_of_result(data), data=data)


def _describe_surroundings(run: StepRun) -> str:
    """Return what a model gets of the plan around a step, beside the step's instruction."""
    step, scope = run.step, run.scope
    lines = [f"You work on one step of a plan, and on nothing else. The plan's goal: {scope.context.plan.goal}"]
    lines.append(f"The step: {step.id}{f', {step.title}' if step.title else ''}")
    if step.expected_result:
        lines.append(f"Expected result: {step.expected_result}")
    if run.feeds_loop:
        lines.append("Return a list: the plan continues with each of its items.")
    if scope.context.task is not None:
        lines.append(f"Input of the plan: {_shorten(scope.context.task)}")
    referred = {str(reference) for reference in list_references(step.instruction)}
    if scope.around and "CURRENT_ITEM" not in referred:
        item = scope.around[-1]
        lines.append(f"It runs once for each item; this is item {item.index}: {_shorten(item.item)}")
    for id_ in run.unit.needs:
        need = scope.lookup(id_)
        if f"RESULT_FROM_{id_}" not in referred and need.succeeded:
            lines.append(f"Result of {id_}: {_shorten(need.value)}")
    return "\n".join(lines)


def _shorten(value: object) -> str:
    text = write_text(value)
    return text if len(text) <= RESULT_SHOWN else f"{text[:RESULT_SHOWN]}…"
